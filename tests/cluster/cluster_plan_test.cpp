#include "cluster/cluster_plan.h"
#include "cluster/step_parts.h"
#include "schedule/error.h"
#include "simulator/planner.h"
#include "tests/cluster/clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

LanguageModel small_model() {
    return parse_language_model("gpt:layers=4,hidden=64,heads=4,sequence=16,vocabulary=128");
}

ClusterPlanRequest request_of(std::int64_t batch) {
    ClusterPlanRequest request;
    request.layout.batch = batch;
    request.threads = 2;
    return request;
}

/// Every layout that plan_cluster() says it tries, simulated with its memory.
std::vector<double> all_steps(const LanguageModel& model, const Cluster& cluster, int devices, std::int64_t batch) {
    const NodeGroup& group = cluster.groups.front();
    std::vector<double> steps;
    for (int tensor = 1; tensor <= 4; tensor *= 2) {
        for (int pipeline = 1; pipeline <= 4 && tensor * pipeline <= devices; ++pipeline) {
            for (int interleave = 1; interleave <= 4; ++interleave) {
                for (int samples = 1; samples <= 16; ++samples) {
                    for (int zero = 0; zero <= 1; ++zero) {
                        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                            Layout layout{.pipeline = pipeline, .data = devices / tensor / pipeline, .tensor = tensor};
                            layout.interleave = interleave;
                            layout.micro_batch_size = samples;
                            layout.batch = batch;
                            layout.zero = zero;
                            layout.recompute = recompute;
                            layout.sequence_parallel = tensor > 1;
                            const bool even = interleave == 1 || (pipeline > 1 && 4 % (pipeline * interleave) == 0);
                            if (layout.devices() != devices || !even || (zero == 1 && layout.data == 1)) {
                                continue;
                            }
                            try {
                                const LayoutStep step = simulate_layout(model, cluster, group, layout);
                                if (step.simulation.feasible) {
                                    steps.push_back(step.step_ns());
                                }
                            } catch (const UsageError&) {
                            }
                        }
                    }
                }
            }
        }
    }
    std::ranges::sort(steps);
    return steps;
}

TEST(ClusterPlan, FindsTheShortestStepsOfAllLayouts) {
    Cluster cluster = plain_cluster(2);
    for (const Bytes memory : {Bytes{1} << 50, Bytes{3'000'000}}) {
        cluster.groups.front().device.memory_bytes = memory;
        for (const int devices : {4, 8}) {
            const std::vector<double> steps = all_steps(small_model(), cluster, devices, 16);
            ClusterPlanRequest request = request_of(16);
            request.least_devices = request.most_devices = devices;
            const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
            ASSERT_EQ(plan.candidates.size(), 3U);
            for (std::size_t k = 0; k < 3; ++k) {
                EXPECT_DOUBLE_EQ(plan.candidates[k].step.step_ns(), steps[k]) << devices;
            }
        }
    }
}

TEST(ClusterPlan, IsTheSameWithAnyNumberOfThreads) {
    const Cluster cluster = plain_cluster(4);
    std::vector<std::vector<double>> steps;
    for (const int threads : {1, 3}) {
        ClusterPlanRequest request = request_of(16);
        request.threads = threads;
        const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
        auto& each = steps.emplace_back();
        for (const ClusterCandidate& candidate : plan.candidates) {
            each.push_back(candidate.step.step_ns());
        }
    }
    EXPECT_EQ(steps[0], steps[1]);
}

TEST(ClusterPlan, CountsTheRunsTimeAndCost) {
    Cluster cluster = plain_cluster(2);
    cluster.groups.front().price_per_hour = 12;
    cluster.groups.front().hours_between_failures = 100;
    ClusterPlanRequest request = request_of(8);
    request.least_devices = request.most_devices = 8;
    request.tokens = 8 * 16 * 1e6;  // a million steps
    request.goal = ClusterGoal::cost;
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
    const ClusterCandidate& best = plan.candidates.front();
    EXPECT_TRUE(plan.priced);
    EXPECT_EQ(best.nodes, 2);
    const CheckpointPlan checkpoints = best_checkpoints({50, request.checkpoint_seconds, request.restart_seconds});
    EXPECT_DOUBLE_EQ(best.checkpoints.effective, checkpoints.effective);
    EXPECT_NEAR(best.run_hours, 1e6 * best.step.step_ns() / 3.6e12 / checkpoints.effective, 1e-9 * best.run_hours);
    EXPECT_EQ(best.spare_nodes, spare_nodes(2, 100, request.repair_hours));
    EXPECT_NEAR(best.cost, best.run_hours * (2 + best.spare_nodes) * 12, 1e-9 * best.cost);
    EXPECT_TRUE(std::ranges::any_of(plan.candidates, &ClusterCandidate::pareto));
}

TEST(ClusterPlan, SaysWhyNothingFits) {
    Cluster cluster = plain_cluster(1);
    cluster.groups.front().device.memory_bytes = 10'000;
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request_of(8));
    EXPECT_TRUE(plan.candidates.empty());
    EXPECT_THAT(plan.infeasible_because.value_or(""), HasSubstr("no layout fits"));
    ClusterPlanRequest odd = request_of(7);
    odd.least_devices = odd.most_devices = 4;
    odd.layout.batch = 1;
    LanguageModel model = small_model();
    model.heads = model.kv_heads = 1;
    model.layers = 1;
    EXPECT_THAT([&] { plan_cluster(model, cluster, odd); },
                ThrowsMessage<UsageError>(HasSubstr("no layout of the model")));
}

TEST(ClusterPlan, StopsWhenAsked) {
    ClusterPlanRequest request = request_of(16);
    request.progress = [](double) { return false; };
    EXPECT_TRUE(plan_cluster(small_model(), plain_cluster(4), request).cancelled);
}

TEST(StepParts, SumToTheStep) {
    const Cluster cluster = plain_cluster(4);
    for (const Sends sends : {Sends::overlapped, Sends::blocking, Sends::serial}) {
        Layout layout{.pipeline = 2, .data = 2, .tensor = 4};
        layout.batch = 8;
        layout.recompute = Recompute::full;
        layout.sends = sends;
        const LayoutStep step = simulate_layout(small_model(), cluster, cluster.groups.front(), layout);
        const StepParts parts = step_parts(step);
        EXPECT_NEAR(parts.compute + parts.recompute + parts.collectives + parts.sends + parts.bubble + parts.gradients +
                        parts.optimizer,
                    1, 1e-6);
        for (const double part :
             {parts.compute, parts.recompute, parts.collectives, parts.bubble, parts.gradients, parts.optimizer}) {
            EXPECT_GT(part, 0);
        }
        EXPECT_EQ(parts.sends > 0, sends != Sends::overlapped);
        EXPECT_THAT(to_string(parts), HasSubstr("recompute "));
        EXPECT_THAT(next_constraint(step), HasSubstr("the highest peak is "));
    }
}
}  // namespace
}  // namespace pipescope
