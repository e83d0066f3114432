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
    measured_->view().setArrangement(arrangement);
    simulated_->view().setArrangement(arrangement);
    memory_->view().setArrangement(arrangement);
}

void TimelineStack::shareHeight() {
    const int line = fontMetrics().height() + 8;  // of a header or a ruler
    const int lines = 2 * line;
    std::size_t lanes = 0;
    const auto heightOf = [&](Source source, std::optional<int> row) {
        const TimelineStore* store = view(source).store();
        if (store == nullptr || !pane(source).isVisibleTo(this)) {
            return 0;
        }
        lanes = std::max(lanes, store->lanes().size());
        const KernelStore* kernels = view(source).kernels();
        const TimelineStore* below = kernels != nullptr ? &kernels->slices() : nullptr;
        LaneArrangement rows;
        rows.rowHeight = row;
        return line + view(source).topMargin() + layoutRows(*store, 0, below, fontMetrics().height(), rows).height;
    };
    // First all lanes, then memory, then threads and streams, which can scroll.
    const std::array least{heightOf(Source::measured, std::nullopt), heightOf(Source::simulated, std::nullopt)};
    const std::array most{heightOf(Source::measured, kTallestTaskRow), heightOf(Source::simulated, kTallestTaskRow)};
    const int wantedTracks = tracks_->empty() ? 0 : lines / 2 + tracks_->sizeHint().height();
    int tracks = std::min(wantedTracks, lines / 2 + kFewTracks * fontMetrics().height());
    int memory = memory_->isVisible() ? 3 * lines / 2 : 0;
    int rest = std::max(0, height() - least[0] - least[1] - tracks - memory - 3 * handleWidth());
    const auto take = [&rest](int wanted) {
        const int taken = std::clamp(wanted, 0, rest);
        rest -= taken;
        return taken;
    };
    if (memory > 0) {
        memory += take(lines + static_cast<int>(lanes) * 18 - memory);
    }
    tracks += std::min(wantedTracks - tracks, rest / 2);
    rest = std::max(0, height() - least[0] - least[1] - tracks - memory - 3 * handleWidth());
    const int half = rest / 2;
    int measured = least[0] + take(std::min(half, most[0] - least[0]));
    int simulated = least[1] + take(std::min(half, most[1] - least[1]));
    if (least[0] > 0 && least[1] > 0 && rest == 0) {  // rows of both are equally high, of which one may have more
        const int lowest = std::max(kLowestTaskRow, fontMetrics().height());
        const int rows = heightOf(Source::simulated, lowest + 1) - heightOf(Source::simulated, lowest);
        const int all = rows + heightOf(Source::measured, lowest + 1) - heightOf(Source::measured, lowest);
        const int more = std::max(0, measured + simulated - least[0] - least[1]) * rows / std::max(1, all);
        measured += simulated - least[1] - more;
        simulated = least[1] + more;
    }
    tracks += take(wantedTracks - tracks);
    if (memory > 0) {  // a large window has room for readable curves
        memory += take(static_cast<int>(lanes) * kTallMemoryLane + lines - memory);
    }
    setSizes({measured + rest * 2 / 5, simulated + rest * 2 / 5, memory + rest / 5, tracks});
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
