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

/// One sample of a track. Until the next one the lane holds `allocated` bytes, and at most the next one's `peak`.
struct MemoryPoint {
    std::int64_t time = 0;  ///< ns
    Bytes allocated = 0;
    Bytes peak = 0;  ///< since the previous sample

    friend bool operator==(const MemoryPoint&, const MemoryPoint&) = default;
};

/// Memory of one lane over time. Between two samples the lane holds the first one's bytes, and at most the second one's
/// `peak`. Threading: immutable once built.
class MemoryTrack {
public:
    MemoryTrack() = default;
    /// `samples` of one lane, ascending in time; samples that go back in time are omitted.
    explicit MemoryTrack(const std::vector<MemorySample>& samples);
    /// Appends a sample while the track is being built.
    void add(const MemorySample& sample);
    /// Frees capacity reserved for more samples.
    void shrink();

    bool empty() const { return time_.empty(); }
    /// The highest peak overall, and the time of its sample.
    Bytes highest() const { return highest_; }
    std::int64_t highestTime() const { return highestTime_; }
    /// The highest peak of samples in the range; empty if there are none.
    std::optional<Bytes> highestIn(const TimeRange& range) const;
    /// Time of the first sample in the range with its highest peak; empty if there are none.
    std::optional<std::int64_t> highestTimeIn(const TimeRange& range) const;
    TimeRange range() const { return time_.empty() ? TimeRange{} : TimeRange{time_.front(), time_.back()}; }
    /// The samples in the range, and the bytes held at its start; times are less `origin`.
    MemoryTrack cut(const TimeRange& range, std::int64_t origin) const;
    std::vector<MemoryColumn> columns(const TimeWindow& window, int columns) const;
    /// The samples in the range, with the last one before it and the first one after it: all that draws the range.
    std::vector<MemoryPoint> pointsIn(const TimeRange& range) const;
    /// True if any sample has a composition.
    bool composed() const { return !composition_.empty(); }
    /// Composition of the last sample at or before `time`; all unknown before the first one.
    MemoryBreakdown compositionAt(std::int64_t time) const;
    std::size_t size() const { return time_.size(); }

private:
    // Index of the first sample at `time` or later.
    std::size_t firstFrom(std::int64_t time) const;
    MemoryColumn highestOf(std::size_t first, std::size_t end) const;

    std::vector<std::int64_t> time_;
    std::vector<Bytes> allocated_;
    std::vector<Bytes> peak_;
    std::vector<MemoryColumn> blocks_;          // of 64 samples each, to draw a whole run quickly
    std::vector<MemoryBreakdown> composition_;  // empty if none is known, or if the track is too long to keep it
    Bytes highest_ = 0;
    std::int64_t highestTime_ = 0;
};

/// One track per lane; empty if no lane has a sample.
std::vector<MemoryTrack> memoryTracks(const std::vector<MemorySample>& samples, std::size_t lanes);
}  // namespace pipescope
