#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

namespace pipescope {
/// Sorts plain values by their member `time`, an std::int64_t; equal times keep their order. A radix sort, because a
/// step of many lanes has hundreds of thousands of values.
template <class Item>
void sort_by_time(std::vector<Item>& items) {
    if (items.empty()) {
        return;
    }
    const auto [first, last] = std::ranges::minmax(items, {}, &Item::time);
    const std::int64_t start = first.time;
    const auto range = static_cast<std::uint64_t>(last.time - start);
    constexpr int kBits = 11;
    constexpr std::size_t kDigits = std::size_t{1} << kBits;
    std::vector<Item> sorted(items.size());
    const auto bits = static_cast<int>(std::bit_width(range));
    for (int shift = 0; shift < bits; shift += kBits) {
        const auto digit_of = [&](const Item& each) {
            return (static_cast<std::uint64_t>(each.time - start) >> shift) & (kDigits - 1);
        };
        std::array<std::uint32_t, kDigits + 1> places{};
        for (const Item& each : items) {
            ++places[digit_of(each) + 1];
        }
        std::partial_sum(places.begin(), places.end(), places.begin());
        for (const Item& each : items) {
            sorted[places[digit_of(each)]++] = each;
        }
        items.swap(sorted);
    }
}
}  // namespace pipescope
