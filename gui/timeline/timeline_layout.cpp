#include "gui/timeline/timeline_layout.h"

#include <algorithm>

namespace pipescope {
namespace {
constexpr int kLaneGap = 4;
constexpr int kCopyRow = 7;
constexpr int kRowGap = 1;
}  // namespace

TimelineLayout layoutRows(const TimelineStore& store, int available_height) {
    TimelineLayout layout;
    int task_rows = 0;
    int fixed = kLaneGap;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& stored = store.rows()[row];
        if (layout.lanes.empty() || layout.lanes.back().lane != stored.lane) {
            layout.lanes.push_back({stored.lane, {}, {}});
            fixed += kLaneGap;
        }
        layout.lanes.back().rows.push_back({row, {}});
        fixed += stored.copies ? kCopyRow + kRowGap : 0;
        task_rows += stored.copies ? 0 : 1;
    }
    const int task_row =
        std::clamp((available_height - fixed) / std::max(1, task_rows), kLowestTaskRow, kTallestTaskRow);
    int y = kLaneGap;
    for (LaneBand& lane : layout.lanes) {
        lane.band.top = y;
        for (RowBand& row : lane.rows) {
            const bool copies = store.rows()[row.row].copies;
            y += copies ? kRowGap : 0;
            row.band = {y, copies ? kCopyRow : task_row};
            y += row.band.height;
        }
        lane.band.height = y - lane.band.top;
        y += kLaneGap;
    }
    layout.height = y;
    return layout;
}

std::optional<RowBand> TimelineLayout::rowAt(int y) const {
    for (const LaneBand& lane : lanes) {
        for (const RowBand& row : lane.rows) {
            if (row.band.contains(y)) {
                return row;
            }
        }
    }
    return std::nullopt;
}

Band TimelineLayout::bandOf(std::uint32_t row) const {
    for (const LaneBand& lane : lanes) {
        for (const RowBand& each : lane.rows) {
            if (each.row == row) {
                return each.band;
            }
        }
    }
    return {};
}
}  // namespace pipescope
