#include "base/number_ranges.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

namespace pipescope {
namespace {
constexpr std::string_view kDots = "..";

std::int64_t parse_positive(const std::string& text, std::string_view number, const std::string& option) {
    const auto value = number_in<std::int64_t>(number);
    if (!value || *value < 1) {
        throw UsageError(option + " is '" + text + "'; '" + std::string(number) +
                         "' is no whole number of at least 1; write it as 4, 1,2,4 or 1..8");
    }
    return *value;
}

/// Works factor by factor, so that only a batch with a huge prime factor is slow.
std::set<std::int64_t> divisors_of(std::int64_t batch) {
    std::set<std::int64_t> divisors{1};
    const auto times = [&](std::int64_t factor) {
        const std::set<std::int64_t> before = divisors;
        for (const std::int64_t each : before) {
            divisors.insert(each * factor);
        }
    };
    std::int64_t left = batch;
    for (std::int64_t factor = 2; factor <= left / factor; ++factor) {
        for (; left % factor == 0; left /= factor) {
            times(factor);
        }
    }
    if (left > 1) {
        times(left);
    }
    return divisors;
}
}  // namespace

std::vector<std::string> parse_list(const std::string& text, const std::string& option) {
    std::vector<std::string> items;
    std::size_t start = 0;
    while (true) {
        const std::size_t comma = text.find(',', start);
        const std::string item = text.substr(start, comma == std::string::npos ? comma : comma - start);
        if (item.empty()) {
            throw UsageError(option + " is '" + text + "'; item " + std::to_string(items.size()) +
                             " is empty; write the items with one comma between two");
        }
        items.push_back(item);
        if (comma == std::string::npos) {
            return items;
        }
        start = comma + 1;
    }
}

std::vector<std::int64_t> parse_whole_numbers(const std::string& text, const std::string& option, std::int64_t least) {
    std::vector<std::int64_t> numbers;
    for (const std::string& item : parse_list(text, option)) {
        numbers.push_back(parse_number<std::int64_t>(text, item, option, "1,2,4"));
        if (numbers.back() < least) {
            throw UsageError(option + " is '" + text + "'; each number must be at least " + std::to_string(least) +
                             "; change " + item);
        }
    }
    return numbers;
}

std::vector<NumberRange> parse_ranges(const std::string& text, const std::string& option) {
    return ranges_of(parse_list(text, option), option);
}

std::vector<NumberRange> ranges_of(const std::vector<std::string>& items, const std::string& option) {
    const std::string text = joined_text(items, ",", std::identity());
    std::vector<NumberRange> ranges;
    for (const std::string_view item : items) {
        const std::size_t dots = item.find(kDots);
        NumberRange range;
        range.first = parse_positive(text, item.substr(0, dots), option);
        range.last =
            dots == std::string::npos ? range.first : parse_positive(text, item.substr(dots + kDots.size()), option);
        if (range.last < range.first) {
            throw UsageError(option + " is '" + text + "'; a range does not descend; write it as " +
                             std::to_string(range.last) + ".." + std::to_string(range.first));
        }
        ranges.push_back(range);
    }
    return ranges;
}

std::vector<int> partitions_to_try(const std::vector<NumberRange>& ranges, std::size_t num_layers) {
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    const std::int64_t layers = std::min(static_cast<std::int64_t>(num_layers), kMost);
    std::set<int> numbers;
    for (const NumberRange& range : ranges) {
        numbers.insert(static_cast<int>(std::min(range.first, kMost)));
        for (std::int64_t n = range.first; n <= std::min(range.last, layers); ++n) {
            numbers.insert(static_cast<int>(n));
        }
    }
    return {numbers.begin(), numbers.end()};
}

std::vector<std::int64_t> chunks_to_try(const std::vector<NumberRange>& ranges, std::int64_t batch) {
    const std::set<std::int64_t> divisors = divisors_of(batch);
    std::set<std::int64_t> numbers;
    for (const NumberRange& range : ranges) {
        const std::int64_t last = std::min(range.last, batch);
        numbers.insert({std::min(range.first, batch), last});
        numbers.insert(divisors.lower_bound(range.first), divisors.upper_bound(std::max(range.first, last)));
        for (std::int64_t power = 1; power <= last; power *= 2) {
            if (power >= range.first) {
                numbers.insert(power);
            }
            if (power > last / 2) {
                break;  // the next would exceed the range, or 2^63
            }
        }
    }
    return {numbers.begin(), numbers.end()};
}
}  // namespace pipescope
