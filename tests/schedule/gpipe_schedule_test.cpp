#include "schedule/clock_cycles.h"

#include "schedule/schedules.h"

#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
/// "00 | 10 01 | ..": (i, j) as two digits, cycles separated by bars.
std::string text_of(const std::vector<std::vector<Cell>>& cycles) {
    std::string text;
    for (const auto& cycle : cycles) {
        text += text.empty() ? "" : "| ";
        for (const Cell& cell : cycle) {
            text += std::to_string(cell.i.value()) + std::to_string(cell.j.value()) + " ";
        }
    }
    return text;
}

TEST(ClockCycles, RunEveryTaskOfOneAntidiagonalTogether) {
    EXPECT_EQ(text_of(clock_cycles(1, 1)), "00 ");
    EXPECT_EQ(text_of(clock_cycles(1, 3)), "00 | 01 | 02 ");
    EXPECT_EQ(text_of(clock_cycles(3, 1)), "00 | 10 | 20 ");
    EXPECT_EQ(text_of(clock_cycles(3, 3)), "00 | 10 01 | 20 11 02 | 21 12 | 22 ");
    EXPECT_EQ(text_of(clock_cycles(4, 2)), "00 | 10 01 | 20 11 | 30 21 | 31 ");
}

/// "F0 F1 R0 B0 .." for one lane, with the partition after a dot if `placement` requires it.
std::string lane_text(const TaskGraph& graph, int lane) {
    std::string text;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        const TaskKey& key = graph.tasks()[task].key;
        text += text.empty() ? "" : " ";
        text +=
            key.kind == TaskKind::loss ? "L" : std::string(1, static_cast<char>(std::toupper(to_string(key.kind)[0])));
        text += key.micro_batch < 0 ? "" : std::to_string(key.micro_batch);
        text += graph.shape().placement.empty() || key.micro_batch < 0 ? "" : "." + std::to_string(key.partition);
    }
    return text;
}

TEST(GPipeSchedule, RunsTheLastMicroBatchFirstBehindTheLoss) {
    const TaskGraph graph =
        make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 3, .checkpoint = Checkpoint::never});
    EXPECT_EQ(lane_text(graph, 0), "F0 F1 F2 B2 B1 B0");
    EXPECT_EQ(lane_text(graph, 1), "F0 F1 F2 L B2 B1 B0");
}

TEST(GPipeSchedule, RecomputesWhatItsModeCheckpoints) {
    const auto text = [](Checkpoint mode) {
        return lane_text(
            make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2, .checkpoint = mode}), 0);
    };
    EXPECT_EQ(text(Checkpoint::always), "F0 F1 R1 B1 R0 B0");
    EXPECT_EQ(text(Checkpoint::except_last), "F0 F1 B1 R0 B0");
    EXPECT_EQ(text(Checkpoint::never), "F0 F1 B1 B0");
}

TEST(GPipeSchedule, ExceptLastWithOneMicroBatchRecomputesNothing) {
    EXPECT_EQ(lane_text(make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 1}), 0), "F0 B0");
}

TEST(GPipeSchedule, RunsSeveralPartitionsOnOneLaneInClockCycleOrder) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 3,
                                                            .num_micro_batches = 2,
                                                            .checkpoint = Checkpoint::never,
                                                            .placement = {LaneId{0}, LaneId{0}, LaneId{1}}});
    EXPECT_EQ(lane_text(graph, 0), "F0.0 F1.0 F0.1 F1.1 B1.1 B0.1 B1.0 B0.0");
    EXPECT_EQ(lane_text(graph, 1), "F0.2 F1.2 L B1.2 B0.2");
    EXPECT_FALSE(graph.find({0, TaskKind::copy_forward, 0, 0, -1})) << "partitions of one lane need no copy";
    EXPECT_TRUE(graph.find({0, TaskKind::copy_forward, 1, 0, -1}));
}

TEST(GPipeSchedule, CountsItsTasks) {
    // n m forwards, n (m-1) recomputes, n m backwards, 2 (n-1) m copies, 1 loss
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 8, .num_micro_batches = 32});
    EXPECT_EQ(graph.tasks().size(), 8u * 32 + 8 * 31 + 8 * 32 + 2 * 7 * 32 + 1);
    EXPECT_EQ(graph.channels().size(), 14u);
}
}  // namespace
}  // namespace pipescope
