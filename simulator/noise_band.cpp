#include "simulator/noise_band.h"

#include "base/sample_statistics.h"
#include "base/stop_check.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

namespace pipescope {
namespace {
constexpr std::uint64_t kSeed = 0x9E3779B97F4A7C15;
constexpr std::size_t kTaskBudget = 2'000'000;

/// Standard normal numbers, equal on every machine and library, unlike std::normal_distribution. Uses SplitMix64 for
/// the bits and the Box-Muller transform for the shape.
class Normals {
public:
    explicit Normals(std::uint64_t seed = kSeed) : state_(seed) {}

    double next() {
        if (has_spare_) {
            has_spare_ = false;
            return spare_;
        }
        const double radius = std::sqrt(-2 * std::log(uniform()));
        const double angle = 2 * std::numbers::pi * uniform();
        spare_ = radius * std::sin(angle);
        has_spare_ = true;
        return radius * std::cos(angle);
    }
    /// A lognormal number of mean 1.
    double factor(double sigma) { return std::exp(sigma * next() - sigma * sigma / 2); }

private:
    /// In (0, 1].
    double uniform() {
        state_ += 0x9E3779B97F4A7C15;
        std::uint64_t bits = state_;
        bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9;
        bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB;
        bits ^= bits >> 31;
        return static_cast<double>((bits >> 11) + 1) * 0x1.0p-53;
    }

    std::uint64_t state_;
    double spare_ = 0;
    bool has_spare_ = false;
};

/// Standard deviation of the logarithm, from a standard deviation over the mean.
double sigma_of(double cv) {
    return std::sqrt(std::log1p(cv * cv));
}

/// The z that a standard normal number exceeds with this probability, between 0 and 1 exclusive.
double normal_exceeded_with(double probability) {
    double low = -40;
    double high = 40;
    for (int halving = 0; halving < 60; ++halving) {
        const double middle = (low + high) / 2;
        (std::erfc(middle / std::numbers::sqrt2) / 2 > probability ? low : high) = middle;
    }
    return low;
}

/// As many steps of several replicas, each as long as its slowest replica, ascending. Assumes that a replica's step is
/// lognormal, with the mean and deviation of the logarithms of `steps`. So no tail needs sampling, and many replicas
/// cost no more than two.
std::vector<double> slowest_of(int replicas, std::vector<double> steps) {
    const auto count = static_cast<double>(steps.size());
    if (*std::ranges::min_element(steps) <= 0) {
        return steps;
    }
    double mean = 0;
    double variance = 0;
    for (const double step : steps) {
        mean += std::log(step) / count;
    }
    for (const double step : steps) {
        variance += (std::log(step) - mean) * (std::log(step) - mean) / (count - 1);
    }
    for (std::size_t k = 0; k < steps.size(); ++k) {
        const double share = (static_cast<double>(k) + 0.5) / count;  // share of all replicas' steps that are shorter
        const double exceeded = -std::expm1(std::log(share) / replicas);
        steps[k] = std::exp(mean + std::sqrt(variance) * normal_exceeded_with(exceeded));
    }
    return steps;
}

}  // namespace

std::optional<NoiseBand> noise_band(VirtualClock& clock, std::span<const std::int64_t> durations,
                                    const StepNoise& noise, const StepOfTimes& step) {
    if (!(noise.common_cv > 0) && !(noise.lane_cv > 0) &&
        std::ranges::none_of(noise.own, [](double cv) { return cv > 0; })) {
        return std::nullopt;
    }
    const std::size_t count = clock.num_tasks();
    std::vector<double> sigma(count);
    std::transform(noise.own.begin(), noise.own.end(), sigma.begin(), sigma_of);
    const int num_lanes = 1 + std::max(-1, *std::ranges::max_element(noise.lanes));
    std::vector<double> lane_factors(static_cast<std::size_t>(num_lanes), 1);
    std::vector<double> drawn(count);
    std::vector<double> starts(count);
    std::vector<double> ends(count);
    std::vector<double> steps(std::clamp<std::size_t>(kTaskBudget / count, 100, 1000));
    Normals own;
    Normals of_lanes(~(kSeed >> 1));
    Normals common(~kSeed);
    for (double& each : steps) {
        for (double& factor : lane_factors) {
            factor = of_lanes.factor(sigma_of(noise.lane_cv));
        }
        for (std::size_t task = 0; task < count; ++task) {
            drawn[task] = static_cast<double>(durations[task]);
            drawn[task] *= sigma[task] > 0 ? own.factor(sigma[task]) : 1;
            drawn[task] *= noise.lanes[task] >= 0 ? lane_factors[static_cast<std::size_t>(noise.lanes[task])] : 1;
        }
        check_stop();
        clock.run(drawn, starts, ends);
        each = step(starts, ends);
    }
    if (noise.replicas > 1) {
        steps = slowest_of(noise.replicas, std::move(steps));
    }
    const double error = standard_deviation(steps) / std::sqrt(static_cast<double>(steps.size()));
    for (double& each : steps) {
        each *= common.factor(sigma_of(noise.common_cv));
    }
    std::ranges::sort(steps);
    const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
    const auto below = [&steps](double share) {
        return quantile(steps.size(), share, [&steps](std::size_t place) { return steps[place]; });
    };
    return NoiseBand{mean, below(0.05), below(0.95), error};
}
}  // namespace pipescope
