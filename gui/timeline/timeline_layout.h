#pragma once

#include "gui/timeline/timeline_store.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// Pixels down from the top of the first lane, before scrolling.
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
    std::vector<RowBand> kernels = {};  ///< below them; their rows are those of the store of kernels
};

/// Where the rows of a store stand. Lanes share the available height evenly, within what is readable.
struct TimelineLayout {
    std::vector<LaneBand> lanes;
    int height = 0;  ///< of everything; more than what was available means scrolling

    std::optional<RowBand> rowAt(int y) const;
    std::optional<RowBand> kernelRowAt(int y) const;
    Band bandOf(std::uint32_t row) const;
};

inline constexpr int kLowestTaskRow = 16;
inline constexpr int kTallestTaskRow = 64;

/// `kernels`: rows that stand below those of the same lane; null: none. Rows of tasks are `lowest` pixels high or more:
/// a line of text, where that is higher than kLowestTaskRow.
TimelineLayout layoutRows(const TimelineStore& store, int available_height, const TimelineStore* kernels = nullptr,
                          int lowest = kLowestTaskRow);
/// The same lanes with their rows of kernels in place of their tasks.
TimelineLayout kernelLayout(const TimelineLayout& layout);
}  // namespace pipescope
