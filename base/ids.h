#pragma once

#include "base/error.h"

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// A strongly typed index. Ids of different kinds do not convert into each other or from a plain integer.
template <class Tag>
class Id {
public:
    constexpr Id() = default;
    /// Throws UsageError for a number that 32 bits cannot hold.
    template <std::integral Number>
    constexpr explicit Id(Number value) : value_(static_cast<std::int32_t>(value)) {
        if (!std::in_range<std::int32_t>(value)) {
            throw UsageError("index " + std::to_string(value) +
                             " does not fit 32 bits; layers, partitions, micro-batches and lanes are counted up to "
                             "2147483647; use fewer");
        }
    }

    constexpr std::int32_t value() const noexcept { return value_; }
    constexpr std::size_t index() const noexcept { return static_cast<std::size_t>(value_); }

    friend constexpr auto operator<=>(Id, Id) = default;

private:
    std::int32_t value_ = 0;
};

using LayerId = Id<struct LayerTag>;
using PartitionId = Id<struct PartitionTag>;
using MicroBatchId = Id<struct MicroBatchTag>;
using LaneId = Id<struct LaneTag>;

/// A place in the schedule's grid: micro-batch i on partition j. Task (i, j) runs there.
struct Cell {
    MicroBatchId i;
    PartitionId j;

    friend constexpr auto operator<=>(const Cell&, const Cell&) = default;
};

/// The lane of a partition; `placement` lists the lane of each partition. Empty: partition j is on lane j. Throws
/// std::out_of_range if the placement has no such partition.
inline LaneId lane_of(const std::vector<LaneId>& placement, PartitionId partition) {
    return placement.empty() ? LaneId{partition.value()} : placement.at(partition.index());
}

/// Half-open range of consecutive layers.
struct LayerRange {
    LayerId first;
    LayerId end;

    constexpr std::size_t size() const noexcept { return end.index() - first.index(); }
    friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// Sizes are signed 64-bit bytes: code often subtracts sizes, and JSON and SQLite hold nothing wider.
using Bytes = std::int64_t;
}  // namespace pipescope

template <class Tag>
struct std::hash<pipescope::Id<Tag>> {
    std::size_t operator()(pipescope::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value()); }
};
