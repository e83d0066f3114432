#include "gui/window/timeline_stack.h"

#include "gui/document/trace_document.h"
#include "gui/style/arrange.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/timeline_layout.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/track_view.h"
#include "gui/window/memory_pane.h"

#include <QLabel>
#include <QScrollBar>

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
constexpr int kLowMemoryLane = 18;
constexpr int kTallMemoryLane = 72;
constexpr int kFewTracks = 5;  // rows of threads that stay in sight in a low window
}  // namespace

TimelineStack::TimelineStack(TimeAxisModel& axis, QWidget* parent)
    : QSplitter(Qt::Vertical, parent),
      measured_(new TimelinePane(Source::measured, axis, this)),
      simulated_(new TimelinePane(Source::simulated, axis, this)),
      memory_(new MemoryPane(axis, this)),
      trackPane_(new QWidget(this)),
      tracks_(new TrackView(axis, trackPane_)),
      tracksTitle_(new QLabel(trackPane_)) {
    tracksTitle_->setContentsMargins(8, 3, 8, 3);
    arrange(new QVBoxLayout(trackPane_), {0, 0, 0, 0}, 0, {tracksTitle_, {tracks_, 1}});
    trackPane_->hide();
    setChildrenCollapsible(false);
    connect(this, &QSplitter::splitterMoved, this, [this] { isSizedByUser_ = true; });
    for (int i = 0; i < 4; ++i) {
        setStretchFactor(i, i < 2 ? 3 : 2);
    }
    for (const AxisView* each : views()) {
        connect(each, &AxisView::overflowChanged, this, &TimelineStack::syncScrollBars, Qt::QueuedConnection);
    }
    for (const Source source : {Source::measured, Source::simulated}) {
        connect(&view(source), &TimelineView::laidOut, this, &TimelineStack::alignRows);
    }
    QScrollBar* upper = measured_->view().verticalScrollBar();
    QScrollBar* lower = simulated_->view().verticalScrollBar();
    connect(upper, &QScrollBar::valueChanged, this, [this, upper, lower] { scrollAlong(*upper, *lower); });
    connect(lower, &QScrollBar::valueChanged, this, [this, upper, lower] { scrollAlong(*lower, *upper); });
}

void TimelineStack::alignRows() {
    if (aligning_) {
        return;  // these layouts are its own
    }
    aligning_ = true;
    TimelineView& upper = measured_->view();
    TimelineView& lower = simulated_->view();
    const bool both = upper.store() != nullptr && lower.store() != nullptr && measured_->isVisibleTo(this) &&
                      simulated_->isVisibleTo(this);
    RowFit most;
    most.compact = both && (upper.ownRows().compact || lower.ownRows().compact);
    upper.setMostRows(most);
    lower.setMostRows(most);
    if (both) {
        most.height = std::min(upper.ownRows().height, lower.ownRows().height);
        upper.setMostRows(most);
        lower.setMostRows(most);
    }
    aligning_ = false;
}

TimelineView& TimelineStack::view(Source source) const {
    return pane(source).view();
}

std::array<AxisView*, 4> TimelineStack::views() const {
    return {&measured_->view(), &simulated_->view(), &memory_->view(), tracks_};
}

void TimelineStack::setMeasured(const TraceDocument& document) {
    measured_->view().setStore(document.measured);
    measured_->view().setKernels(document.kernels);
    tracks_->setStore(document.tracks);
    const QString only = tracks_->onlyGroup();
    tracksTitle_->setText(tr("<b>THREADS AND STREAMS</b>&nbsp;&nbsp; %1")
                              .arg(only.isEmpty() ? tr("ranges, calls, kernels and counters") : only.toHtmlEscaped()));
    tracksTitle_->setSizePolicy(QSizePolicy::Ignored, QSizePolicy::Preferred);  // a process may have a long name
    tracks_->setRulerShown(!document.measured && !document.simulated);
    trackPane_->setVisible(document.tracks != nullptr);
    measured_->setVisible(document.measured != nullptr);
    measured_->view().setNotesShown(document.measured != nullptr);
    simulated_->view().setNotesShown(document.measured == nullptr);
}

void TimelineStack::setSimulated(const TraceDocument& document) {
    simulated_->view().setStore(document.simulated);
    gutter_ = document.tracks ? tracks_->gutterForNames() : 0;
    for (const auto& store : {document.measured, document.simulated}) {
        gutter_ = store ? std::max(gutter_, tracks_->gutterFor(store->lanes())) : gutter_;
    }
    for (AxisView* each : views()) {
        each->setGutter(gutter_);
    }
}

void TimelineStack::setArrangement(const LaneArrangement& arrangement) {
    arrangement_ = arrangement;
    measured_->view().setArrangement(arrangement);
    simulated_->view().setArrangement(arrangement);
    memory_->view().setArrangement(arrangement);
}

int TimelineStack::wholeLanesHeight(Source source, std::optional<int> row) const {
    const TimelineStore* store = view(source).store();
    if (store == nullptr || !pane(source).isVisibleTo(this)) {
        return 0;
    }
    const KernelStore* kernels = view(source).kernels();
    const TimelineStore* below = kernels != nullptr ? &kernels->slices() : nullptr;
    LaneArrangement rows;
    rows.rowHeight = row;
    return headerHeight() + view(source).topMargin() +
           layoutRows(*store, 0, below, fontMetrics().height(), rows).height;
}

int TimelineStack::moreForWholeLanes() const {
    const int whole = wholeLanesHeight(Source::measured) + wholeLanesHeight(Source::simulated);
    return std::max(0, whole + 3 * handleWidth() + fewTracksHeight() - readableHeight());
}

int TimelineStack::readableHeight() const {
    int needed = 3 * handleWidth();
    for (const Source source : {Source::measured, Source::simulated}) {
        const TimelineStore* store = view(source).store();
        if (store != nullptr && pane(source).isVisibleTo(this)) {
            const int rows = heightOfFewRows(*store, fontMetrics().height(), arrangement_);
            needed +=
                headerHeight() + std::max(view(source).topMargin() + rows, view(source).minimumSizeHint().height());
        }
    }
    return needed + fewTracksHeight();
}

int TimelineStack::headerHeight() const {
    return fontMetrics().height() + 8;
}

int TimelineStack::fewTracksHeight() const {
    return tracks_->empty() ? 0
                            : std::min(headerHeight() + tracks_->sizeHint().height(),
                                       headerHeight() + kFewTracks * fontMetrics().height());
}

void TimelineStack::shareHeight() {
    isSizedByUser_ = false;
    const int line = headerHeight();  // or a ruler
    std::size_t lanes = 0;
    for (const Source source : {Source::measured, Source::simulated}) {
        const bool isShown = view(source).store() != nullptr && pane(source).isVisibleTo(this);
        lanes = isShown ? std::max(lanes, view(source).store()->lanes().size()) : lanes;
    }
    // First all lanes, then memory, then threads and streams, which can scroll.
    const std::array least{wholeLanesHeight(Source::measured), wholeLanesHeight(Source::simulated)};
    const int wantedTracks = tracks_->empty() ? 0 : line + tracks_->sizeHint().height();
    int tracks = fewTracksHeight();
    int memory = memory_->isVisible() ? 3 * line : 0;
    int rest = std::max(0, height() - least[0] - least[1] - tracks - memory - 3 * handleWidth());
    const auto take = [&rest](int wanted) {
        const int taken = std::clamp(wanted, 0, rest);
        rest -= taken;
        return taken;
    };
    const auto takeMemory = [&](int row) {
        memory += memory > 0 ? take(2 * line + static_cast<int>(lanes) * row - memory) : 0;
    };
    takeMemory(kLowMemoryLane);
    tracks += std::min(wantedTracks - tracks, rest / 2);
    rest = std::max(0, height() - least[0] - least[1] - tracks - memory - 3 * handleWidth());
    int measured = least[0];
    int simulated = least[1];
    const auto takeRows = [&](int row) {
        const int half = rest / 2;
        measured += take(std::min(half, wholeLanesHeight(Source::measured, row) - measured));
        simulated += take(std::min(half, wholeLanesHeight(Source::simulated, row) - simulated));
    };
    // Curves become readable before bars become very high.
    takeRows(kTallestTaskRow / 2);
    takeMemory(kTallMemoryLane / 2);
    takeRows(kTallestTaskRow);
    if (least[0] > 0 && least[1] > 0 && rest == 0) {  // rows of both are equally high, of which one may have more
        const int lowest = std::max(kLowestTaskRow, fontMetrics().height());
        const int rows = wholeLanesHeight(Source::simulated, lowest + 1) - wholeLanesHeight(Source::simulated, lowest);
        const int all =
            rows + wholeLanesHeight(Source::measured, lowest + 1) - wholeLanesHeight(Source::measured, lowest);
        const int more = std::max(0, measured + simulated - least[0] - least[1]) * rows / std::max(1, all);
        measured += simulated - least[1] - more;
        simulated = least[1] + more;
    }
    tracks += take(wantedTracks - tracks);
    takeMemory(kTallMemoryLane);  // a large window has room for readable curves
    setSizes({measured + rest * 2 / 5, simulated + rest * 2 / 5, memory + rest / 5, tracks});
    QMetaObject::invokeMethod(this, &TimelineStack::syncScrollBars,
                              Qt::QueuedConnection);  // of views that came or went
}

void TimelineStack::syncScrollBars() {
    // A scroll bar in only one view would shift its axis relative to the others.
    const std::array<AxisView*, 4> all = views();
    const bool any = std::any_of(all.begin(), all.end(),
                                 [](const AxisView* each) { return each->isVisible() && each->overflows(); });
    for (AxisView* each : all) {
        each->setVerticalScrollBarPolicy(any ? Qt::ScrollBarAlwaysOn : Qt::ScrollBarAlwaysOff);
    }
}

void TimelineStack::scrollAlong(const QScrollBar& moved, QScrollBar& other) {
    if (scrolling_) {
        return;  // prevents recursion: this bar moves because the other one did
    }
    scrolling_ = true;
    // Kernels make lanes of one timeline higher than those of the other; otherwise they align.
    const bool scaled = measured_->view().kernels() != nullptr && moved.maximum() > 0;
    other.setValue(
        scaled ? static_cast<int>(std::lround(static_cast<double>(moved.value()) * other.maximum() / moved.maximum()))
               : moved.value());
    scrolling_ = false;
}
}  // namespace pipescope
