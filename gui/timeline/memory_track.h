#pragma once

#include "gui/timeline/time_window.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <vector>

namespace pipescope {
/// Maximum values within one pixel column, in bytes.
struct MemoryColumn {
    Bytes allocated = 0;
    Bytes peak = 0;
    bool known = false;  ///< false before the first sample
};

/// Memory of one lane over time. Between two samples, the lane holds the first one's value, and at most the second
/// one's `peak`. Threading: immutable once built.
class MemoryTrack {
public:
    MemoryTrack() = default;
    /// Takes the samples of one lane in ascending order of time. Omits samples that go back in time.
    explicit MemoryTrack(const std::vector<MemorySample>& samples);
    /// Adds a sample while the track is being built.
    void add(const MemorySample& sample);
    /// Releases unused capacity.
    void shrink();

    bool empty() const { return time_.empty(); }
    /// The overall peak and the time of its sample.
    Bytes highest() const { return highest_; }
    std::int64_t highestTime() const { return highestTime_; }
    /// The highest peak of the samples in the range, or 0 without any.
    Bytes highestIn(const TimeRange& range) const;
    TimeRange range() const;
    std::vector<MemoryColumn> columns(const TimeWindow& window, int columns) const;
    /// True if any sample has a composition.
    bool composed() const { return !composition_.empty(); }
    /// Composition of the last sample at or before `time`; all unknown before the first sample.
    MemoryBreakdown compositionAt(std::int64_t time) const;
    std::size_t size() const { return time_.size(); }

private:
    std::size_t firstFrom(std::int64_t time) const;
    MemoryColumn highestOf(std::size_t first, std::size_t end) const;

    std::vector<std::int64_t> time_;
    std::vector<Bytes> allocated_;
    std::vector<Bytes> peak_;
    std::vector<MemoryColumn> blocks_;          // of 64 samples each, for fast drawing of a whole run
    std::vector<MemoryBreakdown> composition_;  // empty if none is known or the track is too long to keep it
    Bytes highest_ = 0;
    std::int64_t highestTime_ = 0;
};

/// One track per lane; empty if no lane has a sample.
std::vector<MemoryTrack> memoryTracks(const std::vector<MemorySample>& samples, std::size_t lanes);
}  // namespace pipescope
