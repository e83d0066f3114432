#include "profiler/layers/repeats.h"

#include "base/sample_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace pipescope {
namespace {
constexpr std::size_t kBlocks = 10;
constexpr double kStandstillNs = 1e9;
constexpr double kStandstillFactor = 3;

double variance_of(std::span<const double> values) {
    const double deviation = standard_deviation(values);
    return deviation * deviation;
}

/// Squared standard error of the mean of independent values.
double squared_error(std::span<const double> values) {
    return variance_of(values) / static_cast<double>(values.size());
}
}  // namespace

double standard_error(std::span<const double> values) {
    if (values.size() < 2) {
        return std::numeric_limits<double>::infinity();
    }
    const std::size_t length = (values.size() + kBlocks - 1) / kBlocks;
    std::vector<double> blocks;
    for (std::size_t end = values.size(); end >= length; end -= length) {
        blocks.push_back(mean_of(values.subspan(end - length, length)));
    }
    return std::sqrt(std::max(squared_error(values), squared_error(blocks)));
}

std::vector<std::size_t> standstills(std::span<const double> pass_ns) {
    std::vector<std::size_t> rounds;
    if (pass_ns.empty()) {
        return rounds;
    }
    const double middle = median(std::vector<double>(pass_ns.begin(), pass_ns.end()));
    for (std::size_t round = 0; round < pass_ns.size(); ++round) {
        if (pass_ns[round] > kStandstillFactor * middle && pass_ns[round] > middle + kStandstillNs) {
            rounds.push_back(round);
        }
    }
    return rounds;
}

double lane_variation(std::span<const double> passes, std::span<const double> others, int other_lanes) {
    constexpr std::size_t kFewest = 8;
    constexpr double kErrors = 2;  // this many standard errors may be chance
    double mine = 0, theirs = 0;
    std::size_t known = 0;
    for (std::size_t k = 0; k < passes.size(); ++k) {
        if (!std::isnan(others[k])) {
            mine += passes[k];
            theirs += others[k];
            ++known;
        }
    }
    if (known < kFewest || !(mine > 0) || !(theirs > 0)) {
        return 0;
    }
    const auto n = static_cast<double>(known);
    const auto difference = [&](std::size_t k) { return n * passes[k] / mine - n * others[k] / theirs; };
    double lasting = 0, all = 0, pairs = 0;
    for (std::size_t k = 0; k + 1 < passes.size(); ++k) {
        if (!std::isnan(others[k]) && !std::isnan(others[k + 1])) {
            lasting += difference(k) * difference(k + 1);
            all += difference(k) * difference(k);
            ++pairs;
        }
    }
    if (pairs == 0 || lasting <= kErrors * all / std::sqrt(pairs)) {
        return 0;
    }
    // The difference has the variance of the lane plus the variance of the others' mean.
    return std::sqrt(lasting / pairs / (1 + 1.0 / other_lanes));
}

void Repeats::drop(std::span<const std::size_t> rounds) {
    for (auto round = rounds.rbegin(); round != rounds.rend(); ++round) {
        rounds_.erase(rounds_.begin() + static_cast<std::ptrdiff_t>(*round));
    }
}

std::vector<double> Repeats::of_layer(std::size_t layer) const {
    std::vector<double> values;
    for (const auto& round : rounds_) {
        values.push_back(round.at(layer));
    }
    return values;
}

std::vector<double> Repeats::sums() const {
    std::vector<double> sums;
    for (const auto& round : rounds_) {
        sums.push_back(std::accumulate(round.begin(), round.end(), 0.0));
    }
    return sums;
}

double Repeats::mean(std::size_t layer) const {
    return mean_of(of_layer(layer));
}

double Repeats::mean_sum() const {
    return mean_of(sums());
}

double Repeats::standard_deviation(std::size_t layer) const {
    return std::sqrt(variance_of(of_layer(layer)));
}

double Repeats::coefficient_of_variation(std::size_t layer) const {
    const double center = mean(layer);
    return center > 0 ? standard_deviation(layer) / center : 0;
}

double Repeats::common_variation() const {
    const std::vector<double> all = sums();
    double beyond = variance_of(all);
    for (std::size_t layer = 0; layer < layers(); ++layer) {
        beyond -= variance_of(of_layer(layer));
    }
    const double mean = mean_of(all);
    return beyond > 0 && mean > 0 ? std::sqrt(beyond) / mean : 0;
}

double Repeats::relative_error() const {
    if (rounds_.size() < 2) {
        return std::numeric_limits<double>::infinity();
    }
    double error = 0;
    double sum = 0;
    for (std::size_t layer = 0; layer < layers(); ++layer) {
        const std::vector<double> values = of_layer(layer);
        error += standard_error(values);
        sum += mean_of(values);
    }
    return sum > 0 ? error / sum : 0;
}

std::size_t repeat_rounds(const RepeatGoal& goal, const std::function<double()>& elapsed_s,
                          const std::function<void(std::size_t)>& round,
                          const std::function<double()>& relative_error) {
    std::size_t done = 0;
    while (done < goal.most) {
        const double start = elapsed_s();
        round(done);
        ++done;
        const double now = elapsed_s();
        const bool met_the_noise = done >= goal.fewest || (done >= kFewestRounds && now >= goal.long_enough_s);
        if (now + (now - start) > goal.time_limit_s || (met_the_noise && relative_error() < goal.target_error)) {
            break;
        }
    }
    return done;
}
}  // namespace pipescope
