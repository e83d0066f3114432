#include "simulator/search/automatic_schedule.h"

#include "base/error.h"
#include "schedule/schedules.h"
#include "simulator/plan/planner.h"
#include "simulator/search/balance_search.h"
#include "simulator/search/balanced_pipeline.h"
#include "simulator/search/search_tables.h"
#include "simulator/simulation.h"
#include "tests/balance/every_balance.h"
#include "tests/simulator/random_pipelines.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
std::optional<Simulation> simulated_if_accepted(const Profile& profile, PipelineOptions options,
                                                const Schedule& schedule) {
    options.schedule = schedule;
    try {
        return simulate(CheckedProfile(profile), options, {.noise = false, .memory = true});
    } catch (const UsageError&) {
        return std::nullopt;  // does not fit the placement or the micro-batches
    }
}

Bytes peak_of(const Simulation& simulation) {
    Bytes peak = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        peak = std::max(peak, lane.peak_bytes);
    }
    return peak;
}

/// True for the schedules that auto is compared with. A bidirectional one holds each partition twice, which is another
/// pipeline.
bool holds_weights_once(const Schedule& schedule) {
    return is_synchronous(schedule) && !is_bidirectional(schedule);
}

/// Options with one partition a lane, in turn, or in a V.
PipelineOptions random_placement(std::mt19937& random, const Profile& profile) {
    const int n = 1 + static_cast<int>(random() % 4);
    const int layout = static_cast<int>(random() % 3);
    const int partitions = layout == 0 ? n : 2 * n;
    PipelineOptions options = random_options(random, random_balance(random, profile.layers.size(), partitions));
    options.hardware.devices.clear();
    options.hardware.speeds.clear();
    for (int j = 0; j < partitions && layout > 0; ++j) {
        options.placement.emplace_back(layout == 1 || j < n ? j % n : 2 * n - 1 - j);
    }
    return options;
}
}  // namespace

TEST(AutomaticSchedule, IsNeverSlowerThanANamedOneNorQuickerThanItsBound) {
    std::mt19937 random(1);
    int compared = 0;
    for (int round = 0; round < 60; ++round) {
        Profile profile = random_profile(random, 8, round % 3 == 0);
        PipelineOptions options = random_placement(random, profile);
        if (round % 2 == 0) {  // lanes run faster than profiled while others wait
            profile.co_running_slowdown = {1, 1.3};
            options.hardware.devices.assign(static_cast<std::size_t>(num_lanes(options)), kHost);
            options.hardware.host_cores = 2;
        }
        if (round % 4 == 1) {  // one loss of the mini-batch takes less than those of the micro-batches
            profile.loss_ns = {1000, 1010};
        }
        PipelineOptions automatic = options;
        automatic.schedule = Schedule::automatic;
        const Simulation found =
            find_and_simulate(CheckedProfile(profile), automatic, {.noise = false, .memory = true});
        ASSERT_TRUE(found.lower_bound) << "round " << round;
        for (const Schedule& named : all_schedules()) {
            const auto other = simulated_if_accepted(profile, options, named);
            if (other && holds_weights_once(named)) {
                EXPECT_LE(found.step_time, other->step_time) << to_string(named) << ", round " << round;
                EXPECT_LE(*found.lower_bound, other->step_time) << to_string(named) << ", round " << round;
                ++compared;
            }
        }
    }
    EXPECT_GE(compared, 120);
}

TEST(AutomaticSchedule, BoundsEveryScheduleThatDrains) {
    std::mt19937 random(11);
    int bounded = 0;
    for (int round = 0; round < 60; ++round) {
        const CheckedProfile profile = random_profile(random, 8, round % 3 == 0);
        PipelineOptions options = random_placement(random, profile);
        if (round % 2 == 0) {
            options.hardware.memory_limit = 1 + static_cast<Bytes>(random() % 2'000'000);
        }
        for (const Schedule& named : all_schedules()) {
            std::optional<Simulation> simulation = simulated_if_accepted(profile, options, named);
            if (!simulation) {
                continue;
            }
            add_lower_bound(profile, *simulation);
            EXPECT_EQ(simulation->lower_bound.has_value(), holds_weights_once(named));
            if (simulation->lower_bound) {
                EXPECT_LE(*simulation->lower_bound, simulation->step_time) << to_string(named) << ", round " << round;
                ++bounded;
            }
        }
    }
    EXPECT_GE(bounded, 200);
}

// Measured times may fall from one size to the next. The bound once took all costs of the smaller micro-batches.
TEST(AutomaticSchedule, BoundsStepsWhoseLargerMicroBatchesAreQuicker) {
    std::mt19937 random(5);
    int bounded = 0;
    for (int round = 0; round < 40; ++round) {
        Profile profile = random_profile(random, 8, round % 3 == 0);
        for (LayerProfile& layer : profile.layers) {
            for (PerSize* times : {&layer.forward_ns, &layer.recompute_ns, &layer.backward_ns, &layer.output_bytes}) {
                if (random() % 2 == 0) {
                    std::ranges::sort(*times, std::greater());
                }
            }
        }
        PipelineOptions options = random_placement(random, profile);
        options.batch = 1 + 3 * static_cast<int>(random() % 8);
        options.chunks = 2 + static_cast<int>(random() % 4);
        for (const Schedule& named : all_schedules()) {
            std::optional<Simulation> simulation = simulated_if_accepted(profile, options, named);
            if (simulation && holds_weights_once(named)) {
                add_lower_bound(CheckedProfile(profile), *simulation);
                EXPECT_LE(*simulation->lower_bound, simulation->step_time) << to_string(named) << ", round " << round;
                ++bounded;
            }
        }
    }
    EXPECT_GE(bounded, 60);
}

// Brute force over named schedules and cuts. A plan once searched cuts for a V as if each partition had a lane.
TEST(AutomaticSchedule, WithItsCutsIsNeverSlowerThanANamedOneWithTheBestCuts) {
    std::mt19937 random(3);
    constexpr int kLanes = 2;
    for (int round = 0; round < 12; ++round) {
        const std::size_t layers = 4 + static_cast<std::size_t>(round % 3);
        const CheckedProfile profile = random_profile(random, layers, round % 3 == 0);
        PipelineOptions options = random_options(random, random_balance(random, layers, kLanes));
        options.chunks = options.batch = 1 + round % 5;
        options.hardware.devices.clear();
        std::optional<Nanoseconds> best;
        std::optional<Nanoseconds> best_v;
        for (const Schedule& named : all_schedules()) {
            PipelineOptions with = options;
            with.schedule = named;
            if (!holds_weights_once(named) || !can_be_balanced(profile, with, kLanes)) {
                continue;
            }
            const std::size_t partitions = usual_partitions(named, kLanes);
            if (!runs_one_partition_a_lane(named)) {
                with.placement = placement_of(named, partitions, kLanes);
            }
            for_every_balance(layers, static_cast<int>(partitions), [&](const Balance& balance) {
                with.balance = balance;
                const Nanoseconds step = simulate(profile, with, {.noise = false, .memory = true}).step_time;
                best = std::min(best.value_or(step), step);
                if (named == Schedule::zero_bubble_v) {
                    best_v = std::min(best_v.value_or(step), step);
                }
            });
        }
        PlanRequest request;
        request.partitions = {kLanes};
        request.chunks = {options.chunks};
        request.checkpoints = {options.checkpoint};
        request.schedules = {Schedule::automatic};
        request.threads = 1;
        take_options(request, options);
        EXPECT_LE(plan(profile, request).candidates.at(0).simulation.step_time, *best) << "round " << round;
        request.schedules = {Schedule::zero_bubble_v};
        if (best_v) {
            EXPECT_EQ(plan(profile, request).candidates.at(0).simulation.step_time, *best_v) << "round " << round;
        }
    }
}

TEST(AutomaticSchedule, IsFoundBeforeItIsSimulated) {
    PipelineOptions options;
    options.balance = Balance({1, 1});
    options.chunks = options.batch = 2;
    options.schedule = Schedule::automatic;
    const CheckedProfile profile = uniform_profile(2);
    EXPECT_THAT(thrown<UsageError>([&] { simulate(profile, options); }), testing::HasSubstr("find_and_simulate()"));
    const Simulation found = find_and_simulate(profile, options, {.noise = false});
    EXPECT_EQ(simulate(profile, found.options, {.noise = false}).step_time, found.step_time);
    options.batch = 0;
    EXPECT_THAT(thrown<UsageError>([&] { find_and_simulate(profile, options); }), testing::HasSubstr("batch"));
}

TEST(AutomaticSchedule, KeepsALimitOfMicroBatchesInFlight) {
    PipelineOptions options;
    options.balance = Balance({4, 4});
    options.chunks = options.batch = 4;
    options.checkpoint = Checkpoint::never;
    options.most_in_flight = 2;
    options.schedule = Schedule::one_f_one_b;
    const CheckedProfile profile = uniform_profile(8);
    const Nanoseconds named = simulate(profile, options).step_time;
    options.schedule = Schedule::automatic;
    EXPECT_LE(find_and_simulate(profile, options).step_time, named);
}

// Each lane works 12 x 4 layers x 3000 ns, whatever the sizes of its eight micro-batches; the second one starts after a
// forward of the smallest.
TEST(AutomaticSchedule, CountsTheWorkOfUnequalMicroBatches) {
    Profile profile = uniform_profile(8);
    profile.loss_ns = {0};
    PipelineOptions options;
    options.balance = Balance({4, 4});
    options.chunks = 8;
    options.batch = 12;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::automatic;
    EXPECT_EQ(find_and_simulate(CheckedProfile(profile), options).lower_bound->count(), 4 * 1000 + 12 * 4 * 3000);
}

TEST(AutomaticSchedule, KeepsAMemoryLimitThatANamedOneKeeps) {
    std::mt19937 random(2);
    int tight = 0;
    for (int round = 0; round < 60; ++round) {
        const CheckedProfile profile = random_profile(random, 8, false);
        PipelineOptions options = random_placement(random, profile);
        Bytes least = std::numeric_limits<Bytes>::max();
        for (const Schedule& named : all_schedules()) {
            if (const auto other = simulated_if_accepted(profile, options, named); other && holds_weights_once(named)) {
                least = std::min(least, peak_of(*other));
            }
        }
        options.hardware.memory_limit = least + static_cast<Bytes>(random() % 200);
        options.schedule = Schedule::automatic;
        const Simulation found = find_and_simulate(profile, options, {.noise = false, .memory = true});
        EXPECT_TRUE(found.feasible) << "round " << round;
        for (const Schedule& named : all_schedules()) {
            const auto other = simulated_if_accepted(profile, options, named);
            if (other && holds_weights_once(named) && other->feasible) {
                EXPECT_LE(found.step_time, other->step_time) << to_string(named) << ", round " << round;
            }
            tight += other && !other->feasible ? 1 : 0;
        }
    }
    EXPECT_GE(tight, 20);
}

TEST(AutomaticSchedule, IsATableThatSimulatesAlike) {
    std::mt19937 random(3);
    for (int round = 0; round < 20; ++round) {
        const CheckedProfile profile = random_profile(random, 8, round % 2 == 0);
        PipelineOptions options = random_placement(random, profile);
        options.schedule = Schedule::automatic;
        const Simulation found = find_and_simulate(profile, options, {.noise = false, .memory = true});
        const Simulation again = simulate(profile, found.options, {.noise = false, .memory = true});
        EXPECT_NE(found.options.schedule, Schedule(Schedule::automatic));
        EXPECT_EQ(again.step_time, found.step_time);
        EXPECT_EQ(peak_of(again), peak_of(found));
    }
}

TEST(AutomaticSchedule, MovesCutsAndOrderTogether) {
    std::mt19937 random(4);
    for (int round = 0; round < 8; ++round) {
        const CheckedProfile profile = random_profile(random, 9, false);
        const int lanes = 2 + static_cast<int>(random() % 2);
        PipelineOptions options;
        options.chunks = 4;
        options.batch = 4;
        options.checkpoint = Checkpoint::never;
        const SearchTables tables(profile, options);
        options.schedule = Schedule::automatic;
        const Simulation found =
            balanced_pipeline(profile, options, lanes, BalanceAlgorithm::optimal, tables).simulation;
        for (const Schedule& named : all_schedules()) {
            options.schedule = named;
            if (holds_weights_once(named) && can_be_balanced(profile, options, lanes)) {
                const Simulation other =
                    balanced_pipeline(profile, options, lanes, BalanceAlgorithm::optimal, tables).simulation;
                EXPECT_LE(found.step_time, other.step_time) << to_string(named) << ", round " << round;
            }
        }
    }
}

// Of a few layers, the cuts are all tried: no cut is better under any named schedule. Of more, the searches that
// `balance` makes for the named schedules are the start.
TEST(AutomaticSchedule, HasABalanceThatIsNeverWorseThanThatOfANamedOne) {
    std::mt19937 random(5);
    int limited = 0;
    for (int round = 0; round < 16; ++round) {
        const bool is_tiny = round % 2 == 0;
        const Profile profile = random_profile(random, is_tiny ? 6 : 16, round % 3 == 0);
        const int lanes = is_tiny ? 3 : 3 + static_cast<int>(random() % 2);
        PipelineOptions options;
        options.chunks = 2 + static_cast<std::int64_t>(random() % 5);
        options.batch = options.chunks + static_cast<std::int64_t>(random() % 2);
        options.checkpoint = static_cast<Checkpoint>(random() % 3);
        options.schedule = Schedule::automatic;
        FoundBalance found = find_automatic_balance(CheckedProfile(profile), options, lanes, BalanceAlgorithm::optimal);
        if (round % 4 >= 2) {
            options.hardware.memory_limit = *std::ranges::max_element(found.peak_bytes) - 1;
            found = find_automatic_balance(CheckedProfile(profile), options, lanes, BalanceAlgorithm::optimal);
            limited += found.feasible ? 1 : 0;
        }
        for (const Schedule& named : all_schedules()) {
            options.schedule = named;
            if (!is_synchronous(named) || !runs_one_partition_a_lane(named)) {
                continue;
            }
            const FoundBalance other = find_balance(CheckedProfile(profile), options, lanes, BalanceAlgorithm::optimal);
            EXPECT_TRUE(found.feasible || !other.feasible) << to_string(named) << ", round " << round;
            EXPECT_TRUE(found.step_ns <= other.step_ns || !other.feasible) << to_string(named) << ", round " << round;
            for_every_balance(is_tiny ? profile.layers.size() : 0, lanes, [&](const Balance& balance) {
                options.balance = balance;
                const Simulation cut = simulate(CheckedProfile(profile), options, {.noise = false, .memory = true});
                EXPECT_TRUE(found.step_ns <= cut.step_time.count() || !cut.feasible)
                    << to_string(named) << ", round " << round;
            });
        }
    }
    EXPECT_GE(limited, 3);
}

// Following the advice must help.
TEST(AutomaticSchedule, HasABalanceThatSaysWhichLimitAndLanesAreEnough) {
    std::mt19937 random(11);
    int wider = 0;
    int all_used = 0;
    for (int round = 0; round < 12; ++round) {
        const Profile profile = random_profile(random, round % 2 == 0 ? 5 : 14, round % 3 == 0);
        const int layers = static_cast<int>(profile.layers.size());
        const int lanes = round % 6 == 0 ? layers : 2 + static_cast<int>(random() % 2);
        PipelineOptions options;
        options.chunks = 2 + static_cast<std::int64_t>(random() % 4);
        options.batch = options.chunks;
        options.checkpoint = round % 3 == 1 ? Checkpoint::always : Checkpoint::never;
        options.schedule = Schedule::automatic;
        const FoundBalance any =
            find_automatic_balance(CheckedProfile(profile), options, lanes, BalanceAlgorithm::optimal);
        if (round % 4 == 3) {
            for (int lane = 0; lane < lanes; ++lane) {
                options.hardware.memory_limits.push_back(10 + lane);
            }
        } else {
            options.hardware.memory_limit = *std::ranges::max_element(any.peak_bytes) * 6 / 10;
        }
        const FoundBalance found =
            find_automatic_balance(CheckedProfile(profile), options, lanes, BalanceAlgorithm::optimal);
        if (found.feasible) {
            continue;
        }
        ASSERT_TRUE(found.smallest_limit) << "round " << round;
        EXPECT_THAT(found.infeasible_because.value_or(""), testing::HasSubstr("would be enough"));
        PipelineOptions enough = options;
        if (options.hardware.memory_limits.empty()) {
            enough.hardware.memory_limit = found.smallest_limit;
        } else {
            enough.hardware.memory_limits = found.smallest_limits;
        }
        EXPECT_TRUE(find_automatic_balance(CheckedProfile(profile), enough, lanes, BalanceAlgorithm::optimal).feasible)
            << "round " << round;
        all_used += lanes == layers ? 1 : 0;
        EXPECT_FALSE(lanes == layers && found.smallest_partitions) << "no lane is left without a layer";
        if (found.smallest_partitions) {
            ++wider;
            EXPECT_TRUE(find_automatic_balance(CheckedProfile(profile), options, *found.smallest_partitions,
                                               BalanceAlgorithm::optimal)
                            .feasible)
                << "round " << round;
        }
        for (const Schedule& named : all_schedules()) {
            if (is_synchronous(named) && runs_one_partition_a_lane(named)) {
                options.schedule = named;
                const FoundBalance other =
                    find_balance(CheckedProfile(profile), options, lanes, BalanceAlgorithm::optimal);
                EXPECT_LE(found.smallest_limit, other.smallest_limit) << to_string(named) << ", round " << round;
            }
        }
    }
    EXPECT_GE(wider, 2);
    EXPECT_GE(all_used, 1);
}

TEST(AutomaticSchedule, HasABoundThatNoOrderWithinTheMemoryLimitBeats) {
    std::mt19937 random(6);
    int compared = 0;
    int tighter = 0;
    for (int round = 0; round < 150; ++round) {
        Profile profile = random_profile(random, 8, round % 3 == 0);
        for (LayerProfile& layer : profile.layers) {  // so that memory counts
            layer.parameter_bytes = layer.gradient_bytes = random() % 4 == 0 ? 0 : 10;
        }
        PipelineOptions options = random_placement(random, profile);
        options.chunks = 1 + static_cast<std::int64_t>(random() % 12);
        options.batch = options.chunks * static_cast<std::int64_t>(1 + random() % 2);
        const Nanoseconds without = least_step(CheckedProfile(profile), options);
        std::vector<Schedule> schedules = all_schedules();
        schedules.emplace_back(Schedule::automatic);
        for (const Schedule& named : schedules) {
            const auto other = simulated_if_accepted(profile, options, named);
            if (!other || !holds_weights_once(named)) {
                continue;
            }
            PipelineOptions limited = options;
            for (const SimulatedLane& lane : other->lanes) {
                limited.hardware.memory_limits.push_back(std::max<Bytes>(1, lane.peak_bytes));
            }
            const Nanoseconds bound = least_step(CheckedProfile(profile), limited);
            EXPECT_LE(bound, other->step_time) << to_string(named) << ", round " << round;
            EXPECT_GE(bound, without);
            tighter += bound > without ? 1 : 0;
            ++compared;
        }
    }
    EXPECT_GE(compared, 400);
    EXPECT_GE(tighter, 15);
}

// Stage times of a model of 6.2B (arXiv 2401.10241, table 4). The last lane may put off eight W at most, so zero-bubble
// H1 is the best order in the memory of 1F1B.
TEST(AutomaticSchedule, IsProvedTheBestInTheMemoryOf1F1B) {
    Profile profile = profile_of(std::vector<LayerProfile>(8, layer_of(29'700, 49'300, 64)));
    for (LayerProfile& layer : profile.layers) {
        layer.backward_weight_ns = {19'900};
        layer.saved_bytes = {1 << 20};
        layer.parameter_bytes = layer.gradient_bytes = 64;
    }
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(8, 1));
    options.chunks = options.batch = 32;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::one_f_one_b;
    const Bytes memory = peak_of(simulate(CheckedProfile(profile), options)) * 101 / 100;
    options.schedule = Schedule::automatic;
    const std::int64_t without = 7 * 29'700 + 32 * 79'000;
    EXPECT_EQ(find_and_simulate(CheckedProfile(profile), options).lower_bound->count(), without);
    options.hardware.memory_limit = memory;
    const Simulation found = find_and_simulate(CheckedProfile(profile), options);
    EXPECT_TRUE(found.feasible);
    EXPECT_EQ(found.lower_bound->count(), 7 * 29'700 + 32 * 59'100 + 24 * 19'900 + 7 * 29'400 + 19'900);
    EXPECT_EQ(found.step_time, *found.lower_bound);
    options.hardware.memory_limit = 2 * memory;
    EXPECT_EQ(find_and_simulate(CheckedProfile(profile), options).lower_bound->count(), without);
    options.hardware.memory_limit = 1 << 20;  // no order fits, and the one found may be quicker than any that would
    const Simulation over = find_and_simulate(CheckedProfile(profile), options);
    EXPECT_FALSE(over.feasible);
    EXPECT_EQ(over.lower_bound->count(), without);
}

namespace {
/// Rows of `kind` `micro-batch` cells, as F0 F1 I0, for partition j on lane j.
using Rows = std::vector<std::vector<std::pair<char, int>>>;

Schedule schedule_of(const Rows& rows) {
    std::string csv;
    for (std::size_t j = 0; j < rows.size(); ++j) {
        for (std::size_t k = 0; k < rows[j].size(); ++k) {
            const auto& [kind, i] = rows[j][k];
            csv += (k == 0 ? "" : ",") + std::to_string(j) + kind + std::to_string(i);
        }
        csv += "\n";
    }
    return Schedule::from_csv("own", csv);
}

/// Every order of one lane's F, I and W with ascending micro-batches.
void add_rows(int m, std::vector<std::pair<char, int>>& row, Rows& all) {
    const auto count = [&](char kind) {
        return static_cast<int>(std::ranges::count(row, kind, &std::pair<char, int>::first));
    };
    if (static_cast<int>(row.size()) == 3 * m) {
        all.push_back(row);
        return;
    }
    for (const auto& [kind, most] : {std::pair{'F', m}, {'I', count('F')}, {'W', count('I')}}) {
        if (const int i = count(kind); i < most) {
            row.emplace_back(kind, i);
            add_rows(m, row, all);
            row.pop_back();
        }
    }
}

/// The shortest step of all such orders that keeps the limit; empty if none does.
std::optional<Nanoseconds> best_of_all(const Profile& profile, PipelineOptions options, int lanes) {
    Rows of_lane;
    std::vector<std::pair<char, int>> row;
    add_rows(static_cast<int>(options.chunks), row, of_lane);
    std::optional<Nanoseconds> best;
    std::vector<std::size_t> at(static_cast<std::size_t>(lanes), 0);
    for (std::size_t lane = 0; lane < at.size();) {
        Rows rows;
        for (const std::size_t each : at) {
            rows.push_back(of_lane[each]);
        }
        try {
            options.schedule = schedule_of(rows);
            const Simulation simulation = simulate(CheckedProfile(profile), options, {.noise = false, .memory = true});
            if (simulation.feasible) {
                best = std::min(best.value_or(simulation.step_time), simulation.step_time);
            }
        } catch (const Error&) {  // lanes that wait forever
        }
        for (lane = 0; lane < at.size() && ++at[lane] == of_lane.size(); ++lane) {
            at[lane] = 0;
        }
    }
    return best;
}

/// Equal tasks, in slots of time: a lane takes I if it can, or else F with at most k micro-batches from F to W, or W.
Schedule greedy(int lanes, int m, int k) {
    Rows rows(static_cast<std::size_t>(lanes));
    std::vector<std::array<int, 3>> done(rows.size(), {0, 0, 0});
    for (bool more = true; more;) {
        more = false;
        const auto before = done;
        for (std::size_t j = 0; j < rows.size(); ++j) {
            const auto& own = before[j];
            const bool is_last = j + 1 == rows.size();
            if (own[1] < (is_last ? own[0] : before[j + 1][1])) {
                rows[j].emplace_back('I', done[j][1]++);
            } else if (own[0] < (j == 0 ? m : before[j - 1][0]) && own[0] - own[2] < k) {
                rows[j].emplace_back('F', done[j][0]++);
            } else if (own[2] < own[1]) {
                rows[j].emplace_back('W', done[j][2]++);
            }
            more = more || done[j][2] < m;
        }
    }
    return schedule_of(rows);
}
}  // namespace

TEST(AutomaticSchedule, IsTheBestOfAllOrdersOfSmallPipelinesUnderAMemoryLimit) {
    std::mt19937 random(7);
    int limited = 0;
    for (int round = 0; round < 9; ++round) {
        const int lanes = round % 3 == 0 ? 3 : 2;
        Profile profile = random_profile(random, static_cast<std::size_t>(lanes), false);
        for (LayerProfile& layer : profile.layers) {
            layer.parameter_bytes = layer.gradient_bytes = 10;
        }
        PipelineOptions options;
        options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(lanes), 1));
        options.chunks = options.batch = round % 6 == 1 ? 3 : 2;
        options.checkpoint = Checkpoint::never;
        options.schedule = Schedule::automatic;
        Bytes limit = peak_of(find_and_simulate(CheckedProfile(profile), options)) - 1;
        for (std::optional<Nanoseconds> best; limit > 0; limit -= 1 + limit / 6) {
            options.hardware.memory_limit = limit;
            best = best_of_all(profile, options, lanes);
            if (!best) {
                break;
            }
            options.schedule = Schedule::automatic;
            const Simulation found = find_and_simulate(CheckedProfile(profile), options);
            EXPECT_TRUE(found.feasible) << "round " << round;
            EXPECT_LE(found.step_time, *best) << "round " << round;
            EXPECT_LE(*found.lower_bound, *best) << "round " << round;
            ++limited;
        }
    }
    EXPECT_GE(limited, 12);
}

TEST(AutomaticSchedule, IsNoSlowerThanAGreedyOrderInTheSameMemory) {
    for (const double boundary : {0.001, 0.1, 0.5}) {
        for (const auto& [lanes, m] : {std::pair{3, 6}, {4, 12}, {8, 32}}) {
            Profile profile = profile_of(
                std::vector<LayerProfile>(static_cast<std::size_t>(lanes), layer_of(1000, 2000, 1000 * boundary)));
            for (LayerProfile& layer : profile.layers) {
                layer.saved_bytes = {1000};
                layer.parameter_bytes = layer.gradient_bytes = 8;
            }
            PipelineOptions options;
            options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(lanes), 1));
            options.chunks = options.batch = m;
            options.checkpoint = Checkpoint::never;
            for (int k = 2; k < lanes; k += std::max(1, lanes / 4)) {
                options.hardware.memory_limit.reset();
                options.schedule = greedy(lanes, m, k);
                const Simulation other = simulate(CheckedProfile(profile), options);
                options.hardware.memory_limit = peak_of(other);
                options.schedule = Schedule::automatic;
                const Simulation found = find_and_simulate(CheckedProfile(profile), options);
                EXPECT_TRUE(found.feasible);
                EXPECT_LE(static_cast<double>(found.step_time.count()),
                          1.05 * static_cast<double>(other.step_time.count()))
                    << lanes << " lanes, " << k << " micro-batches at a time, boundary " << boundary;
            }
        }
    }
}

// Published: with equal tasks, no schedule of synchronous steps is better than (p - 1) forwards and all work of the
// last lane (arXiv 2401.10241, section 3.1), which zero-bubble H1 reaches at the memory of 1F1B.
TEST(AutomaticSchedule, ReachesTheBoundAtTheMemoryOf1F1B) {
    Profile profile = profile_of(std::vector<LayerProfile>(8, layer_of(1000, 2000, 8)));
    for (LayerProfile& layer : profile.layers) {
        layer.saved_bytes = {1000};
        layer.parameter_bytes = layer.gradient_bytes = 8;  // so that half of the backward is W
    }
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(8, 1));
    options.chunks = options.batch = 32;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::one_f_one_b;
    // The paper counts activations only; split backwards also keep each output's gradient until W.
    options.hardware.memory_limit = peak_of(simulate(CheckedProfile(profile), options)) * 102 / 100;
    options.schedule = Schedule::automatic;
    const Simulation found = find_and_simulate(CheckedProfile(profile), options);
    EXPECT_TRUE(found.feasible);
    EXPECT_LE(static_cast<double>(found.step_time.count()), 1.01 * static_cast<double>(found.lower_bound->count()));
    EXPECT_EQ(found.lower_bound->count(), 7 * 1000 + 32 * 3000);
}
}  // namespace pipescope
