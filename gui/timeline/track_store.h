#pragma once

#include "gui/timeline/time_window.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// One row of ranges of a thread or stream, by start, without overlap. 20 bytes per range.
struct TrackRow {
    std::string group;  ///< "process 17 (python)", "GPU 0 (NVIDIA H200)"
    std::string name;   ///< "thread 18 (main)", "stream 7"
    int depth = 0;      ///< nested ranges are one row lower
    std::vector<std::int64_t> start;
    std::vector<std::int64_t> end;
    std::vector<std::uint32_t> text;  ///< index into TrackStore::texts
};

/// Activity of threads and streams beyond the schedule's tasks: calls, ranges, kernels, copies. Threading: immutable
/// once built; shared between threads.
struct TrackStore {
    std::vector<TrackRow> rows;
    std::vector<std::string> texts;

    TimeRange range() const;
};

/// Identifies one range.
struct TrackRef {
    std::size_t row = 0;
    std::size_t index = 0;

    friend bool operator==(const TrackRef&, const TrackRef&) = default;
};
/// The range of the row that covers `time`, or starts or ends within `reach` ns of it.
std::optional<TrackRef> rangeAt(const TrackStore& store, std::size_t row, std::int64_t time, std::int64_t reach);

/// A rectangle that represents one range, or several that share a pixel.
struct TrackRun {
    double left = 0;  ///< pixels
    double right = 0;
    std::size_t index = 0;  ///< of the range, or of the first one
    bool folded = false;    ///< represents several ranges
};
/// Visible rectangles of a row in a window of `width` pixels. Cost: O(pixels times log ranges).
std::vector<TrackRun> visibleRuns(const TrackRow& row, const TimeWindow& window, int width);
}  // namespace pipescope
