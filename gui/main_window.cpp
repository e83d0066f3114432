#include "gui/main_window.h"

#include "gui/difference_table_model.h"
#include "gui/document_loader.h"
#include "gui/elided_label.h"
#include "gui/headlines.h"
#include "gui/lane_table_model.h"
#include "gui/legend.h"
#include "gui/memory_view.h"
#include "gui/message_bar.h"
#include "gui/number_format.h"
#include "gui/task_details.h"
#include "gui/timeline_layout.h"
#include "gui/timeline_pane.h"

#include <QCloseEvent>
#include <QComboBox>
#include <QDockWidget>
#include <QFileInfo>
#include <QFutureWatcher>
#include <QHBoxLayout>
#include <QHeaderView>
#include <QLabel>
#include <QPushButton>
#include <QScrollBar>
#include <QSettings>
#include <QSignalBlocker>
#include <QSplitter>
#include <QStackedWidget>
#include <QTableView>
#include <QVBoxLayout>
#include <QtConcurrentRun>

#include <algorithm>
#include <array>
#include <set>

namespace pipescope {
namespace {
const QString kWindowGeometry = QStringLiteral("window/geometry");
const QString kWindowState = QStringLiteral("window/state");

constexpr int kNarrowWindow = 1200;  // tables do not fit beside each other

struct Loaded {
    std::shared_ptr<const TraceDocument> document;  // null: see error
    QString error;
};

Loaded tryLoad(const QString& path) {
    try {
        return {loadTrace(path), {}};
    } catch (const std::exception& error) {
        return {nullptr, QString::fromUtf8(error.what())};
    }
}

std::vector<TaskKind> kindsOf(const TraceDocument& document) {
    std::set<TaskKind> kinds;
    for (const auto& store : {document.measured, document.simulated}) {
        if (!store) {
            continue;
        }
        for (const StoredRow& row : store->rows()) {
            if (row.pyramid) {
                kinds.insert(row.pyramid->kinds().begin(), row.pyramid->kinds().end());
                continue;
            }
            for (const std::uint8_t kind : row.kind) {
                kinds.insert(static_cast<TaskKind>(kind));
            }
        }
    }
    return {kinds.begin(), kinds.end()};
}

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

MainWindow::MainWindow(QSettings* settings, QWidget* parent)
    : QMainWindow(parent), settings_(settings), axis_(new TimeAxisModel(this)) {
    setWindowTitle(tr("PipeScope"));
    setAcceptDrops(true);
    auto* central = new QWidget(this);
    auto* layout = new QVBoxLayout(central);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    messages_ = new MessageBar(central);
    stack_ = new QStackedWidget(central);
    content_ = createContent();
    stack_->addWidget(createEmptyState());
    stack_->addWidget(content_);
    layout->addWidget(messages_);
    layout->addWidget(stack_, 1);
    setCentralWidget(central);
    createDocks();
    connectViews();
    createActions();
    resize(1600, 900);
    if (settings_ != nullptr) {
        restoreGeometry(settings_->value(kWindowGeometry).toByteArray());
    }
    for (QDockWidget* dock : docks_) {
        dock->hide();  // there is nothing to tell yet
    }
}

MainWindow::~MainWindow() = default;

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

void MainWindow::connectViews() {
    for (const Source source : {Source::measured, Source::simulated}) {
        TimelineView& each = view(source);
        connect(&each, &TimelineView::picked, this,
                [this, source](std::optional<SliceRef> slice) { select(source, slice); });
        connect(&each, &AxisView::overflowChanged, this, &MainWindow::syncScrollBars, Qt::QueuedConnection);
        each.setDescription([this, source](SliceRef slice) {
            const std::int32_t step = source == Source::measured ? document_->measured->slice(slice).key.step : step_;
            return toolTipOf(taskFacts(*document_, {source, slice, twinOf(*document_, source, slice, step)}, step),
                             source);
        });
    }
    connect(memory_, &AxisView::overflowChanged, this, &MainWindow::syncScrollBars, Qt::QueuedConnection);
    QScrollBar* upper = measured_->view().verticalScrollBar();
    QScrollBar* lower = simulated_->view().verticalScrollBar();
    connect(upper, &QScrollBar::valueChanged, lower, &QScrollBar::setValue);
    connect(lower, &QScrollBar::valueChanged, upper, &QScrollBar::setValue);
    connect(axis_, &TimeAxisModel::selectionChanged, this, &MainWindow::refreshSelection);
    connect(stepChoice_, &QComboBox::currentIndexChanged, this, [this](int index) {
        if (index >= 0) {
            selectStep(stepChoice_->itemData(index).toInt());
        }
    });
    connect(differenceTable_, &QTableView::clicked, this, [this](const QModelIndex& index) {
        if (const std::optional<TaskKey> task = differenceModel_->taskOf(index)) {
            goTo(*task);
        }
    });
    connect(differenceTable_, &QTableView::activated, differenceTable_, &QTableView::clicked);
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
    if (settings_ == nullptr || !restoreState(settings_->value(kWindowState).toByteArray())) {
        resizeDocks(docks_, {360, 640, 560}, Qt::Horizontal);
        resizeDocks({docks_.front()}, {fontMetrics().height() * 12}, Qt::Vertical);
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

TimelinePane& MainWindow::pane(Source source) const {
    return source == Source::measured ? *measured_ : *simulated_;
}

TimelineView& MainWindow::view(Source source) const {
    return pane(source).view();
}

void MainWindow::open(const QString& path) {
    const int number = ++loading_;
    setWindowTitle(tr("Opening %1 – PipeScope").arg(QFileInfo(path).fileName()));
    auto* watcher = new QFutureWatcher<Loaded>(this);
    connect(watcher, &QFutureWatcher<Loaded>::finished, this, [this, watcher, number, path] {
        const Loaded result = watcher->result();
        watcher->deleteLater();
        if (number != loading_) {
            return;  // another file was asked for meanwhile
        }
        if (!result.document) {
            showError(result.error);
            Q_EMIT failed(result.error);
            return;
        }
        setDocument(result.document);
        remember(path);
        Q_EMIT loaded();
    });
    watcher->setFuture(QtConcurrent::run(tryLoad, path));
}

void MainWindow::showError(const QString& text) {
    messages_->showMessage(MessageBar::Kind::error, text);
    setWindowTitle(document_ ? tr("%1 – PipeScope").arg(QFileInfo(document_->path).fileName()) : tr("PipeScope"));
}

void MainWindow::setDocument(std::shared_ptr<const TraceDocument> document) {
    axis_->select(std::nullopt);
    document_ = std::move(document);
    step_ = typicalStep(*document_);
    setWindowTitle(tr("%1 – PipeScope").arg(QFileInfo(document_->path).fileName()));
    view(Source::measured).setStore(document_->measured);
    view(Source::simulated).setStore(document_->simulated);
    measured_->setVisible(document_->measured != nullptr);
    simulated_->setVisible(document_->simulated != nullptr);
    legend_->setKinds(kindsOf(*document_));
    differenceModel_->setTasks(document_->comparison ? document_->comparison->worst : std::vector<ComparedTask>{});
    alignGutters();
    fillSteps();
    stack_->setCurrentWidget(content_);
    showDocks();
    QMetaObject::invokeMethod(this, &MainWindow::shareHeight, Qt::QueuedConnection);  // once the docks stand
    if (document_->notes.isEmpty()) {
        messages_->hide();
    } else {
        messages_->showMessage(MessageBar::Kind::note, document_->notes.join(QLatin1Char('\n')));
    }
    refresh();
    axis_->setTotal(wholeRange(*document_, step_));
    axis_->show(stepRange(*document_, step_));
    syncScrollBars();
    (document_->measured ? view(Source::measured) : view(Source::simulated)).setFocus();
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

void MainWindow::fillSteps() {
    const QSignalBlocker blocker(stepChoice_);
    stepChoice_->clear();
    for (const StepSpan& span : stepsOf(*document_)) {
        stepChoice_->addItem(tr("%1 (%2)").arg(span.step).arg(formatDuration(span.statistics.step_time().count())),
                             span.step);
    }
    stepChoice_->setCurrentIndex(stepChoice_->findData(step_));
    stepChoice_->setEnabled(stepChoice_->count() > 1);
}

void MainWindow::selectStep(std::int32_t step) {
    if (!document_ || !document_->measured || document_->measured->step(step) == nullptr || step == step_) {
        return;
    }
    // What is on screen stays where it was within its step.
    const std::int64_t before = axis_->origin();
    step_ = step;
    const QSignalBlocker blocker(stepChoice_);
    stepChoice_->setCurrentIndex(stepChoice_->findData(step_));
    refresh();
    axis_->show({axis_->window().start + axis_->origin() - before,
                 axis_->window().start + axis_->origin() - before + static_cast<std::int64_t>(axis_->window().length)});
    if (const std::optional<TaskSelection> selection = axis_->selection()) {
        select(selection->source, selection->slice);
    }
}

void MainWindow::refresh() {
    const StepSpan* span = document_->measured ? document_->measured->step(step_) : nullptr;
    const std::int64_t shift = simulatedShift(*document_, step_);
    axis_->setOrigin(span != nullptr ? span->range().start : 0);
    view(Source::simulated).setShift(shift);
    measured_->setFacts(measuredHeadline(*document_, step_));
    simulated_->setFacts(simulatedHeadline(*document_, step_));
    summary_->setText(comparisonHeadline(*document_));
    laneModel_->setFacts(laneFacts(*document_, step_));
    const TimelineStore* names = document_->measured ? document_->measured.get() : document_->simulated.get();
    memory_->setScene(
        {names->lanes(), &document_->measuredMemory, &document_->simulatedMemory, shift, document_->memoryLimit});
    QString limit;
    if (document_->memoryLimit) {
        const QString bytes = formatBytes(*document_->memoryLimit);
        limit = memory_->showsLimit() ? tr(", red: limit of %1 per lane").arg(bytes)
                                      : tr("; the limit of %1 per lane is above the scale").arg(bytes);
    }
    memoryTitle_->setText(tr("<b>MEMORY</b>&nbsp;&nbsp; area: measured, line: simulated, ▼ peak%1").arg(limit));
    memoryPane_->setVisible(showMemory_->isChecked() && !memory_->empty());
}

void MainWindow::select(Source source, std::optional<SliceRef> slice) {
    if (!slice || !document_) {
        axis_->select(std::nullopt);
        return;
    }
    if (source == Source::measured) {
        const std::int32_t of = document_->measured->slice(*slice).key.step;
        if (of != step_ && document_->measured->step(of) != nullptr) {
            axis_->select(std::nullopt);  // the simulated step moves there, so that the twin is beside it
            const TimeWindow window = axis_->window();
            selectStep(of);
            axis_->scrollTo(window);
        }
    }
    axis_->select(TaskSelection{source, *slice, twinOf(*document_, source, *slice, step_)});
    view(source).reveal(*slice);
}

void MainWindow::refreshSelection() {
    const std::optional<TaskSelection>& selection = axis_->selection();
    if (!selection) {
        details_->clear();
        return;
    }
    const TaskFacts facts = taskFacts(*document_, *selection, step_);
    details_->setFacts(facts, selection->source);
    view(selection->source).setAccessibleDescription(spoken(facts, selection->source));
}

void MainWindow::goTo(const TaskKey& task) {
    if (!document_ || !document_->measured) {
        return;
    }
    if (const std::optional<SliceRef> slice = document_->measured->find(task)) {
        select(Source::measured, slice);
        fitSelection();
    }
}

void MainWindow::closeEvent(QCloseEvent* event) {
    if (settings_ != nullptr) {
        settings_->setValue(kWindowGeometry, saveGeometry());
        if (docksShown_) {
            settings_->setValue(kWindowState, saveState());
        }
    }
    QMainWindow::closeEvent(event);
}
}  // namespace pipescope
