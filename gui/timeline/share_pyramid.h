#pragma once

#include "gui/timeline/time_window.h"
#include "schedule/task_key.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
/// What a row of slices does in each pixel column: the share of the column's time per task kind, 0..1. A workspace that
/// is reused from row to row; only the kinds listed are valid.
struct ColumnShares {
    std::vector<TaskKind> kinds;
    std::array<std::vector<float>, kNumTaskKinds> of;

    void reset(std::span<const TaskKind> present, int columns);
};

/// One row of slices: sorted by start, not overlapping. A borrowed view; all spans have the same length.
struct SliceColumns {
    std::span<const std::int64_t> start;
    std::span<const std::int64_t> end;
    std::span<const std::uint8_t> kind;
};

/// The kinds that occur, ascending.
std::vector<TaskKind> kindsIn(std::span<const std::uint8_t> kind);

/// Shares counted slice by slice, exactly: cost O(slices visible).
void addShares(const SliceColumns& slices, const TimeWindow& window, int columns, ColumnShares& shares);

/// Busy share per kind in bins of equal length, halved level by level, so that ten million slices are drawn from a few
/// bins per pixel. The finest bins hold two slices on average.
/// A dominant-kind pyramid would be smaller, but names a wrong kind in a third of dense pixels.
/// Threading: immutable once built.
class SharePyramid {
public:
    explicit SharePyramid(const SliceColumns& slices);

    /// Whether columns of this many ns have two bins or more; below that the slices themselves must be read.
    bool resolves(double ns_per_column) const;
    /// Shares from the coarsest level that has two bins a column, edge bins by the part that overlaps.
    void addShares(const TimeWindow& window, int columns, ColumnShares& shares) const;
    std::span<const TaskKind> kinds() const { return kinds_; }
    std::size_t sizeBytes() const;

private:
    struct Level {
        std::size_t bins = 0;
        std::vector<std::uint16_t> shares;  // bins of kinds_[0], then of kinds_[1], ..
    };
    void fillFinest(const SliceColumns& slices);
    void addCoarser();

    TimeRange range_;
    double binLength_ = 1;  // ns of the finest level
    std::vector<TaskKind> kinds_;
    std::array<std::uint8_t, kNumTaskKinds> position_{};  // of a kind in kinds_
    std::vector<Level> levels_;                           // finest first
};
}  // namespace pipescope
