#pragma once

#include "gui/style/task_style.h"
#include "gui/timeline/time_window.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
/// Content of a row of slices per pixel column: share of the column's time per task kind, 0..1. A workspace for reuse;
/// only the listed kinds are valid.
struct ColumnShares {
    std::vector<TaskKind> kinds;
    std::array<std::vector<float>, kNumShownKinds> of;

    void reset(std::span<const TaskKind> present, int columns);
};

/// A row of slices, sorted by start and not overlapping. A borrowed view; all spans have equal length.
struct SliceColumns {
    std::span<const std::int64_t> start;
    std::span<const std::int64_t> end;
    std::span<const std::uint8_t> kind;
};

/// Kinds that occur, ascending.
std::vector<TaskKind> kindsIn(std::span<const std::uint8_t> kind);

/// Adds exact shares, slice by slice. Cost: O(visible slices).
void addShares(const SliceColumns& slices, const TimeWindow& window, int columns, ColumnShares& shares);

/// Busy share per kind in bins of equal length, on levels of halving resolution. Ten million slices can be drawn from a
/// few bins per pixel. The finest bins hold two slices on average. A pyramid of dominant kinds would be smaller, but
/// wrong in a third of dense pixels.
/// Threading: immutable once built.
class SharePyramid {
public:
    explicit SharePyramid(const SliceColumns& slices);

    /// True if a column of this many ns has at least two bins. Otherwise the slices themselves must be read.
    bool resolves(double ns_per_column) const { return !levels_.empty() && ns_per_column >= 2 * binLength_; }
    /// Adds shares from the coarsest level with at least two bins per column. Bins at the edges count by their overlap.
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
    double binLength_ = 1;  // ns of the finest level's bins
    std::vector<TaskKind> kinds_;
    std::array<std::uint8_t, kNumShownKinds> position_{};  // index into kinds_, by kind
    std::vector<Level> levels_;                            // finest first
};
}  // namespace pipescope
