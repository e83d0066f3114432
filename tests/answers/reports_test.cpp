#include "answers/reports.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ContainsRegex;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> keys_of(const nlohmann::ordered_json& object) {
    std::vector<std::string> keys;
    for (const auto& [key, value] : object.items()) {
        keys.push_back(key);
    }
    return keys;
}

Simulation small_simulation() {
    Simulation simulation;
    simulation.options.balance = Balance({2, 1});
    simulation.options.chunks = 4;
    simulation.options.batch = 8;
    simulation.micro_batches = 4;
    simulation.step_time = Nanoseconds{1'500'000};
    simulation.bubble_fraction = 0.25;
    simulation.partitions = {{{LayerId{0}, LayerId{2}}, LaneId{0}, "cpu", 100},
                             {{LayerId{2}, LayerId{3}}, LaneId{1}, "cpu", 50}};
    MemoryBreakdown peak;
    peak[MemoryCategory::parameters] = 100;
    peak[MemoryCategory::saved] = 3996;
    simulation.lanes = {{.busy = Nanoseconds{1'000'000},
                         .bubble_fraction = 0.25,
                         .peak_bytes = 4096,
                         .peak_reserved_bytes = 5000,
                         .peak = peak},
                        {}};
    return simulation;
}

TEST(SimulationReport, HasTheDocumentedKeysInTheirOrder) {
    Simulation simulation = small_simulation();
    EXPECT_THAT(
        keys_of(simulation_json(simulation)),
        ElementsAre("step_ns", "bubble_fraction", "utilization", "speedup", "samples_per_second", "balance", "chunks",
                    "micro_batches", "batch", "checkpoint", "schedule", "update", "dtype", "optimizer",
                    "master_weights", "feasible", "extrapolated", "estimated", "partitions", "lanes"));
    simulation.noise = {Nanoseconds{1}, Nanoseconds{3}, Nanoseconds{2}};
    simulation.device_idle_fraction = 0.5;
    const auto object = simulation_json(simulation);
    EXPECT_EQ(object.at("step_band_ns"), (nlohmann::ordered_json{1, 3}));
    EXPECT_EQ(object.at("step_mean_ns"), 2);
    EXPECT_EQ(object.at("device_idle_fraction"), 0.5);
}

TEST(SimulationReport, HasTokensPerSecondWhereASequenceIsKnown) {
    Simulation simulation = small_simulation();
    simulation.samples_per_second = 1000;
    EXPECT_THAT(simulation_text(simulation), testing::Not(HasSubstr("tokens/s")));
    simulation.tokens_per_sample = 128;
    EXPECT_EQ(simulation_json(simulation).at("tokens_per_second"), 128'000);
    EXPECT_FALSE(simulation_json(simulation).contains("tokens_per_second_mean"));
    simulation.noise = {.mean = Nanoseconds{2'000'000}};
    EXPECT_EQ(simulation_json(simulation).at("tokens_per_second_mean"), 96'000) << "1.5 ms became 2 ms";
    EXPECT_THAT(simulation_text(simulation), AllOf(HasSubstr("tokens/s"), HasSubstr("96000")));
}

// With noise, the expected step includes it, and the other figures belong to the same step.
TEST(SimulationReport, ShowsTheExpectedStepWhereNoiseIsKnown) {
    Simulation simulation = small_simulation();
    simulation.speedup = 1.5;
    simulation.samples_per_second = 1000;
    simulation.noise = {Nanoseconds{1'600'000}, Nanoseconds{2'400'000}, Nanoseconds{2'000'000}, 0.4375};
    EXPECT_EQ(expected_step(simulation), Nanoseconds{2'000'000});
    EXPECT_EQ(simulation_json(simulation).at("step_ns"), 1'500'000);
    EXPECT_EQ(simulation_json(simulation).at("bubble_mean"), 0.4375);
}

TEST(SimulationReport, NamesTheLastLayerOfAPartitionItself) {
    const auto object = simulation_json(small_simulation());
    EXPECT_EQ(object.at("partitions").at(0).at("layers"), (nlohmann::ordered_json{0, 1}));
    EXPECT_THAT(keys_of(object.at("partitions").at(0)), ElementsAre("layers", "lane", "device", "parameter_bytes"));
    EXPECT_THAT(keys_of(object.at("lanes").at(0)),
                ElementsAre("busy_ns", "bubble_fraction", "peak_bytes", "peak_reserved_bytes", "peak"));
    EXPECT_THAT(keys_of(object.at("lanes").at(1)), ElementsAre("busy_ns", "bubble_fraction", "peak_bytes", "peak"))
        << "reserved bytes were not asked for";
    EXPECT_TRUE(object.at("step_ns").is_number_integer());
    EXPECT_EQ(object.at("lanes").at(0).at("peak").at("saved"), 3996);
}

TEST(SimulationReport, SaysWhatAPeakConsistsOfLargestFirst) {
    MemoryBreakdown memory;
    EXPECT_EQ(memory_text(memory), "");
    EXPECT_TRUE(memory_json(memory).is_null());
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        memory[static_cast<MemoryCategory>(k)] = static_cast<Bytes>(k);
    }
    EXPECT_EQ(memory_text(memory), "output 8 B, copy 7 B, transient 6 B, others 15 B");
}

TEST(BalanceReport, HasTheDocumentedKeysInTheirOrder) {
    FoundBalance found;
    found.balance = Balance({2, 1});
    found.step_ns = 1'500'000;
    found.peak_bytes = {4096, 1024};
    EXPECT_THAT(keys_of(balance_json(found, {})), ElementsAre("balance", "step_ns", "lower_bound_ns", "optimal",
                                                              "algorithm", "ranked_by_simulation", "peak_bytes"));
    Simulation simulation;
    simulation.step_time = Nanoseconds{1'500'000};
    EXPECT_TRUE(balance_json(found, {}).at("lower_bound_ns").is_null());
    found.lower_bound_ns = 1'400'000;
    EXPECT_EQ(balance_json(found, {}).at("lower_bound_ns"), 1'400'000);
    found.optimal = true;
    simulation.noise = {.mean = Nanoseconds{2'000'000}, .bubble = 0.25};
    EXPECT_EQ(balance_json(found, simulation).at("step_mean_ns"), 2'000'000);
    EXPECT_EQ(balance_json(found, simulation).at("bubble_mean"), 0.25);
    found.algorithm = BalanceAlgorithm::block;
    found.repaired = true;
    EXPECT_EQ(balance_json(found, {}).at("repaired"), true);
    EXPECT_THAT(balance_text(found, {}), HasSubstr("repaired"));
}

TEST(BalanceReport, SaysWhyNothingFits) {
    FoundBalance found;
    found.feasible = false;
    found.infeasible_because = "lane 0 needs 5 GiB";
    found.smallest_limit = 5368709120;
    const auto object = balance_json(found, {});
    EXPECT_EQ(object.at("feasible"), false);
    EXPECT_EQ(object.at("smallest_memory_limit"), 5368709120);
    EXPECT_TRUE(object.at("smallest_partitions").is_null());
    EXPECT_FALSE(object.contains("smallest_memory_limits"));
    found.smallest_limits = {4096, 5368709120};
    EXPECT_EQ(balance_json(found, {}).at("smallest_memory_limits"), (nlohmann::ordered_json{4096, 5368709120}));
}

TraceComparison small_comparison() {
    TraceComparison compared;
    compared.comparison.steps = {1, 2};
    compared.comparison.measured_step_time = Nanoseconds{2'000'000};
    compared.comparison.simulated_step_time = Nanoseconds{1'900'000};
    compared.comparison.step_error = -0.05;
    compared.comparison.lanes = {{Nanoseconds{10}, Nanoseconds{9}, 0.1, 0.2, std::nullopt, 77}};
    compared.comparison.worst = {{{2, TaskKind::backward, 1, 0, -1}, Nanoseconds{30}, Nanoseconds{10}}};
    return compared;
}

TEST(ComparisonReport, HasTheDocumentedKeysInTheirOrder) {
    const auto object = comparison_json(small_comparison());
    EXPECT_THAT(
        keys_of(object),
        ElementsAre("steps", "measured_step_ns", "simulated_step_ns", "measured_step_mean_ns", "simulated_step_mean_ns",
                    "step_error", "lower_bound_ns", "measured_bubble_fraction", "simulated_bubble_fraction",
                    "measured_bubble_mean", "simulated_bubble_mean", "measured_wall_step_ns", "replay_step_ns",
                    "replay_error", "replay_with_gaps_error", "measured_samples_per_second",
                    "simulated_samples_per_second", "tasks_matched", "tasks_unmatched", "lanes", "unattributed_share",
                    "kernels", "worst", "bubbles", "verdict", "load", "profile_from_trace", "processes",
                    "clock_bound_ns", "drops", "warnings", "refused"));
    EXPECT_THAT(
        keys_of(object.at("lanes").at(0)),
        ElementsAre("measured_busy_ns", "simulated_busy_ns", "measured_bubble_fraction", "simulated_bubble_fraction",
                    "measured_peak_bytes", "simulated_peak_bytes", "replayed_peak_bytes"));
    EXPECT_TRUE(object.at("replay_error").is_null()) << "the comparison has no replay";
    EXPECT_TRUE(object.at("lanes").at(0).at("measured_peak_bytes").is_null());
    EXPECT_EQ(object.at("worst").at(0).at("task"), "step 2 backward (0, 1)");
    EXPECT_TRUE(object.at("worst").at(0).at("half").is_null());
    TraceComparison split = small_comparison();
    split.comparison.worst[0].half = BackwardHalf::inputs;
    EXPECT_EQ(comparison_json(split).at("worst").at(0).at("half"), "I");
    EXPECT_THAT(comparison_text(split), HasSubstr("\nstep 2 backward_input (0, 1) "));
}

// The printed error is that of the two times beside it.
TEST(ComparisonReport, ShowsMeansWhereTheErrorIsTheirs) {
    TraceComparison compared = small_comparison();
    EXPECT_THAT(comparison_text(compared), testing::Not(HasSubstr("no noise")));
    EXPECT_THAT(comparison_text(compared), AllOf(HasSubstr("2.00 ms"), HasSubstr("1.90 ms"), HasSubstr("(median)")));
    compared.comparison.measured_step_mean = Nanoseconds{2'200'000};
    compared.comparison.simulated_step_mean = Nanoseconds{2'310'000};
    compared.comparison.step_error = 0.05;
    EXPECT_THAT(comparison_text(compared), HasSubstr("simulated, no noise"));
    EXPECT_THAT(comparison_text(compared), AllOf(HasSubstr("2.20 ms"), HasSubstr("2.31 ms"), HasSubstr("+5.00 %"),
                                                 HasSubstr("means of step and bubble")));
    EXPECT_EQ(comparison_json(compared).at("simulated_step_ns"), 1'900'000);
    EXPECT_EQ(comparison_json(compared).at("simulated_step_mean_ns"), 2'310'000);
}

TEST(ComparisonReport, TellsTheLoadOfProfileAndRun) {
    TraceComparison compared = small_comparison();
    EXPECT_TRUE(comparison_json(compared).at("load").at("profile").is_null());
    compared.run_load = MachineLoad{0.25, 0.5, 0.125};
    EXPECT_EQ(comparison_json(compared).at("load").at("run"),
              (nlohmann::ordered_json{{"others", 0.25}, {"stolen", 0.5}, {"pressure", 0.125}}));
}

TEST(ComparisonReport, RefusesBubbleFiguresWhereRangesWereLost) {
    TraceComparison compared = small_comparison();
    compared.drops = {{"nvtx", 7, 100, 0, 0, 0}};
    compared.warnings = loss_warnings(compared.drops);
    EXPECT_TRUE(comparison_json(compared).at("measured_bubble_fraction").is_number());
    EXPECT_TRUE(comparison_json(compared).at("refused").empty());
    compared.drops = {{"nvtx", 7, 100, 3, 0, 0}};
    compared.warnings = loss_warnings(compared.drops);
    const auto object = comparison_json(compared);
    EXPECT_TRUE(object.at("measured_bubble_fraction").is_null());
    EXPECT_TRUE(object.at("lanes").at(0).at("measured_bubble_fraction").is_null());
    EXPECT_EQ(object.at("drops").at(0).at("dropped"), 3);
    EXPECT_THAT(object.at("refused"), ElementsAre("measured_bubble_fraction", "measured_bubble_mean",
                                                  "lanes.measured_bubble_fraction", "bubbles.measured"));
    EXPECT_TRUE(object.at("bubbles").at("measured").is_null());
    EXPECT_TRUE(object.at("bubbles").at("simulated").is_object());
    EXPECT_THAT(comparison_text(compared), HasSubstr("lost 3 of 103 ranges"));
    EXPECT_THAT(comparison_text(compared), ContainsRegex("bubble fraction +lost"));
}

TEST(ComparisonReport, SaysWhyLanesWereIdle) {
    TraceComparison compared = small_comparison();
    const auto cause = [](BubbleReport& report, BubbleCause of) -> BubblesOfCause& {
        return report.causes[static_cast<std::size_t>(of)];
    };
    cause(compared.bubbles.measured, BubbleCause::slower_lane) = {Nanoseconds{400'000}, 0.2};
    cause(compared.bubbles.measured, BubbleCause::contention) = {Nanoseconds{100'000}, 0.05};
    cause(compared.bubbles.simulated, BubbleCause::slower_lane) = {Nanoseconds{300'000}, 0.15};
    compared.bubbles.measured.step = 2;
    compared.bubbles.measured.largest = {{LaneId{1}, Nanoseconds{5}, Nanoseconds{7}, 0.1, BubbleCause::slower_lane,
                                          TaskKey{2, TaskKind::forward, 0, 1, -1}, std::nullopt}};
    const auto object = comparison_json(compared).at("bubbles");
    EXPECT_EQ(object.at("measured").at("causes").size(), std::size_t{kNumBubbleCauses});
    EXPECT_EQ(object.at("measured").at("causes").at(3),
              (nlohmann::ordered_json{{"cause", "slower_lane"}, {"ns", 400'000}, {"share", 0.2}}));
    EXPECT_EQ(object.at("measured").at("step"), 2);
    EXPECT_EQ(object.at("measured").at("largest").at(0), (nlohmann::ordered_json{{"lane", 1},
                                                                                 {"start_ns", 5},
                                                                                 {"ns", 7},
                                                                                 {"share", 0.1},
                                                                                 {"cause", "slower_lane"},
                                                                                 {"culprit", "step 2 forward (1, 0)"},
                                                                                 {"next", nullptr}}));
}

TEST(Reports, SameObjectGivesTheSameBytes) {
    EXPECT_EQ(dump(simulation_json(small_simulation())), dump(simulation_json(small_simulation())));
    EXPECT_EQ(dump({{"a", 1}}), "{\n  \"a\": 1\n}\n");
}
}  // namespace
}  // namespace pipescope
