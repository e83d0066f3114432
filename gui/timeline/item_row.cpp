#include "gui/timeline/item_row.h"

#include "analysis/covered_time.h"

#include <algorithm>
#include <cstdlib>

namespace pipescope {
namespace {
ItemSpan spanOf(std::ptrdiff_t first, std::ptrdiff_t end) {
    return {static_cast<std::size_t>(first), static_cast<std::size_t>(std::max(first, end))};
}
}  // namespace

ItemSpan ItemRow::within(const TimeRange& range) const {
    return spanOf(std::ranges::upper_bound(end, range.start) - end.begin(),
                  std::ranges::lower_bound(start, range.end) - start.begin());
}

ItemSpan ItemRow::touching(const TimeRange& range) const {
    return spanOf(std::ranges::lower_bound(end, range.start) - end.begin(),
                  std::ranges::upper_bound(start, range.end) - start.begin());
}

std::optional<std::uint32_t> ItemRow::itemAt(std::int64_t time, std::int64_t reach) const {
    const auto next = static_cast<std::size_t>(std::ranges::upper_bound(end, time) - end.begin());
    std::optional<std::uint32_t> nearest;
    std::int64_t best = reach;
    // The previous item, which has ended, and the one that ends next.
    for (std::size_t i = next == 0 ? 0 : next - 1; i <= next && i < size(); ++i) {
        const std::int64_t away = std::max({std::int64_t{0}, start[i] - time, time - end[i]});
        if (away < best || (away == 0 && best == 0) || (away == best && !nearest)) {
            best = away;
            nearest = static_cast<std::uint32_t>(i);
        }
    }
    return nearest;
}

std::optional<std::int64_t> ItemRow::edgeNear(std::int64_t time) const {
    std::optional<std::int64_t> nearest;
    const auto offer = [&](std::int64_t edge) {
        nearest = !nearest || std::abs(edge - time) < std::abs(*nearest - time) ? edge : *nearest;
    };
    for (const std::vector<std::int64_t>* edges : {&start, &end}) {
        const auto after = std::ranges::lower_bound(*edges, time);
        if (after != edges->end()) {
            offer(*after);
        }
        if (after != edges->begin()) {
            offer(*(after - 1));
        }
    }
    return nearest;
}

std::int64_t coveredIn(std::span<const ItemRow* const> rows, const TimeRange& range,
                       const std::function<bool(std::size_t, std::size_t)>& counts) {
    std::vector<TimeRange> pieces;
    std::size_t ofFirst = 0;  // pieces of the first row
    for (std::size_t r = 0; r < rows.size(); ++r) {
        const ItemSpan items = rows[r]->within(range);
        std::size_t around = 0;  // the piece of the first row that may contain the item
        for (std::size_t i = items.first; i < items.end; ++i) {
            if (!counts(r, i)) {
                continue;
            }
            const TimeRange piece{std::max(range.start, rows[r]->start[i]), std::min(range.end, rows[r]->end[i])};
            while (around < ofFirst && pieces[around].end < piece.end) {
                ++around;
            }
            const bool contained = around < ofFirst && pieces[around].start <= piece.start;
            if (piece.end > piece.start && !contained) {
                pieces.push_back(piece);
            }
        }
        ofFirst = r == 0 ? pieces.size() : ofFirst;
    }
    if (pieces.size() > ofFirst) {
        std::ranges::sort(pieces, {}, &TimeRange::start);
    }
    std::int64_t sum = 0;
    CoveredTime covered;
    for (const TimeRange& piece : pieces) {
        sum += covered.add(piece);
    }
    return sum;
}
}  // namespace pipescope
