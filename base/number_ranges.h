#pragma once

#include "base/error.h"
#include "base/number_text.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// Inclusive; a single number is both ends.
struct NumberRange {
    std::int64_t first = 1;
    std::int64_t last = 1;

    friend bool operator==(const NumberRange&, const NumberRange&) = default;
};

/// Splits "cpu,cpu" into its items. Throws UsageError for an empty item.
std::vector<std::string> parse_list(const std::string& text, const std::string& option);

/// Parses an item of such a list. If the item is not a number, throws UsageError with the whole text and an example.
template <class Number>
Number parse_number(const std::string& text, const std::string& item, const std::string& option,
                    const std::string& example) {
    const auto value = number_in<Number>(item);
    if (!value) {
        throw UsageError(option + " is '" + text + "'; '" + item + "' is not a number; write it as " + example);
    }
    return *value;
}

/// Parses "1,2,4" as whole numbers of at least `least`. Throws UsageError.
std::vector<std::int64_t> parse_whole_numbers(const std::string& text, const std::string& option, std::int64_t least);

/// Parses "4", "1,2,4", "1..8" or "1,2,4..8", each number at least 1. Throws UsageError, which names `option`.
std::vector<NumberRange> parse_ranges(const std::string& text, const std::string& option);
/// parse_ranges() for the items of such a list.
std::vector<NumberRange> ranges_of(const std::vector<std::string>& items, const std::string& option);

// The values of such ranges that a plan tries: ascending, without repeats.

/// Every number in the ranges up to the model's layers. Always keeps the first number of each range: a request with
/// only too many partitions then fails, instead of planning nothing.
std::vector<int> partitions_to_try(const std::vector<NumberRange>& ranges, std::size_t num_layers);

/// A range's ends, its powers of two and its divisors of the batch. Divisors give equal micro-batches. If the batch has
/// few divisors, powers of two come close to any optimum. Leaves out numbers above the batch, which give the same
/// micro-batches as the batch itself.
std::vector<std::int64_t> chunks_to_try(const std::vector<NumberRange>& ranges, std::int64_t batch);
}  // namespace pipescope
