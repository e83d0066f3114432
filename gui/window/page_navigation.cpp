#include "gui/window/page_navigation.h"

#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/track_view.h"
#include "gui/window/page_model.h"
#include "gui/window/timeline_stack.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr double kLeastOfKernel = 100;  // a kernel is seen if it takes a hundredth of the window
constexpr double kNarrowestSeen = 4;    // pixels of a task that counts as visible
constexpr double kWidestSeen = 0.9;     // of the view
constexpr std::int64_t kLaneMargin = 50;

struct LaneExtent {
    SliceRef first;
    TimeRange range;
};

/// From the first to the last task of the lane, within the step if one is given. Empty without a task.
std::optional<LaneExtent> extentOf(const TimelineStore& store, LaneId lane, const StepSpan* step) {
    std::optional<LaneExtent> extent;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& each = store.rows()[row];
        if (each.lane != lane || each.copies) {
            continue;
        }
        const std::int64_t from = step != nullptr ? step->range().start : store.range().start;
        const std::int64_t to = step != nullptr ? step->range().end : store.range().end;
        const auto first = std::lower_bound(each.start.begin(), each.start.end(), from) - each.start.begin();
        const auto end = std::lower_bound(each.start.begin(), each.start.end(), to) - each.start.begin();
        if (first < end) {
            const auto index = static_cast<std::size_t>(first);
            const TimeRange range{each.start[index], each.end[static_cast<std::size_t>(end) - 1]};
            if (!extent || range.start < extent->range.start) {
                extent = LaneExtent{{row, static_cast<std::uint32_t>(index)},
                                    {range.start, std::max(range.end, extent ? extent->range.end : range.end)}};
            }
            extent->range.end = std::max(extent->range.end, range.end);
        }
    }
    return extent;
}

/// The next slice of the same kind on the lane, by start, in any of its rows.
std::optional<SliceRef> nextOfKind(const TimelineStore& store, SliceRef from, int by) {
    const StoredRow& own = store.rows()[from.row];
    const std::int64_t start = own.start[from.index];
    const std::uint8_t kind = own.kind[from.index];
    std::optional<SliceRef> best;
    std::int64_t bestStart = 0;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& each = store.rows()[row];
        if (each.lane != own.lane) {
            continue;
        }
        const auto size = static_cast<std::int64_t>(each.start.size());
        std::int64_t i = row == from.row ? std::int64_t{from.index}
                                         : std::lower_bound(each.start.begin(), each.start.end(), start) -
                                               each.start.begin() - (by > 0 ? 1 : 0);
        for (i += by; i >= 0 && i < size && each.kind[static_cast<std::size_t>(i)] != kind;) {
            i += by;
        }
        if (i < 0 || i >= size) {
            continue;
        }
        const std::int64_t found = each.start[static_cast<std::size_t>(i)];
        if (!best || (by > 0 ? found < bestStart : found > bestStart)) {
            best = SliceRef{row, static_cast<std::uint32_t>(i)};
            bestStart = found;
        }
    }
    return best;
}
/// The next bubble of the same cause on any lane, by start, then lane. Null after the last one.
const Bubble* nextOfCause(const std::vector<Bubble>& bubbles, const Bubble& from, int by) {
    const auto place = [](const Bubble& each) { return std::pair(each.start, each.lane); };
    const Bubble* best = nullptr;
    for (const Bubble& each : bubbles) {
        const bool follows = by > 0 ? place(each) > place(from) : place(each) < place(from);
        if (each.cause == from.cause && follows &&
            (best == nullptr || (by > 0 ? place(each) < place(*best) : place(each) > place(*best)))) {
            best = &each;
        }
    }
    return best;
}
}  // namespace

PageNavigation::PageNavigation(PageModel& model, TimelineStack& views)
    : model_(model), views_(views), axis_(model.axis()) {}

bool PageNavigation::goTo(Source source, const TaskKey& task) {
    const TimelineStore* store = model_.document() ? model_.document()->store(source) : nullptr;
    if (store == nullptr) {
        return false;
    }
    TaskKey key = task;
    if (source == Source::simulated && !store->steps().empty()) {
        key.step = store->steps().front().step;
    }
    const std::optional<SliceRef> slice = store->find(key);
    if (slice) {
        model_.select(source, slice);
        fitSelection();
    }
    return slice.has_value();
}

void PageNavigation::goToLane(LaneId lane) {
    for (const Source source : {Source::measured, Source::simulated}) {
        const TimelineStore* store = model_.document() ? model_.document()->store(source) : nullptr;
        const StepSpan* step = store != nullptr && source == Source::measured ? store->step(model_.step()) : nullptr;
        const std::optional<LaneExtent> extent = store != nullptr ? extentOf(*store, lane, step) : std::nullopt;
        if (extent) {
            const std::int64_t shift = views_.view(source).shift();
            const std::int64_t margin = extent->range.length() / kLaneMargin;
            model_.select(source, extent->first);
            axis_.show({extent->range.start + shift - margin, extent->range.end + shift + margin});
            return;
        }
    }
}

void PageNavigation::centre(std::int64_t time) {
    const auto half = static_cast<std::int64_t>(axis_.window().length / 2);
    axis_.show({time - half, time + half});
}

void PageNavigation::goToTime(std::int64_t ns) {
    if (model_.document()) {
        centre(ns);
        axis_.setCursor(ns);
    }
}

const PartSelection* PageNavigation::bubble() const {
    const std::optional<PartSelection>& part = axis_.part();
    return part && part->kind == PartSelection::Kind::bubble ? &*part : nullptr;
}

void PageNavigation::selectBubble(const Bubble& next) {
    model_.select(bubble()->source, Bubble(next));
    showSelection();
}

void PageNavigation::goTo(Source source, const Bubble& bubble) {
    model_.select(source, bubble);
    fitSelection();
}

TimeRange PageNavigation::rangeOf(Source source, SliceRef slice) const {
    const Slice found = model_.document()->store(source)->slice(slice);
    const std::int64_t shift = views_.view(source).shift();
    return {found.start.count() + shift, found.end.count() + shift};
}

std::optional<TimeRange> PageNavigation::selectedRangeIn(Source source) const {
    const std::optional<SliceRef> slice = axis_.selection() ? axis_.selection()->in(source) : std::nullopt;
    const std::optional<Bubble> bubble = axis_.part() ? axis_.part()->bubbleIn(source) : std::nullopt;
    if (slice) {
        return rangeOf(source, *slice);
    }
    const std::int64_t shift = views_.view(source).shift();
    return bubble ? std::optional(TimeRange{bubble->start + shift, bubble->end + shift}) : std::nullopt;
}

std::optional<TimeRange> PageNavigation::selectedRange() const {
    if (!model_.document()) {
        return std::nullopt;
    }
    if (const std::optional<SliceRef> ref = this->range()) {
        return model_.document()->tracks->rangeOf(*ref);
    }
    if (axis_.selection()) {
        return selectedRangeIn(axis_.selection()->source);
    }
    return axis_.part() ? selectedRangeIn(axis_.part()->source) : std::nullopt;
}

std::optional<TimeRange> PageNavigation::rangeWithTwin() const {
    std::optional<TimeRange> range = selectedRange();
    for (const Source source : {Source::measured, Source::simulated}) {
        if (const std::optional<TimeRange> each = range ? selectedRangeIn(source) : std::nullopt) {
            range = TimeRange{std::min(range->start, each->start), std::max(range->end, each->end)};
        }
    }
    return range;
}

void PageNavigation::fitSelection() {
    if (const std::optional<TimeRange> range = rangeWithTwin()) {
        const std::int64_t margin = std::max<std::int64_t>(range->length(), 1);  // a mark has no length
        axis_.show({range->start - margin, range->end + margin});
    } else if (model_.document()) {
        axis_.show(stepRange(*model_.document(), model_.step()));
    }
}

void PageNavigation::showSelection() {
    const std::optional<TimeRange> range = rangeWithTwin();
    if (!range) {
        return;
    }
    const TimeWindow& window = axis_.window();
    const auto length = static_cast<double>(range->length());
    const Source source = axis_.selection() ? axis_.selection()->source : axis_.part()->source;
    const AxisView& view = this->range() ? static_cast<const AxisView&>(views_.tracks()) : views_.view(source);
    const double pixels = length / window.length * view.lanesRect().width();
    if (pixels < kNarrowestSeen || length > kWidestSeen * window.length) {
        fitSelection();
    } else if (range->start < window.start || static_cast<double>(range->end - window.start) > window.length) {
        centre(range->start + range->length() / 2);
    }
}

void PageNavigation::show(Source source, SliceRef slice) {
    model_.select(source, slice);
    showSelection();
}

void PageNavigation::show(const SliceRef& range) {
    model_.selectRange(range);
    showSelection();
}

void PageNavigation::showKernel(const SliceRef& kernel) {
    if (!model_.document() || !model_.document()->kernels) {
        return;
    }
    const Kernel found = model_.document()->kernels->kernel(kernel);
    const std::optional<SliceRef> task =
        model_.document()->measured ? model_.document()->measured->find(found.task) : std::nullopt;
    if (task) {
        model_.select(Source::measured, task);
    }
    const std::int64_t length = std::max<std::int64_t>(1, found.end - found.start);
    const TimeWindow& window = axis_.window();
    const bool isTiny = static_cast<double>(length) * kLeastOfKernel < window.length;
    if (isTiny || found.start < window.start || static_cast<double>(found.end - window.start) > window.length) {
        axis_.show({found.start - length, found.end + length});
    }
    axis_.setCursor(found.start);
}

std::optional<SliceRef> PageNavigation::range() const {
    const std::optional<PartSelection>& part = axis_.part();
    const bool is = part && part->kind == PartSelection::Kind::range && model_.document() &&
                    model_.document()->tracks && model_.document()->tracks->has(part->range);
    return is ? std::optional(part->range) : std::nullopt;
}

void PageNavigation::moveSelection(int by) {
    if (!model_.document()) {
        return;
    }
    const bool hasTimeline = model_.document()->measured || model_.document()->simulated;
    if (range() || (!hasTimeline && !axis_.selection())) {
        views_.tracks().moveSelection(by);
        showSelection();
        return;
    }
    if (const PartSelection* selected = bubble()) {
        const std::vector<Bubble>& all = model_.analysis()->bubbles(selected->source);
        const auto here = std::find(all.begin(), all.end(), selected->bubble) - all.begin() + by;
        if (here >= 0 && here < std::ssize(all) && all[static_cast<std::size_t>(here)].lane == selected->lane) {
            selectBubble(all[static_cast<std::size_t>(here)]);
        }
        return;
    }
    const Source first = model_.document()->measured ? Source::measured : Source::simulated;
    views_.view(axis_.selection() ? axis_.selection()->source : first).moveSelection(by);
    showSelection();
}

void PageNavigation::selectOfKind(int by) {
    if (const std::optional<SliceRef> ref = range()) {
        if (const std::optional<SliceRef> next = nextOfText(*model_.document()->tracks, *ref, by)) {
            show(*next);
        }
        return;
    }
    if (const PartSelection* selected = model_.document() ? bubble() : nullptr) {
        const Bubble* next = nextOfCause(model_.analysis()->bubbles(selected->source), selected->bubble, by);
        if (next != nullptr) {
            selectBubble(*next);
        }
        return;
    }
    const std::optional<TaskSelection>& selection = axis_.selection();
    if (!model_.document() || !selection) {
        moveSelection(by);
        return;
    }
    const Source source = selection->source;
    if (const auto next = nextOfKind(*model_.document()->store(source), selection->slice, by)) {
        show(source, *next);
    }
}

void PageNavigation::addMark() {
    if (!model_.document()) {
        return;
    }
    std::int64_t place = axis_.window().start + static_cast<std::int64_t>(axis_.window().length / 2);
    if (axis_.cursor()) {
        place = *axis_.cursor();
    } else if (const std::optional<TaskSelection>& selection = axis_.selection()) {
        place = rangeOf(selection->source, selection->slice).start;
    }
    std::vector<TimeMark> marks = axis_.marks();
    marks.push_back({place, {}, 0});
    axis_.setMarks(std::move(marks));
}

void PageNavigation::goToMark(int by) {
    const std::vector<TimeMark>& marks = axis_.marks();
    const std::int64_t here = axis_.window().start + static_cast<std::int64_t>(axis_.window().length / 2);
    const auto after = std::find_if(marks.begin(), marks.end(), [&](const TimeMark& m) { return m.time > here + 1; });
    const auto from = std::find_if(marks.begin(), marks.end(), [&](const TimeMark& m) { return m.time >= here - 1; });
    if (by > 0 && after != marks.end()) {
        goToTime(after->time);
    } else if (by < 0 && from != marks.begin()) {
        goToTime((from - 1)->time);
    }
}
}  // namespace pipescope
