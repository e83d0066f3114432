#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace pipescope {
/// A strongly typed index. Ids of different kinds convert neither into each other nor from a plain integer.
template <class Tag>
class Id {
public:
    constexpr Id() = default;
    constexpr explicit Id(std::int64_t value) : value_(static_cast<std::int32_t>(value)) {}

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

/// Half-open range of consecutive layers.
struct LayerRange {
    LayerId first;
    LayerId end;

    constexpr std::size_t size() const noexcept { return end.index() - first.index(); }
    friend bool operator==(const LayerRange&, const LayerRange&) = default;
};

/// Sizes are signed 64-bit bytes: differences of sizes are common, and JSON and SQLite hold nothing wider.
using Bytes = std::int64_t;
}  // namespace pipescope

template <class Tag>
struct std::hash<pipescope::Id<Tag>> {
    std::size_t operator()(pipescope::Id<Tag> id) const noexcept { return std::hash<std::int32_t>{}(id.value()); }
};
