#include "cluster/batch_ramp.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/number_text.h"
#include "base/printable.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
constexpr double kMostOfRamp = 1e15;

[[noreturn]] void refuse_ramp(const std::string& value, const std::string& rule, const std::string& remedy) {
    throw UsageError(option_name("ramp") + " " + value + "; " + rule + "; " + remedy);
}

std::int64_t increments_of(const BatchRamp& ramp, std::int64_t batch) {
    return (batch - ramp.start) / ramp.increment;
}
}  // namespace

BatchRamp parse_batch_ramp(const std::string& text) {
    constexpr const char* kExample = "write it as 32,32,1000000";
    const std::string value = "is '" + printable(text) + "'";
    const std::vector<std::string> items = parse_list(text, option_name("ramp"));
    if (items.size() != 3) {
        refuse_ramp(value, "it is the first batch, its increment and the samples of the ramp", kExample);
    }
    std::int64_t numbers[3] = {};
    for (std::size_t k = 0; k < items.size(); ++k) {
        const auto number = number_in<double>(items[k]);
        if (!number || !(*number >= 1 && *number <= kMostOfRamp) || *number != std::floor(*number)) {
            refuse_ramp(value, "'" + printable(items[k]) + "' is no whole number from 1 to 1e15", kExample);
        }
        numbers[k] = static_cast<std::int64_t>(*number);
    }
    return {numbers[0], numbers[1], numbers[2]};
}

void check_ramp(const BatchRamp& ramp, std::int64_t batch) {
    constexpr std::int64_t kMostIncrements = 1000;
    const std::string to = std::to_string(ramp.start) + " by " + std::to_string(ramp.increment) + " to the batch of " +
                           std::to_string(batch);
    if (ramp.start >= batch) {
        refuse_ramp("goes from " + to, "the first batch is smaller than the full one", "use a smaller one");
    }
    if ((batch - ramp.start) % ramp.increment != 0) {
        refuse_ramp("goes from " + to, "increments must lead to it exactly", "change one of the three");
    }
    if (increments_of(ramp, batch) > kMostIncrements) {
        refuse_ramp("goes from " + to, "a ramp has at most 1000 increments", "use a larger increment");
    }
}

std::vector<std::int64_t> ramp_batches(const BatchRamp& ramp, std::int64_t batch) {
    std::vector<std::int64_t> batches;
    for (std::int64_t each = ramp.start; each <= batch; each += ramp.increment) {
        batches.push_back(each);
    }
    return batches;
}

std::vector<RunPart> run_parts(const BatchRamp& ramp, std::int64_t batch, double samples, double steps) {
    const auto increments = static_cast<double>(increments_of(ramp, batch));
    const double width = static_cast<double>(ramp.samples) / increments;  // samples before the batch grows
    const auto level_after = [&](double consumed) {
        return consumed > static_cast<double>(ramp.samples) ? increments
                                                            : std::min(increments, std::floor(consumed / width));
    };
    std::vector<RunPart> parts;
    double consumed = 0;
    while (consumed < samples && steps > 0) {
        const double level = level_after(consumed);
        const double each = static_cast<double>(ramp.start) + level * static_cast<double>(ramp.increment);
        double taken = std::ceil((samples - consumed) / each);
        if (level < increments) {
            // A product of a width that is no whole number is rounded, so one step too few or too many may seem to
            // reach it.
            double grown = std::max(1.0, std::ceil(((level + 1) * width - consumed) / each));
            grown += level_after(consumed + grown * each) > level ? 0 : 1;
            grown -= grown > 1 && level_after(consumed + (grown - 1) * each) > level ? 1 : 0;
            taken = std::min(taken, grown);
        }
        taken = std::min(taken, steps);
        parts.push_back({static_cast<std::int64_t>(each), taken, 0});
        consumed += taken * each;
        steps -= taken;
    }
    return parts;
}
}  // namespace pipescope
