// Pipelines whose partitions lie on devices of different types.

#include "base/error.h"
#include "base/quantities.h"
#include "cluster/cluster_plan.h"
#include "cluster/layout.h"
#include "cluster/step_bounds.h"
#include "cluster/step_parts.h"
#include "tests/balance/every_balance.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

/// A node of four plain devices, and one of four that take `times` as long for everything, with half the memory.
Cluster two_types(double times) {
    Cluster cluster = plain_cluster(1);
    NodeGroup slow = cluster.groups.front();
    slow.device.name = "slow";
    for (auto& [dtype, rate] : slow.device.flops_per_second) {
        rate /= times;
    }
    slow.device.memory_bytes_per_second /= times;
    slow.device.memory_bytes /= 2;
    cluster.groups.push_back(slow);
    return cluster;
}

const LanguageModel& model() {
    static const LanguageModel it = parse_language_model("gpt:layers=6,hidden=64,heads=8,sequence=16,vocabulary=64");
    return it;
}

/// With no experts, with experts, or with a dense block before them.
LanguageModel model_with_experts(int kind, int layers, int vocabulary) {
    return parse_language_model("gpt:hidden=64,heads=8,sequence=16,layers=" + std::to_string(layers) + ",vocabulary=" +
                                std::to_string(vocabulary) + (kind > 0 ? ",experts=4,top_k=2,expert_hidden=128" : "") +
                                (kind > 1 ? ",dense_layers=1" : ""));
}

double cost_of(const LayerProfile& layer) {
    return layer.forward_ns.front() + layer.backward_ns.front();
}

/// The step without tied embeddings and ZeRO, cut at other places. `profiles`: of each lane's type. Adam moves 34 bytes
/// a parameter. Infinite if it does not fit.
double step_with(const LayoutStep& step, const Balance& balance, const PipelineParts& parts,
                 const std::vector<const Profile*>& profiles) {
    PipelineOptions options = step.simulation.options;
    options.balance = balance;
    std::vector<const NodeGroup*> groups;
    for (const PipelinePart& part : parts) {
        groups.insert(groups.end(), static_cast<std::size_t>(part.lanes), part.group);
    }
    Profile joined = *profiles.back();
    double update = 0;
    for (std::size_t j = 0; j < groups.size(); ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
        double parameters = 0;
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            joined.layers[l] = profiles[j]->layers[l];
            parameters += static_cast<double>(joined.layers[l].gradient_bytes) / step.layout.gradient_bytes;
        }
        update = std::max(update, parameters * 34 / groups[j]->device.memory_bytes_per_second * 1e9);
    }
    const Simulation simulation = simulate(CheckedProfile(joined), options, {.noise = false});
    return simulation.feasible ? static_cast<double>(simulation.step_time.count()) + update
                               : std::numeric_limits<double>::infinity();
}

TEST(UnlikeDevices, AreCutAccordingToTheirSpeeds) {
    for (const double times : {1.0, 2.0, 3.5}) {
        const Cluster cluster = two_types(times);
        const NodeGroup& plain = cluster.groups[0];
        const NodeGroup& slow = cluster.groups[1];
        const Layout layout{.pipeline = 4, .data = 2, .batch = 16};
        for (const PipelineParts& parts :
             {PipelineParts{{&plain, 2}, {&slow, 2}}, PipelineParts{{&slow, 2}, {&plain, 2}}}) {
            const LayoutStep step = simulate_layout(model(), cluster, parts, layout);
            const Profile quick = language_model_profile(model(), cluster, plain, layout);
            const auto longest = [&](const Balance& balance) {
                double most = 0;
                for (std::size_t j = 0; j < 4; ++j) {
                    const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
                    double sum = 0;
                    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
                        sum += cost_of(quick.layers[l]);
                    }
                    most = std::max(most, sum * (parts[j / 2].group == &slow ? times : 1));
                }
                return most;
            };
            const Profile other = language_model_profile(model(), cluster, slow, layout);
            std::vector<const Profile*> profiles;
            for (const PipelinePart& part : parts) {
                profiles.insert(profiles.end(), 2, part.group == &slow ? &other : &quick);
            }
            double least = 1e300;
            double evenest = 0;
            for_every_balance(quick.layers.size(), 4, [&](const Balance& balance) {
                if (longest(balance) < least) {
                    least = longest(balance);
                    evenest = step_with(step, balance, parts, profiles);
                }
            });
            EXPECT_LE(step.step_ns() - step.tied_ns, 1.02 * evenest) << times;
            // The step's layers take the times of their devices.
            for (const SimulatedPartition& partition : step.simulation.partitions) {
                const double factor = parts[partition.lane.index() / 2].group == &slow ? times : 1;
                const std::size_t l = partition.layers.first.index();
                EXPECT_NEAR(cost_of((*step.profile)->layers[l]), factor * cost_of(quick.layers[l]), 1e-6);
            }
            double sum = 0;
            for (const NamedPart& part : named_parts(step_parts(step))) {
                sum += part.share;
            }
            EXPECT_NEAR(sum, 1, 1e-6);
        }
    }
}

// The type whose replicas sum gradients slowly gets fewer layers than its devices alone could compute.
TEST(UnlikeDevices, AreCutAccordingToTheirSumsOfGradients) {
    const LanguageModel larger = parse_language_model("gpt:layers=20,hidden=64,heads=8,sequence=16,vocabulary=64");
    for (const Bytes bucket : {Bytes{0}, Bytes{1} << 16}) {
        for (const double slower : {1.0, 20.0, 100.0}) {
            Cluster cluster = two_types(1);
            cluster.groups[1].link.bytes_per_second /= slower;
            const PipelineParts parts{{&cluster.groups[0], 1}, {&cluster.groups[1], 1}};
            Layout layout{.pipeline = 2, .data = 4, .batch = 16};
            layout.gradient_bucket = bucket;
            const LayoutStep step = simulate_layout(larger, cluster, parts, layout);
            EXPECT_LE(least_step(larger, cluster, parts, layout).ns, step.step_ns());
            double least = std::numeric_limits<double>::infinity();
            for_every_balance((*step.profile)->layers.size(), 2, [&](const Balance& balance) {
                least = std::min(least, step_with(step, balance, parts, {&**step.profile, &**step.profile}));
            });
            EXPECT_LE(step.step_ns() - step.tied_ns, 1.05 * least)
                << slower << " " << to_string(step.simulation.options.balance);
        }
    }
}

// A slow lane has a block in each of its partitions, even if the others could do all of them sooner.
TEST(UnlikeDevices, HaveABoundWithABlockInEachPartition) {
    const LanguageModel larger =
        parse_language_model("gpt:layers=16,hidden=64,heads=8,sequence=16,vocabulary=8,attention=flash");
    for (const double times : {1.0, 2.5, 20.0}) {
        const Cluster cluster = two_types(times);
        StepBounds bounds(larger, cluster);
        for (int lanes = 2; lanes <= 4; ++lanes) {
            for (int slow = 1; slow < lanes; ++slow) {
                for (int interleave = 1; interleave <= 4; ++interleave) {
                    for (const bool slow_first : {false, true}) {
                        const Layout layout{.pipeline = lanes, .interleave = interleave, .batch = 4L * lanes};
                        PipelineParts parts{{&cluster.groups[0], lanes - slow}, {&cluster.groups[1], slow}};
                        if (slow_first) {
                            std::ranges::reverse(parts);
                        }
                        const LayoutStep step = simulate_layout(larger, cluster, parts, layout);
                        const double bound = bounds.of(layout, parts);
                        EXPECT_LE(bound, step.step_ns() * (1 + 1e-12)) << to_string(layout) << to_string(parts);
                        const Profile of_slow = language_model_profile(larger, cluster, cluster.groups[1], layout);
                        const double least = 4.0 * lanes * (interleave - 1) * cost_of(of_slow.layers[1]);
                        // The search for the bound ends within 1e-4, and the simulation's rounding is left out.
                        EXPECT_GE(bound, least * (1 - 1e-4) - 1000) << to_string(layout) << to_string(parts);
                    }
                }
            }
        }
    }
}

/// A link whose measured times rise by jumps: flat for some sizes, steep for others.
Link link_with_jumps(std::mt19937& random) {
    Link link;
    double ns = 10;
    for (Bytes bytes = 64; bytes < Bytes{1} << 24; bytes *= 2) {
        link.times.push_back({bytes, ns, ns});
        ns *= std::uniform_int_distribution<int>(0, 3)(random) == 0 ? 30 : 1.01;
    }
    return link;
}

// With measured times, sums of a partition's gradients do not add up block by block.
TEST(UnlikeDevices, HaveABoundWithMeasuredLinks) {
    const LanguageModel larger = parse_language_model("gpt:layers=16,hidden=64,heads=8,sequence=16,vocabulary=8");
    std::mt19937 random(7);
    for (int round = 0; round < 40; ++round) {
        Cluster cluster = two_types(1.5);
        for (NodeGroup& group : cluster.groups) {
            group.link = link_with_jumps(random);
        }
        for (const int interleave : {1, 2, 4}) {
            Layout layout{.pipeline = 2, .data = 2, .interleave = interleave, .batch = 8};
            layout.zero = round % 2;
            for (const PipelineParts& parts : {PipelineParts{{&cluster.groups[0], 1}, {&cluster.groups[1], 1}},
                                               PipelineParts{{&cluster.groups[1], 1}, {&cluster.groups[0], 1}},
                                               PipelineParts{{&cluster.groups[0], 2}}}) {
                const LayoutStep step = simulate_layout(larger, cluster, parts, layout);
                EXPECT_LE(StepBounds(larger, cluster).of(layout, parts), step.step_ns() * (1 + 1e-12))
                    << round << " " << to_string(layout) << to_string(parts);
            }
        }
    }
}

// Costs near the largest number, and none at all.
TEST(UnlikeDevices, HaveABoundWhateverTheirCosts) {
    for (const double times : {1e290, 1e300, 1e308}) {
        for (const double latency : {0.0, 1e308}) {
            Cluster cluster = two_types(1);
            for (NodeGroup& group : cluster.groups) {
                group.link.latency_ns = latency;
                group.device.memory_bytes_per_second = 1e9 / times;
            }
            const Layout layout{.pipeline = 2, .data = 2, .tensor = 2, .batch = 8};
            const PipelineParts parts{{&cluster.groups[0], 1}, {&cluster.groups[1], 1}};
            EXPECT_GE(StepBounds(model(), cluster).of(layout, parts), 0) << times << " " << latency;
        }
    }
}

// Types that differ by name only are one type: the same copies, sums and step.
TEST(UnlikeDevices, OfEqualSpeedAreAsOneType) {
    Cluster cluster = two_types(1);
    cluster.groups[1].device.memory_bytes = cluster.groups[0].device.memory_bytes;
    const Cluster one = plain_cluster(2);
    for (Layout layout :
         {Layout{.pipeline = 2, .data = 4, .batch = 16}, Layout{.pipeline = 2, .data = 2, .tensor = 2, .batch = 16},
          Layout{.pipeline = 4, .data = 2, .batch = 16}}) {
        layout.cuts = Cuts::quickest;
        const int half = layout.pipeline / 2;
        const LayoutStep mixed = simulate_layout(
            model(), cluster, PipelineParts{{&cluster.groups[0], half}, {&cluster.groups[1], half}}, layout);
        const LayoutStep same = simulate_layout(model(), one, one.groups.front(), layout);
        EXPECT_EQ(mixed.simulation.options.balance, same.simulation.options.balance) << to_string(layout);
        EXPECT_NEAR(mixed.step_ns(), same.step_ns(), 2) << to_string(layout);
    }
}

TEST(UnlikeDevices, KeepTheirOwnMemoryLimits) {
    const Cluster cluster = two_types(2);
    const LayoutStep step = simulate_layout(model(), cluster, parse_pipeline_parts("slow:1,plain:1", cluster, 2),
                                            {.pipeline = 2, .batch = 4});
    EXPECT_EQ(step.device, "slow:1,plain:1");
    EXPECT_EQ(step.simulation.options.hardware.memory_limits,
              (std::vector<Bytes>{cluster.groups[1].device.memory_bytes, cluster.groups[0].device.memory_bytes}));
}

// If the quickest cuts exceed a device's memory, the quickest of all cuts that fit.
TEST(UnlikeDevices, AreCutSoThatTheyFit) {
    std::mt19937 random(20);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int moved = 0;
    int none = 0;
    double away = 0;  // sum of relative differences to the quickest of all cuts
    for (int round = 0; round < 80; ++round) {
        SCOPED_TRACE(round);
        Cluster cluster = two_types(draw(10, 60) / 10.0);
        LanguageModel model = model_with_experts(draw(0, 2), draw(4, 8), draw(1, 12) * 64);
        Layout layout{.pipeline = 4, .batch = draw(1, 8)};
        layout.recompute = draw(0, 1) == 0 ? Recompute::none : Recompute::full;
        layout.sends = draw(0, 1) == 0 ? Sends::blocking : Sends::overlapped;
        if (draw(0, 2) == 0) {
            layout.schedule = draw(0, 1) == 0 ? Schedule::gpipe : Schedule::zero_bubble_h1;
        }
        const NodeGroup& plain = cluster.groups[0];
        const NodeGroup& slow = cluster.groups[1];
        PipelineParts parts{{&plain, 2}, {&slow, 2}};
        if (draw(0, 1) == 0) {
            std::ranges::reverse(parts);
        }
        const LayoutStep free = simulate_layout(model, cluster, parts, layout);
        const auto tight = static_cast<std::size_t>(draw(0, 1));
        for (std::size_t part = 0; part < 2; ++part) {
            const Bytes peak =
                std::max(free.simulation.lanes[2 * part].peak_bytes, free.simulation.lanes[2 * part + 1].peak_bytes);
            cluster.groups[parts[part].group == &plain ? 0 : 1].device.memory_bytes =
                peak * (part == tight ? draw(60, 105) : draw(100, 250)) / 100;
        }
        const LayoutStep step = simulate_layout(model, cluster, parts, layout);
        const std::vector<Profile> profiles{language_model_profile(model, cluster, *parts[0].group, layout),
                                            language_model_profile(model, cluster, *parts[1].group, layout)};
        const auto longest = [&](const Balance& balance) {
            double most = 0;
            for (std::size_t j = 0; j < 4; ++j) {
                const LayerRange layers = balance.layers_of(PartitionId{static_cast<std::int64_t>(j)});
                double sum = 0;
                for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
                    sum += cost_of(profiles[j / 2].layers[l]);
                }
                most = std::max(most, sum);
            }
            return most;
        };
        const std::vector<const Profile*> by_lane{&profiles[0], &profiles[0], &profiles[1], &profiles[1]};
        double least = std::numeric_limits<double>::infinity();
        double evenest = least;  // step of the cuts with the shortest longest lane
        double shortest = least;
        for_every_balance(profiles[0].layers.size(), 4, [&](const Balance& balance) {
            const double here = step_with(step, balance, parts, by_lane);
            shortest = std::min(shortest, here);
            if (std::isfinite(here) && longest(balance) < least) {
                least = longest(balance);
                evenest = here;
            }
        });
        EXPECT_EQ(step.simulation.feasible, std::isfinite(least));
        if (std::isfinite(least)) {
            const double ns = step.step_ns() - step.tied_ns;
            EXPECT_LE(ns, 1.05 * evenest + 1);  // others are as even
            EXPECT_GE(ns, shortest - 1);
            away += ns / shortest - 1;
            moved += step.simulation.options.balance != free.simulation.options.balance ? 1 : 0;
        } else {
            ++none;
        }
        if (step.simulation.feasible) {
            EXPECT_LE(least_step(model, cluster, parts, layout).ns, step.step_ns());
            if (step.simulation.options.balance == free.simulation.options.balance) {
                EXPECT_FALSE(step.cut_to_fit && step.step_ns() == free.step_ns());
            } else {
                EXPECT_TRUE(step.cut_to_fit) << "the quicker cuts were refused";
            }
        } else {
            EXPECT_FALSE(step.cut_to_fit);
        }
    }
    EXPECT_GT(moved, 20);
    EXPECT_GT(none, 10);
    EXPECT_LT(away / (80 - none), 0.02);
}

TEST(UnlikeDevices, RefuseWhatDoesNotFit) {
    const Cluster cluster = two_types(2);
    const auto refuses = [&](const std::string& types, const Layout& layout, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] {
                        simulate_layout(model(), cluster, parse_pipeline_parts(types, cluster, layout.pipeline),
                                        layout);
                    }),
                    HasSubstr(part))
            << types;
    };
    refuses("", {}, "the cluster has several types; name one of plain, slow");
    refuses("fast", {}, "the cluster has no type 'fast'");
    refuses("plain:0,slow:1", {}, "a type has one lane or more");
    refuses("plain:x", {}, "plain:x");
    refuses("plain:1,slow:2", {.pipeline = 2, .batch = 2}, "let the lanes of the types add up");
    refuses("plain:1,slow:1,plain:1", {.pipeline = 3, .batch = 3}, "name each type once");
    refuses("plain:5,slow:1", {.pipeline = 6, .batch = 6}, "needs 5 devices of type plain");
}

TEST(UnlikeDevices, OfAllTypesArePlannedWhereNoTwoAreEnough) {
    Cluster cluster = two_types(2);
    NodeGroup& slowest = cluster.groups.emplace_back(cluster.groups.back());
    slowest.device.name = "slowest";
    slowest.device.flops_per_second["bfloat16"] /= 2;
    ClusterPlanRequest request;
    request.layout.batch = 16;
    request.devices = {{12, 12}};
    const ClusterPlan plan = plan_cluster(model(), cluster, request);
    ASSERT_FALSE(plan.candidates.empty());
    const LayoutStep& best = plan.candidates.front().step;
    EXPECT_EQ(best.layout.devices(), 12);
    EXPECT_EQ(plan.candidates.front().nodes, 3);
    const std::string device = best.device;
    EXPECT_TRUE(device.starts_with("plain:") || device.starts_with("slowest:")) << device;
    const PipelineParts parts = parse_pipeline_parts(device, cluster, best.layout.pipeline);
    EXPECT_EQ(parts.size(), 3u);
    EXPECT_EQ(simulate_layout(model(), cluster, parts, best.layout).step_ns(), best.step_ns());
}

TEST(UnlikeDevices, ArePlannedWhereNeitherTypeIsEnough) {
    const Cluster cluster = two_types(2);
    ClusterPlanRequest request;
    request.layout.batch = 16;
    request.devices = {{8, 8}};
    const ClusterPlan plan = plan_cluster(model(), cluster, request);
    ASSERT_FALSE(plan.candidates.empty());
    for (const ClusterCandidate& each : plan.candidates) {
        EXPECT_THAT(each.step.device, HasSubstr(":"));
        EXPECT_EQ(each.step.layout.devices(), 8);
        EXPECT_EQ(each.nodes, 2);
        EXPECT_FALSE(each.reason.empty());
    }
    request.devices = {{4, 4}};
    for (const ClusterCandidate& each : plan_cluster(model(), cluster, request).candidates) {
        EXPECT_THAT(each.step.device, Not(HasSubstr(":")));
    }
}

// The first lane holds two micro-batches, the second one.
TEST(UnlikeDevices, HaveTheirOwnMemoryBesideTheHighestPeak) {
    const Cluster cluster = two_types(1);
    const NodeGroup& slow = cluster.groups.back();
    const LayoutStep step = simulate_layout(model(), cluster, {{&slow, 1}, {&cluster.groups.front(), 1}},
                                            {.pipeline = 2, .batch = 8, .dtype = "float32"});
    ASSERT_GT(step.simulation.lanes[0].peak_bytes, step.simulation.lanes[1].peak_bytes);
    EXPECT_THAT(next_constraint(step, {}), HasSubstr(" of " + format_bytes(slow.device.tensor_bytes())));
}
}  // namespace
}  // namespace pipescope
