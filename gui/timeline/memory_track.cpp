#include "gui/timeline/memory_track.h"

#include "analysis/step_peaks.h"

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::size_t kBlock = 64;
// A composition takes three times as much space as the rest of a sample.
constexpr std::size_t kMostComposed = 1'000'000;

void raise(MemoryColumn& column, Bytes allocated, Bytes peak) {
    column.allocated = std::max(column.allocated, allocated);
    column.peak = std::max(column.peak, peak);
    column.known = true;
}
}  // namespace

MemoryTrack::MemoryTrack(const std::vector<MemorySample>& samples) {
    for (const MemorySample& sample : samples) {
        add(sample);
    }
}

void MemoryTrack::add(const MemorySample& sample) {
    if (!time_.empty() && sample.time.count() < time_.back()) {
        return;
    }
    const Bytes peak = peak_of(sample);
    if (time_.empty() || peak > highest_) {
        highest_ = peak;
        highestTime_ = sample.time.count();
    }
    if (time_.size() % kBlock == 0) {
        blocks_.emplace_back();
    }
    raise(blocks_.back(), sample.allocated, peak);
    if (time_.size() < kMostComposed && (sample.composition.known() || composed())) {
        composition_.resize(time_.size());
        composition_.push_back(sample.composition);
    } else {
        composition_ = {};
    }
    time_.push_back(sample.time.count());
    allocated_.push_back(sample.allocated);
    peak_.push_back(peak);
}

void MemoryTrack::shrink() {
    time_.shrink_to_fit();
    allocated_.shrink_to_fit();
    peak_.shrink_to_fit();
    blocks_.shrink_to_fit();
    composition_.shrink_to_fit();
}

MemoryBreakdown MemoryTrack::compositionAt(std::int64_t time) const {
    const std::size_t next = firstFrom(time + 1);
    return next == 0 || composition_.empty() ? MemoryBreakdown{} : composition_[next - 1];
}

std::size_t MemoryTrack::firstFrom(std::int64_t time) const {
    return static_cast<std::size_t>(std::lower_bound(time_.begin(), time_.end(), time) - time_.begin());
}

MemoryTrack MemoryTrack::cut(const TimeRange& range, std::int64_t origin) const {
    MemoryTrack part;
    const auto add = [&](std::size_t k, std::int64_t time, Bytes peak) {
        MemorySample sample;
        sample.time = Nanoseconds{time - origin};
        sample.allocated = allocated_[k];
        sample.peak = peak;
        sample.composition = composition_.empty() ? MemoryBreakdown{} : composition_[k];
        part.add(sample);
    };
    const std::size_t first = firstFrom(range.start);
    if (first > 0) {
        add(first - 1, range.start, allocated_[first - 1]);
    }
    for (std::size_t k = first; k < firstFrom(range.end + 1); ++k) {
        add(k, time_[k], peak_[k]);
    }
    return part;
}

std::optional<Bytes> MemoryTrack::highestIn(const TimeRange& range) const {
    const MemoryColumn highest = highestOf(firstFrom(range.start), firstFrom(range.end + 1));
    return highest.known ? std::optional(highest.peak) : std::nullopt;
}

std::optional<std::int64_t> MemoryTrack::highestTimeIn(const TimeRange& range) const {
    const std::optional<Bytes> highest = highestIn(range);
    if (!highest) {
        return std::nullopt;
    }
    const auto first = peak_.begin() + static_cast<std::ptrdiff_t>(firstFrom(range.start));
    return time_[static_cast<std::size_t>(std::find(first, peak_.end(), *highest) - peak_.begin())];
}

MemoryColumn MemoryTrack::highestOf(std::size_t first, std::size_t end) const {
    MemoryColumn highest;
    while (first < end) {
        if (first % kBlock == 0 && first + kBlock <= end) {
            raise(highest, blocks_[first / kBlock].allocated, blocks_[first / kBlock].peak);
            first += kBlock;
        } else {
            raise(highest, allocated_[first], peak_[first]);
            ++first;
        }
    }
    return highest;
}

std::vector<MemoryColumn> MemoryTrack::columns(const TimeWindow& window, int columns) const {
    std::vector<MemoryColumn> result(static_cast<std::size_t>(std::max(0, columns)));
    std::size_t next = firstFrom(timeAt(window, columns, 0));
    for (std::size_t x = 0; x < result.size() && !time_.empty(); ++x) {
        const std::size_t first = next;
        const std::int64_t end = timeAt(window, columns, static_cast<double>(x + 1));
        if (next < time_.size() && time_[next] < end) {  // most columns hold no sample
            next = firstFrom(end);
        }
        MemoryColumn column = highestOf(first, next);
        if (first > 0 && (next > first || first < time_.size())) {  // the value at the left edge of the column
            raise(column, allocated_[first - 1], allocated_[first - 1]);
        }
        if (next < time_.size() && next > 0) {  // at some time before the next sample, usage reached that sample's peak
            raise(column, column.allocated, peak_[next]);
        }
        result[x] = column;
    }
    return result;
}

std::vector<MemoryPoint> MemoryTrack::pointsIn(const TimeRange& range) const {
    std::vector<MemoryPoint> points;
    const std::size_t first = std::max<std::size_t>(firstFrom(range.start), 1) - 1;
    const std::size_t end = std::min(firstFrom(range.end) + 1, time_.size());
    for (std::size_t i = first; i < end; ++i) {
        points.push_back({time_[i], allocated_[i], peak_[i]});
    }
    return points;
}

std::vector<MemoryTrack> memoryTracks(const std::vector<MemorySample>& samples, std::size_t lanes) {
    std::vector<MemoryTrack> tracks(lanes);
    bool any = false;
    for (const MemorySample& sample : samples) {
        if (sample.lane.index() < lanes) {
            tracks[sample.lane.index()].add(sample);
            any = true;
        }
    }
    return any ? tracks : std::vector<MemoryTrack>{};
}
}  // namespace pipescope
