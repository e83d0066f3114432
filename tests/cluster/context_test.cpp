// Context parallelism on clusters: what is sent, held and summed, by hand.

#include "base/error.h"
#include "cluster/cluster_plan.h"
#include "cluster/layout.h"
#include "cluster/step_parts.h"
#include "simulator/plan/planner.h"
#include "tests/cluster/clusters.h"
#include "tests/simulator/profiles.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

// Keys and values of 32 each.
const std::string kLong =
    "gpt:layers=4,hidden=64,heads=4,kv_heads=2,sequence=8192,vocabulary=128,gated=true,mlp=256,tied=true";

/// Forward and backward of a block in ns, with links of that many bytes a ns.
std::pair<double, double> block_of(const Layout& layout, double inside, double between) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().link.bytes_per_second = inside * 1e9;
    cluster.between_nodes.bytes_per_second = between * 1e9;
    const LayerProfile layer =
        language_model_profile(parse_language_model(kLong), cluster, cluster.groups.front(), layout).layers[1];
    return {layer.forward_ns.front(), layer.backward_ns.front()};
}

TEST(ContextParallelism, SplitsTheWorkOfASample) {
    const auto [forward, backward] = block_of({}, 1e9, 1e9);
    for (const int context : {2, 4}) {
        const auto [split_forward, split_backward] = block_of({.context = context}, 1e9, 1e9);
        EXPECT_NEAR(context * split_forward / forward, 1, 0.05) << context;
        EXPECT_NEAR(context * split_backward / backward, 1, 0.05) << context;
    }
    const Cluster cluster = plain_cluster(1);
    const LayoutStep whole = step_of(kLong, cluster, {});
    const LayoutStep split = step_of(kLong, cluster, {.context = 4});
    EXPECT_EQ((*split.profile)->layers[1].flops.front(), (*whole.profile)->layers[1].flops.front() / 4);
    EXPECT_EQ((*split.profile)->layers.back().flops.front(), (*whole.profile)->layers.back().flops.front() / 4);
    EXPECT_EQ(split.tokens, whole.tokens);
    EXPECT_EQ(split.model_flops, whole.model_flops);
    EXPECT_EQ(split.layout.devices(), 4);
    EXPECT_EQ(split.layout.micro_batches(), 1);
}

// A device sends the 2 x 32 keys and values of its 2048 tokens, 2 bytes each: three times in the forward, three times
// in the backward with as many gradients one turn later, so that two of four turns send both. A turn of attention takes
// seconds, so that links of a byte a ns hide all of it, and only slow ones show.
TEST(ContextParallelism, WaitsForKeysAndValuesThatAttentionDoesNotHide) {
    constexpr double kBytes = 2048 * 2 * 32 * 2;
    Layout layout{.context = 4};
    EXPECT_EQ(block_of(layout, 1, 1), block_of(layout, 1e9, 1));
    const auto longer = [&](const Layout& of) {
        const auto [forward, backward] = block_of(of, 1e-6, 1);
        const auto [less_forward, less_backward] = block_of(of, 2e-6, 1);
        return std::pair(forward - less_forward, backward - less_backward);
    };
    const double difference = kBytes / 1e-6 - kBytes / 2e-6;
    EXPECT_NEAR(longer(layout).first / difference, 3, 1e-6);
    EXPECT_NEAR(longer(layout).second / difference, 6, 1e-6);
    layout.context = 2;  // twice as many tokens: once forward, once back, once gradients
    EXPECT_NEAR(longer(layout).first / difference, 2, 1e-6);
    EXPECT_NEAR(longer(layout).second / difference, 4, 1e-6);
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        layout.recompute = recompute;
        EXPECT_NEAR(longer(layout).second / difference, 6, 1e-6) << to_string(recompute);
    }
}

// Tensor-parallel devices are nearest to each other: with four of them in a node, keys and values leave it. A device
// has one of two heads of them.
TEST(ContextParallelism, LiesAroundTensorParallelism) {
    const Layout layout{.tensor = 4, .context = 2, .sequence_parallel = true};
    const double between = block_of(layout, 1, 1e-6).first - block_of(layout, 1, 2e-6).first;
    EXPECT_NEAR(between / (4096 * 2 * 16 * 2 / 2e-6), 1, 1e-6);
    EXPECT_EQ(block_of({.tensor = 2, .context = 2, .sequence_parallel = true}, 1, 1e-6),
              block_of({.tensor = 2, .context = 2, .sequence_parallel = true}, 1, 1));
}

TEST(ContextParallelism, HoldsAPartOfTheActivationsAndAllWeights) {
    const Cluster cluster = plain_cluster(2);
    const auto step = [&](int data, int context, int zero) {
        return step_of(kLong, cluster, {.data = data, .context = context, .batch = 2, .zero = zero});
    };
    const auto bytes = [](const LayoutStep& of, MemoryCategory category) {
        return static_cast<double>(of.simulation.lanes.front().peak[category]);
    };
    const LayoutStep whole = step(2, 1, 0);
    const LayoutStep split = step(2, 4, 0);
    EXPECT_NEAR(bytes(split, MemoryCategory::saved) / bytes(whole, MemoryCategory::saved), 0.25, 1e-3);
    for (const MemoryCategory category :
         {MemoryCategory::parameters, MemoryCategory::gradients, MemoryCategory::optimizer}) {
        EXPECT_EQ(bytes(split, category), bytes(whole, category));
    }
    // ZeRO splits among the replicas' devices that share their samples too.
    for (int zero = 1; zero <= 3; ++zero) {
        const auto share = [&](MemoryCategory category) {
            return bytes(step(2, 4, zero), category) / bytes(whole, category);
        };
        EXPECT_NEAR(share(MemoryCategory::optimizer), 1 / 8.0, 1e-3);
        EXPECT_NEAR(share(MemoryCategory::gradients), zero >= 2 ? 1 / 8.0 : 1, 1e-3);
        EXPECT_NEAR(share(MemoryCategory::parameters), zero >= 3 ? 1 / 8.0 : 1, 1e-3);
    }
}

// Replicas divide the batch; all their devices sum gradients: 6 messages of a quarter of 4 bytes for each weight.
TEST(ContextParallelism, SumsGradientsOverAllDevicesWithTheSameWeights) {
    const Cluster cluster = plain_cluster(1);
    const double weights = 4 * (64 * (2 * 64 + 2 * 32) + 3 * 64 * 256) + 128 * 64;
    for (const auto& [data, context] : {std::pair(2, 2), std::pair(1, 4), std::pair(4, 1)}) {
        const LayoutStep step = step_of(kLong, cluster, {.data = data, .context = context, .batch = 4});
        EXPECT_EQ(step.simulation.micro_batches, 4 / data);
        for (const Slice& slice : step.simulation.timeline.slices) {
            if (slice.key.kind == TaskKind::all_reduce) {
                EXPECT_NEAR(static_cast<double>((slice.end - slice.start).count()), 6 * 4 * weights / 4, 1);
            }
        }
        EXPECT_TRUE(std::ranges::any_of(step.simulation.timeline.slices,
                                        [](const Slice& slice) { return slice.key.kind == TaskKind::all_reduce; }));
    }
}

TEST(ContextParallelism, SharesItsDevicesWithExperts) {
    const Cluster cluster = plain_cluster(1);
    const std::string model = kLong + ",experts=4,top_k=2";
    const LayoutStep step = step_of(model, cluster, {.context = 4, .expert = 4});
    EXPECT_EQ((*step.profile)->layers[1].expert_gradient_bytes, 4 * 3 * 64 * 256);
    EXPECT_EQ(to_string(step.layout), "p1 d1 c4 t1 e4 v1 b1");
    // 2048 tokens a device, two copies of 64 x 2 bytes, three quarters of which go to others, twice in each pass.
    EXPECT_NEAR(step_parts(step).all_to_all, 4 * 4 * 2048 * 2 * 128 * 0.75 / step.step_ns(), 1e-9);
}

TEST(ContextParallelism, RefusesWhatItCannotSplit) {
    const Cluster cluster = plain_cluster(2);
    const auto refuses = [&](const std::string& model, const Layout& layout, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { step_of(model, cluster, layout); }), HasSubstr(part));
    };
    refuses(kLong, {.context = 0}, "context-parallel is 0");
    refuses(kLong, {.context = 3}, "so that 6 must divide the model's sequence, 8192");
    refuses(kLong + ",attention=standard", {.context = 2}, "add attention=flash");
    refuses(kLong, {.pipeline = 4, .context = 4, .batch = 4}, "needs 16 devices");
    EXPECT_THAT(thrown<UsageError>(
                    [&] { simulate_layout(uniform_profile(2), {}, cluster, cluster.groups.front(), {.context = 2}); }),
                HasSubstr("splits the layers of a profile"));
}

TEST(ContextParallelism, IsAPartOfTheStep) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().link.bytes_per_second = 1e3;
    Layout layout{.pipeline = 2, .data = 2, .context = 4, .batch = 8};
    layout.recompute = Recompute::full;
    const StepParts parts = step_parts(step_of(kLong, cluster, layout));
    double sum = 0;
    for (const NamedPart& each : named_parts(parts)) {
        EXPECT_GE(each.share, 0) << each.name;
        sum += each.share;
    }
    EXPECT_NEAR(sum, 1, 1e-9);
    EXPECT_GT(parts.context, 0.1);
    EXPECT_THAT(to_string(parts), HasSubstr("context "));
    cluster.groups.front().link.bytes_per_second = 1e9;
    EXPECT_EQ(step_parts(step_of(kLong, cluster, layout)).context, 0);
}

TEST(ContextPlan, IsThatOfAllLayoutsSimulated) {
    std::mt19937 random(25);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int split = 0;
    for (int round = 0; round < 8; ++round) {
        LanguageModel model = parse_language_model(kLong);
        model.layers = draw(2, 5);
        model.heads = model.kv_heads = draw(1, 2);
        if (round % 4 == 3) {
            model.experts = 2;
            model.top_k = 1;
            model.expert_hidden = 64;
        }
        Cluster cluster = plain_cluster(2);
        cluster.groups.front().link.bytes_per_second = draw(1, 1000) * 1e5;
        cluster.between_nodes.bytes_per_second = draw(1, 1000) * 1e5;
        cluster.groups.front().device.memory_bytes = Bytes{1} << draw(23, 28);
        ClusterPlanRequest request;
        request.threads = 2;
        request.devices = {{4, 1'000}};
        request.layout.batch = draw(1, 2) * 2;
        request.schedules = {Schedule::one_f_one_b, round % 2 == 0 ? Schedule(Schedule::interleaved_1f1b)
                                                                   : Schedule(Schedule::zero_bubble_h1)};
        request.layout.gradient_bucket = round % 4 < 2 ? 0 : 10'000;
        const ClusterPlan pruned = plan_cluster(model, cluster, request);
        request.exhaustive = true;
        const ClusterPlan all = plan_cluster(model, cluster, request);
        EXPECT_EQ(candidates_of(pruned), candidates_of(all)) << "round " << round;
        EXPECT_LE(pruned.simulated, all.simulated);
        split += static_cast<int>(std::ranges::count_if(
            all.candidates, [](const ClusterCandidate& each) { return each.step.layout.context > 1; }));
    }
    EXPECT_GT(split, 8);
}

// One sample, one head: only lanes and parts of the sample use all devices, and lanes would wait.
TEST(ContextPlan, SplitsTheOnlySample) {
    LanguageModel model = parse_language_model(kLong);
    model.heads = model.kv_heads = 1;
    ClusterPlanRequest request;
    request.devices = {{4, 4}};
    const Layout best = plan_cluster(model, plain_cluster(1), request).candidates.front().step.layout;
    EXPECT_EQ(best.context, 4);
    // Parts of less than 2048 tokens are not tried.
    model.sequence = 4096;
    const Layout shorter = plan_cluster(model, plain_cluster(1), request).candidates.front().step.layout;
    EXPECT_EQ(shorter.context, 2);
}
}  // namespace
}  // namespace pipescope
