// Costs of models whose blocks differ, by hand: windows, latent attention, states, modules that predict further tokens,
// and experts that are unequally busy.

#include "cluster/cluster_plan.h"
#include "cluster/layout.h"
#include "tests/cluster/clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
const std::string kStored = "gpt:layers=4,hidden=64,heads=8,sequence=4096,vocabulary=128,mlp=256,dropout=false";
const std::string kBase = kStored + ",attention=flash";
constexpr double kTokens = 4096;
constexpr double kHidden = 64;

/// Devices that move bytes in no time.
Cluster cluster_for_products() {
    Cluster cluster = plain_cluster(1);
    cluster.groups.front().device.memory_bytes_per_second = 1e30;
    cluster.groups.front().link = {.bytes_per_second = 1e30};
    cluster.between_nodes = {.bytes_per_second = 1e30};
    return cluster;
}
/// Time of products on such a device.
double product(double tokens, double outputs, double inputs, double products = 1) {
    const DeviceType device = cluster_for_products().groups.front().device;
    return estimated_ns(device, "bfloat16", matmul_work(device, "bfloat16", tokens, outputs, inputs, products));
}
/// Time of a flash kernel over all tokens, which reaches that share of a product's rate. Half of the pairs are causal.
double flash(double width, double tokens = kTokens, double heads = 8) {
    constexpr double kShareOfProducts = 0.7;
    return product(tokens, width, tokens, heads) / kShareOfProducts;
}
double feed_forward(double width) {
    return product(kTokens, width, kHidden) + product(kTokens, kHidden, width);
}
double attention_matrices() {
    return product(kTokens, 3 * kHidden, kHidden) + product(kTokens, kHidden, kHidden);
}
Profile profile_of(const std::string& text, const Layout& layout = {}) {
    const Cluster cluster = cluster_for_products();
    return language_model_profile(parse_language_model(text), cluster, cluster.groups.front(), layout);
}
/// Time of a forward of that layer.
double forward_of(const std::string& text, std::size_t layer, const Layout& layout = {}) {
    return profile_of(text, layout).layers[layer].forward_ns.front();
}

TEST(UnlikeBlocks, WindowsTakeTheirPairs) {
    const std::string model = kBase + ",window=512,full_every=2";
    const double matrices = attention_matrices() + feed_forward(256);
    EXPECT_NEAR(forward_of(model, 2), matrices + flash(8), 1);
    const double share = (2 * kTokens * 512 - 512.0 * 512) / (kTokens * kTokens);
    EXPECT_NEAR(forward_of(model, 1), matrices + share * flash(8), 1);
    EXPECT_EQ(profile_of(model).layers[2].flops.front() - profile_of(model).layers[1].flops.front(),
              (1 - share) * 4 * kTokens * kTokens * kHidden);
    // Each of two devices has half of the tokens, and of their pairs.
    const double half = forward_of(model, 2, {.context = 2}) - forward_of(model, 1, {.context = 2});
    EXPECT_NEAR(half, 2 * (1 - share) * flash(8, kTokens / 2), 1);
}

// Scores that are stored are computed for all tokens.
TEST(UnlikeBlocks, WindowsDoNotShortenStoredScores) {
    const Profile profile = profile_of(kStored + ",window=512,full_every=2");
    EXPECT_EQ(profile.layers[1].forward_ns, profile.layers[2].forward_ns);
    EXPECT_EQ(profile.layers[1].saved_bytes, profile.layers[2].saved_bytes);
}

TEST(UnlikeBlocks, LatentAttentionExpandsKeysAndValues) {
    const std::string model = kBase + ",kv_rank=32,q_rank=48,head_width=24,rope_width=8,value_width=16";
    const double latent_vectors = product(kTokens, 48, 64) + product(kTokens, 32 + 8, 64);
    const auto rest = [](double ranks) {
        return product(kTokens, 8 * 24 / ranks, 48) + product(kTokens, 8 * (16 + 16) / ranks, 32) +
               product(kTokens, 64, 8 * 16 / ranks) + product(kTokens, 256 / ranks, 64) +
               product(kTokens, 64, 256 / ranks) + flash((24 + 16) / 2.0, kTokens, 8 / ranks);
    };
    EXPECT_NEAR(forward_of(model, 1), latent_vectors + rest(1), 1);
    // On two devices, each makes the latent vectors of all tokens.
    EXPECT_NEAR(forward_of(model, 1, {.tensor = 2}), latent_vectors + rest(2), 1);
    // It keeps queries and keys of 8 x 24, values and what attention computes of 8 x 16, the latent vectors before and
    // after their norms, the input of each norm and its output, the activation's input and output, and a statistic.
    const LanguageModel parsed = parse_language_model(model);
    const BlockActivations kept = block_activations(parsed, BlockKind::dense, 1, 1, false, 2);
    EXPECT_EQ(kept.rest, kTokens * (2 * (3 * 64 + 2 * 8 * (24 + 16) + 2 * (48 + 32) + 2 * 256) + 8 * 4));
}

TEST(UnlikeBlocks, StatesTakeTimeByToken) {
    const auto model = [](int sequence) {
        return "gpt:layers=4,hidden=64,heads=8,sequence=" + std::to_string(sequence) +
               ",vocabulary=128,mlp=256,attention=flash,dropout=false,state=16,state_heads=8,state_head_width=16,"
               "attention_every=4";
    };
    // The chunks' products have 256 tokens by 16 channels by 256 tokens in each of 8 heads.
    const double scan =
        product(256, 16, 256, 16 * 8) * (256 * (16 + 128) + 4 * 16 * 128) * 4096 / (2.0 * 256 * 16 * 256 * 16 * 8);
    EXPECT_NEAR(forward_of(model(4096), 1),
                product(kTokens, 2 * 128 + 2 * 16 + 8, 64) + product(kTokens, 64, 128) + feed_forward(256) + scan, 1);
    EXPECT_NEAR(forward_of(model(8192), 1) / forward_of(model(4096), 1), 2, 0.01);
    EXPECT_GT(forward_of(model(8192), 4), 3 * forward_of(model(4096), 4));  // attention
}

TEST(UnlikeBlocks, ModulesThatPredictFurtherTokensAreInTheLastLayer) {
    const std::string model = kBase + ",mtp=2";
    const double block = forward_of(kBase, 1);
    const double output = forward_of(kBase, 5);
    const double join = product(kTokens, kHidden, 2 * kHidden);
    EXPECT_NEAR(forward_of(model, 5), output + 2 * (block + join + output), 1);
    EXPECT_EQ(forward_of(model, 1), block);
    const Profile with = profile_of(model);
    const Profile without = profile_of(kBase);
    EXPECT_NEAR(with.layers.back().flops.front(),
                3 * without.layers.back().flops.front() +
                    2 * (without.layers[1].flops.front() + 2 * kTokens * 2 * kHidden * kHidden),
                1);
    const auto parameters = [](const Profile& profile) { return profile.layers.back().parameter_bytes / 2; };
    // Tied ends: the only lane has one matrix of the embedding.
    EXPECT_EQ(parameters(without), 0);
    EXPECT_EQ(parameters(with), 2 * (4 * 64 * 64 + 2 * 64 * 256 + 2 * 64 * 64));
    EXPECT_GT(with.layers.back().saved_bytes.front(),
              without.layers.back().saved_bytes.front() + 2 * without.layers[1].saved_bytes.front());
    // On another lane, untied modules embed tokens by a copy, whose gradients both ends sum.
    const std::string untied = kBase + ",tied=false";
    EXPECT_EQ(
        parameters(profile_of(untied + ",mtp=1", {.pipeline = 2})) - parameters(profile_of(untied, {.pipeline = 2})),
        4 * 64 * 64 + 2 * 64 * 256 + 2 * 64 * 64 + 128 * 64);
    const LayoutStep step = step_of(untied + ",mtp=1", plain_cluster(1), {.pipeline = 2, .batch = 2});
    EXPECT_GT(step.tied_ns, 0);
    EXPECT_EQ(step_of(untied, plain_cluster(1), {.pipeline = 2, .batch = 2}).tied_ns, 0);
    EXPECT_EQ(step.model_flops, step_flops(parse_language_model(untied + ",mtp=1"), 2));
}

TEST(UnlikeBlocks, TheBusiestExpertsSetThePace) {
    const std::string model = kBase + ",experts=4,top_k=2,expert_hidden=128";
    const auto experts = [](double tokens) { return product(tokens, 128, 64, 4) + product(tokens, 64, 128, 4); };
    const double even = forward_of(model, 1);
    EXPECT_NEAR(forward_of(model + ",imbalance=1.5", 1) - even, experts(1.5 * 2048) - experts(2048), 1);
    EXPECT_NEAR(forward_of(model + ",imbalance=1.5,capacity=1.25", 1) - even, experts(1.25 * 2048) - experts(2048), 1);
    EXPECT_EQ(forward_of(model + ",capacity=1.25", 1), even);
    // The model's operations stay the same.
    EXPECT_EQ(profile_of(model + ",imbalance=1.5").layers[1].flops, profile_of(model).layers[1].flops);
    EXPECT_GT(profile_of(model + ",imbalance=1.5").layers[1].saved_bytes, profile_of(model).layers[1].saved_bytes);
}

// Experts of the last four blocks, and modules of the last layer, leave the first lane more blocks.
TEST(UnlikeBlocks, CutsFollowTheBlocks) {
    const auto first_layers = [&](const std::string& parts, Cuts cuts) {
        const std::string model = "gpt:layers=8,hidden=64,heads=8,sequence=64,vocabulary=128,attention=flash" + parts;
        const LayoutStep step = step_of(model, cluster_for_products(), {.pipeline = 2, .batch = 8, .cuts = cuts});
        return step.simulation.options.balance.layers_of(PartitionId{0}).size();
    };
    for (const char* parts :
         {",experts=16,top_k=8,dense_layers=4", ",mtp=3", ",window=2,full_layers=0,full_every=0,mtp=2"}) {
        EXPECT_EQ(first_layers(parts, Cuts::even), 1 + 4) << parts;
        EXPECT_GT(first_layers(parts, Cuts::quickest), 1 + 4) << parts;
    }
}
}  // namespace
}  // namespace pipescope
