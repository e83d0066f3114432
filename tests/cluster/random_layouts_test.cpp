// What must hold for every layout, tried on random clusters, models and layouts.

#include "base/error.h"
#include "cluster/known_profiles.h"
#include "cluster/layout.h"
#include "cluster/step_bounds.h"
#include "cluster/step_parts.h"
#include "tests/cluster/clusters.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
class Draw {
public:
    explicit Draw(unsigned seed) : random_(seed) {}

    int between(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
    bool one_of(int cases) { return between(1, cases) == 1; }
    Link link() {
        Link link;
        link.bytes_per_second = std::pow(10.0, between(60, 100) / 10.0);
        link.latency_ns = one_of(2) ? 0 : std::pow(10.0, between(0, 40) / 10.0);
        return link;
    }
    NodeGroup group() {
        NodeGroup group = plain_cluster(1).groups.front();
        group.device.flops_per_second["float8"] = 2 * group.device.flops_per_second.at("bfloat16");
        group.nodes = between(1, 60);
        group.devices_per_node = between(1, 8);
        group.ports_per_node = between(1, group.devices_per_node);
        group.link = link();
        const double times = one_of(2) ? 1 : between(2, 40) / 10.0;
        for (auto& [dtype, rate] : group.device.flops_per_second) {
            rate /= times;
        }
        return group;
    }
    Cluster cluster() {
        Cluster cluster;
        cluster.groups = {group(), group()};
        cluster.groups[1].device.name = "other";
        cluster.between_nodes = link();
        if (one_of(3)) {
            cluster.racks = Racks{between(1, 3), link()};
        }
        return cluster;
    }
    LanguageModel model() {
        std::string text = "gpt:hidden=64,heads=8,sequence=16,layers=" + std::to_string(between(3, 14)) +
                           ",vocabulary=" + std::to_string(8 << between(0, 6));
        text += one_of(2) ? ",gated=true" : "";
        text += one_of(3) ? ",experts=8,expert_hidden=64,top_k=" + std::to_string(between(1, 8)) : "";
        return parse_language_model(text);
    }
    /// A model whose blocks differ, with any of the parts that a model may have.
    LanguageModel model_of_parts() {
        std::string text =
            "gpt:hidden=64,heads=8,sequence=16,attention=flash,layers=" + std::to_string(between(3, 14)) +
            ",vocabulary=" + std::to_string(8 << between(0, 6));
        const auto number = [&](const char* key, int least, int most) {
            text += std::string(",") + key + "=" + std::to_string(between(least, most));
        };
        if (one_of(2)) {
            text += ",experts=8,expert_hidden=64,imbalance=1.5";
            number("top_k", 1, 5);
            number("expert_every", 1, 3);
            number("dense_layers", 0, 1);
            number("shared_experts", 0, 1);
            text += one_of(2) ? ",capacity=1.25" : "";
        }
        if (one_of(2)) {
            number("window", 1, 20);
            number("full_every", 0, 4);
            number("full_layers", 0, 2);
        }
        text += one_of(3) ? ",kv_rank=16,q_rank=24,head_width=12,rope_width=4,value_width=8" : "";
        if (one_of(3)) {
            text += ",state=4,state_heads=8,state_head_width=16,state_groups=2";
            number("attention_every", 0, 3);
        }
        number("mtp", 0, 1);
        number("bfloat16_blocks", 0, 1);
        text += one_of(2) ? ",norm=rms,qkv_bias=true,mlp_bias=true,positions=16" : "";
        return parse_language_model(text);
    }
    Layout layout(const LanguageModel& model) {
        Layout layout{.pipeline = between(1, 6), .data = between(1, 6), .tensor = 1 << between(0, 3)};
        layout.expert = model.experts > 0 ? 1 << between(0, 3) : 1;
        while (layout.stage_devices() % layout.expert != 0) {
            layout.expert /= 2;
        }
        layout.interleave = one_of(3) ? between(2, 3) : 1;
        layout.micro_batch_size = between(1, 3);
        layout.batch = layout.micro_batch_size * layout.data * between(1, 9);
        if (one_of(3)) {
            const std::vector<Schedule> all = all_schedules();
            layout.schedule = all[static_cast<std::size_t>(between(0, static_cast<int>(all.size()) - 1))];
        }
        layout.recompute = static_cast<Recompute>(between(0, 2));
        layout.sequence_parallel = layout.tensor > 1 && (model.experts > 0 || one_of(2));
        layout.zero = between(0, 3);
        layout.gradient_bucket = one_of(2) ? 0 : 1 << between(8, 18);
        layout.gradient_bytes = one_of(2) ? 4 : 2;
        layout.sends = static_cast<Sends>(between(0, 2));
        if (one_of(2)) {
            set_dtype(layout, "float8");
        }
        layout.dispatch = model.experts > 0 && one_of(2) ? TokenDispatch::node : TokenDispatch::expert;
        return layout;
    }

private:
    std::mt19937 random_;
};

/// What a cluster may have more of, and what must not make a step longer.
struct Improvement {
    const char* name = "";
    std::function<void(Cluster& cluster)> apply;
};
const std::vector<Improvement>& improvements() {
    static const std::vector<Improvement> all{
        {"bandwidth in nodes",
         [](Cluster& on) {
             for (NodeGroup& group : on.groups) {
                 group.link.bytes_per_second *= 3;
             }
         }},
        {"latency in nodes",
         [](Cluster& on) {
             for (NodeGroup& group : on.groups) {
                 group.link.latency_ns /= 3;
             }
         }},
        {"bandwidth of ports", [](Cluster& on) { on.between_nodes.bytes_per_second *= 3; }},
        {"latency between nodes", [](Cluster& on) { on.between_nodes.latency_ns /= 3; }},
        {"bandwidth between racks",
         [](Cluster& on) { on.racks ? void(on.racks->link.bytes_per_second *= 3) : void(); }},
        {"ports",
         [](Cluster& on) {
             for (NodeGroup& group : on.groups) {
                 group.ports_per_node *= 2;
             }
         }},
        {"devices", [](Cluster& on) {
             for (NodeGroup& group : on.groups) {
                 for (auto& [dtype, rate] : group.device.flops_per_second) {
                     rate *= 2;
                 }
             }
         }}};
    return all;
}

// A plan varies these parts of a layout. Profiles that layouts share are those of each.
TEST(RandomLayouts, ShareTheProfilesOfTheirParts) {
    int compared = 0;
    for (unsigned round = 0; round < 200; ++round) {
        Draw draw(round);
        const Cluster cluster = draw.cluster();
        const LanguageModel model = draw.model();
        Layout layout = draw.layout(model);
        layout.optimizer = draw.one_of(2) ? ModelOptimizer::muon : ModelOptimizer::adam;
        KnownProfiles known;
        for (int k = 0; k < 10; ++k) {
            const Layout other = draw.layout(model);
            std::swap(layout.pipeline, k % 2 == 0 ? layout.data : layout.pipeline);
            layout.interleave = other.interleave;
            layout.schedule = other.schedule;
            layout.micro_batch_size = other.micro_batch_size;
            layout.batch = layout.data * other.batch;
            layout.recompute = other.recompute;
            layout.zero = other.zero;
            for (const NodeGroup& group : cluster.groups) {
                try {
                    check_layout(model, layout, {{&group, layout.pipeline}});
                    EXPECT_EQ(known.of(model, cluster, group, layout)->profile,
                              language_model_profile(model, cluster, group, layout))
                        << round << ": " << to_string(layout);
                    ++compared;
                } catch (const UsageError&) {  // no such layout
                }
            }
        }
    }
    EXPECT_GT(compared, 500);
}

/// Of cuts that stay the same. Others follow the times of layers, and may be worse by chance.
TEST(RandomLayouts, GetNoLongerStepsOnBetterClusters) {
    int tried = 0;
    for (unsigned round = 0; round < 500; ++round) {
        Draw draw(round);
        const Cluster cluster = draw.cluster();
        const LanguageModel model = draw.model();
        const Layout layout = draw.layout(model);
        const int first =
            layout.pipeline > 1 && draw.one_of(3) ? draw.between(1, layout.pipeline - 1) : layout.pipeline;
        const auto step_on = [&](const Cluster& on) {
            PipelineParts parts{{&on.groups[0], first}};
            if (first < layout.pipeline) {
                parts.push_back({&on.groups[1], layout.pipeline - first});
            }
            return simulate_layout(model, on, parts, layout, {.noise = false, .memory = false});
        };
        try {
            const LayoutStep step = step_on(cluster);
            ++tried;
            ASSERT_GT(step.step_ns(), 0) << round;
            ASSERT_TRUE(std::isfinite(step.step_ns())) << round;
            // Times of tasks are rounded to whole ns.
            const auto rounded = 2.0 * static_cast<double>(step.simulation.timeline.slices.size()) + 10;
            for (const Improvement& improvement : improvements()) {
                Cluster better = cluster;
                improvement.apply(better);
                const LayoutStep now = step_on(better);
                if (now.simulation.options.balance == step.simulation.options.balance) {
                    EXPECT_LE(now.step_ns(), step.step_ns() * (1 + 1e-9) + rounded)
                        << round << " " << improvement.name << " " << to_string(layout) << " zero " << layout.zero;
                }
            }
        } catch (const UsageError&) {  // too few devices, or a schedule that cannot run so
        }
    }
    EXPECT_GT(tried, 150);
}

TEST(RandomLayouts, ConsistOfTheirParts) {
    int tried = 0;
    for (unsigned round = 1000; round < 1200; ++round) {
        Draw draw(round);
        const Cluster cluster = draw.cluster();
        const LanguageModel model = draw.model();
        const Layout layout = draw.layout(model);
        try {
            const LayoutStep step = simulate_layout(model, cluster, cluster.groups.front(), layout);
            if (!is_synchronous(step.simulation.options.schedule)) {
                continue;
            }
            ++tried;
            double sum = 0;
            for (const NamedPart& each : named_parts(step_parts(step))) {
                EXPECT_GE(each.share, -1e-9) << round << " " << each.name;
                sum += each.share;
            }
            EXPECT_NEAR(sum, 1, 1e-6) << round;
            EXPECT_LE(least_step(model, cluster, {{&cluster.groups.front(), layout.pipeline}}, layout).ns,
                      step.step_ns() * (1 + 1e-12))
                << round << " " << to_string(layout);
        } catch (const UsageError&) {
        }
    }
    EXPECT_GT(tried, 60);
}
// The bounds that let a plan leave layouts out hold when blocks differ, and no part of a step is negative.
TEST(RandomLayouts, OfUnlikeBlocksConsistOfTheirParts) {
    int tried = 0;
    for (unsigned round = 2000; round < 2400; ++round) {
        Draw draw(round);
        const Cluster cluster = draw.cluster();
        const LanguageModel model = draw.model_of_parts();
        const Layout layout = draw.layout(model);
        const PipelineParts parts{{&cluster.groups.front(), layout.pipeline}};
        try {
            const LayoutStep step = simulate_layout(model, cluster, parts, layout);
            if (!is_synchronous(step.simulation.options.schedule)) {
                continue;
            }
            ++tried;
            const std::string about = std::to_string(round) + " " + to_string(layout) + " " + to_string(model);
            for (const NamedPart& each : named_parts(step_parts(step))) {
                EXPECT_GE(each.share, -1e-9) << about << " " << each.name;
            }
            EXPECT_LE(least_step(model, cluster, parts, layout).ns, step.step_ns() * (1 + 1e-12)) << about;
            EXPECT_LE(StepBounds(model, cluster).of(layout, parts), step.step_ns() * (1 + 1e-12)) << about;
            const std::optional<Shortfall> shortfall = sure_shortfall(model, layout, parts);
            EXPECT_FALSE(shortfall && step.simulation.feasible) << about;
            // Layers hold what the model counts, split over tensor-parallel ranks and those of experts.
            if (layout.tensor == 1 && layout.zero == 0 && layout.expert == 1) {
                double parameters = 0;
                for (const LayerProfile& layer : (*step.profile)->layers) {
                    parameters += static_cast<double>(layer.parameter_bytes) / 2;
                }
                const bool one_lane = ends_share_a_lane(step.layout);
                const double copy = one_lane || (model.mtp == 0 && !model.tied) ? 0 : embedding_weights(model);
                EXPECT_EQ(parameters, parameters_of(model) + rank_mtp_weights(model, 1, {}).all() + copy) << about;
            }
        } catch (const UsageError&) {
        }
    }
    EXPECT_GT(tried, 100);
}
}  // namespace
}  // namespace pipescope
