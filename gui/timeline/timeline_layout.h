#pragma once

#include "gui/timeline/timeline_store.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// Pixels from the top of the first lane, before scrolling.
struct Band {
    int top = 0;
    int height = 0;

    int bottom() const { return top + height; }
    bool contains(int y) const { return y >= top && y < bottom(); }
    friend bool operator==(const Band&, const Band&) = default;
};

struct RowBand {
    std::uint32_t row = 0;
    Band band;
};

struct LaneBand {
    LaneId lane;
    Band band;                          ///< all rows of the lane
    std::vector<RowBand> rows;          ///< tasks above copies
    std::vector<RowBand> kernels = {};  ///< below the lane's rows; row numbers refer to the kernel store
};

/// Positions of a store's rows. Lanes share the available height evenly, within readable limits.
struct TimelineLayout {
    std::vector<LaneBand> lanes;
    int height = 0;  ///< total height; scrolls if it exceeds the available height

    std::optional<RowBand> rowAt(int y) const;
    std::optional<RowBand> kernelRowAt(int y) const;
    Band bandOf(std::uint32_t row) const;
    /// Where the lane's bubbles are: its top row of tasks.
    Band bubbleBand(LaneId lane) const;
    std::optional<LaneId> laneAt(int y) const;
};

inline constexpr int kLowestTaskRow = 16;
inline constexpr int kTallestTaskRow = 64;

/// `kernels`: rows below those of the same lane; null: none. Rows of tasks are at least `lowest` pixels high: the
/// height of a text line, if that exceeds kLowestTaskRow.
TimelineLayout layoutRows(const TimelineStore& store, int available_height, const TimelineStore* kernels = nullptr,
                          int lowest = kLowestTaskRow);
/// Replaces task rows by the lanes' kernel rows.
TimelineLayout kernelLayout(const TimelineLayout& layout);
}  // namespace pipescope
