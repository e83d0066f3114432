#pragma once

#include "gui/timeline/time_window.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <optional>
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
    MemoryTrack() = default;
    /// `samples` of one lane, ascending in time; ones that go back in time are left out.
    explicit MemoryTrack(const std::vector<MemorySample>& samples);
    /// One more of them; while the track is being built.
    void add(const MemorySample& sample);
    /// Gives back the room for more of them.
    void shrink();

    bool empty() const { return time_.empty(); }
    /// The highest peak at all, and when its sample was taken.
    Bytes highest() const { return highest_; }
    std::int64_t highestTime() const { return highestTime_; }
    /// The highest peak of samples in the range; nothing without any.
    std::optional<Bytes> highestIn(const TimeRange& range) const;
    TimeRange range() const;
    std::vector<MemoryColumn> columns(const TimeWindow& window, int columns) const;
    /// Whether any sample says what its bytes consist of.
    bool composed() const { return !composition_.empty(); }
    /// What the last sample at or before `time` consists of; all unknown before the first one.
    MemoryBreakdown compositionAt(std::int64_t time) const;
    std::size_t size() const { return time_.size(); }

private:
    // Index of the first sample at `time` or later.
    std::size_t firstFrom(std::int64_t time) const;
    MemoryColumn highestOf(std::size_t first, std::size_t end) const;

    std::vector<std::int64_t> time_;
    std::vector<Bytes> allocated_;
    std::vector<Bytes> peak_;
    std::vector<MemoryColumn> blocks_;          // of 64 samples each, so that a whole run is drawn quickly
    std::vector<MemoryBreakdown> composition_;  // empty while none is known, and of a track too long to keep it
    Bytes highest_ = 0;
    std::int64_t highestTime_ = 0;
};

/// One track per lane; empty if no lane has a sample.
std::vector<MemoryTrack> memoryTracks(const std::vector<MemorySample>& samples, std::size_t lanes);
}  // namespace pipescope
