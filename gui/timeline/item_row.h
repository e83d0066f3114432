#pragma once

#include "analysis/time_range.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <ranges>
#include <span>
#include <vector>

namespace pipescope {
/// Items of a row, from `first` to before `end`.
struct ItemSpan {
    std::size_t first = 0;
    std::size_t end = 0;

    std::size_t size() const { return end - first; }
    auto indices() const { return std::views::iota(first, end); }
};

/// Items between two numbers of ItemRow::busy.
inline constexpr std::size_t kBusyBlock = 64;

/// One row of a view: tasks, kernels or ranges, by start and without overlap, in columns. Rows add columns that say
/// what their items are. Cost of a search: O(log items).
struct ItemRow {
    int depth = 0;  ///< number among the rows of a lane or thread whose items overlap
    std::vector<std::int64_t> start = {};
    std::vector<std::int64_t> end = {};
    std::vector<std::int64_t> busy = {};  ///< ns of the items that count before each 64th one; filled by sumBusy()

    std::size_t size() const { return start.size(); }
    TimeRange range(std::size_t item) const { return {start.at(item), end.at(item)}; }
    /// Items that share time with the range.
    ItemSpan within(const TimeRange& range) const;
    /// Those, and items that only touch it, such as ones without duration at its edges.
    ItemSpan touching(const TimeRange& range) const;
    /// The item that covers `time`, or is nearest to it within `reach` ns.
    std::optional<std::uint32_t> itemAt(std::int64_t time, std::int64_t reach) const;
    /// The start or end of an item that is nearest to `time`; empty in a row without items.
    std::optional<std::int64_t> edgeNear(std::int64_t time) const;
};

/// Fills `busy` with the items for which `counts(i)` is true.
template <class Counts>
void sumBusy(ItemRow& row, const Counts& counts) {
    row.busy.clear();
    row.busy.reserve(row.size() / kBusyBlock + 1);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i <= row.size(); ++i) {
        if (i % kBusyBlock == 0) {
            row.busy.push_back(sum);
        }
        sum += i < row.size() && counts(i) ? row.end[i] - row.start[i] : 0;
    }
}

/// Length of those of the items that count. Cost: O(1) if the row has its sums.
template <class Counts>
std::int64_t busyOf(const ItemRow& row, const ItemSpan& items, const Counts& counts) {
    const std::size_t last = items.end / kBusyBlock;
    std::int64_t sum = 0;
    for (std::size_t i = items.first; i < items.end; ++i) {
        if (i % kBusyBlock == 0 && i < last * kBusyBlock && last < row.busy.size()) {  // whole blocks
            sum += row.busy[last] - row.busy[i / kBusyBlock];
            i = last * kBusyBlock;
        }
        sum += i < items.end && counts(i) ? row.end[i] - row.start[i] : 0;
    }
    return sum;
}

/// The part of the range in which at least one item that counts runs in one of these rows.
/// Cost: O(items in it), if each other row lies within the first one, else O(items log items).
std::int64_t coveredIn(std::span<const ItemRow* const> rows, const TimeRange& range,
                       const std::function<bool(std::size_t row, std::size_t item)>& counts);
}  // namespace pipescope
