#include "gui/timeline/timeline_layout.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
constexpr int kLaneGap = 4;
constexpr int kCopyRow = 7;
constexpr int kKernelRow = 11;
constexpr int kRowGap = 1;

std::optional<RowBand> bandAt(const std::vector<RowBand>& rows, int y) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const RowBand& row) { return row.band.contains(y); });
    return found == rows.end() ? std::nullopt : std::optional(*found);
}

/// Adds rows of kernels below their lanes. A lane without kernels gets none.
int addKernelRows(const TimelineStore& kernels, TimelineLayout& layout) {
    int height = 0;
    for (std::uint32_t row = 0; row < kernels.rows().size(); ++row) {
        const StoredRow& stored = kernels.rows()[row];
        const auto lane = std::find_if(layout.lanes.begin(), layout.lanes.end(),
                                       [&](const LaneBand& each) { return each.lane == stored.lane; });
        if (!stored.start.empty() && lane != layout.lanes.end()) {
            lane->kernels.push_back({row, {}});
            height += kKernelRow + kRowGap;
        }
    }
    return height;
}
}  // namespace

TimelineLayout layoutRows(const TimelineStore& store, int available_height, const TimelineStore* kernels, int lowest) {
    TimelineLayout layout;
    int task_rows = 0;
    int fixed = kLaneGap;
    for (std::uint32_t row = 0; row < store.rows().size(); ++row) {
        const StoredRow& stored = store.rows()[row];
        if (layout.lanes.empty() || layout.lanes.back().lane != stored.lane) {
            layout.lanes.push_back({stored.lane, {}, {}, {}});
            fixed += kLaneGap;
        }
        layout.lanes.back().rows.push_back({row, {}});
        fixed += stored.copies ? kCopyRow + kRowGap : 0;
        task_rows += stored.copies ? 0 : 1;
    }
    fixed += kernels != nullptr ? addKernelRows(*kernels, layout) : 0;
    const int least = std::max(kLowestTaskRow, lowest);
    const int task_row =
        std::clamp((available_height - fixed) / std::max(1, task_rows), least, std::max(least, kTallestTaskRow));
    int y = kLaneGap;
    for (LaneBand& lane : layout.lanes) {
        lane.band.top = y;
        for (RowBand& row : lane.rows) {
            const bool copies = store.rows()[row.row].copies;
            y += copies ? kRowGap : 0;
            row.band = {y, copies ? kCopyRow : task_row};
            y += row.band.height;
        }
        for (RowBand& row : lane.kernels) {
            row.band = {y + kRowGap, kKernelRow};
            y = row.band.bottom();
        }
        lane.band.height = y - lane.band.top;
        y += kLaneGap;
    }
    layout.height = y;
    return layout;
}

std::optional<RowBand> TimelineLayout::rowAt(int y) const {
    for (const LaneBand& lane : lanes) {
        if (const std::optional<RowBand> row = bandAt(lane.rows, y)) {
            return row;
        }
    }
    return std::nullopt;
}

std::optional<RowBand> TimelineLayout::kernelRowAt(int y) const {
    for (const LaneBand& lane : lanes) {
        if (const std::optional<RowBand> row = bandAt(lane.kernels, y)) {
            return row;
        }
    }
    return std::nullopt;
}

TimelineLayout kernelLayout(const TimelineLayout& layout) {
    TimelineLayout kernels = layout;
    for (LaneBand& lane : kernels.lanes) {
        lane.rows = std::exchange(lane.kernels, {});
    }
    return kernels;
}

Band TimelineLayout::bubbleBand(LaneId lane) const {
    const auto found =
        std::find_if(lanes.begin(), lanes.end(), [&](const LaneBand& each) { return each.lane == lane; });
    return found == lanes.end() || found->rows.empty() ? Band{} : found->rows.front().band;
}

std::optional<LaneId> TimelineLayout::laneAt(int y) const {
    const auto found =
        std::find_if(lanes.begin(), lanes.end(), [&](const LaneBand& each) { return each.band.contains(y); });
    return found == lanes.end() ? std::nullopt : std::optional(found->lane);
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
