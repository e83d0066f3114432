#include "simulator/noise_band.h"
#include "simulator/clock/pipeline_graph.h"
#include "simulator/clock/task_clock.h"
#include "simulator/clock/task_costs.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace pipescope {
namespace {
Profile noisy(int n, double cv) {
    Profile profile = uniform_profile(n);
    for (LayerProfile& layer : profile.layers) {
        layer.forward_cv = layer.backward_cv = cv;
    }
    return profile;
}

PipelineOptions options_for(int n, int m) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1));
    options.chunks = options.batch = m;
    options.checkpoint = Checkpoint::never;
    return options;
}

TEST(NoiseBand, IsAbsentWithoutNoise) {
    const Simulation simulation = simulate(uniform_profile(4), options_for(4, 8));
    EXPECT_FALSE(simulation.noise);
}

TEST(NoiseBand, IsLeftOutWhereItIsNotWanted) {
    EXPECT_FALSE(simulate(noisy(2, 0.1), options_for(2, 2), {.noise = false, .memory = true}).noise);
}

TEST(NoiseBand, LiesAboveTheStepOfMeansByWhatWaitingCosts) {
    // 5 % of independent noise lengthens a step of 8 partitions and 32 micro-batches by about 2.6 %, 10 % by 5.2 %.
    for (const auto& [cv, longer] : {std::pair{0.05, 0.026}, std::pair{0.10, 0.052}}) {
        const Simulation simulation = simulate(noisy(8, cv), options_for(8, 32));
        const auto step = static_cast<double>(simulation.step_time.count());
        EXPECT_NEAR(static_cast<double>(simulation.noise->mean.count()) / step - 1, longer, 0.01);
        EXPECT_LT(simulation.noise->low, simulation.noise->mean);
        EXPECT_GT(simulation.noise->high, simulation.noise->mean);
    }
}

TEST(NoiseBand, IsThatOfASumOnASingleLane) {
    // 50 tasks of 1000 and 50 of 2000 ns, each varying by 10 %: deviation sqrt(50 (100^2 + 200^2)) = 1581 of 150000.
    const Simulation simulation = simulate(noisy(1, 0.1), options_for(1, 50));
    EXPECT_NEAR(static_cast<double>(simulation.noise->mean.count()), 150000, 200);
    EXPECT_NEAR(static_cast<double>(simulation.noise->low.count()), 150000 - 1.645 * 1581, 300);
    EXPECT_NEAR(static_cast<double>(simulation.noise->high.count()), 150000 + 1.645 * 1581, 300);
}

TEST(NoiseBand, IsThatOfThePeriodWhereAScheduleNeverDrains) {
    // On one lane, these are again the 100 tasks of a mini-batch, independent of earlier ones.
    PipelineOptions alone = options_for(1, 50);
    alone.schedule = Schedule::pipedream;
    const Simulation one = simulate(noisy(1, 0.1), alone);
    EXPECT_NEAR(static_cast<double>(one.noise->mean.count()), 150000, 200);
    EXPECT_NEAR(static_cast<double>(one.noise->low.count()), 150000 - 1.645 * 1581, 500);
    EXPECT_NEAR(static_cast<double>(one.noise->high.count()), 150000 + 1.645 * 1581, 500);

    // On eight lanes that wait for each other, a period is longer than one of mean durations.
    PipelineOptions options = options_for(8, 32);
    options.schedule = Schedule::pipedream;
    const Simulation several = simulate(noisy(8, 0.1), options);
    EXPECT_EQ(several.step_time.count(), 32 * 3000);
    EXPECT_GT(several.noise->mean.count(), 32 * 3000 * 1.02);
    EXPECT_LT(several.noise->low, several.noise->mean);
    EXPECT_LT(several.noise->mean, several.noise->high);
}

TEST(NoiseBand, OfWhatAStepHasInCommonDoesNotAverageOut) {
    // Profile, run and unknown properties of the machine each vary by 3 %: 1.645 sqrt(3) 3 % in both directions.
    static_assert(kPredictionCv == 0.03);
    Profile profile = uniform_profile(8);
    profile.step_cv = 0.03;
    const Simulation simulation = simulate(CheckedProfile(profile), options_for(8, 32));
    const auto step = static_cast<double>(simulation.step_time.count());
    EXPECT_NEAR(static_cast<double>(simulation.noise->low.count()) / step, 1 - 0.0855, 0.01);
    EXPECT_NEAR(static_cast<double>(simulation.noise->high.count()) / step, 1 + 0.0855, 0.01);
}

/// Steps of a machine whose speed varies between steps and whose tasks vary independently. They are predicted from a
/// profile taken in one such step, and, for a real machine, by an inaccurate simulator. Nine in ten must lie in the
/// band, whatever varies.
TEST(NoiseBand, CoversNineInTenStepsOfARunPredictedFromAProfile) {
    for (const auto& [own, common] : {std::pair{0.1, 0.0}, std::pair{0.0, 0.03}, std::pair{0.05, 0.02}}) {
        std::mt19937 random(5);
        std::normal_distribution<double> normal;
        const auto factor = [&](double cv) {
            const double sigma = std::sqrt(std::log1p(cv * cv));
            return std::exp(sigma * normal(random) - sigma * sigma / 2);
        };
        const PipelineOptions options = options_for(4, 8);
        const TaskCosts costs(noisy(4, own), options);
        const TaskGraph graph = pipeline_graph(options, costs);
        const TaskClock clock(graph);
        int inside = 0;
        constexpr int kProfiles = 120;
        constexpr int kSteps = 25;
        for (int k = 0; k < kProfiles; ++k) {
            Profile profile = noisy(4, std::hypot(own, common));  // the repeats of a layer show both
            profile.step_cv = common;
            const double drift = factor(common) * (common > 0 ? factor(kPredictionCv) : 1);
            for (LayerProfile& layer : profile.layers) {
                layer.forward_ns[0] *= drift;
                layer.backward_ns[0] *= drift;
            }
            const StepBand band = *simulate(CheckedProfile(profile), options).noise;
            for (int step = 0; step < kSteps; ++step) {
                std::vector<double> durations;
                for (const Task& task : graph.tasks()) {
                    durations.push_back(static_cast<double>(costs.duration(task)) * factor(own));
                }
                std::vector<double> ends(durations.size());
                clock.run(std::span<const double>(durations), ends);
                const double time = *std::max_element(ends.begin(), ends.end()) * factor(common);
                const auto in_ns = static_cast<double>(band.low.count());
                inside += in_ns <= time && time <= static_cast<double>(band.high.count()) ? 1 : 0;
            }
        }
        EXPECT_NEAR(static_cast<double>(inside) / (kProfiles * kSteps), 0.9, 0.05) << own << " " << common;
    }
}

TEST(NoiseBand, IsNoNarrowerThanPredictionsAreOffOnARealMachine) {
    Profile profile = noisy(8, 0.01);  // whole passes varied as their layers did: step_cv is 0
    const auto width = [&] {
        const Simulation simulation = simulate(CheckedProfile(profile), options_for(8, 32));
        return static_cast<double>((simulation.noise->high - simulation.noise->low).count()) /
               static_cast<double>(simulation.step_time.count());
    };
    EXPECT_LT(width(), 0.01) << "made up: its noise is all there is";
    profile.host_cores = 8;
    EXPECT_NEAR(width(), 2 * 1.645 * kPredictionCv, 0.01);
}

/// Steps of `replicas` pipelines of three lanes under gpipe, written out without the simulator: tasks vary by own_cv,
/// lanes by lane_cv, and each lane's all-reduce starts when that lane of every replica is there. Ascending, in ns.
std::vector<double> steps_of_replicas(int replicas, int m, double own_cv, double lane_cv, double copy, double reduce) {
    constexpr int kLanes = 3;
    constexpr int kSteps = 3000;
    std::mt19937 random(11);
    std::normal_distribution<double> normal;
    const auto factor = [&](double cv) {
        const double sigma = std::sqrt(std::log1p(cv * cv));
        return std::exp(sigma * normal(random) - sigma * sigma / 2);
    };
    std::vector<double> steps;
    for (int k = 0; k < kSteps; ++k) {
        std::array<double, kLanes> all_there{};
        for (int r = 0; r < replicas; ++r) {
            std::array<double, kLanes> slow{};
            std::array<double, kLanes> end{};
            std::generate(slow.begin(), slow.end(), [&] { return factor(lane_cv); });
            for (const bool forward : {true, false}) {
                std::array<double, kLanes> link{};
                for (int i = 0; i < m; ++i) {
                    double arrived = 0;
                    for (int step = 0; step < kLanes; ++step) {
                        const auto j = static_cast<std::size_t>(forward ? step : kLanes - 1 - step);
                        const double time = (forward ? 1000 : 2000) * slow[j] * factor(own_cv);
                        end[j] = std::max(end[j], arrived) + time;
                        arrived = link[j] = std::max(link[j], end[j]) + copy;
                    }
                }
                // The loss waits for all outputs, and the backwards wait for the loss.
                for (double& each : end) {
                    each = forward ? std::max(each, end[kLanes - 1]) : each;
                }
            }
            for (std::size_t j = 0; j < kLanes; ++j) {
                all_there[j] = std::max(all_there[j], end[j]);
            }
        }
        steps.push_back(*std::max_element(all_there.begin(), all_there.end()) + reduce);
    }
    std::sort(steps.begin(), steps.end());
    return steps;
}

TEST(NoiseBand, WaitsForTheSlowestOfAllReplicas) {
    constexpr double kOwn = 0.2;
    constexpr double kLane = 0.05;
    Profile profile = noisy(3, std::hypot(kOwn, kLane));
    profile.step_cv = profile.lane_cv = kLane;
    double before = 0;
    for (const int replicas : {1, 2, 8, 64}) {
        PipelineOptions options = options_for(3, 6);
        options.batch = 6 * replicas;
        options.replicas = replicas;
        options.hardware.link.latency_ns = 10;
        const Simulation simulation = simulate(CheckedProfile(profile), options);
        const std::vector<double> steps =
            steps_of_replicas(replicas, 6, kOwn, kLane, 10, 2.0 * (replicas - 1) * options.hardware.link.latency_ns);
        const double mean = std::accumulate(steps.begin(), steps.end(), 0.0) / static_cast<double>(steps.size());
        const auto expected = static_cast<double>(simulation.noise->mean.count());
        EXPECT_NEAR(expected / mean, 1, 0.01) << replicas;
        EXPECT_GT(expected, before * 1.01);
        before = expected;
        const auto busy = static_cast<double>(simulation.lanes[0].busy.count());
        EXPECT_NEAR(simulation.noise->bubble, 1 - busy / expected, 1e-6);
        // Noise that all replicas share, here the error of predictions, widens the band.
        const double width = std::hypot(kPredictionCv, (steps[2850] - steps[150]) / (2 * 1.645 * mean)) * 2 * 1.645;
        EXPECT_NEAR(static_cast<double>((simulation.noise->high - simulation.noise->low).count()) / mean, width,
                    0.25 * width)
            << replicas;
    }
}

TEST(NoiseBand, OfReplicasCostsNoMoreThanThatOfOne) {
    // A million replicas: simulated one by one they would take hours.
    PipelineOptions options = options_for(2, 4);
    options.replicas = 1'000'000;
    options.batch = 4 * options.replicas;
    const Simulation simulation = simulate(noisy(2, 0.1), options);
    // 15000 ns on average, and 4.9 deviations above it, as the largest of a million normal numbers is.
    EXPECT_GT(simulation.noise->mean.count(), 15000 * 1.1);
    EXPECT_LT(simulation.noise->mean.count(), 15000 * 1.3);
    EXPECT_LT(simulation.noise->low, simulation.noise->mean);
    EXPECT_GT(simulation.noise->high, simulation.noise->mean);
}

TEST(NoiseBand, AveragesOutOverThePartitionsLayers) {
    // Four independent layers of equal cost vary half as much as one alone.
    const auto width = [](int layers) {
        Profile profile = noisy(layers, 0.2);
        for (LayerProfile& layer : profile.layers) {
            layer.forward_ns[0] /= layers;
            layer.backward_ns[0] /= layers;
        }
        PipelineOptions options = options_for(1, 30);
        options.balance = Balance({layers});
        const Simulation simulation = simulate(CheckedProfile(profile), options);
        return static_cast<double>((simulation.noise->high - simulation.noise->low).count());
    };
    EXPECT_NEAR(width(4) / width(1), 0.5, 0.05);
}
}  // namespace
}  // namespace pipescope
