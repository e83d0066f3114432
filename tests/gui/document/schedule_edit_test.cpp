#include "gui/document/schedule_edit.h"

#include "base/error.h"
#include "simulator/search/automatic_schedule.h"
#include "tests/gui/sample_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr TaskKey task(TaskKind kind, int partition, int microBatch) {
    return {0, kind, partition, microBatch, -1};
}

class ScheduleEditTest : public testing::Test {
protected:
    ScheduleEditTest() {
        run_.partitions = 8;
        profile_ = sampleProfile(run_);
        options_ = sampleOptions(run_);
        options_.balance = Balance({3, 5});
        options_.chunks = 4;
        options_.batch = 8;
        options_.schedule = Schedule::one_f_one_b;
    }

    Simulation simulated() { return find_and_simulate(CheckedProfile(profile_), options_); }
    /// Of the present options with another schedule.
    Simulation simulated(const Schedule& schedule) {
        options_.schedule = schedule;
        return simulated();
    }

    SampleRun run_;
    Profile profile_;
    PipelineOptions options_;
};

TEST_F(ScheduleEditTest, MovesATaskWithinItsLane) {
    const Simulation before = simulated();
    const TaskKey forward = task(TaskKind::forward, 0, 2);
    const PlaceInLane place = placeInLane(tableOf(before), {5, TaskKind::forward, 0, 2, -1});
    EXPECT_EQ(place.lane, LaneId{0});
    EXPECT_EQ(place.index, 3U) << "0F0 0F1 0B0 0F2";
    EXPECT_EQ(place.count, 8U);
    const Schedule earlier = withTaskAt(before, forward, 2);
    EXPECT_EQ(to_string(earlier), "1f1b (edited)");
    const ScheduleTable& table = earlier.file()->table;
    EXPECT_EQ(placeInLane(table, forward).index, 2U);
    EXPECT_EQ(placeInLane(table, task(TaskKind::backward, 0, 0)).index, 3U);
    EXPECT_EQ(tasksOf(table, LaneId{1}), tasksOf(tableOf(before), LaneId{1}));
    const Simulation moved = simulated(earlier);
    const Schedule back = withTaskAt(moved, forward, 3);
    EXPECT_EQ(to_string(back), "1f1b (edited)");
    EXPECT_EQ(to_csv(back.file()->table), to_csv(tableOf(before)));
    EXPECT_EQ(simulated(back).step_time, before.step_time);
}

TEST_F(ScheduleEditTest, SaysWhyAPlaceIsImpossible) {
    const Simulation simulation = simulated();
    EXPECT_THAT(thrown<Error>([&] { withTaskAt(simulation, task(TaskKind::backward, 1, 0), 0); }),
                AllOf(HasSubstr("1B0 before 1F0"), HasSubstr("swap")));
    // 1F3 waits for 0F3, which lane 0 runs behind 0B0, which waits for 1B0, which lane 1 would run behind 1F3.
    EXPECT_THAT(thrown<Error>([&] { withTaskAt(simulation, task(TaskKind::forward, 1, 3), 0); }),
                AllOf(HasSubstr("on lane 0 waits for"), HasSubstr("which lane 1 runs after")));
    EXPECT_THAT(thrown<UsageError>([&] { placeInLane(tableOf(simulation), task(TaskKind::recompute, 0, 0)); }),
                HasSubstr("move the backward"));
    EXPECT_THAT(thrown<UsageError>([&] { placeInLane(tableOf(simulation), task(TaskKind::loss, 1, 0)); }),
                HasSubstr("move the forward"));
    EXPECT_THAT(thrown<UsageError>([&] { placeInLane(tableOf(simulation), task(TaskKind::copy_forward, 0, 0)); }),
                HasSubstr("move that task"));
    options_.schedule = Schedule::pipedream;
    EXPECT_THAT(thrown<UsageError>([&] { tableOf(simulated()); }), HasSubstr("never drains"));
}

TEST_F(ScheduleEditTest, SplitsCellsOfTwoTasksThatAMovePassesAndMovesRecomputesOfTheFile) {
    options_.balance = Balance({8});
    options_.chunks = options_.batch = 2;
    options_.checkpoint = Checkpoint::always;
    const Simulation simulation =
        simulated(Schedule::from_csv("mine.csv", "0F0,(0F1;0R0)OVERLAP_F_B,,0B0,0R1,0B1,0REDUCE_GRAD\n"));
    EXPECT_EQ(to_csv(withTaskAt(simulation, task(TaskKind::recompute, 0, 1), 4).file()->table),
              "0F0,(0F1;0R0)OVERLAP_F_B,,0B0,0R1,0B1,0REDUCE_GRAD\n");
    EXPECT_EQ(to_csv(withTaskAt(simulation, task(TaskKind::recompute, 0, 0), 1).file()->table),
              "0F0,0R0,0F1,,0B0,0R1,0B1,0REDUCE_GRAD\n");
    EXPECT_EQ(to_csv(withTaskAt(simulation, task(TaskKind::recompute, 0, 1), 3).file()->table),
              "0F0,(0F1;0R0)OVERLAP_F_B,,0R1,0B0,0B1,0REDUCE_GRAD\n");
}

TEST_F(ScheduleEditTest, TheTableGivesTheSameStepAsTheSchedule) {
    for (const Schedule& schedule : all_schedules()) {
        if (!is_synchronous(schedule) || schedule == Schedule::gpipe) {
            continue;  // a table has no loss of the whole mini-batch
        }
        const bool isPlaced = usual_partitions(schedule, 2) == 4;
        options_.balance = isPlaced ? Balance({1, 2, 2, 3}) : Balance({3, 5});
        options_.placement = placement_of(schedule, isPlaced ? 4 : 2, 2);
        const Simulation simulation = simulated(schedule);
        const Schedule read = Schedule::from_csv("read.csv", to_csv(tableOf(simulation)));
        EXPECT_EQ(simulated(read).step_time, simulation.step_time) << to_string(schedule);
    }
    options_.balance = Balance({3, 5});
    options_.placement.clear();
    const Simulation found = simulated(Schedule::automatic);
    EXPECT_EQ(simulated(Schedule::from_csv("read.csv", to_csv(tableOf(found)))).step_time, found.step_time);
}
}  // namespace
}  // namespace pipescope
