#include "gui/style/elided_label.h"
#include "gui/style/legend.h"
#include "gui/style/message_bar.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/minimap.h"
#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/track_view.h"
#include "gui/window/compare_bar.h"
#include "gui/window/document_page.h"

#include <QCheckBox>
#include <QComboBox>
#include <QHBoxLayout>
#include <QLabel>
#include <QSplitter>
#include <QToolButton>
#include <QVBoxLayout>

#include <algorithm>
#include <array>

namespace pipescope {
QWidget* DocumentPage::createTop(QWidget* parent) {
    auto* top = new QWidget(parent);
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
    compareBar_ = new CompareBar(top);
    line->addWidget(compareBar_);
    badge_ = new QToolButton(top);
    badge_->setAccessibleName(tr("Follow the recording"));
    badge_->setCheckable(true);
    badge_->setChecked(true);
    badge_->hide();
    line->addWidget(badge_);
    return top;
}

QWidget* DocumentPage::createMemoryPane(QWidget* parent) {
    auto* pane = new QWidget(parent);
    auto* layout = new QVBoxLayout(pane);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    memoryTitle_ = new QLabel(pane);
    memoryTitle_->setContentsMargins(8, 3, 8, 3);
    memory_ = new MemoryView(*axis_, pane);
    auto* title = new QHBoxLayout;
    composition_ = new QCheckBox(tr("C&omposition"), pane);
    composition_->setToolTip(tr("Stack the bytes by category"));
    connect(composition_, &QCheckBox::toggled, this, [this](bool on) {
        memory_->setStacked(on);
        refreshMemory(view(Source::simulated).shift());
    });
    title->addWidget(memoryTitle_, 1);
    title->addWidget(composition_);
    layout->addLayout(title);
    memoryLegend_ = new Legend(pane);
    memoryLegend_->setAccessibleName(tr("Legend of the memory's composition"));
    std::vector<LegendEntry> entries;
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const auto category = static_cast<MemoryCategory>(k);
        const MemoryStyle style = styleOf(category);
        entries.push_back({style.color, style.over, nameOf(category)});
    }
    memoryLegend_->setEntries(std::move(entries), true);
    memoryLegend_->hide();
    layout->addWidget(memoryLegend_);
    layout->addWidget(memory_, 1);
    return pane;
}

QWidget* DocumentPage::createTrackPane(QWidget* parent) {
    auto* pane = new QWidget(parent);
    auto* layout = new QVBoxLayout(pane);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    auto* title = new QLabel(tr("<b>THREADS AND STREAMS</b>&nbsp;&nbsp; ranges, calls and kernels"), pane);
    title->setContentsMargins(8, 3, 8, 3);
    tracks_ = new TrackView(*axis_, pane);
    layout->addWidget(title);
    layout->addWidget(tracks_, 1);
    pane->hide();
    return pane;
}

QWidget* DocumentPage::createContent() {
    auto* content = new QWidget(this);
    auto* layout = new QVBoxLayout(content);
    layout->setContentsMargins(0, 0, 0, 0);
    layout->setSpacing(0);
    layout->addWidget(createTop(content));
    legend_ = new Legend(content);
    layout->addWidget(legend_);
    minimap_ = new Minimap(*axis_, content);
    layout->addWidget(minimap_);

    splitter_ = new QSplitter(Qt::Vertical, content);
    splitter_->setChildrenCollapsible(false);
    measured_ = new TimelinePane(Source::measured, *axis_, splitter_);
    simulated_ = new TimelinePane(Source::simulated, *axis_, splitter_);
    memoryPane_ = createMemoryPane(splitter_);
    trackPane_ = createTrackPane(splitter_);
    for (int i = 0; i < 4; ++i) {
        splitter_->setStretchFactor(i, i < 2 ? 3 : 2);
    }
    layout->addWidget(splitter_, 1);
    return content;
}

void DocumentPage::shareHeight() {
    if (!document_) {
        return;
    }
    // First serves the timelines without scrolling, then the memory. Everyone gets a part of the rest.
    const int lines = 2 * (fontMetrics().height() + 8);  // header and ruler
    const auto needOf = [&](Source source) {
        const TimelineStore* store = document_->store(source);
        const bool kernels = source == Source::measured && document_->kernels;
        const TimelineStore* below = kernels ? &document_->kernels->slices() : nullptr;
        return store != nullptr ? lines + layoutRows(*store, 0, below, fontMetrics().height()).height : 0;
    };
    const int measured = needOf(Source::measured);
    const int simulated = simulated_->isVisibleTo(this) ? needOf(Source::simulated) : 0;
    const TimelineStore* names = storeOfMostLanes(*document_);
    const int lanes = names != nullptr ? static_cast<int>(names->lanes().size()) : 0;
    const int tracks = tracks_->empty() ? 0 : lines / 2 + tracks_->sizeHint().height();
    const int rest = splitter_->height() - measured - simulated - tracks - 3 * splitter_->handleWidth();
    const int memory = memoryPane_->isVisible() ? std::clamp(rest, 3 * lines / 2, lines + lanes * 18) : 0;
    const int share = std::max(0, rest - memory) / 5;
    splitter_->setSizes({measured + 2 * share, simulated + 2 * share, memory + share, tracks});
}

void DocumentPage::alignGutters() {
    const std::array<AxisView*, 4> views{&measured_->view(), &simulated_->view(), memory_, tracks_};
    int gutter = document_->tracks ? memory_->gutterFor({}) : 0;  // leaves room for a thread's name
    for (const auto& store : {document_->measured, document_->simulated}) {
        gutter = store ? std::max(gutter, memory_->gutterFor(store->lanes())) : gutter;
    }
    for (AxisView* each : views) {
        each->setGutter(gutter);
    }
    minimap_->setGutter(gutter);
}

void DocumentPage::syncScrollBars() {
    // A scroll bar in only one view would shift its axis relative to the others.
    const std::array<AxisView*, 4> views{&measured_->view(), &simulated_->view(), memory_, tracks_};
    const bool any = std::any_of(views.begin(), views.end(),
                                 [](const AxisView* each) { return each->isVisible() && each->overflows(); });
    for (AxisView* each : views) {
        each->setVerticalScrollBarPolicy(any ? Qt::ScrollBarAlwaysOn : Qt::ScrollBarAlwaysOff);
    }
}
}  // namespace pipescope
