#pragma once

#include <compare>
#include <cstdint>

namespace pipescope {
/// Half-open range of times in ns.
struct TimeRange {
    std::int64_t start = 0;
    std::int64_t end = 0;

    std::int64_t length() const { return end - start; }
    friend bool operator==(const TimeRange&, const TimeRange&) = default;
};

/// Identifies a slice of a timeline, or a range of a thread, that is stored in rows.
struct SliceRef {
    std::uint32_t row = 0;
    std::uint32_t index = 0;

    friend auto operator<=>(const SliceRef&, const SliceRef&) = default;
};
}  // namespace pipescope
