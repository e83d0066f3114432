// Mixtures of experts on clusters: what is sent, held and summed, by hand.

#include "base/error.h"
#include "cluster/cluster_plan.h"
#include "cluster/layout.h"
#include "cluster/step_parts.h"
#include "profiler/profile/profile_file.h"
#include "simulator/plan/planner.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

// Experts of two matrices of 64 x 256.
const std::string kExperts = "gpt:layers=8,hidden=64,heads=8,sequence=16,vocabulary=128,experts=4,top_k=2";
constexpr double kUsual = 8 * (4 * 64 * 64 + 64 * 4) + 128 * 64;  // weights: attention, routers, embedding
constexpr double kOneEach = 8 * 2 * 64 * 256;                     // an expert of each block

/// A cluster without waits for messages.
Cluster with_free_links(Cluster cluster) {
    cluster.groups.front().link = {};
    cluster.between_nodes = {};
    return cluster;
}

TEST(AllToAll, SendsEveryDeviceItsPart) {
    Cluster cluster = plain_cluster(8);  // nodes of four
    const auto ns = [&](int ranks, int groups = 2) {
        return all_to_all_ns(cluster, cluster.groups.front(), {ranks, 1, ranks * groups}, 4800);
    };
    EXPECT_EQ(ns(1), 0);
    EXPECT_EQ(ns(2), 2400);
    EXPECT_EQ(ns(4), 3 * 1200);
    // Four of eight parts leave the node, at half of a byte a ns; those inside take less.
    EXPECT_EQ(ns(8), 2 * 4 * 600);
    // Groups of six: some have two devices in a node, whose four parts leave it.
    EXPECT_EQ(ns(6), 2 * 4 * 800);
    // A node has room for three. The second group of three has one in the first node, whose two parts leave it.
    EXPECT_EQ(ns(3, 1), 2 * 1600);
    EXPECT_EQ(ns(3, 2), 2 * 2 * 1600);
    cluster.racks = Racks{2, {.bytes_per_second = 0.1e9}};
    EXPECT_EQ(ns(8), 2 * 4 * 600);
    EXPECT_EQ(ns(16), 2 * 4 * 300 + 10 * 8 * 300);  // both through the same ports
    cluster.groups.front().ports_per_node = 2;
    EXPECT_EQ(ns(8), 4 * 4 * 600);
    cluster.groups.front().link.latency_ns = 50;
    EXPECT_EQ(ns(4), 3 * 1200 + 50);  // all messages start at once
}

// 16 tokens have 2 copies of 64 x 2 bytes, of which three quarters leave each of four devices: 3072 ns to the experts
// and as many back.
TEST(Experts, AreReachedAndLeftByAllDevices) {
    const Cluster cluster = plain_cluster(1);
    const LanguageModel model = parse_language_model(kExperts);
    const auto messages = [&](const Layout& layout) {
        const auto block = [&](const Cluster& on) {
            const LayerProfile layer = language_model_profile(model, on, on.groups.front(), layout).layers[1];
            return std::pair(layer.forward_ns.front(), layer.backward_ns.front());
        };
        const auto [forward, backward] = block(cluster);
        const auto [free_forward, free_backward] = block(with_free_links(cluster));
        return std::pair(forward - free_forward, backward - free_backward);
    };
    Layout layout{.data = 4, .expert = 4};
    EXPECT_NEAR(messages(layout).first, 2 * 3072, 0.01);
    EXPECT_NEAR(messages(layout).second, 2 * 3072, 0.01);
    layout.recompute = Recompute::full;
    EXPECT_NEAR(messages(layout).second, 4 * 3072, 0.01);
    // All experts on each device: nothing is sent.
    EXPECT_NEAR(messages({.data = 4}).first, 0, 0.01);
    // Two tensor-parallel devices have half of the tokens each. They sum after the attention only: two messages of half
    // of 16 x 64 x 2 bytes.
    layout = {.data = 2, .tensor = 2, .expert = 4, .sequence_parallel = true};
    EXPECT_NEAR(messages(layout).first, 2 * 1024 + 2 * 1536, 0.01);
    // A shared expert is split as a feed-forward layer, with a sum of its own.
    const auto with_shared = [&] {
        const LanguageModel shared = parse_language_model(kExperts + ",shared_experts=1");
        const auto forward = [&](const Cluster& on) {
            return language_model_profile(shared, on, on.groups.front(), layout).layers[1].forward_ns.front();
        };
        return forward(cluster) - forward(with_free_links(cluster));
    }();
    EXPECT_NEAR(with_shared, 4 * 1024 + 2 * 1536, 0.01);
}

// Two of sixteen experts compute a token: each of eight devices has two, a node of four has eight. The other node has
// some of a token's with 1 - 8 / 16 x 7 / 15; a device with 1 - 14 / 16 x 13 / 15.
TEST(NodeDispatch, SendsATokenOnceToEachNode) {
    Cluster cluster = plain_cluster(8);
    const auto ns = [&](int ranks, double experts = 16, double top_k = 2) {
        return node_dispatch_ns(cluster, cluster.groups.front(), {ranks, 1, 64}, 4800, experts, top_k);
    };
    const double node = 1 - 8.0 / 16 * 7 / 15;
    const double device = 1 - 14.0 / 16 * 13 / 15;
    EXPECT_EQ(ns(1), 0);
    EXPECT_NEAR(ns(8), std::max(2 * 4800 * node, 4800 * 8 * device * 3 / 4), 1e-6);
    cluster.groups.front().link.bytes_per_second = 1e12;
    EXPECT_NEAR(ns(8), 2 * 4800 * node, 1e-6);
    EXPECT_NEAR(ns(16, 32, 2), 2 * 4800 * 3 * (1 - 24.0 / 32 * 23 / 31), 1e-6);
    cluster.racks = Racks{2, {.bytes_per_second = 0.1e9}};
    EXPECT_NEAR(ns(16, 32, 2), (2 + 10 * 2) * 4800 * (1 - 24.0 / 32 * 23 / 31), 1e-6);
    EXPECT_NEAR(ns(8, 8, 8), 2 * 4800, 1e-6);  // all experts compute all tokens
}

TEST(NodeDispatch, IsTheMeanOfTokensThatChooseAtRandom) {
    const Cluster cluster = plain_cluster(4);
    constexpr int kExpertsOfAll = 32;
    constexpr int kTopK = 6;
    constexpr int kTokens = 20'000;
    std::mt19937 random(5);
    std::vector<int> experts(kExpertsOfAll);
    std::iota(experts.begin(), experts.end(), 0);
    double sent = 0;  // from a device of the first of four nodes of four devices with two experts each
    double handed_on = 0;
    for (int token = 0; token < kTokens; ++token) {
        std::ranges::shuffle(experts, random);
        std::set<int> nodes;
        std::set<int> devices;
        for (int k = 0; k < kTopK; ++k) {
            nodes.insert(experts[static_cast<std::size_t>(k)] / 8);
            devices.insert(experts[static_cast<std::size_t>(k)] / 2);
        }
        sent += static_cast<double>(nodes.size()) - static_cast<double>(nodes.count(0));
        // Messages arrive at the device of the same place in its node.
        handed_on += static_cast<double>(std::ranges::count_if(devices, [](int device) { return device % 4 != 0; }));
    }
    const double slower = std::max(2 * sent, handed_on) / kTokens;  // half a byte a ns, and one
    EXPECT_NEAR(node_dispatch_ns(cluster, cluster.groups.front(), {16, 1, 16}, 1, kExpertsOfAll, kTopK) / slower, 1,
                0.01);
}

TEST(Experts, AreReachedThroughTheirNodesIfTheLayoutSaysSo) {
    const Cluster cluster = plain_cluster(2);
    Layout layout{.data = 8, .expert = 4, .batch = 8};
    const auto all_to_all = [&](int expert, TokenDispatch dispatch) {
        layout.expert = expert;
        layout.dispatch = dispatch;
        return block_extras(parse_language_model(kExperts), BlockKind::experts, cluster, cluster.groups.front(), layout)
            .all_to_all;
    };
    // 16 tokens of 64 x 2 bytes, two passes, there and back: half of four experts compute a token, so that half of the
    // three other devices get it.
    EXPECT_NEAR(all_to_all(4, TokenDispatch::node), 4 * 2048 * 3 / 2.0, 0.1);
    EXPECT_NEAR(all_to_all(4, TokenDispatch::expert), 4 * 2048 * 3 / 2.0, 0.1);
    EXPECT_EQ(all_to_all(1, TokenDispatch::node), 0);
    EXPECT_THAT(thrown<UsageError>([&] {
                    step_of("gpt:layers=8,hidden=64,heads=8,sequence=16,vocabulary=128", cluster,
                            {.data = 2, .batch = 2, .dispatch = TokenDispatch::node});
                }),
                HasSubstr("token-dispatch is node; the model has no experts"));
    EXPECT_THAT(thrown<UsageError>([] { parse_token_dispatch("rank"); }), HasSubstr("'rank'"));
}

// On a device without partly filled tiles, all experts of a block compute as long as one feed-forward layer for as many
// tokens.
TEST(Experts, ComputeTheirTokensCopies) {
    const Cluster cluster = with_free_links(plain_cluster(2));
    const auto block = [&](const std::string& text, const Layout& layout) {
        const Profile profile =
            language_model_profile(parse_language_model(text), cluster, cluster.groups.front(), layout);
        return std::pair(profile.layers[1].forward_ns.front(), profile.layers[1].flops.front());
    };
    const std::string model = "gpt:layers=8,hidden=1024,heads=8,sequence=4096,vocabulary=128,mlp=1024";
    const auto [dense, dense_flops] = block(model, {.data = 8});
    const auto [one_each, flops] = block(model + ",experts=8,top_k=1", {.data = 8});
    EXPECT_EQ(flops, dense_flops + 2.0 * 4096 * 1024 * 8);  // the router
    EXPECT_GT(one_each, dense);
    EXPECT_LT(one_each, 1.1 * dense);
    // Wherever they are, experts have equal work.
    for (const int expert : {2, 4, 8}) {
        const auto split = block(model + ",experts=8,top_k=1", {.data = 8, .expert = expert});
        EXPECT_NEAR(split.first / one_each, 1, 0.05) << expert;
        EXPECT_EQ(split.second, flops);
    }
    const auto two = block(model + ",experts=8,top_k=2", {.data = 8});
    EXPECT_GT(two.first, one_each + 2.0 * 4096 * 2 * 1024 * 1024);
}

TEST(Experts, LieOnTheirDevicesOnly) {
    const Cluster cluster = plain_cluster(2);
    const auto bytes = [](const LayoutStep& step, MemoryCategory category) {
        return static_cast<double>(step.simulation.lanes.front().peak[category]);
    };
    for (const int expert : {1, 2, 4}) {
        for (int zero = 0; zero <= 3; ++zero) {
            const LayoutStep step = step_of(kExperts, cluster, {.data = 8, .expert = expert, .batch = 8, .zero = zero});
            const int copies = 8 / expert;  // of an expert
            const double experts = 4.0 / expert * kOneEach;
            const auto held = [&](int stage) {
                return zero >= stage ? kUsual / 8 + experts / copies : kUsual + experts;
            };
            EXPECT_NEAR(bytes(step, MemoryCategory::parameters), 2 * held(3), 20) << expert << " " << zero;
            EXPECT_NEAR(bytes(step, MemoryCategory::gradients), 4 * held(2), 20) << expert << " " << zero;
            EXPECT_NEAR(bytes(step, MemoryCategory::optimizer), 12 * held(1), 20) << expert << " " << zero;
        }
    }
}

// Eight devices sum what is not an expert's, in 14 messages. An expert of four devices has a copy in each node: two
// messages of half of its gradients at half of a byte a ns.
TEST(Experts, AreSummedByThoseThatHoldTheSame) {
    const Cluster cluster = plain_cluster(2);
    const auto sum_of = [&](const Layout& layout) {
        double ns = 0;
        for (const Slice& slice : step_of(kExperts, cluster, layout).simulation.timeline.slices) {
            ns += slice.key.kind == TaskKind::all_reduce ? static_cast<double>((slice.end - slice.start).count()) : 0;
        }
        return ns;
    };
    const double usual = 14 * 4 * kUsual / 8;
    Layout layout{.data = 8, .expert = 4, .batch = 8};
    EXPECT_NEAR(sum_of(layout), usual + 2 * 4 * kOneEach / 2 / 0.5, 2);
    layout.zero = 1;  // half of an all-reduce; parameters of 2 bytes are gathered later
    EXPECT_NEAR(sum_of(layout), usual / 2 + 4 * kOneEach / 2 / 0.5, 2);
    EXPECT_NEAR(step_of(kExperts, cluster, layout).gather_ns, 7 * 2 * kUsual / 8 + 2 * kOneEach / 2 / 0.5, 2);
    // Two devices split the experts, so that a node has two copies, which are four in both nodes. The ring leaves a
    // node with two ports.
    layout.zero = 0;
    layout.expert = 2;
    EXPECT_NEAR(sum_of(layout), usual + 6 * 4 * 2 * kOneEach / 4, 2);
    // On one device each, experts are summed like everything else, apart.
    layout.expert = 1;
    EXPECT_NEAR(sum_of(layout), usual + 14 * 4 * 4 * kOneEach / 8, 2);
    // Tensor-parallel devices hold different parts of the attention, and the same experts.
    layout = {.data = 1, .tensor = 2, .expert = 1, .sequence_parallel = true};
    EXPECT_NEAR(sum_of(layout), 2 * 4 * 4 * kOneEach / 2, 2);
}

TEST(Experts, AreUpdatedByThoseThatHoldTheirState) {
    const Cluster cluster = plain_cluster(2);
    const auto update = [&](int zero) {
        return step_of(kExperts, cluster, {.data = 8, .expert = 4, .batch = 8, .zero = zero}).optimizer_ns;
    };
    EXPECT_NEAR(update(1) / update(0), (kUsual / 8 + kOneEach / 2) / (kUsual + kOneEach), 1e-6);
}

TEST(Experts, SumTheirGradientsBesideTheLastBackward) {
    const Cluster cluster = plain_cluster(2);
    for (const int zero : {0, 1, 2, 3}) {
        Layout layout{.data = 8, .expert = 4, .batch = 16, .zero = zero};
        const LayoutStep after = step_of(kExperts, cluster, layout);
        layout.gradient_bucket = 10'000;
        const LayoutStep beside = step_of(kExperts, cluster, layout);
        EXPECT_LT(beside.step_ns(), after.step_ns()) << zero;
        EXPECT_EQ(beside.simulation.lanes[0].peak_bytes, after.simulation.lanes[0].peak_bytes);
    }
}

TEST(Experts, FollowDenseLayers) {
    const Cluster cluster = plain_cluster(1);
    const LayoutStep step = step_of(kExperts + ",dense_layers=2,expert_hidden=32", cluster,
                                    {.pipeline = 2, .data = 2, .expert = 2, .batch = 4});
    const auto parameters = [&](std::size_t layer) { return (*step.profile)->layers[layer].parameter_bytes; };
    EXPECT_EQ(parameters(2), 2 * (4 * 64 * 64 + 2 * 64 * 256));
    EXPECT_EQ(parameters(3), 2 * (4 * 64 * 64 + 64 * 4 + 4 / 2 * 2 * 64 * 32));
    EXPECT_EQ((*step.profile)->layers[2].expert_gradient_bytes, 0);
    EXPECT_EQ((*step.profile)->layers[3].expert_gradient_bytes, 4 * 4 / 2 * 2 * 64 * 32);
    EXPECT_EQ(step.simulation.options.balance, Balance({5, 5}));
    // A trace keeps both, so that its simulation can be repeated.
    EXPECT_EQ(parse_profile(to_json(*step.profile))->layers[3].expert_gradient_bytes, 4 * 4 / 2 * 2 * 64 * 32);
    EXPECT_EQ(parse_pipeline_options(to_json(step.simulation.options)), step.simulation.options);
    Profile damaged = *step.profile;
    damaged.layers[3].expert_gradient_bytes = damaged.layers[3].gradient_bytes + 1;
    EXPECT_THAT(thrown<ProfileError>([&] { check_profile(damaged); }), HasSubstr("it is a part of them"));
}

TEST(Experts, RefuseWhatTheyCannotLieOn) {
    const Cluster cluster = plain_cluster(2);
    const auto refuses = [&](const std::string& model, const Layout& layout, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { step_of(model, cluster, layout); }), HasSubstr(part));
    };
    refuses(kExperts, {.data = 2, .expert = 0, .batch = 2}, "expert-parallel is 0");
    refuses(kExperts, {.data = 2, .expert = 4, .batch = 2},
            "the product of those of data, context and tensor parallelism, 2");
    refuses(kExperts, {.data = 8, .expert = 8, .batch = 8}, "it must divide the model's experts, 4");
    refuses("gpt:layers=8,hidden=64,heads=8,sequence=16,vocabulary=128", {.data = 2, .expert = 2, .batch = 2},
            "the model has no experts");
    refuses(kExperts, {.tensor = 2}, "add --sequence-parallel");
}

// The parts of a step name what the experts cost, also of lanes of unlike devices.
TEST(Experts, AreAPartOfTheStep) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().link.bytes_per_second = 1e7;
    cluster.groups.push_back(cluster.groups.front());
    cluster.groups[1].device.name = "other";
    Layout layout{.pipeline = 2, .data = 2, .tensor = 2, .expert = 4, .batch = 8, .sequence_parallel = true};
    layout.recompute = Recompute::full;
    for (const PipelineParts& parts :
         {PipelineParts{{&cluster.groups[0], 2}}, PipelineParts{{&cluster.groups[0], 1}, {&cluster.groups[1], 1}}}) {
        const LayoutStep step = simulate_layout(parse_language_model(kExperts), cluster, parts, layout);
        const StepParts of = step_parts(step);
        double sum = 0;
        for (const NamedPart& each : named_parts(of)) {
            EXPECT_GE(each.share, 0) << each.name;
            sum += each.share;
        }
        EXPECT_NEAR(sum, 1, 1e-9);
        // Eight blocks on two lanes, four micro-batches: six times 2048 bytes, of which three quarters are sent.
        EXPECT_NEAR(of.all_to_all, 4 * 4 * 6 * 1536 * 100 / step.step_ns(), 1e-4);
        EXPECT_THAT(to_string(of), HasSubstr("all_to_all "));
    }
}

TEST(ExpertsPlan, IsThatOfAllLayoutsSimulated) {
    const std::vector<std::vector<Schedule>> schedules{{Schedule::one_f_one_b, Schedule::interleaved_1f1b},
                                                       {Schedule::gpipe, Schedule::zero_bubble_2p},
                                                       {Schedule::one_f_one_b, Schedule::zero_bubble_v}};
    std::mt19937 random(23);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int split = 0;
    for (int round = 0; round < 9; ++round) {
        LanguageModel model = parse_language_model(
            "gpt:layers=4,hidden=64,heads=4,sequence=16,vocabulary=128,experts=4,top_k=2,expert_hidden=64");
        model.layers = draw(3, 5);
        model.dense_layers = draw(0, 2);
        model.mlp = 64 * draw(1, 8);
        model.shared_experts = draw(0, 1);
        Cluster cluster = plain_cluster(2);
        NodeGroup& group = cluster.groups.front();
        group.devices_per_node = group.ports_per_node = 2;
        group.link.bytes_per_second = draw(1, 20) * 1e8;
        cluster.between_nodes.bytes_per_second = draw(1, 20) * 1e8;
        group.device.memory_bytes = Bytes{1} << draw(19, 22);
        ClusterPlanRequest request;
        request.threads = 2;
        request.layout.batch = 4;
        request.schedules = schedules[static_cast<std::size_t>(round) % schedules.size()];
        request.layout.gradient_bucket = round % 2 == 0 ? 0 : 10'000;
        const ClusterPlan pruned = plan_cluster(model, cluster, request);
        request.exhaustive = true;
        const ClusterPlan all = plan_cluster(model, cluster, request);
        EXPECT_EQ(candidates_of(pruned), candidates_of(all)) << "round " << round << " " << to_string(model);
        EXPECT_LE(pruned.simulated, all.simulated);
        split += static_cast<int>(std::ranges::count_if(
            all.candidates, [](const ClusterCandidate& each) { return each.step.layout.expert > 1; }));
    }
    EXPECT_GT(split, 9);
}

TEST(ExpertsPlan, NoStepIsShorterThanItsBound) {
    std::mt19937 random(24);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    double closest = 0;
    int tried = 0;
    for (int round = 0; round < 200; ++round) {
        LanguageModel model = parse_language_model(kExperts);
        model.layers = draw(4, 9);
        model.dense_layers = draw(0, 3);
        model.mlp = 64 * draw(1, 8);
        Cluster cluster = plain_cluster(4);
        cluster.groups.front().link.bytes_per_second = draw(1, 20) * 1e8;
        Layout layout{.pipeline = draw(1, 4), .data = draw(1, 2), .tensor = draw(1, 2), .expert = 1 << draw(0, 2)};
        layout.interleave = draw(1, 2);
        layout.batch = 8;
        layout.sequence_parallel = layout.tensor > 1;
        layout.micro_batch_size = draw(1, 2);
        layout.zero = draw(0, 3);
        layout.gradient_bucket = draw(0, 1) * 10'000;
        layout.recompute = draw(0, 1) == 0 ? Recompute::none : Recompute::full;
        const PipelineParts parts{{&cluster.groups[0], layout.pipeline}};
        try {
            const double step =
                simulate_layout(model, cluster, parts, layout, {.noise = false, .memory = false}).step_ns();
            const double least = least_step(model, cluster, parts, layout).ns;
            EXPECT_LE(least, step) << round << " " << to_string(layout);
            closest = std::max(closest, least / step);
            ++tried;
        } catch (const UsageError&) {  // too few devices for the experts, or partitions that do not fit
        }
    }
    EXPECT_GT(tried, 60);
    EXPECT_GT(closest, 0.99);
}
}  // namespace
}  // namespace pipescope
