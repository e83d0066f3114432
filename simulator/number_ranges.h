#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// Both ends inside; a single number is both ends.
struct NumberRange {
    std::int64_t first = 1;
    std::int64_t last = 1;

    friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

/// "cpu,cpu" as its items. Throws UsageError for an empty item.
std::vector<std::string> parse_list(const std::string& text, const std::string& option);

/// "4", "1,2,4", "1..8" or "1,2,4..8", each number at least 1. Throws UsageError that names `option`.
std::vector<NumberRange> parse_ranges(const std::string& text, const std::string& option);

// What a plan tries of such ranges: ascending, each number once.

/// Every number in the ranges up to the model's layers. The ranges' first numbers stay whatever they are, so that a
/// request for too many partitions alone is refused and not empty.
std::vector<int> partitions_to_try(const std::vector<NumberRange>& ranges, std::size_t num_layers);

/// Of a range its ends, the powers of two and the batch's divisors: the last give equal micro-batches, the first are
/// near enough to any optimum where the batch has few divisors. Nothing beyond the batch, which would give the same
/// micro-batches as the batch itself.
std::vector<std::int64_t> chunks_to_try(const std::vector<NumberRange>& ranges, std::int64_t batch);
}  // namespace pipescope
