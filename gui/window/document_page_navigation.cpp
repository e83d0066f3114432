#include "gui/timeline/timeline_pane.h"
#include "gui/window/document_page.h"

#include <algorithm>

namespace pipescope {
namespace {
constexpr double kNarrowestSeen = 4;  // pixels of a task that counts as visible
constexpr double kWidestSeen = 0.9;   // of the view
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
}  // namespace

bool DocumentPage::goTo(Source source, const TaskKey& task) {
    const TimelineStore* store = document_ ? document_->store(source) : nullptr;
    if (store == nullptr) {
        return false;
    }
    TaskKey key = task;
    if (source == Source::simulated && !store->steps().empty()) {
        key.step = store->steps().front().step;
    }
    const std::optional<SliceRef> slice = store->find(key);
    if (slice) {
        select(source, slice);
        fitSelection();
    }
    return slice.has_value();
}

void DocumentPage::goToLane(LaneId lane) {
    for (const Source source : {Source::measured, Source::simulated}) {
        const TimelineStore* store = document_ ? document_->store(source) : nullptr;
        const std::optional<LaneExtent> extent =
            store != nullptr ? extentOf(*store, lane, source == Source::measured ? store->step(step_) : nullptr)
                             : std::nullopt;
        if (extent) {
            const std::int64_t shift = view(source).shift();
            const std::int64_t margin = extent->range.length() / kLaneMargin;
            select(source, extent->first);
            axis_->show({extent->range.start + shift - margin, extent->range.end + shift + margin});
            return;
        }
    }
}

void DocumentPage::goToTime(std::int64_t ns) {
    if (!document_) {
        return;
    }
    const auto half = static_cast<std::int64_t>(axis_->window().length / 2);
    axis_->show({ns - half, ns + half});
    axis_->setCursor(ns);
}

std::optional<TimeRange> DocumentPage::selectedRange() const {
    const std::optional<TaskSelection>& selection = axis_->selection();
    if (!document_ || !selection) {
        return std::nullopt;
    }
    const std::int64_t shift = view(Source::simulated).shift();
    const auto rangeOf = [&](Source source, SliceRef slice) {
        const Slice found = document_->store(source)->slice(slice);
        const std::int64_t by = source == Source::simulated ? shift : 0;
        return TimeRange{found.start.count() + by, found.end.count() + by};
    };
    TimeRange range = rangeOf(selection->source, selection->slice);
    if (selection->twin) {
        const Source other = selection->source == Source::measured ? Source::simulated : Source::measured;
        const TimeRange twin = rangeOf(other, *selection->twin);
        range = {std::min(range.start, twin.start), std::max(range.end, twin.end)};
    }
    return range;
}

void DocumentPage::fitSelection() {
    if (!document_) {
        return;
    }
    if (const std::optional<TimeRange> range = selectedRange()) {
        const std::int64_t margin = range->length();
        axis_->show({range->start - margin, range->end + margin});
    } else {
        axis_->show(stepRange(*document_, step_));
    }
}

void DocumentPage::showSelection() {
    const std::optional<TimeRange> range = selectedRange();
    if (!range) {
        return;
    }
    const TimeWindow& window = axis_->window();
    const auto length = static_cast<double>(range->length());
    const double pixels = length / window.length * view(axis_->selection()->source).lanesRect().width();
    if (pixels < kNarrowestSeen || length > kWidestSeen * window.length) {
        fitSelection();
    } else if (range->start < window.start || static_cast<double>(range->end - window.start) > window.length) {
        const std::int64_t middle = range->start + range->length() / 2;
        const auto half = static_cast<std::int64_t>(window.length / 2);
        axis_->show({middle - half, middle + half});
    }
}

void DocumentPage::moveSelection(int by) {
    if (!document_) {
        return;
    }
    const Source first = document_->measured ? Source::measured : Source::simulated;
    view(axis_->selection() ? axis_->selection()->source : first).moveSelection(by);
    showSelection();
}

void DocumentPage::selectOfKind(int by) {
    const std::optional<TaskSelection>& selection = axis_->selection();
    if (!document_ || !selection) {
        moveSelection(by);
        return;
    }
    const Source source = selection->source;
    if (const auto next = nextOfKind(*document_->store(source), selection->slice, by)) {
        select(source, next);
        showSelection();
    }
}

void DocumentPage::addMark() {
    if (!document_) {
        return;
    }
    std::int64_t place = axis_->window().start + static_cast<std::int64_t>(axis_->window().length / 2);
    if (axis_->cursor()) {
        place = *axis_->cursor();
    } else if (const std::optional<TaskSelection>& selection = axis_->selection()) {
        const std::int64_t shift = selection->source == Source::simulated ? view(Source::simulated).shift() : 0;
        place = document_->store(selection->source)->slice(selection->slice).start.count() + shift;
    }
    std::vector<TimeMark> marks = axis_->marks();
    marks.push_back({place, {}});
    axis_->setMarks(std::move(marks));
}

void DocumentPage::goToMark(int by) {
    const std::vector<TimeMark>& marks = axis_->marks();
    const std::int64_t here = axis_->window().start + static_cast<std::int64_t>(axis_->window().length / 2);
    const auto after = std::find_if(marks.begin(), marks.end(), [&](const TimeMark& m) { return m.time > here + 1; });
    const auto from = std::find_if(marks.begin(), marks.end(), [&](const TimeMark& m) { return m.time >= here - 1; });
    if (by > 0 && after != marks.end()) {
        goToTime(after->time);
    } else if (by < 0 && from != marks.begin()) {
        goToTime((from - 1)->time);
    }
}
}  // namespace pipescope
