// A schedule that a user wrote is simulated like a named one with the same rows.

#include "simulator/schedule_file.h"

#include "base/error.h"
#include "schedule/placement.h"
#include "simulator/plan/planner.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"
#include "tests/schedule/random_csv.h"
#include "tests/simulator/random_pipelines.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kBreadthFirst = "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0\n1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0\n";

std::string csv_of(const Schedule& schedule, const PipelineShape& shape) {
    return to_csv(schedule_table(make_schedule(schedule, shape)));
}

struct RandomRun {
    Profile profile;
    PipelineOptions options;
    PipelineShape shape;
};

/// A run of the schedule with random costs, sizes, links and lanes.
RandomRun random_run(std::mt19937& random, const Schedule& schedule) {
    RandomRun run;
    const auto lanes =
        is_bidirectional(schedule) ? 2 + 2 * static_cast<int>(random() % 2) : 2 + static_cast<int>(random() % 3);
    const std::size_t partitions = usual_partitions(schedule, static_cast<std::size_t>(lanes));
    const auto m = static_cast<std::int64_t>(lanes) * (2 + static_cast<std::int64_t>(random() % 2));
    run.profile = random_profile(random, partitions + random() % 3, random() % 2 == 0);
    run.options.balance = random_balance(random, run.profile.layers.size(), static_cast<int>(partitions));
    run.options.chunks = m;
    run.options.batch = m + static_cast<std::int64_t>(random() % 4);
    run.options.checkpoint = static_cast<Checkpoint>(random() % 3);
    run.options.recompute_start = static_cast<RecomputeStart>(random() % 2);
    run.options.schedule = schedule;
    run.options.placement = placement_of(schedule, partitions, static_cast<std::size_t>(lanes));
    run.options.hardware.link = {random() % 2 == 0 ? 0 : 1e9, random() % 2 == 0 ? 0.0 : 30.0};
    if (random() % 3 == 0) {
        run.options.hardware.devices.assign(static_cast<std::size_t>(lanes), "cpu");
        run.options.hardware.host_cores = 2;
    }
    run.shape = {.num_partitions = static_cast<int>(partitions),
                 .num_micro_batches = static_cast<int>(m),
                 .placement = run.options.placement};
    return run;
}

void expect_equal(const Simulation& one, const Simulation& other, const std::string& what) {
    EXPECT_EQ(one.step_time, other.step_time) << what;
    EXPECT_EQ(one.timeline.slices, other.timeline.slices) << what;
    ASSERT_EQ(one.lanes.size(), other.lanes.size()) << what;
    for (std::size_t lane = 0; lane < one.lanes.size(); ++lane) {
        EXPECT_EQ(one.lanes[lane].peak_bytes, other.lanes[lane].peak_bytes) << what << " lane " << lane;
        EXPECT_EQ(one.lanes[lane].peak, other.lanes[lane].peak) << what << " lane " << lane;
    }
}

/// The named schedule whose rows the file has: gpipe computes one loss, and pipedream never drains, which rows cannot
/// say.
Schedule drained(const Schedule& schedule) {
    return schedule == Schedule::pipedream ? Schedule(Schedule::one_f_one_b) : schedule;
}

TEST(ScheduleFile, IsSimulatedAsTheNamedScheduleThatWroteIt) {
    std::mt19937 random(19);
    for (const Schedule& schedule : all_schedules()) {
        for (int round = 0; round < 12 && schedule != Schedule::gpipe; ++round) {
            RandomRun run = random_run(random, schedule);
            const std::string csv = csv_of(schedule, run.shape);
            run.options.schedule = drained(schedule);
            const Simulation named = simulate(CheckedProfile(run.profile), run.options);
            run.options.schedule = Schedule::from_csv("own.csv", csv);
            follow_file(run.options, {});
            expect_equal(simulate(CheckedProfile(run.profile), run.options), named, to_string(schedule) + ":\n" + csv);
        }
    }
}

// Without the time and the storage of a loss on the gathered output.
TEST(ScheduleFile, TakesAsLongAsGPipeIfTheLossIsFree) {
    std::mt19937 random(20);
    for (int round = 0; round < 12; ++round) {
        RandomRun run = random_run(random, Schedule::gpipe);
        run.profile.loss_ns = {0, 0};
        run.options.checkpoint = random() % 2 == 0 ? Checkpoint::never : Checkpoint::except_last;
        const Simulation named = simulate(CheckedProfile(run.profile), run.options);
        run.options.schedule = Schedule::from_csv("own.csv", csv_of(Schedule::gpipe, run.shape));
        EXPECT_EQ(simulate(CheckedProfile(run.profile), run.options).step_time, named.step_time);
    }
}

TEST(ScheduleFile, IsSimulatedInAnyValidOrder) {
    std::mt19937 random(21);
    for (int round = 0; round < 150; ++round) {
        const int lanes = 1 + static_cast<int>(random() % 4);
        const int partitions = lanes + static_cast<int>(random() % 4);
        const int m = 1 + static_cast<int>(random() % 5);
        const RandomCells cells{random() % 2 == 0, random() % 3 == 0, random() % 3 == 0};
        const std::string csv = random_csv(random, partitions, lanes, m, cells);
        PipelineOptions options;
        options.schedule = Schedule::from_csv("random.csv", csv);
        const Profile profile =
            random_profile(random, static_cast<std::size_t>(partitions) + random() % 2, random() % 2 == 0);
        options.balance = random_balance(random, profile.layers.size(), partitions);
        options.batch = m + static_cast<std::int64_t>(random() % 3);
        options.checkpoint = static_cast<Checkpoint>(random() % 3);
        options.hardware.link = {1e9, 10};
        follow_file(options, {});
        const Simulation simulation = simulate(CheckedProfile(profile), options);
        std::int64_t most = 0;
        for (const SimulatedLane& lane : simulation.lanes) {
            most = std::max<std::int64_t>(most, lane.busy.count());
            EXPECT_GE(lane.peak_bytes, 0);
            EXPECT_LT(lane.peak_bytes, 1 << 20);
        }
        EXPECT_GE(simulation.step_time.count(), most) << csv;
        for (std::size_t lane = 0; lane < simulation.lanes.size(); ++lane) {
            // Everything of the step is gone at its end: only what lasts is left.
            const auto last = std::find_if(simulation.memory.rbegin(), simulation.memory.rend(),
                                           [&](const MemorySample& each) { return each.lane.index() == lane; });
            const auto first = std::find_if(simulation.memory.begin(), simulation.memory.end(),
                                            [&](const MemorySample& each) { return each.lane.index() == lane; });
            ASSERT_NE(last, simulation.memory.rend());
            EXPECT_LE(last->allocated, first->allocated) << csv;
        }
    }
}

TEST(ScheduleFile, IsReadFromAFileOrIsAName) {
    const TemporaryFolder folder;
    write_text(folder / "mine.csv", std::string(kBreadthFirst));
    const Schedule mine = load_schedule((folder / "mine.csv").string());
    ASSERT_NE(mine.file(), nullptr);
    EXPECT_EQ(to_string(mine), "mine.csv") << "without its folder";
    EXPECT_EQ(mine, Schedule::from_csv("mine.csv", kBreadthFirst));
    EXPECT_NE(mine, Schedule::from_csv("other.csv", kBreadthFirst));
    EXPECT_EQ(load_schedule("v-min"), Schedule::v_min);
    EXPECT_NE(mine, Schedule::gpipe);
    EXPECT_THAT(thrown<Error>([&] { load_schedule((folder / "none.csv").string()); }), HasSubstr("none.csv"));
    EXPECT_THAT(thrown<UsageError>([] { load_schedule("zigzag"); }), HasSubstr("it must be one of gpipe"));
}

TEST(ScheduleFile, SaysWhatIsWrongWithIt) {
    const auto refusal = [](std::string_view csv) -> std::string {
        try {
            Schedule::from_csv("mine.csv", csv);
        } catch (const Error& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_THAT(refusal("0F0,0B0,0F1\n"), HasSubstr("mine.csv: row 1 lacks 0B1"));
    EXPECT_THAT(refusal("0F0,0B0,0F0\n"), HasSubstr("row 1, column 3"));
    EXPECT_THAT(refusal("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"), HasSubstr("mine.csv"));
}

TEST(ScheduleFile, SetsLanesAndMicroBatches) {
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.batch = 4;
    options.schedule = Schedule::from_csv("mine.csv", kBreadthFirst);
    follow_file(options, {});
    EXPECT_EQ(options.chunks, 2);
    EXPECT_EQ(placement_text(options.placement), "0,1,0,1");
    EXPECT_EQ(num_lanes(options), 2);
    EXPECT_GT(simulate(uniform_profile(4), options).step_time.count(), 0);
    EXPECT_THAT(thrown<UsageError>([&] { follow_file(options, {.chunks = 8}); }), HasSubstr("chunks is 8"));
    PipelineOptions elsewhere = options;
    elsewhere.placement = {LaneId{0}, LaneId{0}, LaneId{1}, LaneId{1}};
    EXPECT_THAT(thrown<UsageError>([&] { follow_file(elsewhere, {.placement = true}); }),
                HasSubstr("placement is 0,0,1,1"));
    const auto refused = [&](PipelineOptions changed) { return [changed] { simulate(uniform_profile(4), changed); }; };
    PipelineOptions fewer = options;
    fewer.balance = Balance({2, 2});
    follow_file(fewer, {});
    EXPECT_THAT(thrown<UsageError>(refused(fewer)), HasSubstr("4 partitions"));
    PipelineOptions small = options;
    small.batch = 1;
    EXPECT_THAT(thrown<UsageError>(refused(small)), HasSubstr("1 micro-batch"));
}

TEST(ScheduleFile, SetsTheCheckpointModeIfItRecomputes) {
    PipelineOptions options;
    options.balance = Balance({1});
    options.batch = 2;
    options.schedule = Schedule::from_csv("r.csv", "0F0,0F1,0R1,0B1,0R0,0B0\n");
    follow_file(options, {});
    EXPECT_EQ(options.checkpoint, Checkpoint::always);
    EXPECT_THAT(thrown<UsageError>([&] { follow_file(options, {.checkpoint = Checkpoint::never}); }),
                HasSubstr("the recomputes (R) of checkpoint always"));
    options.checkpoint = Checkpoint::never;
    EXPECT_THAT(thrown<UsageError>([&] { simulate(uniform_profile(1), options); }), HasSubstr("checkpoint is never"));
}

TEST(ScheduleFile, IsPartOfTheStoredOptions) {
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.batch = 2;
    options.schedule = Schedule::from_csv("mine.csv", kBreadthFirst);
    follow_file(options, {});
    const std::string json = to_json(options);
    EXPECT_THAT(json, AllOf(HasSubstr(R"("schedule":"mine.csv")"), HasSubstr(R"("schedule_csv":"0F0,0F1,2F0)")));
    EXPECT_EQ(parse_pipeline_options(json), options);
    EXPECT_THAT(to_json({}), testing::Not(HasSubstr("schedule_csv")));
}

TEST(ScheduleFile, IsBalancedAndPlannedOnItsOwnLanes) {
    const CheckedProfile profile = uniform_profile(8);
    PipelineOptions options;
    options.batch = 8;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::from_csv("mine.csv", kBreadthFirst);
    options.chunks = 2;
    const FoundBalance found = find_placed_balance(profile, options, 2, BalanceAlgorithm::optimal);
    EXPECT_EQ(found.balance, Balance({2, 2, 2, 2}));
    EXPECT_EQ(found.peak_bytes.size(), 2U);

    PlanRequest request;
    request.batch = 8;
    request.partitions = {1, 2, 3};
    request.chunks = {2, 4};
    request.schedules = {options.schedule, Schedule::one_f_one_b};
    const Plan both = plan(profile, request);
    const auto of_file = std::count_if(both.candidates.begin(), both.candidates.end(), [&](const PlanCandidate& each) {
        return each.simulation.options.schedule == options.schedule;
    });
    EXPECT_GT(of_file, 0);
    for (const PlanCandidate& each : both.candidates) {
        if (each.simulation.options.schedule == options.schedule) {
            EXPECT_EQ(each.simulation.lanes.size(), 2U);
            EXPECT_EQ(each.simulation.micro_batches, 2);
        }
    }
    request.schedules = {options.schedule};
    request.partitions = {3};
    EXPECT_THAT(thrown<UsageError>([&] { plan(profile, request); }), HasSubstr("mine.csv"));
}

// No search for more lanes, which the file does not have.
TEST(ScheduleFile, SaysThatNoBalanceOfItsLanesKeepsTheLimit) {
    Profile profile = uniform_profile(6);
    for (LayerProfile& layer : profile.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 1000;
    }
    PipelineOptions options;
    options.batch = options.chunks = 2;
    options.hardware.memory_limit = 3000;
    options.schedule = Schedule::from_csv("mine.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    const FoundBalance found = find_balance(CheckedProfile(profile), options, 2, BalanceAlgorithm::optimal);
    EXPECT_FALSE(found.feasible);
    EXPECT_FALSE(found.smallest_partitions.has_value());
    EXPECT_TRUE(found.smallest_limit.has_value());
}
}  // namespace
}  // namespace pipescope
