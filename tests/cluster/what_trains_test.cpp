// Frozen layers, LoRA, and optimizers: what a device holds and how long it takes.

#include "base/error.h"
#include "cluster/cluster_plan.h"
#include "cluster/planned_run.h"
#include "simulator/plan/planner.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

constexpr double kTrainedHidden = 64;
constexpr double kBlock = 12 * kTrainedHidden * kTrainedHidden;  // weights: four matrices of attention, two of 4 hidden
constexpr double kMatrix = 256 * kTrainedHidden;                 // embedding, and output layer
const std::string kPlain =
    "gpt:layers=4,hidden=64,heads=4,sequence=32,vocabulary=256,tied=false,dropout=false,attention=flash";

Profile profile_of(const std::string& model, const Layout& layout, const Cluster& cluster) {
    return language_model_profile(parse_language_model(model), cluster, cluster.groups.front(), layout);
}
Bytes peak_of(const std::string& model, const Layout& layout) {
    return highest_peak(step_of(model, plain_cluster(1), layout).simulation);
}

/// Bytes of state for each weight of a block, and of the embedding and the output layer, in bfloat16.
struct States {
    ModelOptimizer optimizer;
    double block = 0;
    double end = 0;
};

// A float32 copy has 4 bytes. Two float32 moments have 8, two bfloat16 ones 4, two of a byte with their scales 2 + 8 /
// 256.
const std::vector<States> kStates = {
    {ModelOptimizer::adam, 12, 12},    {ModelOptimizer::bf16_adam, 8, 8}, {ModelOptimizer::adam8bit, 6.03125, 6.03125},
    {ModelOptimizer::adafactor, 4, 4}, {ModelOptimizer::muon, 8, 12},     {ModelOptimizer::momentum, 8, 8},
    {ModelOptimizer::sgd, 4, 4},
};

TEST(WhatTrains, OptimizersDifferByTheBytesOfTheirStates) {
    const Bytes without = peak_of(kPlain, {.optimizer = ModelOptimizer::sgd, .no_master_weights = true});
    for (const States& each : kStates) {
        const double bytes = 4 * kBlock * each.block + 2 * kMatrix * each.end;
        EXPECT_NEAR(static_cast<double>(peak_of(kPlain, {.optimizer = each.optimizer}) - without), bytes, 8)
            << to_string(each.optimizer);
    }
}

// Muon keeps more of the embedding and the output layer than of blocks.
TEST(WhatTrains, AllStateCountsAsTheOptimizers) {
    for (const States& each : kStates) {
        const LayoutStep step = step_of(kPlain, plain_cluster(1), {.optimizer = each.optimizer});
        const MemoryBreakdown& peak = step.simulation.lanes.front().peak;
        EXPECT_NEAR(static_cast<double>(peak[MemoryCategory::optimizer]),
                    4 * kBlock * each.block + 2 * kMatrix * each.end, 8)
            << to_string(each.optimizer);
        EXPECT_NEAR(static_cast<double>(peak[MemoryCategory::parameters]), 2 * (4 * kBlock + 2 * kMatrix), 8)
            << to_string(each.optimizer);
        for (const MemorySample& sample : step.simulation.memory) {
            EXPECT_EQ(sample.composition[MemoryCategory::optimizer], peak[MemoryCategory::optimizer]);
        }
    }
}

TEST(WhatTrains, UpdateMovesGradientsStateAndParameters) {
    const Cluster cluster = plain_cluster(1);  // a byte takes a ns, as does an operation
    for (const States& each : kStates) {
        // The gradient of 4 bytes is read twice, state is read and written, the parameter of 2 bytes is written.
        double ns = 4 * kBlock * (8 + 2 * each.block + 2) + 2 * kMatrix * (8 + 2 * each.end + 2);
        if (each.optimizer == ModelOptimizer::muon) {
            // Five steps of two products of n n m and one of n n n multiply-adds.
            const double square = 5 * 2 * 3 * 64.0 * 64 * 64;
            const double wide = 5 * 2 * (2 * 64.0 * 64 * 256 + 64.0 * 64 * 64);
            ns += 4 * (4 * square + 2 * wide);
        }
        EXPECT_NEAR(step_of(kPlain, cluster, {.optimizer = each.optimizer}).optimizer_ns, ns, 1e-6 * ns)
            << to_string(each.optimizer);
    }
}

/// Two experts in each block, split over four tensor-parallel devices.
const std::string kWithExperts = kPlain + ",experts=2,top_k=1,expert_hidden=256";
Layout split_experts() {
    TrainingProgram program;
    program.split_experts_from = 1;
    Layout layout{.tensor = 4, .expert_tensor = 4, .sequence_parallel = true};
    layout.program = std::make_shared<const TrainingProgram>(program);
    return layout;
}

// Each device has all experts, each with a quarter of its width.
TEST(WhatTrains, RanksThatSplitExpertsUpdateTheirPartsOfMatrices) {
    const auto update_ns = [](ModelOptimizer optimizer) {
        Layout layout = split_experts();
        layout.optimizer = optimizer;
        return step_of(kWithExperts, plain_cluster(1), layout).optimizer_ns;
    };
    const double block = 4 * newton_schulz_flops(64, 16) + 2 * 2 * newton_schulz_flops(64, 64);
    const double moments_of_ends = 2 * kMatrix / 4 * 2 * 4;  // Adam's second one, read and written
    const double more = update_ns(ModelOptimizer::muon) - update_ns(ModelOptimizer::momentum);
    EXPECT_NEAR(more, 4 * block + moments_of_ends, 1e-6 * more);
}

TEST(WhatTrains, RanksThatSplitExpertsHaveLorasMatricesBesideTheirParts) {
    const LanguageModel model = parse_language_model(kWithExperts + ",lora=2");
    const double usual = 2 * 4 * (64 + 16);
    const double experts = 2 * 2 * 2 * (64 + 64);
    const RankWeights trained = rank_trained_block_weights(model, BlockKind::experts, 4, {1, 4});
    EXPECT_EQ(trained.usual, usual);
    EXPECT_EQ(trained.experts, experts);
    // Halves of a rank's copies of four ranks, since top_k picks one of two experts for each of 32 tokens.
    const Layout split = split_experts();
    const auto more = [&](const std::string& model_text) {
        const LayerProfile with = profile_of(model_text + ",lora=2", split, plain_cluster(1)).layers[1];
        const LayerProfile without = profile_of(model_text, split, plain_cluster(1)).layers[1];
        return with.saved_bytes.front() - without.saved_bytes.front();
    };
    EXPECT_EQ(more(kWithExperts), 2 * 2 * 32 * (4 + 2));  // bytes of two numbers beside each matrix, for each token
}

TEST(WhatTrains, RanksThatSplitExpertsHaveTheWholeBiasOfTheirOutputs) {
    const LanguageModel model = parse_language_model(kWithExperts + ",norm=rms,mlp_bias=true");
    EXPECT_EQ(rank_block_weights(model, BlockKind::experts, 4, {1, 4}).experts, 2 * (2 * 64 * 64 + 64 + 64));
    EXPECT_EQ(rank_block_weights(model, BlockKind::experts, 4, {2, 1}).experts, 2 * 64 * 256 + 256 + 64);
}

TEST(WhatTrains, OffloadedStateIsNotOnTheDeviceAndCrossesItsLinkTwice) {
    const Cluster cluster = plain_cluster(1);
    const double state = 12 * (4 * kBlock + 2 * kMatrix);
    const LayoutStep here = step_of(kPlain, cluster, {});
    for (const double rate : {0.25e9, 4e9}) {  // slower and faster than the update
        const LayoutStep away = step_of(kPlain, cluster, {.offload_rate = rate});
        EXPECT_NEAR(away.optimizer_ns, std::max(here.optimizer_ns, state / rate * 1e9), 1);
        EXPECT_DOUBLE_EQ(away.offloaded_bytes, 2 * state);
        EXPECT_NEAR(static_cast<double>(highest_peak(here.simulation) - highest_peak(away.simulation)), state, 8);
    }
    // ZeRO splits what moves, too.
    const LayoutStep split = step_of(kPlain, cluster, {.data = 4, .batch = 4, .zero = 1, .offload_rate = 1e9});
    EXPECT_DOUBLE_EQ(split.offloaded_bytes, 2 * state / 4);
    EXPECT_THAT(thrown<UsageError>([&] {
                    step_of(kPlain, cluster,
                            {.optimizer = ModelOptimizer::sgd, .no_master_weights = true, .offload_rate = 1e9});
                }),
                HasSubstr("which keeps no state"));
}

TEST(WhatTrains, FrozenBlocksOnlyRunForward) {
    const Cluster cluster = plain_cluster(1);
    const Profile whole = profile_of(kPlain, {}, cluster);
    const Profile half = profile_of(kPlain + ",frozen=2", {}, cluster);
    for (std::size_t l = 0; l < 3; ++l) {  // the embedding and two blocks
        EXPECT_EQ(half.layers[l].forward_ns, whole.layers[l].forward_ns);
        EXPECT_EQ(half.layers[l].backward_ns.front(), 0);
        EXPECT_EQ(half.layers[l].gradient_bytes, 0);
        EXPECT_EQ(half.layers[l].saved_bytes.front(), 0);
        EXPECT_EQ(half.layers[l].parameter_bytes, whole.layers[l].parameter_bytes);
    }
    for (std::size_t l = 3; l < 6; ++l) {
        EXPECT_EQ(half.layers[l].backward_ns, whole.layers[l].backward_ns);
        EXPECT_EQ(half.layers[l].gradient_bytes, whole.layers[l].gradient_bytes);
    }
    // One device: the sum of the layers for two micro-batches, and the update of what trains.
    double ns = 0;
    for (const LayerProfile& layer : half.layers) {
        ns += 2 * (layer.forward_ns.front() + layer.backward_ns.front());
    }
    const LayoutStep step = step_of(kPlain + ",frozen=2", cluster, {.batch = 2});
    EXPECT_NEAR(step.step_ns(), ns + (2 * kBlock + kMatrix) * (8 + 24 + 2), 20);
    EXPECT_EQ(step.trained_parameters, 2 * kBlock + kMatrix);
    EXPECT_EQ(step.parameters, 4 * kBlock + 2 * kMatrix);
}

TEST(WhatTrains, FrozenBlocksRepeatNothing) {
    const std::string text = kPlain + ",frozen=1";
    const LanguageModel model = parse_language_model(text);
    const auto repeated = [&](Recompute recompute, double share) {
        TrainingProgram program;
        program.selective_share = share;
        Layout layout{.batch = 2, .recompute = recompute};
        layout.program = std::make_shared<const TrainingProgram>(program);
        return step_of(text, plain_cluster(1), layout).recomputed_flops;
    };
    EXPECT_EQ(repeated(Recompute::none, 0), 0);
    EXPECT_EQ(repeated(Recompute::selective, 0), 3 * attention_flops(model, BlockKind::dense, 2));
    EXPECT_EQ(repeated(Recompute::selective, 0.5), 3 * block_flops(model, BlockKind::dense, 2) / 2);
    EXPECT_EQ(repeated(Recompute::full, 0), 3 * block_flops(model, BlockKind::dense, 2));
}

// Gradients of 4 bytes and state of 12 for what trains; a frozen block keeps nothing for a backward.
TEST(WhatTrains, FrozenBlocksHaveNeitherGradientsNorState) {
    const Layout one{};
    const auto constants = [&](const std::string& model) {
        const Profile profile = profile_of(model, one, plain_cluster(1));
        return std::accumulate(profile.layers.begin(), profile.layers.end(), 0.0,
                               [](double sum, const LayerProfile& layer) {
                                   return sum + static_cast<double>(layer.parameter_bytes + 4 * layer.gradient_bytes);
                               });
    };
    EXPECT_EQ(constants(kPlain), 18 * (4 * kBlock + 2 * kMatrix));
    EXPECT_EQ(constants(kPlain + ",frozen=2"), 2 * (4 * kBlock + 2 * kMatrix) + 16 * (2 * kBlock + kMatrix));
    const double saved = profile_of(kPlain, one, plain_cluster(1)).layers[1].saved_bytes.front();
    const Bytes less = peak_of(kPlain, one) - peak_of(kPlain + ",frozen=2", one);
    EXPECT_GE(less, static_cast<Bytes>(16 * (2 * kBlock + kMatrix) + saved));
}

TEST(WhatTrains, SumsOnlyGradientsOfWhatTrains) {
    const auto sums = [](const std::string& model) {
        const LayoutStep step = step_of(model, plain_cluster(2), {.data = 8, .batch = 8});
        Nanoseconds sum{0};
        for (const Slice& slice : step.simulation.timeline.slices) {
            sum += slice.key.kind == TaskKind::all_reduce ? slice.duration() : Nanoseconds{0};
        }
        return static_cast<double>(sum.count());
    };
    EXPECT_NEAR(sums(kPlain + ",frozen=2") / sums(kPlain), (2 * kBlock + kMatrix) / (4 * kBlock + 2 * kMatrix), 0.01);
}

// As PEFT prints for Llama 2 7B with rank 8 beside all linear layers.
TEST(WhatTrains, LoraHasTheParametersThatPeftCounts) {
    const LanguageModel llama = parse_language_model(
        "gpt:layers=32,hidden=4096,heads=32,sequence=4096,vocabulary=32000,mlp=11008,gated=true,norm=rms,lora=8");
    EXPECT_EQ(trained_parameters_of(llama), 19'988'480);
    EXPECT_EQ(parameters_of(llama), 6'738'415'616 + 19'988'480);
}

TEST(WhatTrains, LoraComputesNoGradientsOfFrozenMatrices) {
    const LanguageModel plain = parse_language_model(kPlain);
    const LanguageModel lora = parse_language_model(kPlain + ",lora=2");
    // Per token two passes of the frozen matrices, three of the small ones (6 inputs and outputs of 2 x 64, and those
    // of 64 x 256) and of attention.
    const double small = 2 * (4 * (64 + 64) + 2 * (64 + 256));
    const double attention = 4 * attention_flops(plain, BlockKind::dense, 1);
    EXPECT_DOUBLE_EQ(step_flops(lora, 1), 2 * 2 * 32 * (4 * kBlock + kMatrix) + 3 * 2 * 32 * 4 * small + 3 * attention);
    EXPECT_EQ(trained_parameters_of(lora), 4 * small);
    const Cluster cluster = plain_cluster(1);
    const LayerProfile full = profile_of(kPlain, {}, cluster).layers[1];
    const LayerProfile with = profile_of(kPlain + ",lora=2", {}, cluster).layers[1];
    EXPECT_GT(with.forward_ns.front(), full.forward_ns.front());
    EXPECT_EQ(with.gradient_bytes, static_cast<Bytes>(4 * small));
    EXPECT_EQ(with.parameter_bytes, static_cast<Bytes>(2 * (kBlock + small)));
}

// Small products fill their tiles badly, so this holds only for layers that are large in comparison.
TEST(WhatTrains, LoraMakesABackwardShorter) {
    const std::string large =
        "gpt:layers=1,hidden=4096,heads=32,sequence=2048,vocabulary=256,tied=false,dropout=false,attention=flash";
    const Cluster cluster = plain_cluster(1);
    const LayerProfile full = profile_of(large, {}, cluster).layers[1];
    const LayerProfile with = profile_of(large + ",lora=8", {}, cluster).layers[1];
    EXPECT_LT(with.backward_weight_ns.front(), 0.2 * full.backward_weight_ns.front());
    EXPECT_LT(with.backward_ns.front(), 0.75 * full.backward_ns.front());
    EXPECT_LT(with.forward_ns.front(), 1.15 * full.forward_ns.front());
}

TEST(WhatTrains, RefusesPartsThatDoNotFit) {
    const auto refuses = [](const std::string& keys, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_language_model(kPlain + keys); }), HasSubstr(part));
    };
    refuses(",frozen=5", "frozen is 5 of 4 layers");
    refuses(",lora=65", "lora is 65, wider than hidden, 64");
    refuses(",frozen=1,lora=2", "has frozen and lora");
    refuses(",frozen=4,mtp=1", "freeze fewer");
    EXPECT_THAT(
        thrown<UsageError>([] { step_of(kPlain + ",lora=2", plain_cluster(1), {.optimizer = ModelOptimizer::muon}); }),
        HasSubstr("use adam"));
    EXPECT_THAT(thrown<UsageError>([] { parse_model_optimizer("lion"); }), HasSubstr("adam8bit, adafactor, muon"));
    EXPECT_EQ(parse_model_optimizer("adamw"), ModelOptimizer::adam);
}

// A plan leaves out what a bound excludes. If some bound were too large, simulating everything would find other
// candidates.
TEST(WhatTrains, BoundsOfPlansHold) {
    Cluster cluster = plain_cluster(2);
    cluster.groups.front().device.memory_bytes = 3 << 20;  // some layouts do not fit
    for (const std::string keys : {"", ",frozen=2", ",lora=2", ",frozen=1,mtp=1"}) {
        for (const ModelOptimizer optimizer : {ModelOptimizer::adam, ModelOptimizer::muon, ModelOptimizer::sgd}) {
            for (const double rate : {0.0, 0.5e9}) {
                if (optimizer == ModelOptimizer::muon && keys == ",lora=2") {
                    continue;
                }
                ClusterPlanRequest request{
                    .layout = {.batch = 16, .optimizer = optimizer, .offload_rate = rate},
                    .schedules = {usual_schedule(1), usual_schedule(2), Schedule::zero_bubble_v}};
                const LanguageModel model = parse_language_model(kPlain + keys);
                const ClusterPlan bounded = plan_cluster(model, cluster, request);
                request.exhaustive = true;
                const ClusterPlan all = plan_cluster(model, cluster, request);
                EXPECT_EQ(candidates_of(bounded), candidates_of(all)) << keys << " " << to_string(optimizer) << rate;
                EXPECT_FALSE(all.candidates.empty());
            }
        }
    }
}

TEST(WhatTrains, SaveHoldsParametersAndState) {
    const LanguageModel model = parse_language_model(kPlain + ",frozen=2");
    EXPECT_EQ(save_bytes(model, {}), 2 * (4 * kBlock + 2 * kMatrix) + 12 * (2 * kBlock + kMatrix));
    const Layout muon{.optimizer = ModelOptimizer::muon};
    EXPECT_EQ(save_bytes(model, muon), 2 * (4 * kBlock + 2 * kMatrix) + 8 * 2 * kBlock + 12 * kMatrix);
}
}  // namespace
}  // namespace pipescope
