#include "schedule/schedules.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"
#include "tests/simulator/random_pipelines.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <tuple>
#include <utility>

namespace pipescope {
namespace {
using testing::HasSubstr;

/// Times of a partition in us.
struct Times {
    double forward = 1;
    double backward = 2;  ///< of inputs and weights
    double weight = 1;    ///< of these, for the weights
};

constexpr Bytes kActivation = 1'000'000;
constexpr Bytes kParameters = 4'000'000'000;

Profile equal_partitions(int count, const Times& times) {
    LayerProfile layer = layer_of(1000 * times.forward, 1000 * times.backward);
    layer.backward_weight_ns = {1000 * times.weight};
    layer.output_bytes = {0};
    layer.saved_bytes = {static_cast<double>(kActivation)};
    layer.keeps_input = false;
    layer.parameter_bytes = layer.gradient_bytes = kParameters;
    return profile_of(std::vector<LayerProfile>(static_cast<std::size_t>(count), layer));
}

PipelineOptions options_for(const Schedule& schedule, int partitions, int lanes, int m) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(partitions), 1));
    options.chunks = options.batch = m;
    options.checkpoint = Checkpoint::never;
    options.schedule = schedule;
    options.placement = placement_of(schedule, static_cast<std::size_t>(partitions), static_cast<std::size_t>(lanes));
    return options;
}

/// The longest idle time of a lane in a step, in us.
double most_idle(const Simulation& simulation) {
    double most = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        most = std::max(most, static_cast<double>((simulation.step_time - lane.busy).count()) / 1000);
    }
    return most;
}

TEST(DualPipe, HasABoundBelowPairsThatOverlap) {
    for (const Schedule& schedule : {Schedule(Schedule::dualpipe_v), Schedule(Schedule::automatic)}) {
        PipelineOptions options = options_for(Schedule::dualpipe_v, 4, 2, 40);
        options.schedule = schedule;
        options.pair_overlap = 1;
        const CheckedProfile profile = equal_partitions(4, {1, 1, 0.5});
        Simulation simulation = find_and_simulate(profile, options, {});
        add_lower_bound(profile, simulation);
        ASSERT_TRUE(simulation.lower_bound);
        EXPECT_LE(*simulation.lower_bound, simulation.step_time);
    }
}

// DeepSeek's repository DualPipe gives the bubble (PP / 2 - 1) (F&B + B - 3 W) for both schedules, where F&B is the
// time of a pair, and PP + 1 activations. The formula supposes that F = B - W, and that W fills the gaps: W <= F.
TEST(DualPipe, IdlesAsPublished) {
    for (const int d : {4, 8, 16}) {
        for (const int m : {2 * d, 2 * d + 6}) {
            for (const Times& times : {Times{1, 2, 1}, Times{2, 3, 1}, Times{1.3, 2.4, 1.1}, Times{10.2, 15.3, 5.1}}) {
                for (const double overlap : {0.0, 0.25, 1.0}) {
                    const double pair = times.forward + times.backward - overlap * times.forward;
                    const double published = (d / 2 - 1) * (pair + times.backward - 3 * times.weight);
                    PipelineOptions options = options_for(Schedule::dualpipe, d, d, m);
                    options.pair_overlap = overlap;
                    const Simulation simulation = simulate(equal_partitions(d, times), options);
                    EXPECT_NEAR(most_idle(simulation), published, 1e-4 * published)
                        << d << " lanes, " << m << " micro-batches, F " << times.forward << ", overlap " << overlap;
                    // Cut in half: half the lanes, a micro-batch for each two, two partitions each.
                    PipelineOptions in_a_v = options_for(Schedule::dualpipe_v, d, d / 2, m / 2);
                    in_a_v.pair_overlap = overlap;
                    EXPECT_NEAR(most_idle(simulate(equal_partitions(d, times), in_a_v)), published, 1e-4 * published)
                        << d << " partitions in a V";
                }
            }
        }
    }
}

TEST(DualPipe, HoldsOneActivationMoreThanLanesAndTheParametersTwice) {
    for (const int d : {4, 8, 16}) {
        for (const std::optional<double> overlap : {std::optional<double>(), std::optional(0.5)}) {
            PipelineOptions options = options_for(Schedule::dualpipe, d, d, 2 * d);
            options.pair_overlap = overlap;
            const Simulation doubled = simulate(equal_partitions(d, {}), options);
            const Simulation once = simulate(equal_partitions(d, {}), options_for(Schedule::one_f_one_b, d, d, 2 * d));
            for (std::size_t lane = 0; lane < doubled.lanes.size(); ++lane) {
                EXPECT_EQ(doubled.lanes[lane].peak[MemoryCategory::saved], (d + 1) * kActivation) << lane;
                EXPECT_EQ(doubled.lanes[lane].peak[MemoryCategory::parameters], 2 * kParameters);
                EXPECT_EQ(doubled.lanes[lane].peak[MemoryCategory::gradients], 2 * kParameters);
                EXPECT_EQ(once.lanes[lane].peak[MemoryCategory::parameters], kParameters);
                EXPECT_EQ(doubled.partitions[lane].lane, LaneId{lane});
                EXPECT_EQ(doubled.partitions[lane].mirror_lane, LaneId{doubled.lanes.size() - 1 - lane});
                EXPECT_EQ(once.partitions[lane].mirror_lane, std::nullopt);
            }
        }
    }
}

/// A second account of a step: each task starts once its lane is free and what it needs has come, copies wait for their
/// link. Walks the lanes' orders until all tasks have ended. Returns the end of the last backward.
std::int64_t step_by_hand(const TaskGraph& graph, int m, int n, const std::vector<std::int64_t>& forward,
                          const std::vector<std::int64_t>& inputs, const std::vector<std::int64_t>& weights,
                          std::int64_t latency) {
    using Key = std::tuple<char, int, int>;  // kind, micro-batch, partition
    std::map<Key, std::int64_t> ended;
    std::map<std::pair<int, int>, std::int64_t> link_free;
    std::vector<std::int64_t> free(static_cast<std::size_t>(n));
    std::vector<std::size_t> next(static_cast<std::size_t>(n));
    std::int64_t last = 0;
    for (bool progress = true; progress;) {
        progress = false;
        for (int lane = 0; lane < n; ++lane) {
            const auto at = static_cast<std::size_t>(lane);
            const std::span<const TaskIndex> order = graph.lane_order(LaneId{lane});
            while (next[at] < order.size()) {
                const TaskKey& key = graph.tasks()[order[next[at]]].key;
                const int i = key.micro_batch;
                const int j = key.partition;
                const auto part = static_cast<std::size_t>(std::max(j, 0));
                char kind = '-';
                std::optional<Key> needs;
                std::int64_t length = 0;
                switch (key.kind) {
                    case TaskKind::forward:
                        kind = 'F';
                        length = forward[part];
                        needs = j > 0 ? std::optional(Key{'f', i, j - 1}) : std::nullopt;
                        break;
                    case TaskKind::backward:
                        kind = 'B';
                        length = inputs[part];
                        needs = j + 1 < n ? Key{'b', i, j + 1} : Key{'F', i, j};
                        break;
                    case TaskKind::backward_weight:
                        kind = 'W';
                        length = weights[part];
                        needs = Key{'B', i, j};
                        break;
                    default: ++next[at]; continue;  // the loss and the sums take no time here
                }
                if (needs && !ended.contains(*needs)) {
                    break;
                }
                const std::int64_t end = std::max(free[at], needs ? ended[*needs] : 0) + length;
                ended[{kind, i, j}] = free[at] = end;
                last = std::max(last, end);
                const int to = lane + ((kind == 'F') == (i < m / 2) ? 1 : -1);
                if ((kind == 'F' && j + 1 < n) || (kind == 'B' && j > 0)) {
                    std::int64_t& link = link_free[{lane, to}];
                    link = std::max(link, end) + latency;
                    ended[{kind == 'F' ? 'f' : 'b', i, j}] = link;
                }
                ++next[at];
                progress = true;
            }
        }
    }
    return last;
}

TEST(DualPipe, TakesTheStepOfASecondAccount) {
    std::mt19937 random(31);
    for (int round = 0; round < 200; ++round) {
        const int n = 2 + 2 * static_cast<int>(random() % 4);
        const int m = 2 * n + 2 * static_cast<int>(random() % 4);
        std::vector<LayerProfile> layers;
        std::vector<std::int64_t> forward;
        std::vector<std::int64_t> inputs;
        std::vector<std::int64_t> weights;
        for (int j = 0; j < n; ++j) {
            forward.push_back(1 + static_cast<std::int64_t>(random() % 1000));
            inputs.push_back(1 + static_cast<std::int64_t>(random() % 1000));
            weights.push_back(static_cast<std::int64_t>(random() % 1000));
            LayerProfile layer =
                layer_of(static_cast<double>(forward.back()), static_cast<double>(inputs.back() + weights.back()));
            layer.backward_weight_ns = {static_cast<double>(weights.back())};
            layers.push_back(layer);
        }
        PipelineOptions options = options_for(Schedule::dualpipe, n, n, m);
        const std::int64_t latency = static_cast<std::int64_t>(random() % 3) * 100;
        options.hardware.link.latency_ns = static_cast<double>(latency);
        const Simulation simulation = simulate(profile_of(layers), options, {.noise = false, .memory = true});
        const TaskGraph graph = make_schedule(
            options.schedule, {.num_partitions = n, .num_micro_batches = m, .checkpoint = Checkpoint::never});
        std::int64_t last = 0;
        for (const Slice& slice : simulation.timeline.slices) {
            last = is_compute(slice.key.kind) ? std::max<std::int64_t>(last, slice.end.count()) : last;
        }
        EXPECT_EQ(last, step_by_hand(graph, m, n, forward, inputs, weights, latency)) << "round " << round;
    }
}

// The lanes of a pair are 2 and 1 apart: over 1 GB/s, a ring of two sends half of the gradients twice.
TEST(DualPipe, SumsBothCopiesOfTheGradients) {
    PipelineOptions options = options_for(Schedule::dualpipe, 2, 2, 4);
    const CheckedProfile profile = equal_partitions(2, {});
    EXPECT_EQ(simulate(profile, options).lanes[0].sums.count(), 0) << "copies are free";
    options.hardware.link.bytes_per_second = 1e9;
    const Simulation simulation = simulate(profile, options);
    for (const SimulatedLane& lane : simulation.lanes) {
        EXPECT_EQ(lane.sums.count(), 2 * 4'000'000'000) << "two partitions of 4 GB";
    }
    options.gradient_bucket = 1'000'000'000;
    EXPECT_LE(simulate(profile, options).step_time, simulation.step_time);
    options.gradient_bucket = 0;
    options.replicas = 2;
    options.batch = 8;
    EXPECT_EQ(simulate(profile, options).lanes[0].sums.count(), 2 * 6'000'000'000) << "a ring of four";
    EXPECT_EQ(num_weight_copies(options), 4);
}

TEST(DualPipe, KeepsEmbeddingAndOutputThatShareWeightsOnOneLane) {
    Profile profile = equal_partitions(4, {});
    profile.layers.front().shared["w"] = profile.layers.back().shared["w"] = {1000, 1000};
    EXPECT_GT(simulate(CheckedProfile(profile), options_for(Schedule::dualpipe, 4, 4, 8)).step_time.count(), 0);
    profile.layers[1].shared["w"] = {1000, 1000};
    EXPECT_THAT(
        thrown<UsageError>([&] { simulate(CheckedProfile(profile), options_for(Schedule::dualpipe, 4, 4, 8)); }),
        HasSubstr("partitions 0 and 1 share parameters"));
}

// Each half of the micro-batches stashes the skip at its own end, and has a route to each lane that pops it.
TEST(DualPipe, SendsASkipToEachLaneThatPopsIt) {
    constexpr int kMicroBatches = 8;
    Profile profile = equal_partitions(4, {});
    profile.layers[0].stash["s"] = {100};
    profile.layers[2].pop = profile.layers[3].pop = {"s"};
    const Simulation simulation =
        simulate(std::move(profile), options_for(Schedule::dualpipe, 4, 4, kMicroBatches), {});
    std::map<std::pair<TaskKind, std::int64_t>, int> sent;  // by lane
    for (const Slice& slice : simulation.timeline.slices) {
        ++sent[{slice.key.kind, slice.lane.value()}];
    }
    for (const std::int64_t end : {0, 3}) {
        EXPECT_EQ((sent[{TaskKind::skip_forward, end}]), kMicroBatches) << end;
    }
    for (const std::int64_t inner : {1, 2}) {
        EXPECT_EQ((sent[{TaskKind::skip_forward, inner}]), 0) << inner;
    }
    for (const std::int64_t lane : {0, 1, 2, 3}) {
        EXPECT_EQ((sent[{TaskKind::skip_backward, lane}]), kMicroBatches / 2) << lane;
    }
    // Free copies take no time, so that one may arrive just before or just after another leaves.
    for (const std::size_t lane : {0U, 1U}) {
        EXPECT_NEAR(static_cast<double>(simulation.lanes[lane].peak_bytes),
                    static_cast<double>(simulation.lanes[3 - lane].peak_bytes), 100)
            << lane;
    }
}

TEST(DualPipe, RefusesWhatItCannotDo) {
    const CheckedProfile profile = equal_partitions(4, {});
    const auto refusal = [&](void (*change)(PipelineOptions&)) {
        PipelineOptions options = options_for(Schedule::dualpipe, 4, 4, 8);
        change(options);
        return thrown<UsageError>([&] { simulate(profile, options); });
    };
    EXPECT_THAT(refusal([](PipelineOptions& options) { options.update = Update::staggered; }),
                HasSubstr("sum the gradients of two copies"));
    EXPECT_THAT(refusal([](PipelineOptions& options) { options.most_in_flight = 8; }), HasSubstr("they enter at two"));
    EXPECT_THAT(refusal([](PipelineOptions& options) { options.pair_overlap = 1.5; }),
                testing::AllOf(HasSubstr("pair-overlap is 1.5"), HasSubstr("from 0 to 1")));
    EXPECT_THAT(refusal([](PipelineOptions& options) { options.chunks = options.batch = 9; }), HasSubstr("9 are odd"));
    EXPECT_THAT(refusal([](PipelineOptions& options) {
                    options.placement = {LaneId{0}, LaneId{0}, LaneId{1}, LaneId{1}};
                }),
                HasSubstr("4 partitions on 2 lanes"));
}

// Lanes of different speeds: each runs both of its partitions at its own.
TEST(DualPipe, RunsBothPartitionsOfALaneAtItsSpeed) {
    PipelineOptions options = options_for(Schedule::dualpipe, 2, 2, 4);
    options.hardware.speeds = {1, 0.5};
    const Simulation simulation = simulate(equal_partitions(2, {}), options);
    EXPECT_EQ(simulation.lanes[0].busy.count(), 4 * 3000);
    EXPECT_EQ(simulation.lanes[1].busy.count(), 4 * 6000);
}

TEST(DualPipe, IsBalancedForTheSlowerOfBothLanes) {
    PipelineOptions options = options_for(Schedule::dualpipe, 4, 4, 8);
    options.hardware.speeds = {0.5, 0.25, 0.5, 0.5};  // partitions 1 and 2 are also on lane 1
    const FoundBalance found = find_placed_balance(equal_partitions(12, {}), options, 4, BalanceAlgorithm::optimal);
    EXPECT_EQ(found.balance, Balance({4, 2, 2, 4}));
}
}  // namespace
}  // namespace pipescope
