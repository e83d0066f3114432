#include "gui/window/main_window.h"

#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/tables/difference_table_model.h"
#include "gui/tables/lane_table_model.h"
#include "gui/tables/task_details.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_pane.h"

#include <QComboBox>
#include <QDockWidget>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QSettings>
#include <QSplitter>
#include <QTableView>
#include <QVBoxLayout>

#include <algorithm>
#include <array>

namespace pipescope {
namespace {
constexpr int kNarrowWindow = 1200;  // tables do not fit beside each other

QTableView* createTable(QAbstractItemModel& model, const QString& name, QWidget* parent) {
    auto* table = new QTableView(parent);
    table->setModel(&model);
    table->setAccessibleName(name);
    table->verticalHeader()->hide();
    table->verticalHeader()->setDefaultSectionSize(table->fontMetrics().height() + 4);
    table->verticalHeader()->setMinimumSectionSize(table->fontMetrics().height() + 2);
    table->horizontalHeader()->setSectionResizeMode(QHeaderView::ResizeToContents);
    table->horizontalHeader()->setSectionResizeMode(0, QHeaderView::Stretch);
    table->horizontalHeader()->setMinimumSectionSize(table->fontMetrics().averageCharWidth() * 8);
    table->horizontalHeader()->setHighlightSections(false);
    table->setAlternatingRowColors(true);
    table->setShowGrid(false);
    table->setFrameShape(QFrame::NoFrame);
    table->setSelectionBehavior(QAbstractItemView::SelectRows);
    table->setSelectionMode(QAbstractItemView::SingleSelection);
    return table;
}
}  // namespace

QWidget* MainWindow::createContent() {
    auto* content = new QWidget(this);
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);

    auto* top = new QWidget(content);
    auto* line = new QHBoxLayout(top);
    line->setContentsMargins(8, 4, 8, 2);
    auto* label = new QLabel(tr("&Step"), top);
    stepChoice_ = new QComboBox(top);
    stepChoice_->setAccessibleName(tr("Measured step to compare"));
    stepChoice_->setSizeAdjustPolicy(QComboBox::AdjustToContents);
    label->setBuddy(stepChoice_);
    summary_ = new ElidedLabel(top);
    line->addWidget(label);
    line->addWidget(stepChoice_);
    line->addSpacing(12);
    line->addWidget(summary_, 1);
    layout->addWidget(top);
    legend_ = new Legend(content);
    layout->addWidget(legend_);

    splitter_ = new QSplitter(Qt::Vertical, content);
    splitter_->setChildrenCollapsible(false);
    measured_ = new TimelinePane(Source::measured, *axis_, splitter_);
    simulated_ = new TimelinePane(Source::simulated, *axis_, splitter_);
    memoryPane_ = new QWidget(splitter_);
    auto* memoryLayout = new QVBoxLayout(memoryPane_);
    memoryLayout->setContentsMargins(0, 0, 0, 0);
    memoryLayout->setSpacing(0);
    memoryTitle_ = new QLabel(memoryPane_);
    memoryTitle_->setContentsMargins(8, 3, 8, 3);
    memory_ = new MemoryView(*axis_, memoryPane_);
    memoryLayout->addWidget(memoryTitle_);
    memoryLayout->addWidget(memory_, 1);
    for (int i = 0; i < 3; ++i) {
        splitter_->setStretchFactor(i, i < 2 ? 3 : 2);
    }
    layout->addWidget(splitter_, 1);
    return content;
}

QWidget* MainWindow::createEmptyState() {
    auto* page = new QWidget(this);
    auto* layout = new QVBoxLayout(page);
    auto* text =
        new QLabel(tr("<h2>No trace is open</h2>"
                      "<p>Drop a trace here, or open one.</p>"
                      "<p>Record one with<br><code>pipescope run MODEL --balance .. -m 8 --batch 64 --devices cpu,cpu "
                      "--steps 10 --trace out.sqlite</code></p>"
                      "<p>or simulate one with<br><code>pipescope simulate PROFILE --balance .. -m 8 --batch 64 "
                      "--trace out.sqlite</code></p>"),
                   page);
    text->setAlignment(Qt::AlignCenter);
    text->setWordWrap(true);
    text->setTextInteractionFlags(Qt::TextSelectableByMouse);
    auto* open = new QPushButton(tr("Open a trace…"), page);
    connect(open, &QPushButton::clicked, this, &MainWindow::askForFile);
    layout->addStretch(1);
    layout->addWidget(text);
    layout->addWidget(open, 0, Qt::AlignCenter);
    layout->addStretch(2);
    return page;
}

void MainWindow::createDocks() {
    details_ = new TaskDetails(this);
    laneModel_ = new LaneTableModel(this);
    differenceModel_ = new DifferenceTableModel(this);
    QTableView* lanes = createTable(*laneModel_, tr("Lanes"), this);
    differenceTable_ = createTable(*differenceModel_, tr("Largest differences"), this);
    const auto add = [this](const QString& title, const char* name, QWidget* content) {
        auto* dock = new QDockWidget(title, this);
        dock->setObjectName(QString::fromLatin1(name));
        dock->setWidget(content);
        addDockWidget(Qt::BottomDockWidgetArea, dock);
        docks_ << dock;
    };
    add(tr("Selected task"), "details", details_);
    add(tr("Lanes"), "lanes", lanes);
    add(tr("Largest differences"), "differences", differenceTable_);
}

void MainWindow::showDocks() {
    if (docksShown_) {
        return;  // from now on the user decides
    }
    docksShown_ = true;
    for (QDockWidget* dock : docks_) {
        dock->show();
    }
    if (width() < kNarrowWindow) {
        for (qsizetype i = 1; i < docks_.size(); ++i) {
            tabifyDockWidget(docks_.front(), docks_[i]);
        }
        docks_.front()->raise();
    }
    if (settings_ == nullptr || !restoreState(settings_->value(QString(kWindowStateKey)).toByteArray())) {
        resizeDocks(docks_, {360, 640, 560}, Qt::Horizontal);
        resizeDocks({docks_.front()}, {fontMetrics().height() * 12}, Qt::Vertical);
    }
}

void MainWindow::shareHeight() {
    // First what the timelines need without scrolling, then the memory; what is left over goes to all.
    const int lines = 2 * (fontMetrics().height() + 8);  // header and ruler
    const auto needOf = [&](Source source) {
        const TimelineStore* store = document_->store(source);
        return store != nullptr ? lines + layoutRows(*store, 0).height : 0;
    };
    const int measured = needOf(Source::measured);
    const int simulated = needOf(Source::simulated);
    const int lanes =
        static_cast<int>((document_->measured ? document_->measured : document_->simulated)->lanes().size());
    const int rest = splitter_->height() - measured - simulated - 2 * splitter_->handleWidth();
    const int memory = memoryPane_->isVisible() ? std::clamp(rest, 3 * lines / 2, lines + lanes * 18) : 0;
    const int share = std::max(0, rest - memory) / 5;
    splitter_->setSizes({measured + 2 * share, simulated + 2 * share, memory + share});
}

void MainWindow::alignGutters() {
    const std::array<AxisView*, 3> views{&measured_->view(), &simulated_->view(), memory_};
    int gutter = 0;
    for (const auto& store : {document_->measured, document_->simulated}) {
        gutter = store ? std::max(gutter, memory_->gutterFor(store->lanes())) : gutter;
    }
    for (AxisView* each : views) {
        each->setGutter(gutter);
    }
}

void MainWindow::syncScrollBars() {
    // A scroll bar in one view only would shift its axis against the others'.
    const std::array<AxisView*, 3> views{&measured_->view(), &simulated_->view(), memory_};
    const bool any = std::any_of(views.begin(), views.end(),
                                 [](const AxisView* each) { return each->isVisible() && each->overflows(); });
    for (AxisView* each : views) {
        each->setVerticalScrollBarPolicy(any ? Qt::ScrollBarAlwaysOn : Qt::ScrollBarAlwaysOff);
    }
}
}  // namespace pipescope
