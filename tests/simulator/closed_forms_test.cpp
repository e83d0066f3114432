// Compares the simulator with closed formulas for step times. f, r, b belong to a partition, c and g to the copies
// after it.

#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace pipescope {
namespace {
/// n partitions of one layer each. Links transfer 1 byte per ns: a copy takes as many ns as it has bytes, in both
/// directions.
struct Instance {
    std::vector<std::int64_t> f, r, b, c;
    int m = 1;

    std::size_t n() const { return f.size(); }
    Profile profile() const {
        Profile profile = profile_of({});
        for (std::size_t j = 0; j < n(); ++j) {
            LayerProfile layer = layer_of(static_cast<double>(f[j]), static_cast<double>(b[j]),
                                          j + 1 < n() ? static_cast<double>(c[j]) : 0);
            layer.recompute_ns = {static_cast<double>(r[j])};
            profile.layers.push_back(layer);
        }
        return profile;
    }
    PipelineOptions options(Schedule schedule, Checkpoint checkpoint) const {
        PipelineOptions options;
        options.balance = Balance(std::vector<std::int64_t>(n(), 1));
        options.chunks = options.batch = m;
        options.checkpoint = checkpoint;
        options.schedule = schedule;
        options.hardware.link.bytes_per_second = 1e9;
        return options;
    }
};

Instance random_instance(std::mt19937& random) {
    Instance instance;
    const std::size_t n = 1 + random() % 8;
    const auto draw = [&](std::size_t count, unsigned most) {
        std::vector<std::int64_t> values(count);
        for (std::int64_t& value : values) {
            value = static_cast<std::int64_t>(random() % most);
        }
        return values;
    };
    instance.f = draw(n, 1000);
    instance.r = draw(n, 1000);
    instance.b = draw(n, 2000);
    instance.c = draw(n - 1, random() % 2 == 0 ? 1 : 1500);
    instance.m = 1 + static_cast<int>(random() % 32);
    return instance;
}

std::int64_t sum(const std::vector<std::int64_t>& values) {
    return std::accumulate(values.begin(), values.end(), std::int64_t{0});
}
std::int64_t most(const std::vector<std::int64_t>& values) {
    return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}
std::vector<std::int64_t> plus(std::vector<std::int64_t> a, const std::vector<std::int64_t>& b) {
    std::transform(a.begin(), a.end(), b.begin(), a.begin(), std::plus<>());
    return a;
}

/// A flow of m equal items through stations in series: after the first item, the others follow at the pace of the
/// slowest station.
std::int64_t flow(const Instance& instance, const std::vector<std::int64_t>& stations) {
    return sum(stations) + sum(instance.c) + (instance.m - 1) * std::max(most(stations), most(instance.c));
}

/// always: k is the last partition that delays its lane; its first recompute starts at the loss.
std::int64_t backward_always(const Instance& instance) {
    const std::vector<std::int64_t> rb = plus(instance.r, instance.b);
    std::int64_t longest = 0;
    for (std::size_t k = 0; k < instance.n(); ++k) {
        std::int64_t time = instance.r[k];
        std::int64_t slowest = 0;
        for (std::size_t j = 0; j <= k; ++j) {
            time += instance.b[j] + (j < k ? instance.c[j] : 0);
            slowest = std::max({slowest, rb[j], j < k ? instance.c[j] : 0});
        }
        longest = std::max(longest, time + (instance.m - 1) * slowest);
    }
    return longest;
}

/// except_last: the micro-batch without recompute passes first.
std::int64_t backward_except_last(const Instance& instance) {
    return sum(instance.b) + sum(instance.c) +
           (instance.m - 1) * std::max(most(plus(instance.r, instance.b)), most(instance.c));
}

std::int64_t step_of(const Instance& instance, const PipelineOptions& options) {
    return simulate(instance.profile(), options, {.noise = false, .memory = false}).step_time.count();
}

TEST(ClosedForms, OfGPipeHoldForAnyCostsInAllCheckpointModes) {
    std::mt19937 random(11);
    for (int round = 0; round < 1000; ++round) {
        const Instance each = random_instance(random);
        const std::int64_t forward = flow(each, each.f);
        ASSERT_EQ(step_of(each, each.options(Schedule::gpipe, Checkpoint::never)), forward + flow(each, each.b));
        ASSERT_EQ(step_of(each, each.options(Schedule::gpipe, Checkpoint::always)), forward + backward_always(each));
        ASSERT_EQ(step_of(each, each.options(Schedule::gpipe, Checkpoint::except_last)),
                  forward + backward_except_last(each));
    }
}

TEST(ClosedForms, HoldForFirstFirstAndOrdinaryRecompute) {
    std::mt19937 random(12);
    for (int round = 0; round < 1000; ++round) {
        const Instance each = random_instance(random);
        const std::int64_t forward = flow(each, each.f);
        PipelineOptions options = each.options(Schedule::gpipe, Checkpoint::never);
        options.backward_order = BackwardOrder::first_first;
        ASSERT_EQ(step_of(each, options), forward + flow(each, each.b)) << "equal micro-batches: any order";
        options.checkpoint = Checkpoint::always;
        ASSERT_EQ(step_of(each, options), forward + backward_always(each));
        options.recompute_start = RecomputeStart::ordinary;
        ASSERT_EQ(step_of(each, options), forward + flow(each, plus(each.r, each.b))) << "each backward is r + b";
    }
}

TEST(ClosedForms, OfOneLaneAtATimeAndOfDataParallelism) {
    std::mt19937 random(13);
    for (int round = 0; round < 300; ++round) {
        Instance each = random_instance(random);
        EXPECT_EQ(step_of(each, each.options(Schedule::model_parallel, Checkpoint::never)),
                  each.m * (sum(each.f) + sum(each.b) + 2 * sum(each.c)));
        // R replicas of the whole model: m micro-batches each, then a ring all-reduce of the gradients.
        const int replicas = 1 + static_cast<int>(random() % 5);
        Profile profile = each.profile();
        Bytes gradients = 0;
        for (LayerProfile& layer : profile.layers) {
            layer.gradient_bytes = static_cast<Bytes>(random() % 100'000);
            gradients += layer.gradient_bytes;
        }
        PipelineOptions options = each.options(Schedule::gpipe, Checkpoint::never);
        options.balance = Balance({static_cast<std::int64_t>(each.n())});
        options.replicas = replicas;
        options.batch = each.m * replicas;
        options.hardware.link.latency_ns = 70;
        const double ring = 2.0 * (replicas - 1) * (70 + static_cast<double>(gradients) / replicas);
        const Simulation simulation = simulate(CheckedProfile(profile), options);
        EXPECT_NEAR(static_cast<double>(simulation.step_time.count()),
                    static_cast<double>(each.m * (sum(each.f) + sum(each.b))) + ring, 1);
        EXPECT_NEAR(simulation.samples_per_second * static_cast<double>(simulation.step_time.count()),
                    static_cast<double>(options.batch) * 1e9, 1e3);
    }
}

TEST(ClosedForms, OfAGridOfPipelinesAreThatOfOneAndItsLanesRings) {
    // Two replicas of two lanes, two micro-batches each. Forwards 0..3, the last lane's backwards 3..7, the first's
    // 5..9 thousand; then each lane's ring: 2 (R - 1) (latency + bytes / R / bandwidth).
    const auto grid = [](Bytes first, Bytes last) {
        Profile profile = uniform_profile(2);
        profile.layers[0].gradient_bytes = first;
        profile.layers[1].gradient_bytes = last;
        PipelineOptions options;
        options.balance = Balance({1, 1});
        options.replicas = 2;
        options.chunks = 2;
        options.batch = 4;
        options.checkpoint = Checkpoint::never;
        options.hardware.link = {1e9, 0};
        return simulate(CheckedProfile(profile), options);
    };
    EXPECT_EQ(grid(0, 0).step_time.count(), 9000);
    EXPECT_EQ(grid(50'000, 5000).step_time.count(), 9000 + 50'000);
    EXPECT_EQ(grid(5000, 50'000).step_time.count(), 7000 + 50'000) << "the last lane begins its ring earlier";
    for (const Slice& slice : grid(50'000, 5000).timeline.slices) {
        if (slice.key.kind == TaskKind::all_reduce) {
            EXPECT_EQ(slice.start.count(), slice.lane.value() == 0 ? 9000 : 7000);
            EXPECT_EQ((slice.end - slice.start).count(), slice.lane.value() == 0 ? 50'000 : 5000);
        }
    }
}

/// f = b = 1000 (backward 2000 if it is split into inputs and weights), with free copies.
Simulation uniform(Schedule schedule, int n, int m, double backward, int partitions_a_lane = 1) {
    std::vector<LayerProfile> layers;
    for (int j = 0; j < n * partitions_a_lane; ++j) {
        layers.push_back(layer_of(1000, backward));
        layers.back().parameter_bytes = layers.back().gradient_bytes = 64;
    }
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(layers.size(), 1));
    options.chunks = options.batch = m;
    options.checkpoint = Checkpoint::never;
    options.schedule = schedule;
    for (int j = 0; partitions_a_lane > 1 && j < n * partitions_a_lane; ++j) {
        options.placement.emplace_back(j % n);
    }
    return simulate(profile_of(layers), options);
}

TEST(ClosedForms, OfUniformSchedulesHold) {
    for (const int n : {1, 2, 3, 4, 8}) {
        for (const int m : {8, 16, 32}) {
            EXPECT_EQ(uniform(Schedule::one_f_one_b, n, m, 2000).step_time.count(), (m + n - 1) * 3000);
            // (n - 1) (T_F + T_B - T_W) of idle time instead of (n - 1) (T_F + T_B + T_W)
            EXPECT_EQ(uniform(Schedule::zero_bubble_h1, n, m, 2000).step_time.count(), m * 3000 + (n - 1) * 1000)
                << n << " lanes, " << m << " micro-batches";
            EXPECT_EQ(uniform(Schedule::pipedream, n, m, 2000).step_time.count(), m * 3000) << "never drains";
            EXPECT_NEAR(uniform(Schedule::pipedream, n, m, 2000).bubble_fraction, 0, 1e-9);
        }
    }
    for (const int lanes : {2, 4}) {
        for (const int rounds : {2, 3}) {
            EXPECT_EQ(uniform(Schedule::interleaved_1f1b, lanes, 8, 2000, rounds).step_time.count(),
                      (8 * rounds + lanes - 1) * 3000);
        }
    }
}

TEST(ClosedForms, OfMicroBatchesAndWeightVersionsInMemoryHold) {
    // Partition j of n holds n - j versions of its weights with pipedream, one otherwise.
    const Simulation pipedream = uniform(Schedule::pipedream, 4, 8, 2000);
    const Simulation gpipe = uniform(Schedule::gpipe, 4, 8, 2000);
    for (int j = 0; j < 4; ++j) {
        EXPECT_EQ(pipedream.lanes[static_cast<std::size_t>(j)].peak[MemoryCategory::parameters], (4 - j) * 64);
        EXPECT_EQ(gpipe.lanes[static_cast<std::size_t>(j)].peak[MemoryCategory::parameters], 64);
    }
}

TEST(ClosedForms, OfPipeDreamsSteadyStateIsThePaceOfTheSlowestLane) {
    std::mt19937 random(14);
    for (int round = 0; round < 200; ++round) {
        Instance each = random_instance(random);
        std::fill(each.c.begin(), each.c.end(), 0);
        const std::int64_t pace = most(plus(each.f, each.b));
        const std::int64_t period = step_of(each, each.options(Schedule::pipedream, Checkpoint::never));
        EXPECT_GE(period, each.m * pace) << "no lane can do more";
        EXPECT_LE(period, each.m * (sum(each.f) + sum(each.b))) << "no worse than one at a time";
    }
}

TEST(ClosedForms, OfPipeDreamOnLanesOfUnequalPaceAreTheSlowestOnes) {
    // The slow lane always has a forward waiting, because the fast lanes are ahead by as many micro-batches as there
    // are lanes after them.
    for (const std::vector<std::int64_t>& f :
         {std::vector<std::int64_t>{1000, 2000}, {2000, 1000}, {1000, 3000, 2000}}) {
        Instance each;
        each.f = each.r = f;
        each.b = plus(f, f);
        each.c.assign(f.size() - 1, 0);
        each.m = 8;
        const Simulation simulation = simulate(each.profile(), each.options(Schedule::pipedream, Checkpoint::never),
                                               {.noise = false, .memory = false});
        EXPECT_EQ(simulation.step_time.count(), each.m * 3 * most(f));
        for (std::size_t lane = 0; lane < f.size(); ++lane) {
            EXPECT_NEAR(simulation.lanes[lane].bubble_fraction,
                        1 - static_cast<double>(f[lane]) / static_cast<double>(most(f)), 1e-9);
        }
    }
}
}  // namespace
}  // namespace pipescope
