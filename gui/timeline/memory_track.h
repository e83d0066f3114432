#pragma once

#include "gui/timeline/time_window.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// The highest values within one pixel column, in bytes.
struct MemoryColumn {
    Bytes allocated = 0;
    Bytes peak = 0;
    bool known = false;  ///< false before the first sample
};

/// What one lane held over time. Between two samples the lane holds what the first one says, and at most the second
/// one's `peak`. Threading: immutable once built.
class MemoryTrack {
public:
    /// `samples` of one lane, ascending in time; ones that go back in time are left out.
    explicit MemoryTrack(const std::vector<MemorySample>& samples);

    bool empty() const { return time_.empty(); }
    /// The highest peak at all, and when its sample was taken.
    Bytes highest() const { return highest_; }
    std::int64_t highestTime() const { return highestTime_; }
    /// The highest peak of samples in the range; 0 without any.
    Bytes highestIn(const TimeRange& range) const;
    TimeRange range() const;
    std::vector<MemoryColumn> columns(const TimeWindow& window, int columns) const;

private:
    // Index of the first sample at `time` or later.
    std::size_t firstFrom(std::int64_t time) const;
    MemoryColumn highestOf(std::size_t first, std::size_t end) const;

    std::vector<std::int64_t> time_;
    std::vector<Bytes> allocated_;
    std::vector<Bytes> peak_;
    std::vector<MemoryColumn> blocks_;  // of 64 samples each, so that a whole run is drawn quickly
    Bytes highest_ = 0;
    std::int64_t highestTime_ = 0;
};

/// One track per lane; empty if no lane has a sample.
std::vector<MemoryTrack> memoryTracks(const std::vector<MemorySample>& samples, std::size_t lanes);
}  // namespace pipescope
