#include "cluster/layout.h"
#include "base/error.h"
#include "cluster/step_bounds.h"
#include "cluster/step_parts.h"
#include "simulator/plan/planner.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

const std::string kSmall = "gpt:layers=8,hidden=64,heads=8,sequence=16,vocabulary=128";

/// Forward and backward of a block in ns.
std::pair<double, double> block_of(const Profile& profile) {
    return {profile.layers[1].forward_ns.front(), profile.layers[1].backward_ns.front()};
}

TEST(Layout, RefusesWhatNoClusterCouldRun) {
    const Cluster cluster = plain_cluster(2);
    const auto refuses = [&](Layout layout, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { step_of(kSmall, cluster, layout); }), HasSubstr(part));
    };
    refuses({.pipeline = 0}, "--partitions is 0");
    refuses({.pipeline = 4, .data = 3, .batch = 3}, "needs 12 devices; the cluster has 8 devices of type plain");
    refuses({.data = 2, .batch = 3}, "batch is 3");
    refuses({.tensor = 3}, "it must divide the model's heads, 8");
    refuses({.pipeline = 8, .interleave = 2, .batch = 8},
            "each holds the embedding, the output layer or at least one of the model's 8 blocks");
    refuses({.zero = 4}, "ZeRO has stages 0 to 3");
    refuses({.sequence_parallel = true}, "sequence parallelism with one");
    refuses({.pipeline = 2, .interleave = 2, .batch = 2, .schedule = Schedule::one_f_one_b}, "one partition per lane");
    refuses({.gradient_bytes = 3}, "2, 4 or 8 bytes");
    refuses({.pipeline = 100000, .interleave = 100000}, "more than 4096 partitions");
    refuses({.micro_batch_size = std::int64_t{2} << 40, .batch = 12},
            "--micro-batch-size is 2199023255552; a micro-batch");
    refuses({.batch = std::int64_t{2} << 40}, "--batch is 2199023255552; a batch has at most");
}

// Products of these numbers do not fit 64 bits.
TEST(Layout, OfHugeNumbersIsRefusedWithoutOverflow) {
    Cluster cluster = plain_cluster(1 << 23);
    constexpr std::int64_t kHuge = std::int64_t{1} << 40;
    for (const int data : {1 << 23, 1 << 24}) {
        const Layout layout{.data = data, .micro_batch_size = kHuge, .batch = kHuge};
        EXPECT_THAT(
            thrown<UsageError>([&] { step_of(kSmall, cluster, layout); }),
            HasSubstr("a multiple of replicas times micro-batch size, " + std::to_string(data) + " x 1099511627776"));
    }
    const Layout most{.pipeline = 1, .data = std::numeric_limits<int>::max(), .tensor = 1 << 30, .context = 1 << 30};
    EXPECT_THAT(thrown<UsageError>([&] { step_of(kSmall, cluster, most); }), HasSubstr("the cluster has 33554432"));
}

TEST(Layout, RefusesAStepTooLongToCount) {
    Cluster cluster = plain_cluster(2);
    cluster.between_nodes = {.latency_ns = 1e18};
    EXPECT_THAT(thrown<UsageError>([&] { step_of(kSmall, cluster, {.data = 8, .batch = 8, .zero = 1}); }),
                HasSubstr("4e18"));
}

// Cuts that make the slowest partition as quick as possible need not make the quickest step: what is recomputed changes
// them, and may change them for the better. A layout tries the cuts of all recompute modes.
TEST(Layout, OfLessRecomputeIsNeverSlower) {
    std::mt19937 random(31);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int compared = 0;
    for (int round = 0; round < 150; ++round) {
        Cluster cluster = plain_cluster(4);
        cluster.groups.front().device.flops_per_second["bfloat16"] = draw(1, 100) * 1e9;
        cluster.groups.front().device.memory_bytes_per_second = draw(1, 100) * 1e8;
        cluster.groups.front().device.memory_bytes = draw(0, 1) == 0 ? Bytes{1} << 50 : Bytes{1} << draw(19, 22);
        cluster.between_nodes.bytes_per_second = draw(1, 40) * 1e8;
        const std::string model = "gpt:hidden=64,heads=4,layers=" + std::to_string(draw(5, 20)) +
                                  ",sequence=" + std::to_string(16 * draw(1, 8)) +
                                  ",vocabulary=" + std::to_string(64 * draw(1, 40)) +
                                  (draw(0, 3) == 0 ? ",attention=flash" : "");
        Layout layout{.pipeline = draw(2, 4), .data = draw(1, 2), .interleave = draw(1, 3)};
        layout.batch = 4LL * 3 * layout.data * draw(1, 2);
        layout.zero = draw(0, 1);
        layout.cuts = draw(0, 1) == 0 ? Cuts::even : Cuts::quickest;
        double less = 0;
        bool fits = false;
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            layout.recompute = recompute;
            try {
                const LayoutStep step = step_of(model, cluster, layout);
                if (fits && step.simulation.feasible) {
                    EXPECT_LE(less, step.step_ns()) << model << " " << to_string(layout) << " " << to_string(recompute);
                    ++compared;
                }
                // Only other cuts than the quickest fit: more recompute may then be quicker, and plan tries it.
                fits = step.simulation.feasible && !step.cut_to_fit;
                less = step.step_ns();
            } catch (const UsageError&) {  // fewer blocks than partitions
            }
        }
    }
    EXPECT_GT(compared, 100);
}

// One device: the step is the sum of its layers' times and the optimizer's; nothing is sent.
TEST(Layout, OnOneDeviceIsItsLayersTimes) {
    const Cluster cluster = plain_cluster(1);
    const LayoutStep step = step_of(kSmall, cluster, {.batch = 3});
    double once = 0;
    for (const LayerProfile& layer : (*step.profile)->layers) {
        once += layer.forward_ns.front() + layer.backward_ns.front();
    }
    EXPECT_NEAR(static_cast<double>(step.simulation.step_time.count()), 3 * once, 10);
    EXPECT_EQ(step.tied_ns, 0);
    EXPECT_NEAR(step.step_ns(), 3 * once + step.optimizer_ns, 10);
    EXPECT_EQ(step.tokens, 3 * 16);
}

// Uneven partitions are dealt out so that lanes, not partitions, work equally long.
TEST(Layout, OfSeveralPartitionsALaneKeepsLanesEquallyBusy) {
    Cluster cluster = plain_cluster(8);
    cluster.between_nodes.bytes_per_second = 1e18;
    for (int blocks = 7; blocks < 40; ++blocks) {
        for (const int interleave : {2, 3}) {
            const Layout layout{.pipeline = 3, .interleave = interleave, .batch = 6};
            if (blocks < 3 * interleave || blocks % (3 * interleave) == 0) {
                continue;  // refused, or cut evenly
            }
            const LayoutStep step =
                step_of("gpt:layers=" + std::to_string(blocks) + ",hidden=64,heads=8,sequence=16,vocabulary=64",
                        cluster, layout);
            std::array<double, 3> sums{};
            double longest = 0;
            double all = 0;
            const Balance& balance = step.simulation.options.balance;
            for (std::size_t j = 0; j < balance.num_partitions(); ++j) {
                const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
                for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
                    const LayerProfile& layer = (*step.profile)->layers[l];
                    const double ns = layer.forward_ns.front() + layer.backward_ns.front();
                    sums[j % 3] += ns;
                    all += ns;
                    longest = std::max(longest, ns);
                }
            }
            EXPECT_LE(std::ranges::max(sums), all / 3 + longest) << blocks << " blocks, " << to_string(balance);
        }
    }
}

// A large output layer leaves its lane less room for blocks. Even cuts do not see it.
TEST(Layout, OfQuickestCutsCanBeQuickerThanEvenOnes) {
    const Cluster cluster = plain_cluster(1);
    const std::string model = "gpt:layers=16,hidden=64,heads=8,sequence=16,vocabulary=8192";
    Layout layout{.pipeline = 4, .batch = 16};
    const LayoutStep even = step_of(model, cluster, layout);
    layout.cuts = parse_cuts("quickest");
    const LayoutStep quickest = step_of(model, cluster, layout);
    EXPECT_EQ(to_string(even.simulation.options.balance), "5,4,4,5");
    EXPECT_LT(quickest.step_ns(), 0.9 * even.step_ns());
    EXPECT_LE(least_step(parse_language_model(model), cluster, {{&cluster.groups.front(), 4}}, layout).ns,
              quickest.step_ns());
    EXPECT_EQ(to_string(layout), "p4 d1 t1 v1 b1 quickest cuts");
    EXPECT_THAT(thrown<UsageError>([] { parse_cuts("best"); }), HasSubstr("--cuts is 'best'"));
}

// With any memory: each named schedule may have other cuts that fit.
TEST(Layout, OfScheduleAutoIsNotSlowerThanThatOfANamedSchedule) {
    Cluster cluster = plain_cluster(16);
    NodeGroup& group = cluster.groups.front();
    group.devices_per_node = 2;
    group.ports_per_node = 1;
    group.device.flops_per_second["bfloat16"] = 1.5e14;
    group.device.memory_bytes_per_second = 1.6e12;
    group.device.launch_ns = 4000;
    group.link.bytes_per_second = 2.4e11;
    cluster.between_nodes.bytes_per_second = 0.8e9;
    Layout layout{.pipeline = 3, .batch = 6};
    layout.recompute = Recompute::full;
    const auto step_with = [&](const Schedule& schedule) {
        layout.schedule = schedule;
        return step_of("gpt:layers=8,hidden=1024,heads=8,sequence=2048,vocabulary=32000", cluster, layout);
    };
    int others = 0;
    for (double memory = 1e9; memory < 4e9; memory *= 1.05) {
        group.device.memory_bytes = static_cast<Bytes>(memory);
        const LayoutStep automatic = step_with(Schedule::automatic);
        const LayoutStep usual = step_with(Schedule::one_f_one_b);
        for (const Schedule named : {Schedule::gpipe, Schedule::zero_bubble_h1, Schedule::zero_bubble_2p}) {
            const LayoutStep step = step_with(named);
            if (step.simulation.feasible) {
                EXPECT_TRUE(automatic.simulation.feasible);
                EXPECT_LE(automatic.step_ns(), step.step_ns()) << memory << " " << to_string(named);
                others += step.simulation.options.balance != usual.simulation.options.balance ? 1 : 0;
            }
        }
    }
    EXPECT_GT(others, 0);
}

// The search deals partitions out in turn; a V can be quicker, or fit where they do not.
TEST(Layout, OfScheduleAutoIsNotSlowerThanThatOfAV) {
    const Cluster cluster = plain_cluster(2);
    Layout layout{.pipeline = 4, .interleave = 2, .batch = 8};
    layout.sends = Sends::overlapped;
    const auto step_with = [&](const Schedule& schedule) {
        layout.schedule = schedule;
        return step_of("gpt:layers=16,hidden=64,heads=8,sequence=16,vocabulary=2048", cluster, layout);
    };
    const LayoutStep automatic = step_with(Schedule::automatic);
    EXPECT_EQ(automatic.layout.schedule, Schedule(Schedule::automatic));
    for (const Schedule named : {Schedule::interleaved_1f1b, Schedule::zero_bubble_v, Schedule::dualpipe_v,
                                 Schedule::v_half, Schedule::v_min}) {
        EXPECT_LE(automatic.step_ns(), step_with(named).step_ns()) << to_string(named);
    }
}

// The usual schedule of several partitions a lane would need a multiple of three micro-batches.
TEST(Layout, OfScheduleAutoTakesAnyNumberOfMicroBatches) {
    const Cluster cluster = plain_cluster(1);
    for (const int blocks : {12, 13}) {
        const Layout layout{.pipeline = 3, .interleave = 2, .batch = 4, .schedule = Schedule::automatic};
        const LayoutStep step = step_of(
            "gpt:hidden=64,heads=8,sequence=16,vocabulary=64,layers=" + std::to_string(blocks), cluster, layout);
        EXPECT_GT(step.step_ns(), 0) << blocks;
    }
}

// In a V the first lane has embedding and output layer: it holds a tied embedding once, and no other lane sums it.
TEST(Layout, OfAVHoldsATiedEmbeddingOnce) {
    const Cluster cluster = plain_cluster(2);
    const std::string model = "gpt:layers=8,hidden=64,heads=8,sequence=16,vocabulary=4096";
    Layout layout{.pipeline = 2, .interleave = 2, .batch = 4};
    const auto parameters_of = [&](const Schedule& schedule, bool tied) {
        layout.schedule = schedule;
        const LayoutStep step = step_of(model + ",tied=" + (tied ? "true" : "false"), cluster, layout);
        EXPECT_EQ(step.tied_ns > 0, tied && schedule == Schedule::interleaved_1f1b) << to_string(schedule);
        Bytes sum = 0;
        for (const LayerProfile& layer : (*step.profile)->layers) {
            sum += layer.parameter_bytes;
        }
        return sum;
    };
    constexpr Bytes kEmbedding = 4096 * 64 * 2;
    const Bytes in_turn = parameters_of(Schedule::interleaved_1f1b, true);
    for (const Schedule schedule : {Schedule::zero_bubble_v, Schedule::dualpipe_v, Schedule::v_half, Schedule::v_min}) {
        EXPECT_EQ(parameters_of(schedule, true), in_turn - kEmbedding) << to_string(schedule);
        EXPECT_EQ(parameters_of(schedule, false), in_turn) << to_string(schedule);
    }
}

// Each partition lies on two lanes, and embedding and output layer lie on the first and on the last.
TEST(Layout, OfDualPipeHoldsEachPartitionTwice) {
    const Cluster cluster = plain_cluster(2);
    Layout layout{.pipeline = 4, .batch = 8};
    const auto held_by = [&](const Schedule& schedule, MemoryCategory category) {
        layout.schedule = schedule;
        Bytes sum = 0;
        for (const SimulatedLane& lane : step_of(kSmall + ",tied=false", cluster, layout).simulation.lanes) {
            sum += lane.peak[category];
        }
        return sum;
    };
    for (const MemoryCategory category :
         {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer}) {
        EXPECT_EQ(held_by(Schedule::dualpipe, category), 2 * held_by(Schedule::one_f_one_b, category));
    }
    layout.schedule = Schedule::dualpipe;
    const LayoutStep tied = step_of(kSmall + ",tied=true", cluster, layout);
    EXPECT_EQ(tied.tied_ns, 0);
    layout.batch = 9;
    EXPECT_THAT(thrown<UsageError>([&] { step_of(kSmall, cluster, layout); }), HasSubstr("9 are odd"));
    layout.batch = 8;
    layout.interleave = 2;
    EXPECT_THAT(thrown<UsageError>([&] { step_of(kSmall, cluster, layout); }), HasSubstr("one partition per lane"));
}

// Adam reads the gradient twice, and reads and writes the moments. It also reads the parameter that it writes, or in
// bfloat16 a float32 copy.
TEST(Layout, AdamMovesTheParameterAndItsState) {
    Cluster cluster = plain_cluster(1);
    cluster.groups.front().device.flops_per_second["float64"] = 1e9;
    const auto bytes_of = [&](const std::string& dtype, int gradient_bytes) {
        Layout layout{.batch = 1, .dtype = dtype};
        layout.gradient_bytes = gradient_bytes;
        const LayoutStep step = step_of(kSmall, cluster, layout);
        double parameters = 0;
        for (const LayerProfile& layer : (*step.profile)->layers) {
            parameters += static_cast<double>(layer.gradient_bytes) / gradient_bytes;
        }
        return step.optimizer_ns / parameters;  // at 1 byte a ns
    };
    EXPECT_NEAR(bytes_of("bfloat16", 4), 2 * 4 + 2 * 12 + 2, 1e-3);
    EXPECT_NEAR(bytes_of("float32", 4), 2 * 4 + 2 * 8 + 2 * 4, 1e-3);
    EXPECT_NEAR(bytes_of("float64", 8), 2 * 8 + 2 * 16 + 2 * 8, 1e-3);
}

// A product of m x k and k x n takes 2 m n k operations, at 1 a ns; here tiles of 64 x 64 at 0.65 of the rate, and 64
// more multiply-adds along k. With whole turns and large k the share of the rate is what is left.
TEST(Layout, ProductsFillWholeTurns) {
    DeviceType device = plain_device();
    device.multiprocessors = 4;
    const auto ns = [&](double m, double n, double k) {
        return estimated_ns(device, "bfloat16", matmul_work(device, "bfloat16", m, n, k));
    };
    // 8 tiles of 256 x 128: two turns of four. Each multiprocessor has a quarter of the rate.
    const double turn = 2.0 * 256 * 128 * (4096 + 64) * 4;
    EXPECT_NEAR(ns(1024, 256, 4096), 2 * turn, 1);
    // Nine tiles take a third turn, unless smaller ones or cuts along k fill it better.
    EXPECT_GT(ns(1152, 256, 4096), 2 * turn);
    EXPECT_LE(ns(1152, 256, 4096), 3 * turn);
    EXPECT_GE(ns(1152, 256, 4096), 2.0 * 1152 * 256 * 4096);  // never above the peak
}

TEST(Layout, TensorParallelRanksSumActivationsFourTimesABlock) {
    Cluster cluster = plain_cluster(1);
    const Layout layout{.tensor = 4};
    const LanguageModel model = parse_language_model(kSmall);
    const auto slow = block_of(language_model_profile(model, cluster, cluster.groups.front(), layout));
    cluster.groups.front().link.bytes_per_second = 1e18;
    const auto fast = block_of(language_model_profile(model, cluster, cluster.groups.front(), layout));
    // 16 tokens x 64 x 2 bytes over 4 ranks: 6 messages of 512 bytes.
    EXPECT_NEAR(slow.first - fast.first, 2 * 6 * 512, 0.01);
    EXPECT_NEAR(slow.second - fast.second, 2 * 6 * 512, 0.01);
}

TEST(Layout, FullRecomputeRepeatsTheForward) {
    const Cluster cluster = plain_cluster(1);
    const LanguageModel model = parse_language_model(kSmall);
    const auto block = [&](Recompute recompute) {
        Layout layout{.tensor = 2};
        layout.recompute = recompute;
        return block_of(language_model_profile(model, cluster, cluster.groups.front(), layout));
    };
    EXPECT_NEAR(block(Recompute::full).second, block(Recompute::none).second + block(Recompute::none).first, 1e-6);
    EXPECT_GT(block(Recompute::selective).second, block(Recompute::none).second);
    EXPECT_LT(block(Recompute::selective).second, block(Recompute::full).second);
}

TEST(Layout, HasTheSamePeaksWithoutMemoryOverTime) {
    const Cluster cluster = plain_cluster(2);
    const Layout layout{.pipeline = 4, .interleave = 2, .batch = 8};
    const LanguageModel model = parse_language_model(kSmall);
    const auto simulated = [&](bool over_time) {
        return simulate_layout(model, cluster, cluster.groups.front(), layout,
                               {.noise = false, .memory = true, .memory_over_time = over_time})
            .simulation;
    };
    const Simulation with = simulated(true);
    const Simulation without = simulated(false);
    EXPECT_FALSE(with.memory.empty());
    EXPECT_TRUE(without.memory.empty());
    EXPECT_EQ(without.timeline, with.timeline);
    for (std::size_t lane = 0; lane < 4; ++lane) {
        EXPECT_EQ(without.lanes[lane].peak_bytes, with.lanes[lane].peak_bytes);
        EXPECT_EQ(without.lanes[lane].peak, with.lanes[lane].peak);
    }
}

// Two lanes of two replicas of two tensor-parallel devices, a lane a node.
TEST(Layout, OfTwoByTwoByTwoTakesWhatOneCalculatesByHand) {
    const Cluster cluster = plain_cluster(2);
    const LanguageModel model = parse_language_model("gpt:layers=4,hidden=64,heads=4,sequence=16,vocabulary=128");
    Layout layout{.pipeline = 2, .data = 2, .tensor = 2, .batch = 8};
    layout.sends = Sends::overlapped;
    const LayoutStep step = simulate_layout(model, cluster, cluster.groups.front(), layout);
    const Profile profile = language_model_profile(model, cluster, cluster.groups.front(), layout);
    std::array<double, 2> both{};  // forward and backward of a micro-batch, by lane
    for (std::size_t l = 0; l < 6; ++l) {
        both[l / 3] += profile.layers[l].forward_ns.front() + profile.layers[l].backward_ns.front();
    }
    // The second lane has the output layer, so the first one waits for it. 16 x 64 x 2 bytes: each rank sends half at
    // 1/2 byte a ns, and the receivers gather it at 1.
    constexpr double kCopy = 1024 / 0.5 + 1024;
    ASSERT_GT(both[1], both[0] + 2 * kCopy);
    // A rank has half of two blocks of 12 x 64^2 weights and of the embedding. Replicas sum gradients of 4 bytes in the
    // node: two messages of a half.
    constexpr double kWeights = (2 * 12 * 64 * 64 + 128 * 64) / 2.0;
    constexpr double kSums = kWeights * 4;
    EXPECT_NEAR(static_cast<double>(step.simulation.step_time.count()), both[0] + 4 * both[1] + 2 * kCopy + kSums, 20);
    // Both ends sum the embedding's gradients between nodes. Adam reads the gradient twice, reads and writes 12 bytes
    // of state and copy, and writes 2.
    EXPECT_NEAR(step.tied_ns, 128 * 64 / 2.0 * 4 / 0.5, 1);
    EXPECT_NEAR(step.optimizer_ns, kWeights * (2 * 4 + 2 * 12 + 2), 1);
    EXPECT_NEAR(step.step_ns(), both[0] + 4 * both[1] + 2 * kCopy + kSums + 32768 + 53248 * 34, 20);
    // 6 operations a weight and token, and 12 a pair of tokens, block and unit of width.
    EXPECT_DOUBLE_EQ(step.model_flops, 8 * (6.0 * 16 * (4 * 12 * 64 * 64 + 128 * 64) + 12.0 * 16 * 16 * 4 * 64));
    EXPECT_EQ(step.tokens, 8 * 16);
}

// Copies of 16 tokens x 64 x 2 bytes between nodes take 4096 ns. A blocking lane waits for each: in a pipeline of two,
// the first lane sends m times forward, the second m times backward, so the step is longer by m + 1 - .. copies.
TEST(Layout, BlockingSendsHoldTheLane) {
    Cluster cluster = plain_cluster(2);
    cluster.groups.front().devices_per_node = cluster.groups.front().ports_per_node = 1;
    Layout layout{.pipeline = 2, .batch = 16};
    const LayoutStep blocking = step_of(kSmall, cluster, layout);
    layout.sends = Sends::overlapped;
    const LayoutStep overlapped = step_of(kSmall, cluster, layout);
    constexpr double kCopy = 16.0 * 64 * 2 * 2;
    EXPECT_GE(blocking.step_ns(), overlapped.step_ns() + 8 * kCopy);
    // No task is longer, and no copy overlaps its sender's next task.
    EXPECT_EQ(blocking.simulation.lanes[0].busy, overlapped.simulation.lanes[0].busy);
    const auto& slices = blocking.simulation.timeline.slices;
    for (const Slice& copy : slices) {
        if (!is_copy(copy.key.kind)) {
            continue;
        }
        EXPECT_EQ((copy.end - copy.start).count(), static_cast<std::int64_t>(kCopy));
        for (const Slice& task : slices) {
            const bool overlaps =
                is_compute(task.key.kind) && task.lane == copy.lane && task.start < copy.end && copy.start < task.end;
            EXPECT_FALSE(overlaps);
        }
    }
}

// With serial messages, the middle lanes handle four of a micro-batch, the outer ones two, besides its forward and
// backward.
TEST(Layout, SerialMessagesTakeBothLanesTime) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().devices_per_node = cluster.groups.front().ports_per_node = 1;
    cluster.between_nodes.bytes_per_second = 1e5;
    Layout layout{.pipeline = 4, .batch = 400};
    layout.sends = Sends::serial;
    const LayoutStep step = step_of("gpt:layers=4,hidden=64,heads=8,sequence=16,vocabulary=8", cluster, layout);
    const auto [forward, backward] = block_of(*step.profile);
    constexpr double kCopy = 16.0 * 64 * 2 * 1e4;  // longer than the output layer
    const double rate = forward + backward + 4 * kCopy;
    EXPECT_NEAR(static_cast<double>(step.simulation.step_time.count()) / (400 * rate), 1, 0.02);
    EXPECT_GT(static_cast<double>(step.simulation.step_time.count()), 400 * rate);
}

// Lanes mostly wait: for each other if micro-batches are few, or for their copies if links are slow.
TEST(Layout, HasABoundThatIncludesWaiting) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().devices_per_node = cluster.groups.front().ports_per_node = 1;
    cluster.between_nodes.bytes_per_second = 1e7;
    for (const std::int64_t batch : {1, 2, 400}) {
        for (const int interleave : {1, 2}) {
            for (const char* blocks : {"8", "11"}) {  // cut evenly, or not
                Layout layout{.pipeline = 4, .interleave = interleave, .batch = batch};
                const LanguageModel model = parse_language_model(std::string("gpt:layers=") + blocks +
                                                                 ",hidden=64,heads=8,sequence=16,vocabulary=8");
                const PipelineParts parts{{&cluster.groups.front(), 4}};
                const double step = simulate_layout(model, cluster, parts, layout).step_ns();
                const std::string about = to_string(layout) + " " + blocks;
                for (const double bound :
                     {least_step(model, cluster, parts, layout).ns, StepBounds(model, cluster).of(layout, parts)}) {
                    EXPECT_LE(bound, step) << about;
                    EXPECT_GE(bound, 0.8 * step) << about;
                }
            }
        }
    }
}

// Two lanes of four lie in each node: copies 0-1 and 2-3 stay inside, 1-2 leaves it.
TEST(Layout, CopiesUseTheTierBetweenTheirLanes) {
    Cluster cluster = plain_cluster(2);
    cluster.groups.front().devices_per_node = cluster.groups.front().ports_per_node = 2;
    const LayoutStep step = step_of(kSmall, cluster, {.pipeline = 4, .batch = 1});
    for (const Slice& slice : step.simulation.timeline.slices) {
        if (is_copy(slice.key.kind)) {
            EXPECT_EQ((slice.end - slice.start).count(), slice.key.partition == 1 ? 4096 : 2048);
        }
    }
}

// Nodes of eight devices, lanes of three: 0..2, 3..5, 6..8 and so on. A node ends inside lanes 2 and 5.
TEST(Layout, CopiesLeaveTheNodeIfSomeOfALanesDevicesDo) {
    Cluster cluster = plain_cluster(3);
    NodeGroup& group = cluster.groups.front();
    group.devices_per_node = group.ports_per_node = 8;
    const auto places = [&](const Layout& layout) {
        const Hardware hardware = step_of(kSmall, cluster, layout).simulation.options.hardware;
        std::vector<LinkPlace> all;
        for (int lane = 0; lane < layout.pipeline; ++lane) {
            all.push_back(link_between(hardware, LaneId{lane}, LaneId{(lane + 1) % layout.pipeline}).place);
        }
        return all;
    };
    constexpr LinkPlace kInside = LinkPlace::inside_node;
    constexpr LinkPlace kBetween = LinkPlace::between_nodes;
    EXPECT_EQ(places({.pipeline = 6, .data = 3, .batch = 3}),
              (std::vector{kInside, kBetween, kBetween, kInside, kBetween, kBetween}));
    EXPECT_EQ(places({.pipeline = 2, .data = 3, .batch = 3}), (std::vector{kInside, kInside}));
    EXPECT_EQ(places({.pipeline = 6, .data = 4, .batch = 4}),
              (std::vector{kInside, kBetween, kInside, kBetween, kInside, kBetween}));
    // Racks of twelve devices: those of the first two lanes of five are in one, and of no others.
    group.nodes = 8;
    group.devices_per_node = group.ports_per_node = 4;
    cluster.racks = Racks{3, {.bytes_per_second = 0.1e9}};
    constexpr LinkPlace kRacks = LinkPlace::between_racks;
    EXPECT_EQ(places({.pipeline = 6, .data = 5, .batch = 5}),
              (std::vector{kBetween, kRacks, kRacks, kRacks, kRacks, kRacks}));
    EXPECT_EQ(places({.pipeline = 4, .data = 4, .batch = 4}), (std::vector{kBetween, kBetween, kRacks, kRacks}));
}

// Tensor-parallel devices of several nodes gather what they received over the links between nodes.
TEST(Layout, CopiesAreGatheredWhereTheTensorParallelDevicesLie) {
    Cluster cluster = plain_cluster(8);
    cluster.groups.front().devices_per_node = 2;
    cluster.groups.front().ports_per_node = 1;
    const Layout layout{.pipeline = 2, .tensor = 4, .batch = 4};
    const LayoutStep step = step_of(kSmall, cluster, layout);
    const Link& link = step.simulation.options.hardware.link;
    const double bytes = (*step.profile)->layers.front().output_bytes.front();
    const Link ring = ring_link(cluster, cluster.groups.front(), layout.tensor_ranks());
    EXPECT_GT(all_gather_ns(ring, 4, bytes), 1.5 * all_gather_ns(cluster.groups.front().link, 4, bytes));
    EXPECT_NEAR(link.message_ns(bytes),
                node_link(cluster, cluster.groups.front()).message_ns(bytes / 4) + all_gather_ns(ring, 4, bytes), 1);
}

TEST(Layout, BlocksAreDealtOutEvenlyOrCutByTime) {
    const Cluster cluster = plain_cluster(4);
    EXPECT_EQ(step_of(kSmall, cluster, {.pipeline = 4, .batch = 4}).simulation.options.balance, Balance({3, 2, 2, 3}));
    const Balance uneven = step_of(kSmall, cluster, {.pipeline = 3, .batch = 3}).simulation.options.balance;
    EXPECT_EQ(uneven.num_layers(), 10U);
    EXPECT_EQ(uneven.num_partitions(), 3U);
    const LayoutStep interleaved = step_of(kSmall, cluster, {.pipeline = 2, .interleave = 2, .batch = 4});
    EXPECT_EQ(interleaved.simulation.options.balance, Balance({3, 2, 2, 3}));
    EXPECT_EQ(interleaved.simulation.lanes.size(), 2U);
    EXPECT_EQ(interleaved.simulation.options.schedule, Schedule::interleaved_1f1b);
}

TEST(Layout, ReplicasSumGradientsAndShareTheBatch) {
    const Cluster cluster = plain_cluster(2);
    const LayoutStep alone = step_of(kSmall, cluster, {.batch = 2});
    const LayoutStep both = step_of(kSmall, cluster, {.data = 8, .batch = 16});
    // 8 blocks x 12 x 64^2 weights and 128 x 64 of the embedding, 4 bytes each; 14 messages of an eighth at 1 byte a
    // ns.
    const double gradients = (8 * 12 * 64.0 * 64 + 128 * 64) * 4;
    EXPECT_NEAR(both.step_ns() - alone.step_ns(), 14 * gradients / 8, 10);
    EXPECT_NEAR(both.tokens, 8 * alone.tokens, 1e-9);
}

TEST(Layout, ZeroSplitsWhatReplicasHold) {
    const Cluster cluster = plain_cluster(2);
    const auto peak = [&](int zero) {
        const LayoutStep step = step_of(kSmall, cluster, {.data = 8, .batch = 8, .zero = zero});
        return step.simulation.lanes.front().peak;
    };
    const double parameters = 8 * 12 * 64.0 * 64 + 128 * 64;
    const auto bytes = [](const MemoryBreakdown& memory, MemoryCategory category) {
        return static_cast<double>(memory[category]);
    };
    for (int zero = 0; zero <= 3; ++zero) {
        const MemoryBreakdown memory = peak(zero);
        EXPECT_NEAR(bytes(memory, MemoryCategory::parameters), 2 * parameters / (zero >= 3 ? 8 : 1), 20) << zero;
        EXPECT_NEAR(bytes(memory, MemoryCategory::gradients), 4 * parameters / (zero >= 2 ? 8 : 1), 20) << zero;
        EXPECT_NEAR(bytes(memory, MemoryCategory::optimizer), 12 * parameters / (zero >= 1 ? 8 : 1), 20) << zero;
    }
}

// 8 replicas sum gradients of 4 bytes and gather parameters of 2 over links of 1 byte a ns.
TEST(Layout, ZeroMovesGradientsAndParameters) {
    const Cluster cluster = plain_cluster(2);
    const double parameters = 8 * 12 * 64.0 * 64 + 128 * 64;
    const double part = 7.0 / 8 * parameters;
    const auto step = [&](int zero, std::int64_t micro_batches) {
        return step_of(kSmall, cluster, {.data = 8, .batch = 8 * micro_batches, .zero = zero});
    };
    const auto pipeline = [&](int zero, std::int64_t micro_batches) {
        return static_cast<double>(step(zero, micro_batches).simulation.step_time.count());
    };
    for (const std::int64_t m : {1, 3}) {
        const auto count = static_cast<double>(m);
        const double work = pipeline(0, m) - 2 * 4 * part;
        EXPECT_NEAR(pipeline(1, m), work + 4 * part, 40 * count);
        EXPECT_NEAR(pipeline(2, m), work + count * 4 * part, 40 * count);
        // Forward and backward also gather; the tied output layer gathers the embedding again.
        EXPECT_NEAR(pipeline(3, m), work + count * (4 * part + 2 * 2 * (part + 7.0 / 8 * 128 * 64)), 60 * count);
    }
    EXPECT_EQ(step(0, 1).gather_ns, 0);
    EXPECT_NEAR(step(1, 1).gather_ns, 2 * part, 1);
    EXPECT_NEAR(step(2, 1).gather_ns, 2 * part, 1);
    EXPECT_EQ(step(3, 1).gather_ns, 0);
}

// Of a backward that is split, the gradients of inputs need the parameters, and sums need the gradients of weights.
TEST(Layout, ZeroSumsBelongToTheHalfOfTheWeights) {
    const Cluster cluster = plain_cluster(2);
    const LanguageModel model = parse_language_model(kSmall);
    const auto halves = [&](int zero, Bytes bucket) {
        Layout layout{.data = 8, .batch = 8, .zero = zero};
        layout.gradient_bucket = bucket;
        const LayerProfile block = language_model_profile(model, cluster, cluster.groups.front(), layout).layers[1];
        const double weights = block.backward_weight_ns.front();
        return std::pair(block.backward_ns.front() - weights, weights);
    };
    const auto [inputs, weights] = halves(0, 0);
    constexpr double kSum = 4 * 7.0 / 8 * 12 * 64 * 64;
    EXPECT_NEAR(halves(2, 0).first, inputs, 1e-6);
    EXPECT_NEAR(halves(2, 0).second, weights + kSum, 1e-6);
    EXPECT_NEAR(halves(3, 0).first, inputs + kSum / 2, 1e-6);
    EXPECT_NEAR(halves(3, 0).second, weights + kSum, 1e-6);
    for (const int zero : {2, 3}) {  // beside the layer's work
        const double gather = zero == 3 ? kSum / 2 : 0;
        const auto [beside_inputs, beside_weights] = halves(zero, 10'000);
        EXPECT_NEAR(beside_inputs, std::max(inputs, gather), 1e-6);
        EXPECT_NEAR(beside_inputs + beside_weights, std::max(inputs + weights, gather + kSum), 1e-6);
    }
}

// What ZeRO moves beside a layer shows only as far as it takes longer.
TEST(Layout, BucketsHideSums) {
    Cluster cluster = plain_cluster(2);
    cluster.between_nodes.bytes_per_second = cluster.groups.front().link.bytes_per_second = 1e18;
    const double work = step_of(kSmall, cluster, {.data = 8, .batch = 16, .zero = 3}).step_ns();
    cluster = plain_cluster(2);
    for (const int zero : {0, 1, 2, 3}) {
        Layout layout{.data = 8, .batch = 16, .zero = zero};
        const LayoutStep after = step_of(kSmall, cluster, layout);
        layout.gradient_bucket = 10'000;
        const LayoutStep beside = step_of(kSmall, cluster, layout);
        EXPECT_LT(beside.step_ns(), after.step_ns()) << zero;
        EXPECT_GE(beside.step_ns(), 0.99 * work) << zero;
        EXPECT_EQ(beside.simulation.lanes[0].peak_bytes, after.simulation.lanes[0].peak_bytes);
    }
}

// Each end has a sum over the ranks: of the embedding's output, and of the gradient of the output layer's input.
TEST(Layout, TensorParallelRanksSumAtBothEnds) {
    Cluster cluster = plain_cluster(1);
    const LanguageModel model = parse_language_model(kSmall);
    const auto profile = [&] {
        return language_model_profile(model, cluster, cluster.groups.front(), Layout{.tensor = 4});
    };
    const Profile slow = profile();
    cluster.groups.front().link.bytes_per_second = 1e18;
    const Profile fast = profile();
    EXPECT_NEAR(slow.layers.front().forward_ns[0] - fast.layers.front().forward_ns[0], 6 * 512, 0.01);
    EXPECT_NEAR(slow.layers.back().backward_ns[0] - fast.layers.back().backward_ns[0], 6 * 512, 0.01);
}

// Interleaving holds 1 + (p - 1) / (p v) times the activations of 1F1B on the first lane (arXiv 2205.05198,
// section 4.2.3).
TEST(Layout, InterleavingHoldsMoreActivations) {
    const Cluster cluster = plain_cluster(1);
    const auto saved = [&](int interleave) {
        const LayoutStep step = step_of("gpt:layers=16,hidden=64,heads=8,sequence=64,vocabulary=8", cluster,
                                        {.pipeline = 4, .interleave = interleave, .batch = 16});
        return static_cast<double>(step.simulation.lanes.front().peak[MemoryCategory::saved]);
    };
    EXPECT_NEAR(saved(2) / saved(1), 1 + 3.0 / 8, 0.02);
    EXPECT_NEAR(saved(4) / saved(1), 1 + 3.0 / 16, 0.02);
}

TEST(Layout, AnyScheduleRuns) {
    const Cluster cluster = plain_cluster(2);
    for (const Schedule& schedule : {Schedule(Schedule::gpipe), Schedule(Schedule::zero_bubble_h1),
                                     Schedule(Schedule::zero_bubble_2p), Schedule(Schedule::automatic)}) {
        Layout layout{.pipeline = 4, .batch = 8};
        layout.schedule = schedule;
        EXPECT_GT(step_of(kSmall, cluster, layout).step_ns(), 0) << to_string(schedule);
    }
    for (const Schedule& schedule : {Schedule(Schedule::zero_bubble_v), Schedule(Schedule::v_half)}) {
        Layout layout{.pipeline = 4, .interleave = 2, .batch = 8};
        layout.schedule = schedule;
        EXPECT_GT(step_of(kSmall, cluster, layout).step_ns(), 0) << to_string(schedule);
    }
}

TEST(Layout, AProfileHasPipelineAndDataParallelismOnly) {
    Profile profile;
    profile.model = "test";
    profile.samples = {1};
    LayerProfile layer;
    layer.name = "layer";
    layer.forward_ns = {1000};
    layer.backward_ns = {2000};
    layer.output_bytes = {500};
    layer.gradient_bytes = 800;
    profile.layers.assign(4, layer);
    const Cluster cluster = plain_cluster(2);
    const NodeGroup& group = cluster.groups.front();
    const Layout layout{.pipeline = 2, .data = 2, .batch = 8, .dtype = "float32"};
    const LayoutStep step = simulate_layout(CheckedProfile(profile), {}, cluster, group, layout);
    EXPECT_EQ(step.simulation.options.balance, Balance({2, 2}));
    // Four micro-batches of 3 x 2000 ns, the ramp of one, copies of 500 ns, two replicas' 1600 bytes.
    EXPECT_GE(step.step_ns(), 5 * 6000 + 1600);
    // With full recompute each lane repeats 2000 ns of forwards a micro-batch.
    PipelineOptions options;
    options.checkpoint = Checkpoint::never;
    Layout again = layout;
    const auto none =
        simulate_layout(CheckedProfile(profile), options, cluster, group, again).simulation.lanes[0].busy.count();
    again.recompute = Recompute::full;
    const LayoutStep full = simulate_layout(CheckedProfile(profile), options, cluster, group, again);
    EXPECT_EQ(full.simulation.lanes[0].busy.count(), none + 4 * 2000);
    EXPECT_NEAR(step_parts(full).recompute, 4 * 2000 / full.step_ns(), 1e-9);
    EXPECT_THAT(
        thrown<UsageError>([&] { simulate_layout(CheckedProfile(profile), {}, cluster, group, {.tensor = 2}); }),
        HasSubstr("splits the layers of a profile"));
}

// Four lanes on two cores, of which a list for two lanes tells only a part.
TEST(Layout, TakesAProfilesTimesBackToThoseOfALaneAloneAsWithoutACluster) {
    Profile alone;
    alone.samples = {1};
    LayerProfile layer;
    layer.name = "layer";
    layer.forward_ns = {1000};
    layer.backward_ns = {2000};
    layer.output_bytes = {500};
    layer.parameter_bytes = layer.gradient_bytes = 8;
    alone.layers.assign(4, layer);
    alone.loss_ns = {500};
    alone.optimizer_ns = 700;
    const auto slowed_by = [](double slowdown, Profile slowed) {
        slowed.co_running_lanes = 4;
        slowed.host_cores = 2;
        slowed.co_running_slowdown = {1, 1.5};
        for (LayerProfile& each : slowed.layers) {
            each.forward_ns = {1000 * slowdown};
            each.backward_ns = {2000 * slowdown};
        }
        slowed.loss_ns = {500 * slowdown};
        slowed.optimizer_ns = 700 * slowdown;
        return slowed;
    };
    const CheckedProfile slowed = slowed_by(1.5 * 4 / 2, alone);
    Cluster cluster = plain_cluster(2);
    const Layout layout{.pipeline = 2, .batch = 8, .dtype = "float32"};
    for (const char* type : {"plain", "cpu"}) {  // another one and, as it says, the profile's own
        cluster.groups.front().device.name = type;
        const LayoutStep expected = simulate_layout(CheckedProfile(alone), {}, cluster, cluster.groups.front(), layout);
        const LayoutStep found = simulate_layout(slowed, {}, cluster, cluster.groups.front(), layout);
        EXPECT_EQ(found.simulation.step_time, expected.simulation.step_time) << type;
        EXPECT_EQ(found.step_ns(), expected.step_ns()) << type;
        EXPECT_FALSE(found.tflops_per_device()) << "the profile has no operations";
        EXPECT_EQ(simulate(slowed, found.simulation.options).step_time, found.simulation.step_time)
            << "without a cluster, " << type;
    }
    // Of two types, one is the profile's own: its lanes shared no cores. Times on the other are estimated.
    cluster.groups.front().device.name = alone.device = "plain";
    cluster.groups.push_back(cluster.groups.front());
    cluster.groups.back().device.name = "other";
    for (LayerProfile& each : alone.layers) {
        each.flops = {100};
    }
    for (const char* types : {"plain:1,other:1", "other:1,plain:1"}) {
        const PipelineParts parts = parse_pipeline_parts(types, cluster, 2);
        EXPECT_EQ(simulate_layout(slowed_by(1.5, alone), {}, cluster, parts, layout).step_ns(),
                  simulate_layout(CheckedProfile(alone), {}, cluster, parts, layout).step_ns())
            << types;
    }
}

TEST(Layout, KnowsWhereTheLinksOfItsPipelineLie) {
    Cluster cluster = plain_cluster(8);
    cluster.racks = Racks{2, {.bytes_per_second = 0.1e9}};
    Layout layout{.pipeline = 16, .data = 1, .tensor = 2};
    layout.batch = 16;
    const LanguageModel model = parse_language_model("gpt:layers=16,hidden=64,heads=4,sequence=16,vocabulary=128");
    const Hardware hardware =
        simulate_layout(model, cluster, cluster.groups.front(), layout).simulation.options.hardware;
    const auto place = [&](int a) { return link_between(hardware, LaneId{a}, LaneId{a + 1}).place; };
    EXPECT_EQ(place(0), LinkPlace::inside_node);    // nodes of four devices hold two lanes
    EXPECT_EQ(place(1), LinkPlace::between_nodes);  // racks hold two nodes
    EXPECT_EQ(place(3), LinkPlace::between_racks);
}
}  // namespace
}  // namespace pipescope
