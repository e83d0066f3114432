#include "cluster/cluster_plan.h"
#include "base/error.h"
#include "cluster/step_bounds.h"
#include "cluster/step_parts.h"
#include "simulator/memory/memory_fit.h"
#include "simulator/plan/planner.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;
using ::testing::Not;

LanguageModel small_model() {
    return parse_language_model("gpt:layers=4,hidden=64,heads=4,sequence=16,vocabulary=128");
}

ClusterPlanRequest request_of(std::int64_t batch) {
    ClusterPlanRequest request;
    request.layout.batch = batch;
    request.threads = 2;
    return request;
}

/// Every layout that plan_cluster() says it tries, simulated with its memory; the quickest of each base.
std::vector<double> all_steps(const LanguageModel& model, const Cluster& cluster, int devices, std::int64_t batch,
                              Bytes bucket) {
    const NodeGroup& group = cluster.groups.front();
    std::vector<double> steps;
    const auto add = [&](Layout layout) {  // the quickest recompute and ZeRO that fit
        double quickest = std::numeric_limits<double>::infinity();
        const bool has_copies = layout.stage_devices() > layout.tensor || layout.expert < layout.tensor;
        for (layout.zero = 0; layout.zero <= (has_copies ? 3 : 0); ++layout.zero) {
            for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                layout.recompute = recompute;
                try {
                    const LayoutStep step = simulate_layout(model, cluster, group, layout);
                    quickest = step.simulation.feasible ? std::min(quickest, step.step_ns()) : quickest;
                } catch (const UsageError&) {
                }
            }
        }
        if (std::isfinite(quickest)) {
            steps.push_back(quickest);
        }
    };
    const auto add_sizes = [&](Layout layout) {
        for (layout.interleave = 1; layout.interleave <= (layout.pipeline > 1 ? 4 : 1); ++layout.interleave) {
            for (layout.micro_batch_size = 1; layout.micro_batch_size <= 16; ++layout.micro_batch_size) {
                for (layout.expert = 1; layout.expert <= (model.experts > 0 ? 4 : 1); layout.expert *= 2) {
                    if (layout.devices() == devices) {
                        add(layout);
                    }
                }
            }
        }
    };
    for (int tensor = 1; tensor <= 4; tensor *= 2) {
        for (int context = 1; context <= 4 && (context == 1 || model.sequence / context >= 2048); context *= 2) {
            for (int pipeline = 1; pipeline <= 4 && tensor * context * pipeline <= devices; ++pipeline) {
                Layout layout{.pipeline = pipeline, .data = devices / tensor / context / pipeline, .tensor = tensor};
                layout.context = context;
                layout.batch = batch;
                layout.sequence_parallel = tensor > 1;
                layout.gradient_bucket = bucket;
                add_sizes(layout);
            }
        }
    }
    std::ranges::sort(steps);
    return steps;
}

TEST(ClusterPlan, FindsTheShortestStepsOfAllLayouts) {
    Cluster cluster = plain_cluster(2);
    int from_zero_two = 0;
    for (const Bytes memory : {Bytes{1} << 50, Bytes{3'000'000}}) {
        cluster.groups.front().device.memory_bytes = memory;
        for (const int devices : {4, 8}) {
            for (const Bytes bucket : {0, 10'000}) {
                // With a micro-batch a lane, parameters are gathered as often with ZeRO 3 as with ZeRO 1.
                const std::int64_t batch = bucket > 0 ? 8 : 16;
                const std::vector<double> steps = all_steps(small_model(), cluster, devices, batch, bucket);
                ClusterPlanRequest request = request_of(batch);
                request.layout.gradient_bucket = bucket;
                request.devices = {{devices, devices}};
                request.schedules = {Schedule::one_f_one_b, Schedule::interleaved_1f1b};
                const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
                ASSERT_EQ(plan.candidates.size(), 3U);
                for (std::size_t k = 0; k < 3; ++k) {
                    EXPECT_DOUBLE_EQ(plan.candidates[k].step.step_ns(), steps[k]) << devices << " " << bucket;
                    from_zero_two += plan.candidates[k].step.layout.zero >= 2 ? 1 : 0;
                }
            }
        }
    }
    EXPECT_GT(from_zero_two, 0);
}

/// A profile of unequal layers, for micro-batches of one sample and of two.
Profile profile_of(int layers, std::mt19937& random) {
    std::uniform_real_distribution<double> time(1e3, 1e5);
    Profile profile;
    profile.model = "unequal";
    profile.device = "plain";
    profile.samples = {1, 2};
    profile.input_bytes = {16, 32};
    profile.loss_ns = {0, 0};
    for (int l = 0; l < layers; ++l) {
        LayerProfile layer;
        layer.name = std::to_string(l);
        const double forward = time(random);
        layer.forward_ns = {forward, 1.8 * forward};
        layer.backward_ns = {2 * forward, 3.6 * forward};
        layer.output_bytes = {1000, 2000};
        layer.saved_bytes = {4000, 8000};
        layer.transient_bytes = {0, 0};
        layer.parameter_bytes = layer.gradient_bytes = 4'000'000;  // replicas take long to sum them
        profile.layers.push_back(std::move(layer));
    }
    return profile;
}

TEST(ClusterPlan, FindsTheShortestStepOfAProfile) {
    const Cluster cluster = plain_cluster(1);
    std::mt19937 random(9);
    int interleaved = 0;
    for (int round = 0; round < 6; ++round) {
        const CheckedProfile profile = profile_of(12 + round, random);
        PipelineOptions options;
        options.checkpoint = Checkpoint::never;
        double shortest = std::numeric_limits<double>::infinity();
        for (const int pipeline : {1, 2, 4}) {
            for (int interleave = 1; interleave <= (pipeline > 1 ? 5 : 1); ++interleave) {
                for (const int samples : {1, 2}) {
                    Layout layout{.pipeline = pipeline, .data = 4 / pipeline, .interleave = interleave};
                    layout.micro_batch_size = samples;
                    layout.batch = 8;
                    try {
                        const LayoutStep step =
                            simulate_layout(profile, options, cluster, cluster.groups.front(), layout);
                        shortest = std::min(shortest, step.step_ns());
                    } catch (const UsageError&) {  // too few layers or micro-batches
                    }
                }
            }
        }
        ClusterPlanRequest request = request_of(8);
        request.devices = {{4, 4}};
        request.schedules = {Schedule::one_f_one_b, Schedule::interleaved_1f1b};
        const LayoutStep best = plan_cluster(profile, options, cluster, request).candidates.front().step;
        EXPECT_DOUBLE_EQ(best.step_ns(), shortest) << round << " " << to_string(best.layout);
        interleaved += best.layout.interleave > 1 ? 1 : 0;
    }
    EXPECT_GT(interleaved, 0);
}

// Experts and long samples multiply the layouts.
TEST(ClusterPlan, FindsTheShortestStepsOfExpertsAndLongSamples) {
    Cluster cluster = plain_cluster(2);
    const LanguageModel model = parse_language_model(
        "gpt:layers=2,hidden=64,heads=2,sequence=4096,vocabulary=128,gated=true,experts=4,top_k=2");
    int split = 0;
    for (const Bytes memory : {Bytes{1} << 50, Bytes{30'000'000}}) {
        cluster.groups.front().device.memory_bytes = memory;
        for (const double speed : {1e9, 1e6}) {
            cluster.groups.front().link.bytes_per_second = speed;
            const std::vector<double> steps = all_steps(model, cluster, 4, 4, 0);
            ClusterPlanRequest request = request_of(4);
            request.devices = {{4, 4}};
            request.schedules = {Schedule::one_f_one_b, Schedule::interleaved_1f1b};
            const ClusterPlan plan = plan_cluster(model, cluster, request);
            ASSERT_EQ(plan.candidates.size(), 3U);
            for (std::size_t k = 0; k < 3; ++k) {
                const LayoutStep& step = plan.candidates[k].step;
                EXPECT_DOUBLE_EQ(step.step_ns(), steps[k]) << to_string(step.layout);
                split += step.layout.context > 1 || step.layout.expert > 1 ? 1 : 0;
            }
        }
    }
    EXPECT_GT(split, 2);
}

TEST(ClusterPlan, IsThatOfAllLayoutsSimulated) {
    const std::vector<std::vector<Schedule>> schedules{
        {Schedule::one_f_one_b, Schedule::interleaved_1f1b},
        {Schedule::gpipe, Schedule::zero_bubble_h1, Schedule::zero_bubble_2p},
        {Schedule::one_f_one_b, Schedule::zero_bubble_v, Schedule::interleaved_zero_bubble, Schedule::looped_bfs}};
    std::mt19937 random(20);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    for (int round = 0; round < 9; ++round) {
        LanguageModel model = small_model();
        model.layers = draw(2, 5);
        Cluster cluster = plain_cluster(1);
        cluster.groups.front().link.bytes_per_second = draw(1, 20) * 1e8;
        cluster.groups.front().device.memory_bytes = Bytes{1} << draw(17, 22);
        if (round % 2 == 1) {
            NodeGroup& other = cluster.groups.emplace_back(cluster.groups.front());
            other.device.name = "other";
            other.device.flops_per_second["bfloat16"] = draw(3, 30) * 1e8;
            other.devices_per_node = other.ports_per_node = 2;
        }
        ClusterPlanRequest request = request_of(draw(1, 2) * 4);
        request.schedules = schedules[static_cast<std::size_t>(round) / 2 % schedules.size()];
        request.layout.sends = round % 4 < 2 ? Sends::blocking : Sends::overlapped;
        const ClusterPlan pruned = plan_cluster(model, cluster, request);
        request.exhaustive = true;
        const ClusterPlan all = plan_cluster(model, cluster, request);
        EXPECT_EQ(candidates_of(pruned), candidates_of(all)) << "round " << round;
        EXPECT_LE(pruned.simulated, all.simulated);
    }
}

// Pairs that overlap take less than the work of their lanes. Unlike devices have no bidirectional schedule.
TEST(ClusterPlan, OfDualPipeIsThatOfAllLayoutsSimulated) {
    int doubled = 0;
    for (int round = 0; round < 4; ++round) {
        Cluster cluster = plain_cluster(1);
        cluster.groups.front().device.memory_bytes = Bytes{1} << (19 + round);
        if (round == 3) {
            NodeGroup& other = cluster.groups.emplace_back(cluster.groups.front());
            other.device.name = "other";
            other.device.flops_per_second["bfloat16"] = 7e8;
        }
        ClusterPlanRequest request = request_of(32);
        request.schedules = {Schedule::dualpipe};
        if (round % 2 != 0) {
            request.schedules = {Schedule::dualpipe, Schedule::dualpipe_v, Schedule::one_f_one_b};
        }
        TrainingProgram program;
        if (round > 0) {
            program.pair_overlap = round / 3.0;
        }
        request.layout.program = std::make_shared<const TrainingProgram>(program);
        const ClusterPlan pruned = plan_cluster(small_model(), cluster, request);
        request.exhaustive = true;
        const ClusterPlan all = plan_cluster(small_model(), cluster, request);
        EXPECT_EQ(candidates_of(pruned), candidates_of(all)) << "round " << round;
        for (const ClusterCandidate& each : all.candidates) {
            if (is_bidirectional(each.step.simulation.options.schedule)) {
                EXPECT_EQ(each.step.layout.micro_batches() % 2, 0);
                EXPECT_GE(each.step.layout.micro_batches(), 2 * each.step.layout.pipeline);
                EXPECT_EQ(each.step.device.find(':'), std::string::npos) << each.step.device;
                ++doubled;
            }
        }
    }
    EXPECT_GT(doubled, 0);
}

TEST(ClusterPlan, TriesAListOfNumbersAndRangesOfDevices) {
    const Cluster cluster = plain_cluster(4);
    ClusterPlanRequest request = request_of(16);
    request.devices = {{2, 2}, {12, 16}};
    std::set<int> numbers;
    for (const ClusterCandidate& each : plan_cluster(small_model(), cluster, request).candidates) {
        numbers.insert(each.step.layout.devices());
    }
    EXPECT_EQ(numbers, (std::set<int>{2, 12, 16}));
    request.devices = {{4, 4}, {17, 20}};
    EXPECT_THAT(thrown<UsageError>([&] { plan_cluster(small_model(), cluster, request); }),
                HasSubstr("--devices has 17"));
}

TEST(ClusterPlan, ListsEachOrderOnce) {
    for (const int blocks : {4, 5, 6}) {
        LanguageModel model = small_model();
        model.layers = blocks;
        ClusterPlanRequest request = request_of(8);
        request.devices = {{4, 4}};
        const ClusterPlan plan = plan_cluster(model, plain_cluster(1), request);
        std::set<std::string> rows;
        for (const ClusterCandidate& each : plan.candidates) {
            Layout layout = each.step.layout;
            layout.cuts = Cuts::even;
            EXPECT_TRUE(
                rows.insert(to_string(layout) + " " + to_string(layout.recompute) + " zero " +
                            std::to_string(layout.zero) + " " + to_string(each.step.simulation.options.schedule) + " " +
                            to_string(each.step.simulation.options.balance) + " " + std::to_string(each.step.step_ns()))
                    .second)
                << blocks << " blocks, " << to_string(each.step.layout);
        }
    }
}

TEST(ClusterPlan, SaysHowManyDevicesWouldBeEnough) {
    Cluster cluster = plain_cluster(1);
    const LanguageModel model = parse_language_model("gpt:layers=8,hidden=64,heads=4,sequence=16,vocabulary=128");
    NodeGroup& group = cluster.groups.front();
    group.device.memory_bytes = 1'500'000;  // eight devices hold 8 blocks' parameters, gradients and states
    ClusterPlanRequest request = request_of(64);
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    ASSERT_TRUE(plan.infeasible_because);
    const std::string& because = *plan.infeasible_because;
    const std::size_t at = because.find(" devices of type plain (");
    ASSERT_NE(at, std::string::npos) << because;
    const int enough = std::stoi(because.substr(because.rfind(' ', at - 1) + 1));
    EXPECT_GT(enough, 4);
    group.nodes = 64;
    request.devices = {{enough, enough}};
    EXPECT_FALSE(plan_cluster(model, cluster, request).candidates.empty()) << because;
}

// Tensors leave some memory to what is none.
TEST(ClusterPlan, LeavesTheHeadroomFree) {
    Cluster cluster = plain_cluster(1);
    DeviceType& device = cluster.groups.front().device;
    ClusterPlanRequest request = request_of(4);
    request.devices = {{1, 1}};
    const Bytes needed = highest_peak(plan_cluster(small_model(), cluster, request).candidates.front().step.simulation);
    device.memory_bytes = needed + 1000;
    set_headroom(device, 1000);
    const ClusterPlan fits = plan_cluster(small_model(), cluster, request);
    ASSERT_FALSE(fits.candidates.empty());
    EXPECT_EQ(fits.candidates.front().step.memory.front().headroom, 1000);
    EXPECT_EQ(highest_peak(fits.candidates.front().step.simulation), needed);
    set_headroom(device, 1001);
    for (const ClusterCandidate& each : plan_cluster(small_model(), cluster, request).candidates) {
        EXPECT_LT(highest_peak(each.step.simulation), needed);
    }
}

// Each type alone, every two, and all three together.
TEST(ClusterPlan, IsThatOfAllLayoutsSimulatedOnThreeTypes) {
    const std::vector<std::vector<Schedule>> schedules{{Schedule::one_f_one_b, Schedule::interleaved_1f1b},
                                                       {Schedule::gpipe, Schedule::zero_bubble_h1},
                                                       {Schedule::one_f_one_b, Schedule::zero_bubble_v}};
    std::mt19937 random(21);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int of_three = 0;
    for (int round = 0; round < 12; ++round) {
        SCOPED_TRACE(round);
        LanguageModel model = small_model();
        model.layers = draw(4, 7);
        Cluster cluster = plain_cluster(1);
        cluster.between_nodes.bytes_per_second = draw(1, 20) * 1e8;
        if (draw(0, 1) == 1) {
            cluster.racks = Racks{1, {.bytes_per_second = draw(1, 10) * 1e8, .latency_ns = draw(0, 5) * 1e3}};
        }
        const NodeGroup first = cluster.groups.front();
        cluster.groups.clear();
        for (const char* name : {"plain", "second", "third"}) {
            NodeGroup& group = cluster.groups.emplace_back(first);
            group.device.name = name;
            group.device.flops_per_second["bfloat16"] = draw(3, 30) * 1e8;
            group.device.memory_bytes = Bytes{1} << draw(19, 22);
            group.devices_per_node = group.ports_per_node = draw(1, 2);
            group.link.bytes_per_second = draw(1, 20) * 1e8;
            group.price_per_hour = draw(1, 9);
        }
        ClusterPlanRequest request = request_of(4);
        request.schedules = schedules[static_cast<std::size_t>(round) % schedules.size()];
        request.layout.sends = round % 2 == 0 ? Sends::blocking : Sends::overlapped;
        request.layout.gradient_bucket = round % 4 == 0 ? 10'000 : 0;
        request.goal = round % 2 == 0 ? ClusterGoal::step : ClusterGoal::cost;
        const ClusterPlan pruned = plan_cluster(model, cluster, request);
        request.exhaustive = true;
        const ClusterPlan all = plan_cluster(model, cluster, request);
        EXPECT_EQ(candidates_of(pruned), candidates_of(all));
        EXPECT_LE(pruned.simulated, all.simulated);
        of_three += static_cast<int>(std::ranges::count_if(all.candidates, [](const ClusterCandidate& each) {
            return std::ranges::count(each.step.device, ':') == 3;
        }));
    }
    EXPECT_GT(of_three, 3);
}

// A slow first lane may hold the embedding only: its work would cost the quick one more than it saves.
TEST(ClusterPlan, OfUnlikeDevicesIsThatOfAllLayoutsSimulated) {
    std::mt19937 random(21);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    int embedding_alone = 0;
    for (int round = 0; round < 30; ++round) {
        LanguageModel model = small_model();
        model.layers = draw(3, 8);
        model.vocabulary = draw(1, 8) * 64;
        Cluster cluster = plain_cluster(1);
        cluster.groups.front().devices_per_node = cluster.groups.front().ports_per_node = 2;
        cluster.between_nodes.bytes_per_second = draw(1, 40) * 1e8;
        const int types = 2 + round % 2;
        for (int k = 1; k < types; ++k) {
            NodeGroup& other = cluster.groups.emplace_back(cluster.groups.front());
            other.device.name = "type " + std::to_string(k);
            other.device.flops_per_second["bfloat16"] = draw(1, 300) * 1e8;
            other.device.memory_bytes_per_second *= draw(1, 30);
        }
        ClusterPlanRequest request = request_of(draw(1, 3) * 2);
        request.devices = {{2 * types, 2 * types}};
        request.schedules = {Schedule::one_f_one_b, Schedule::interleaved_1f1b};
        if (round % 3 == 0) {
            request.schedules = {Schedule::zero_bubble_2p, Schedule::zero_bubble_v};
        }
        request.layout.gradient_bucket = round % 4 == 3 ? 10'000 : 0;
        const ClusterPlan pruned = plan_cluster(model, cluster, request);
        request.exhaustive = true;
        const ClusterPlan all = plan_cluster(model, cluster, request);
        EXPECT_EQ(candidates_of(pruned), candidates_of(all)) << "round " << round;
        ASSERT_FALSE(all.candidates.empty());
        const Balance& cuts = all.candidates.front().step.simulation.options.balance;
        embedding_alone += cuts.layers_per_partition().front() == 1 ? 1 : 0;
    }
    EXPECT_GT(embedding_alone, 2);
}

// A search that gave up after some hundred simulations would find nothing: only layouts that recompute fit, far behind
// quicker ones, of which no bound knows what gpipe keeps.
TEST(ClusterPlan, FindsTheOnlyLayoutThatFitsBehindHundreds) {
    Cluster cluster = plain_cluster(4);
    const LanguageModel model = parse_language_model("gpt:layers=8,hidden=64,heads=4,sequence=64,vocabulary=128");
    ClusterPlanRequest request = request_of(64);
    request.devices = {{16, 16}};
    request.schedules = {Schedule::gpipe};
    Bytes& memory = cluster.groups.front().device.memory_bytes;
    ClusterPlan plan;
    double too_little = 1e4;
    double enough = 1e7;
    while (enough > 1.02 * too_little) {
        memory = static_cast<Bytes>(std::sqrt(too_little * enough));
        const ClusterPlan tried = plan_cluster(model, cluster, request);
        if (tried.candidates.empty()) {
            too_little = static_cast<double>(memory);
        } else {
            enough = static_cast<double>(memory);
            plan = tried;
        }
    }
    ASSERT_FALSE(plan.candidates.empty());
    EXPECT_LE(plan.candidates.size(), 2U);
    EXPECT_GT(plan.simulated, 200U);
}

// Few quick devices beside many slow ones: a pipeline over both is quicker than one on the slow ones alone.
TEST(ClusterPlan, AddsSlowDevicesToQuickOnesThatAreTooFew) {
    Cluster cluster = plain_cluster(1);
    NodeGroup& slow = cluster.groups.emplace_back(cluster.groups.front());
    slow.device.name = "slow";
    slow.device.flops_per_second["bfloat16"] /= 4;
    slow.nodes = 4;
    ClusterPlanRequest request = request_of(64);
    request.schedules = {Schedule::one_f_one_b};
    request.devices = {{16, 16}};
    const LanguageModel model = parse_language_model("gpt:layers=16,hidden=64,heads=4,sequence=64,vocabulary=128");
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    ASSERT_FALSE(plan.candidates.empty());
    EXPECT_THAT(plan.candidates.front().step.device, HasSubstr("plain:"));
    EXPECT_TRUE(
        std::ranges::any_of(plan.candidates, [](const ClusterCandidate& each) { return each.step.device == "slow"; }));
    // The quick type has four devices of its own, so that no slow one joins.
    request.devices = {{4, 4}};
    for (const ClusterCandidate& each : plan_cluster(model, cluster, request).candidates) {
        EXPECT_THAT(each.step.device, Not(HasSubstr(":")));
    }
}

TEST(ClusterPlan, NoStepIsShorterThanItsBound) {
    std::mt19937 random(22);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    const std::vector<Schedule> one_each{Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1,
                                         Schedule::zero_bubble_2p};
    const std::vector<Schedule> several{Schedule::interleaved_1f1b, Schedule::looped_bfs,
                                        Schedule::interleaved_zero_bubble, Schedule::zero_bubble_v};
    double closest = 0;
    int tried = 0;
    for (int round = 0; round < 400; ++round) {
        LanguageModel model = small_model();
        model.layers = draw(4, 9);
        model.vocabulary = draw(1, 8) * 64;
        Cluster cluster = plain_cluster(2);
        cluster.groups.front().link.bytes_per_second = draw(1, 20) * 1e8;
        NodeGroup& other = cluster.groups.emplace_back(cluster.groups.front());
        other.device.name = "other";
        other.device.flops_per_second["bfloat16"] = draw(1, 100) * 1e8;
        Layout layout{.pipeline = draw(1, 4), .data = draw(1, 2), .tensor = draw(1, 2), .interleave = draw(1, 2)};
        layout.batch = 8;
        layout.micro_batch_size = draw(1, 2);
        layout.zero = draw(0, 3);
        layout.gradient_bucket = draw(0, 1) * 10'000;
        layout.recompute = draw(0, 1) == 0 ? Recompute::none : Recompute::full;
        layout.sends = draw(0, 1) == 0 ? Sends::blocking : Sends::overlapped;
        layout.schedule = (layout.interleave > 1 ? several : one_each)[static_cast<std::size_t>(draw(0, 3))];
        PipelineParts parts{{&cluster.groups[0], layout.pipeline}};
        if (layout.pipeline > 1 && draw(0, 1) == 1) {
            parts = {{&cluster.groups[0], 1}, {&cluster.groups[1], layout.pipeline - 1}};
        }
        try {
            const double step =
                simulate_layout(model, cluster, parts, layout, {.noise = false, .memory = false}).step_ns();
            const double least = least_step(model, cluster, parts, layout).ns;
            EXPECT_LE(least, step) << round << " " << to_string(layout) << " " << to_string(*layout.schedule);
            closest = std::max(closest, least / step);
            ++tried;
        } catch (const UsageError&) {  // schedules that cannot run so few lanes
        }
    }
    EXPECT_GT(tried, 100);
    EXPECT_GT(closest, 0.99);
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
    request.devices = {{8, 8}};
    request.tokens = 8 * 16 * 1e6;  // a million steps
    request.goal = ClusterGoal::cost;
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
    const ClusterCandidate& best = plan.candidates.front();
    EXPECT_TRUE(plan.priced);
    EXPECT_EQ(best.nodes, 2);
    const CheckpointPlan checkpoints = best_checkpoints({50, request.checkpoint_seconds, request.restart_seconds});
    EXPECT_EQ(best.spare_nodes, 0);  // the cluster has no third node
    const double training = 1e6 * best.step.step_ns() / 3.6e12;
    const double awake = training / checkpoints.effective;
    EXPECT_NEAR(best.wait_hours, awake / 50 * request.repair_hours, 1e-9 * awake);  // each failure waits for its repair
    EXPECT_NEAR(best.run_hours, awake + best.wait_hours, 1e-9 * best.run_hours);
    EXPECT_NEAR(best.checkpoints.effective, training / best.run_hours, 1e-12);
    EXPECT_EQ(best.missing_nodes, spare_nodes(2, 100, request.repair_hours));
    EXPECT_NEAR(best.cost, best.run_hours * 2 * 12, 1e-9 * best.cost);
    EXPECT_TRUE(std::ranges::any_of(plan.candidates, &ClusterCandidate::pareto));
}

// Four nodes that fail each week and repair takes a day: three with a spare end sooner than four without.
TEST(ClusterPlan, RanksARunWithASpareBeforeALargerOneWithout) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().hours_between_failures = 7 * 24;
    LanguageModel model = small_model();
    model.layers = 12;
    ClusterPlanRequest request = request_of(48);
    request.devices = {{12, 1'000}};
    request.tokens = 48 * 16 * 1e6;
    request.goal = ClusterGoal::time;
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    EXPECT_EQ(plan.candidates.front().nodes, 3);
    EXPECT_EQ(plan.candidates.front().spare_nodes, 1);
    request.repair_hours = 0.01;
    EXPECT_EQ(plan_cluster(model, cluster, request).candidates.front().nodes, 4);
}

// A hundred nodes that fail every 2400 hours have one in repair in the mean, if a repair takes a day. In the first 2.4
// hours a tenth of a node fails: P(more than 1) = 0.0047.
TEST(ClusterPlan, AShortRunWantsSparesForItsOwnFailures) {
    Cluster cluster = plain_cluster(110);
    cluster.groups.front().hours_between_failures = 2400;
    LanguageModel model = small_model();
    model.layers = 20;
    ClusterPlanRequest request = request_of(400);
    request.devices = {{400, 400}};
    request.goal = ClusterGoal::time;
    request.checkpoint_seconds = 1e-3;
    const auto best_of = [&](double hours) {
        request.tokens = 0;
        const double step = plan_cluster(model, cluster, request).candidates.front().step.step_ns();
        request.tokens = 400.0 * 16 * std::ceil(hours * 3.6e12 / step);
        return plan_cluster(model, cluster, request).candidates.front();
    };
    const ClusterCandidate brief = best_of(2.4);
    EXPECT_NEAR(brief.run_hours, 2.4, 0.3);
    EXPECT_EQ(brief.spare_nodes, 1);
    EXPECT_EQ(best_of(24).spare_nodes, 4);
    EXPECT_EQ(best_of(2400).spare_nodes, 4);
    request.tokens = 0;  // of unknown length
    EXPECT_EQ(plan_cluster(model, cluster, request).candidates.front().spare_nodes, 4);
}

// A node that fails every 1000 hours wants a spare, since it is in repair for more than a hundredth of the time. The
// spare doubles the price of a run that waits for a fortieth of it.
TEST(ClusterPlan, RentsNoSpareThatCostsMoreThanItSaves) {
    Cluster cluster = plain_cluster(3);
    cluster.groups.front().price_per_hour = 10;
    cluster.groups.front().hours_between_failures = 1000;
    ClusterPlanRequest request = request_of(16);
    request.devices = {{4, 4}};
    request.tokens = 16 * 16 * 1e7;
    const auto best = [&](ClusterGoal goal) {
        request.goal = goal;
        return plan_cluster(small_model(), cluster, request).candidates.front();
    };
    const ClusterCandidate cheap = best(ClusterGoal::cost);
    const ClusterCandidate quick = best(ClusterGoal::time);
    EXPECT_EQ(quick.spare_nodes, 1);
    EXPECT_EQ(cheap.spare_nodes, 0);
    EXPECT_LT(cheap.cost, 0.6 * quick.cost);
    EXPECT_GT(cheap.run_hours, quick.run_hours);
    EXPECT_NEAR(cheap.cost, cheap.run_hours * 10, 1e-9 * cheap.cost);
    EXPECT_EQ(cheap.missing_nodes, 0);
    // With a hundred nodes, the first spares are worth their price, and not all that are wanted.
    cluster = plain_cluster(140);
    cluster.groups.front().price_per_hour = 10;
    cluster.groups.front().hours_between_failures = 1000;
    LanguageModel model = small_model();
    model.layers = 20;
    request = request_of(400);
    request.devices = {{400, 400}};
    request.tokens = 400 * 16 * 1e7;
    request.goal = ClusterGoal::cost;
    const ClusterCandidate many = plan_cluster(model, cluster, request).candidates.front();
    EXPECT_GT(many.spare_nodes, 0);
    EXPECT_LE(many.spare_nodes, spare_nodes(100, 1000, request.repair_hours));
}

// A number or an option that is named makes the same plan succeed.
TEST(ClusterPlan, NamesWhatMakesAModelFit) {
    int with_devices = 0;
    int with_small_sums = 0;
    const auto expect_success = [&](const LanguageModel& model, const Cluster& cluster,
                                    const ClusterPlanRequest& request) {
        const std::string because = plan_cluster(model, cluster, request).infeasible_because.value_or("");
        ClusterPlanRequest with_small = request;
        with_small.layout.gradient_bytes = 2;
        const std::string before = "the model fits on ";
        if (const std::size_t on = because.find(before); on != std::string::npos) {
            const int devices = std::stoi(because.substr(on + before.size()));
            EXPECT_GT(devices, 2) << because;
            Cluster larger = cluster;
            larger.groups.front().nodes = (devices + 3) / 4;
            ClusterPlanRequest again = because.find(") with --gradient") == std::string::npos ? request : with_small;
            again.devices = {{devices, devices}};
            EXPECT_FALSE(plan_cluster(model, larger, again).candidates.empty()) << because;
            ++with_devices;
        }
        const bool is_named = because.find("or with --gradient-bytes 2") != std::string::npos ||
                              because.find("fits with --gradient-bytes 2") != std::string::npos;
        EXPECT_EQ(is_named, !plan_cluster(model, cluster, with_small).candidates.empty()) << because;
        with_small_sums += is_named ? 1 : 0;
    };
    for (const int heads : {4, 3}) {  // three heads: tensor-parallel devices do not divide a node of four
        for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::interleaved_1f1b}) {
            const std::string size = "heads=" + std::to_string(heads) + ",hidden=" + std::to_string(16 * heads);
            const LanguageModel model = parse_language_model("gpt:layers=4,sequence=16,vocabulary=128," + size);
            Cluster cluster = plain_cluster(1);
            ClusterPlanRequest request = request_of(16);
            request.devices = {{2, 2}};
            request.schedules = {schedule};
            const auto fits = [&](Bytes memory) {
                cluster.groups.front().device.memory_bytes = memory;
                return !plan_cluster(model, cluster, request).candidates.empty();
            };
            Bytes least = 20'000;
            while (!fits(2 * least)) {
                least *= 2;
            }
            for (Bytes most = 2 * least; most - least > least / 50;) {
                const Bytes middle = std::midpoint(least, most);
                (fits(middle) ? most : least) = middle;
            }
            for (const double share : {1.0, 0.8, 0.6, 0.4}) {
                cluster.groups.front().device.memory_bytes = std::llround(share * static_cast<double>(least));
                expect_success(model, cluster, request);
            }
        }
    }
    EXPECT_GE(with_devices, 4);
    EXPECT_GE(with_small_sums, 1);
}

TEST(ClusterPlan, SaysWhyNothingFits) {
    Cluster cluster = plain_cluster(1);
    cluster.groups.front().device.memory_bytes = 10'000;
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request_of(8));
    EXPECT_TRUE(plan.candidates.empty());
    EXPECT_THAT(plan.infeasible_because.value_or(""), HasSubstr("no layout fits"));
    ClusterPlanRequest odd = request_of(7);
    odd.devices = {{4, 4}};
    odd.layout.batch = (std::int64_t{1} << 40) + 1;
    EXPECT_THAT(thrown<UsageError>([&] { plan_cluster(small_model(), cluster, odd); }),
                HasSubstr("a batch has at most 2^40 samples"));
    odd.layout.batch = 1;
    LanguageModel model = small_model();
    model.heads = model.kv_heads = 1;
    model.layers = 1;
    EXPECT_THAT(thrown<UsageError>([&] { plan_cluster(model, cluster, odd); }), HasSubstr("no layout of the model"));
}

// A plan with a limit of what the closest layout needs finds one, and with less it does not.
TEST(ClusterPlan, NamesTheLeastMemoryThatALayoutNeeds) {
    struct Case {
        const char* model;
        std::int64_t batch;
        Schedule schedule;
        int nodes;
        Bytes memory;
    };
    int checked = 0;
    for (const Case& each :
         {Case{"gpt:layers=12,hidden=64,heads=8,sequence=512,vocabulary=1000", 24, Schedule::gpipe, 1, 2'000'000},
          Case{"gpt:layers=8,hidden=32,heads=8,sequence=1024,vocabulary=4000", 2, Schedule::gpipe, 1, 3'000'000},
          Case{"gpt:layers=6,hidden=64,heads=8,sequence=128,vocabulary=8000", 1, Schedule::one_f_one_b, 2, 1'000'000},
          Case{"gpt:layers=5,hidden=64,heads=8,sequence=128,vocabulary=8000", 6, Schedule::one_f_one_b, 1, 900'000}}) {
        const LanguageModel model = parse_language_model(each.model);
        Cluster cluster = plain_cluster(each.nodes);
        ClusterPlanRequest request = request_of(each.batch);
        request.schedules = {each.schedule};
        NodeGroup& group = cluster.groups.front();
        group.device.headroom_bytes = 0;
        group.device.memory_bytes = each.memory;
        const std::string why = plan_cluster(model, cluster, request).infeasible_because.value_or("");
        ASSERT_THAT(why, HasSubstr("no layout fits: the closest needs ")) << each.model;
        const auto fits = [&](Bytes bytes) {
            group.device.memory_bytes = bytes;
            return !plan_cluster(model, cluster, request).candidates.empty();
        };
        const Bytes needed = std::stoll(why.substr(why.find("B (") + 3));  // "1.23 MiB (1289748 bytes)"
        EXPECT_GT(needed, each.memory) << why;
        EXPECT_TRUE(fits(needed)) << why;
        const bool is_exact = why.find("at most") == std::string::npos;
        EXPECT_EQ(why.find("may need less") == std::string::npos, is_exact) << why;
        EXPECT_FALSE(fits(is_exact ? needed - 1 : needed - each.memory / 500)) << why;
        ++checked;
    }
    EXPECT_EQ(checked, 4);
}

TEST(ClusterPlan, NamesTypesThatItLeavesOut) {
    Cluster cluster = plain_cluster(1);
    cluster.groups.push_back(cluster.groups.front());
    cluster.groups[1].device.name = "old";
    cluster.groups[1].device.flops_per_second.erase("bfloat16");
    EXPECT_EQ(plan_cluster(small_model(), cluster, request_of(8)).left_out,
              std::vector<std::string>{"old is left out: it has no rate for bfloat16"});
    cluster.groups.front().device.flops_per_second["float8"] = 1e12;
    cluster.groups[1].device.flops_per_second["bfloat16"] = 1e12;
    ClusterPlanRequest request = request_of(8);
    set_dtype(request.layout, "float8");
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
    EXPECT_EQ(plan.left_out, std::vector<std::string>{"old is left out: it has no rate for float8"});
    EXPECT_EQ(plan.candidates.front().step.device, cluster.groups.front().device.name);
}

TEST(ClusterPlan, KeepsTheProgramsBlocksInBfloat16) {
    Cluster cluster = plain_cluster(2);
    cluster.groups.front().device.flops_per_second["float8"] =
        4 * cluster.groups.front().device.flops_per_second.at("bfloat16");
    ClusterPlanRequest request = request_of(16);
    set_dtype(request.layout, "float8");
    const double all_short = plan_cluster(small_model(), cluster, request).candidates.front().step.step_ns();
    request.layout.program = std::make_shared<const TrainingProgram>(
        parse_program(R"({"format": "pipescope.program", "version": 1, "name": "ours", "bfloat16_blocks": 1})"));
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
    const LayoutStep& best = plan.candidates.front().step;
    EXPECT_GT(best.step_ns(), all_short);
    EXPECT_EQ(best.step_ns(), simulate_layout(small_model(), cluster, cluster.groups.front(), best.layout).step_ns());
}

TEST(ClusterPlan, NamesWhatLimitsTheBestCandidateNext) {
    const Cluster cluster = plain_cluster(2);
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request_of(16));
    const LayoutStep& best = plan.candidates.front().step;
    const LayoutStep step = simulate_layout(small_model(), cluster, cluster.groups.front(), best.layout);
    const auto simulate = [](const Cluster& on, const Layout& layout) {
        return simulate_layout(small_model(), on, on.groups.front(), layout);
    };
    EXPECT_EQ(plan.next_constraint, next_constraint(step, step_limits(step, cluster, simulate)));
}

// 112 of 128 devices, where the model has 28 blocks.
TEST(ClusterPlan, TriesSeventhsIfTheModelHasThem) {
    const auto numbers_of = [](int blocks, std::int64_t batch) {
        const LanguageModel model = parse_language_model("gpt:layers=" + std::to_string(blocks) +
                                                         ",hidden=64,heads=4,sequence=16,vocabulary=128");
        std::set<int> numbers;
        for (const ClusterCandidate& each : plan_cluster(model, plain_cluster(4), request_of(batch)).candidates) {
            numbers.insert(each.step.layout.devices());
        }
        return numbers;
    };
    EXPECT_TRUE(numbers_of(28, 28).contains(14));
    EXPECT_TRUE(numbers_of(4, 28).contains(14));
    EXPECT_TRUE(numbers_of(7, 14).contains(7));
    EXPECT_FALSE(numbers_of(4, 16).contains(14));
}

TEST(ClusterPlan, TriesTheQuickestCutsForTheBestLayouts) {
    const LanguageModel model =
        parse_language_model("gpt:layers=8,hidden=64,heads=1,sequence=16,vocabulary=8192,tied=false");
    ClusterPlanRequest request = request_of(7);  // neither replicas nor tensor-parallel ranks divide it
    request.devices = {{4, 4}};
    const Cluster cluster = plain_cluster(1);
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    ASSERT_FALSE(plan.candidates.empty());
    const auto is_quickest = [](const ClusterCandidate& each) { return each.step.layout.cuts == Cuts::quickest; };
    EXPECT_GT(std::ranges::count_if(plan.candidates, is_quickest), 0);
    for (const ClusterCandidate& each : plan.candidates) {
        Layout layout = each.step.layout;
        EXPECT_EQ(simulate_layout(model, cluster, cluster.groups.front(), layout).step_ns(), each.step.step_ns());
        if (is_quickest(each)) {
            layout.cuts = Cuts::even;
            EXPECT_GT(simulate_layout(model, cluster, cluster.groups.front(), layout).step_ns(), each.step.step_ns());
        }
    }
}

// Which devices share a node depends on the number of all of them, so that layouts of other sizes differ.
TEST(StepBounds, AreThoseOfOneLayoutAlone) {
    Cluster cluster = plain_cluster(4);
    cluster.groups.front().devices_per_node = 6;
    cluster.between_nodes.bytes_per_second = 1e6;
    const PipelineParts parts{{&cluster.groups.front(), 1}};
    const LanguageModel model = small_model();
    StepBounds shared(model, cluster);
    const Layout small{.tensor = 4, .batch = 12};
    const Layout large{.data = 3, .tensor = 4, .batch = 12};
    EXPECT_EQ(shared.of(large, parts), StepBounds(model, cluster).of(large, parts));
    EXPECT_EQ(shared.of(small, parts), StepBounds(model, cluster).of(small, parts));
    EXPECT_LE(shared.of(small, parts), simulate_layout(model, cluster, parts, small).step_ns());
}

// The simulation rounds each task to whole ns.
TEST(StepBounds, AllowForTheRoundingOfSplitBackwards) {
    const LanguageModel model = parse_language_model("gpt:layers=4,hidden=8,heads=2,sequence=4,vocabulary=8");
    for (int rate = 1000; rate < 1300; ++rate) {
        Cluster cluster = plain_cluster(1);
        DeviceType& device = cluster.groups.front().device;
        device.flops_per_second["bfloat16"] = 1e6 * rate;
        device.memory_bytes_per_second = 1e18;  // the embedding takes no time
        cluster.groups.front().link.bytes_per_second = 0;
        cluster.groups.front().link.latency_ns = 0;
        for (const int lanes : {1, 2}) {
            Layout layout{.pipeline = lanes, .batch = 64};
            layout.schedule = Schedule::zero_bubble_h1;
            const PipelineParts parts{{&cluster.groups.front(), lanes}};
            EXPECT_LE(StepBounds(model, cluster).of(layout, parts),
                      simulate_layout(model, cluster, parts, layout).step_ns())
                << rate << " " << lanes;
        }
    }
}

TEST(StepBounds, AreTheSameFromSeveralThreads) {
    const Cluster cluster = plain_cluster(4);
    const PipelineParts parts{{&cluster.groups.front(), 2}};
    const LanguageModel model = small_model();
    StepBounds shared(model, cluster);
    std::vector<std::thread> threads;
    std::vector<double> bounds(4);
    for (double& bound : bounds) {
        threads.emplace_back([&] { bound = shared.of({.pipeline = 2, .tensor = 2, .batch = 12}, parts); });
    }
    for (std::thread& each : threads) {
        each.join();
    }
    EXPECT_THAT(bounds, testing::Each(StepBounds(model, cluster).of({.pipeline = 2, .tensor = 2, .batch = 12}, parts)));
}

// In tight memory the first lane has the embedding alone, which weighs as much as four blocks.
TEST(ClusterPlan, FindsALayoutWhoseFirstLaneHasNoBlock) {
    Cluster cluster = plain_cluster(5);
    cluster.groups.front().devices_per_node = 1;
    const LanguageModel model =
        parse_language_model("gpt:layers=11,hidden=64,heads=1,sequence=16,vocabulary=2900,tied=false");
    ClusterPlanRequest request = request_of(1);
    request.devices = {{5, 5}};
    request.schedules = {Schedule::one_f_one_b};
    int alone = 0;
    for (double memory = 2e6; memory < 8e6; memory *= 1.01) {
        cluster.groups.front().device.memory_bytes = static_cast<Bytes>(memory);
        const LayoutStep step =
            simulate_layout(model, cluster, cluster.groups.front(), Layout{.pipeline = 5, .batch = 1});
        if (step.simulation.feasible && step.simulation.options.balance.layers_per_partition().front() == 1) {
            ++alone;
            const ClusterPlan plan = plan_cluster(model, cluster, request);
            ASSERT_FALSE(plan.candidates.empty()) << *plan.infeasible_because;
            EXPECT_LE(plan.candidates.front().step.step_ns(), step.step_ns());
        }
    }
    EXPECT_GT(alone, 0);
}

// Layouts that are the same on two types of devices have variants on both.
TEST(ClusterPlan, TriesVariantsOnEachType) {
    Cluster cluster = plain_cluster(1);
    NodeGroup& slow = cluster.groups.emplace_back(cluster.groups.front());
    slow.device.name = "slow";
    slow.device.flops_per_second["bfloat16"] /= 2;
    const LanguageModel model =
        parse_language_model("gpt:layers=8,hidden=64,heads=1,sequence=16,vocabulary=8192,tied=false");
    ClusterPlanRequest request = request_of(7);
    request.devices = {{4, 4}};
    std::set<std::string> quickest;
    std::set<std::string> automatic;
    for (const ClusterCandidate& each : plan_cluster(model, cluster, request).candidates) {
        if (each.step.layout.cuts == Cuts::quickest) {
            quickest.insert(each.step.device);
        }
        if (each.step.layout.schedule == Schedule::automatic) {
            automatic.insert(each.step.device);
        }
    }
    EXPECT_EQ(quickest, (std::set<std::string>{"plain", "slow"}));
    EXPECT_EQ(automatic, (std::set<std::string>{"plain", "slow"}));
}

TEST(ClusterPlan, StopsWhenAsked) {
    ClusterPlanRequest request = request_of(16);
    request.progress = [](double) { return false; };
    EXPECT_TRUE(plan_cluster(small_model(), plain_cluster(4), request).cancelled);
}

// Schedule auto is never slower than 1f1b on the same layout, and here quicker: it fills bubbles with gradients of
// weights.
TEST(ClusterPlan, TriesAutoForTheBestLayouts) {
    const Cluster cluster = plain_cluster(1);
    const LanguageModel model = parse_language_model("gpt:layers=4,hidden=64,heads=1,sequence=16,vocabulary=8");
    ClusterPlanRequest request = request_of(8);
    request.layout.sends = Sends::overlapped;
    request.devices = {{4, 4}};
    const auto best = [&](std::vector<Schedule> schedules) {
        request.schedules = std::move(schedules);
        return plan_cluster(model, cluster, request).candidates.front().step;
    };
    request.most_per_size = 30;
    const LayoutStep named = best({Schedule::one_f_one_b});
    const LayoutStep with_auto = best({Schedule::one_f_one_b, Schedule::automatic});
    EXPECT_LE(with_auto.step_ns(), named.step_ns());
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    EXPECT_TRUE(std::ranges::any_of(plan.candidates, [](const ClusterCandidate& each) {
        return each.step.layout.schedule == Schedule::automatic;
    }));
    EXPECT_LE(best({Schedule::automatic}).step_ns(), with_auto.step_ns()) << "alone, it starts from the usual ones";
}

// A batch so large that small micro-batches are too many leaves out those layouts only.
TEST(ClusterPlan, LeavesOutLayoutsWithTooManyMicroBatches) {
    ClusterPlanRequest request = request_of(1 << 17);
    request.devices = {{1, 1}};
    request.schedules = {Schedule::one_f_one_b};
    request.most_per_size = 1;
    const ClusterPlan plan = plan_cluster(small_model(), plain_cluster(1), request);
    ASSERT_FALSE(plan.candidates.empty());
    EXPECT_GT(plan.candidates.front().step.layout.micro_batch_size, 1);
}

// Schedule auto takes long, so it can be cancelled and has its share of the progress.
TEST(ClusterPlan, CanBeCancelledBeforeAuto) {
    const Cluster cluster = plain_cluster(1);
    ClusterPlanRequest request = request_of(8);
    const auto has_auto = [](const ClusterPlan& plan) {
        return std::ranges::any_of(plan.candidates, [](const ClusterCandidate& each) {
            return each.step.layout.schedule == Schedule::automatic;
        });
    };
    double last = 0;
    double least_left = 1;
    request.progress = [&](double done) {
        EXPECT_GE(done, last);
        EXPECT_LE(done, 1);
        last = done;
        return done < least_left;
    };
    least_left = 2;
    EXPECT_TRUE(has_auto(plan_cluster(small_model(), cluster, request)));
    EXPECT_DOUBLE_EQ(last, 1);
    last = 0;
    least_left = 0.55;
    const ClusterPlan plan = plan_cluster(small_model(), cluster, request);
    EXPECT_TRUE(plan.cancelled);
    EXPECT_FALSE(plan.candidates.empty());
    EXPECT_FALSE(has_auto(plan));
    EXPECT_LT(last, 1);
}

TEST(ClusterPlan, TriesPartitionsThatDoNotDivideTheBlocks) {
    const Cluster cluster = plain_cluster(1);
    // Four partitions do not divide the six blocks, but the ends take as long as some of them; six do.
    const LanguageModel model = parse_language_model("gpt:layers=6,hidden=64,heads=1,sequence=16,vocabulary=8");
    ClusterPlanRequest request = request_of(4);
    request.devices = {{2, 2}};
    request.schedules = {Schedule::interleaved_1f1b};
    const ClusterPlan plan = plan_cluster(model, cluster, request);
    const auto is_tried = [&](int interleave) {
        return std::ranges::count(plan.candidates, interleave,
                                  [](const ClusterCandidate& each) { return each.step.layout.interleave; }) > 0;
    };
    EXPECT_TRUE(is_tried(2));
    EXPECT_TRUE(is_tried(3));
}

TEST(StepParts, SumToTheStep) {
    const Cluster cluster = plain_cluster(4);
    for (const Sends sends : {Sends::overlapped, Sends::blocking, Sends::serial}) {
        for (const Bytes bucket : {0, 10'000}) {
            Layout layout{.pipeline = 2, .data = 2, .tensor = 4};
            layout.batch = 8;
            layout.recompute = Recompute::full;
            layout.sends = sends;
            layout.gradient_bucket = bucket;
            const LayoutStep step = simulate_layout(small_model(), cluster, cluster.groups.front(), layout);
            const StepParts parts = step_parts(step);
            double sum = 0;
            for (const NamedPart& each : named_parts(parts)) {
                EXPECT_GE(each.share, 0) << each.name;
                sum += each.share;
            }
            EXPECT_NEAR(sum, 1, 1e-9);
            for (const double part : {parts.compute, parts.recompute, parts.collectives, parts.bubble(),
                                      parts.gradients, parts.optimizer}) {
                EXPECT_GT(part, 0);
            }
            EXPECT_EQ(parts.sends > 0, sends != Sends::overlapped);
            const Simulation& simulation = step.simulation;
            const StepGraph graph = step_graph_of(simulation.timeline, {0, simulation.step_time.count()},
                                                  pipeline_graph_of(*step.profile, simulation.options));
            EXPECT_EQ(sum_bubbles(graph, bubbles_of(graph, sends)).of(BubbleCause::contention), 0)
                << "a lane that a message holds waits for that copy";
            EXPECT_THAT(to_string(parts), HasSubstr("recompute "));
        }
    }
}

TEST(StepLimits, NameEvenCutsIfOthersAreQuicker) {
    const Cluster cluster = plain_cluster(1);
    const auto limits_of = [&](const std::string& text, const Layout& layout) {
        const LanguageModel model = parse_language_model(text);
        const LayoutStep step = simulate_layout(model, cluster, cluster.groups.front(), layout);
        return step_limits(step, cluster, [&](const Cluster& on, const Layout& other) {
            return simulate_layout(model, on, on.groups.front(), other, {.noise = false});
        });
    };
    const std::string large = "gpt:layers=16,hidden=64,heads=8,sequence=16,vocabulary=8192";
    Layout layout{.pipeline = 4, .batch = 64};
    const std::vector<StepLimit> limits = limits_of(large, layout);
    const auto found = std::ranges::find(limits, "even cuts", &StepLimit::name);
    ASSERT_NE(found, limits.end());
    EXPECT_THAT(found->remedy, HasSubstr("--cuts quickest"));
    layout.cuts = Cuts::quickest;
    const LayoutStep quickest = simulate_layout(parse_language_model(large), cluster, cluster.groups.front(), layout);
    EXPECT_EQ(found->step_ns, quickest.step_ns());
    const auto is_named = [](const std::vector<StepLimit>& all) {
        return std::ranges::find(all, "even cuts", &StepLimit::name) != all.end();
    };
    EXPECT_FALSE(is_named(limits_of(large, layout)));
    layout.cuts = Cuts::even;
    const std::string alike = "gpt:layers=16,hidden=64,heads=8,sequence=16,vocabulary=8";
    EXPECT_FALSE(is_named(limits_of(alike, layout))) << "even cuts are the quickest";
}

TEST(StepLimits, NameAHostThatLaunchesTooSlowly) {
    const Cluster cluster = plain_cluster(1);
    const auto limit_with = [&](double launch_ns) {
        TrainingProgram program;
        program.launch_ns = launch_ns;
        program.forward_launches = program.backward_launches = 10;
        const Layout layout{.batch = 8, .program = std::make_shared<const TrainingProgram>(program)};
        const LayoutStep step = simulate_layout(small_model(), cluster, cluster.groups.front(), layout);
        const std::vector<StepLimit> limits = step_limits(step, cluster, [&](const Cluster& on, const Layout& other) {
            return simulate_layout(small_model(), on, on.groups.front(), other);
        });
        const auto host = std::ranges::find(limits, "host", &StepLimit::name);
        return host == limits.end() ? std::nullopt : std::optional(host->step_ns / step.step_ns());
    };
    EXPECT_LT(limit_with(1e9).value(), 0.5);
    EXPECT_EQ(limit_with(1e-9), 1);
    EXPECT_FALSE(limit_with(0));
}

// Over a link of 2000 bytes a second a copy takes more than the work of a step.
TEST(StepLimits, NameWhatLimitsTheStep) {
    Cluster cluster = plain_cluster(2);
    const LanguageModel model = small_model();
    const LayoutSimulator simulate_on = [&](const Cluster& on, const Layout& layout) {
        return simulate_layout(model, on, on.groups.front(), layout, {.noise = false});
    };
    const auto limits_of = [&](const Layout& layout) {
        const LayoutStep step = simulate_layout(model, cluster, cluster.groups.front(), layout);
        return std::pair(step, step_limits(step, cluster, simulate_on));
    };
    Layout layout{.pipeline = 2, .tensor = 4, .batch = 8};
    layout.recompute = Recompute::full;
    cluster.between_nodes.bytes_per_second = 2e3;
    {
        const auto [step, limits] = limits_of(layout);
        EXPECT_EQ(limits.front().name, "links between nodes");
        EXPECT_LT(limits.front().step_ns, 0.2 * step.step_ns());
        EXPECT_THAT(next_constraint(step, limits), HasSubstr("links between nodes: without it, the step would be "));
        EXPECT_THAT(limits.front().remedy, HasSubstr("faster ports or overlapped sends"))
            << "it has one replica, which sums no gradients, and micro-batches of one sample";
        Layout larger = layout;
        larger.micro_batch_size = 2;
        EXPECT_THAT(limits_of(larger).second.front().remedy, HasSubstr("faster ports, more micro-batches or"));
        larger.micro_batch_size = 1;
        larger.tensor = 2;
        larger.data = 2;
        larger.sends = Sends::overlapped;
        const auto all = limits_of(larger).second;
        const auto between = std::ranges::find(all, "links between nodes", &StepLimit::name);
        EXPECT_EQ(between->remedy, "faster ports, fewer replicas or --gradient-bytes 2 would help");
    }
    cluster.between_nodes.bytes_per_second = 1e18;
    cluster.groups.front().link.bytes_per_second = 2e3;
    EXPECT_EQ(limits_of(layout).second.front().name, "links of a node");
    cluster.groups.front().link.bytes_per_second = 1e18;
    {
        const auto [step, limits] = limits_of(layout);
        Layout without = layout;
        without.recompute = Recompute::none;
        const LayoutStep kept = limits_of(without).first;
        const auto limit = [&](const std::string& name, const std::vector<StepLimit>& all) {
            const auto found = std::ranges::find(all, name, &StepLimit::name);
            return found == all.end() ? std::nullopt : std::optional(*found);
        };
        ASSERT_TRUE(limit("recompute", limits)) << "it fits without";
        EXPECT_FALSE(limit("memory", limits));
        EXPECT_NEAR(limit("recompute", limits)->step_ns, kept.step_ns(), 1);
        EXPECT_THAT(limit("recompute", limits)->remedy, HasSubstr("--recompute none"));
        EXPECT_THAT(next_constraint(step, limits), HasSubstr("the highest peak is "));

        Bytes& memory = cluster.groups.front().device.memory_bytes;
        memory = highest_peak(kept.simulation);
        while (simulate_on(cluster, without).simulation.feasible) {
            memory -= memory / 100;
        }
        ASSERT_TRUE(simulate_on(cluster, layout).simulation.feasible);
        const auto [tight, limits_of_tight] = limits_of(layout);
        ASSERT_TRUE(limit("memory", limits_of_tight));
        EXPECT_FALSE(limit("recompute", limits_of_tight));
        EXPECT_NEAR(limit("memory", limits_of_tight)->step_ns, kept.step_ns(), 1);
        memory = highest_peak(step.simulation) / 2;
        const auto [large, limits_of_large] = limits_of(layout);
        EXPECT_THAT(
            next_constraint(large, limits_of_large),
            AllOf(HasSubstr("memory: lane "), HasSubstr("; more lanes, more tensor-parallel devices or devices with")))
            << "it recomputes everything, and has one replica";
        memory = Bytes{1} << 60;
    }
    layout.recompute = Recompute::none;
    layout.batch = 1;  // one micro-batch on two lanes
    EXPECT_EQ(limits_of(layout).second.front().name, "bubble");
}
}  // namespace
}  // namespace pipescope
