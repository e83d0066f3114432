#include "schedule/schedule_table.h"

#include "base/error.h"
#include "schedule/schedules.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

// What torch's schedules dump (_dump_csv). The files were written by torch/distributed/pipelining/schedules.py of torch
// 2.11 itself: _calculate_single_rank_operations() or _get_pipeline_order() of each rank, with the rest of torch
// replaced by mocks, since no process group is needed to compute an order.

// ScheduleZBVZeroBubble for three ranks: a V of six stages, with split backwards.
constexpr std::string_view kZeroBubbleV =
    "0F0,0F1,0F2,0F3,0F4,5F0,5I0,5W0,5F1,5I1,5W1,5F2,5I2,5W2,0F5,0I0,0W0,5F3,5I3,5W3,0I1,0W1,5F4,5I4,5W4,0I2,"
    "0W2,5F5,5I5,5W5,0I3,0W3,0I4,0W4,0I5,0W5\r\n"
    ",1F0,1F1,1F2,4F0,1F3,4F1,4I0,4W0,4F2,4I1,4W1,1F4,1I0,1W0,4F3,4I2,4W2,1F5,1I1,1W1,4F4,4I3,4W3,1I2,1W2,4F5,"
    "4I4,4W4,1I3,4I5,1I4,1W3,1I5,1W4,4W5,1W5\r\n"
    ",,2F0,3F0,2F1,3F1,2F2,3F2,3I0,3W0,2F3,2I0,2W0,3F3,3I1,3W1,2F4,2I1,2W1,3F4,3I2,3W2,2F5,2I2,2W2,3F5,3I3,"
    "3W3,2I3,3I4,2I4,3I5,2I5,2W3,3W4,3W5,2W4,2W5\r\n";

// ScheduleInterleaved1F1B for two ranks.
constexpr std::string_view kInterleaved =
    "0F0,0F1,2F0,2F1,,,0F2,2B0,0F3,2B1,2F2,0B0,2F3,0B1,,2B2,,2B3,,0B2,,0B3\r\n"
    ",1F0,1F1,,3F0,3B0,3F1,3B1,1F2,1B0,1F3,1B1,3F2,3B2,3F3,3B3,,1B2,,1B3\r\n";

// ScheduleLoopedBFS for two ranks.
constexpr std::string_view kLoopedBfs =
    "0F0,0F1,0F2,2F0,2F1,2F2,,,2B2,2B1,2B0,0B2,0B1,0B0\r\n"
    ",1F0,1F1,1F2,3F0,3F1,3F2,3B2,3B1,3B0,1B2,1B1,1B0\r\n";

// ScheduleInterleavedZeroBubble for two ranks.
constexpr std::string_view kInterleavedZeroBubble =
    "0F0,0F1,2F0,,2F1,2I0,2W0,0F2,2I1,2W1,0F3,0I0,0W0,2F2,0I1,0W1,2F3,2I2,2W2,2I3,2W3,0I2,0W2,0I3,0W3\r\n"
    ",1F0,1F1,3F0,3I0,3F1,3I1,3W0,1F2,1I0,3W1,1F3,1I1,1W0,3F2,3I2,1W1,3F3,3I3,3W2,1I2,3W3,1I3,1W2,1W3\r\n";

// ScheduleDualPipeV for two ranks.
constexpr std::string_view kDualPipeV =
    "0F0,0F1,0F2,3F0,3I0,3W0,3F1,(0F3;3B1)OVERLAP_F_B,(3F2;0B0)OVERLAP_F_B,(0F4;3B2)OVERLAP_F_B,"
    "(3F3;0B1)OVERLAP_F_B,3B3,(3F4;0B2)OVERLAP_F_B,3B4,0I3,0W3,0I4,0W4\r\n"
    "1F0,2F0,1F1,2F1,1F2,2B0,(2F2;1B0)OVERLAP_F_B,(1F3;2B1)OVERLAP_F_B,(2F3;1B1)OVERLAP_F_B,"
    "(1F4;2B2)OVERLAP_F_B,(2F4;1B2)OVERLAP_F_B,2B3,1B3,2I4,1I4,2W4,1W4\r\n";

// ScheduleGPipe for two ranks.
constexpr std::string_view kGPipe =
    "0F0,0F1,0B0,0B1,0REDUCE_GRAD\r\n"
    "1F0,1F1,1B0,1B1,1REDUCE_GRAD\r\n";

// Schedule1F1B for three ranks. Its last row counts from 1, which is an error of torch 2.11.
constexpr std::string_view kOneFOneB =
    "0F0,0F1,0F2,0B0,0F3,0B1,0B2,0B3,0REDUCE_GRAD\r\n"
    "1F0,1F1,1B0,1F2,1B1,1F3,1B2,1B3,1REDUCE_GRAD\r\n"
    "2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2REDUCE_GRAD\r\n";

std::vector<TaskKey> program_of(const TaskGraph& graph, int lane) {
    std::vector<TaskKey> keys;
    for (const TaskIndex task : graph.lane_order(LaneId{lane})) {
        keys.push_back(graph.tasks()[task].key);
    }
    return keys;
}

TEST(ScheduleTable, ComesBackByteByByte) {
    const std::string overlap = "0F0,(0F1;0B0)OVERLAP_F_B,,0B1\n";
    for (const std::string_view text : {kZeroBubbleV, kInterleaved, kLoopedBfs, kInterleavedZeroBubble, kDualPipeV,
                                        kGPipe, kOneFOneB, std::string_view(overlap)}) {
        EXPECT_EQ(to_csv(parse_schedule_csv(text)), text);
    }
}

TEST(ScheduleTable, ReadsWhatSpreadsheetsAndEditorsMakeOfAFile) {
    const ScheduleTable plain = parse_schedule_csv("0F0,,0B0\r\n,1F0,1B0\r\n");
    for (const std::string_view text :
         {"\xef\xbb\xbf"
          "0F0,,0B0\r\n,1F0,1B0\r\n",
          "0F0, ,0B0\r\n\t, 1F0\t, 1B0 \r\n", "\"0F0\",\"\",\"0B0\"\r\n\"\", \"1F0\" ,\"1B0\"\r\n"}) {
        EXPECT_EQ(parse_schedule_csv(text), plain) << text;
    }
    EXPECT_EQ(parse_schedule_csv("0F0,(0F1;0B0)OVERLAP_F_B\n"), parse_schedule_csv("0F0,\"(0F1;0B0)OVERLAP_F_B\"\n"));
}

TEST(ScheduleTable, NamesTheLineThatIsEmptyAndTheRowWithoutATask) {
    for (const std::string_view text :
         {"0F0,0B0\n\n1F0,1B0\n", "0F0,0B0\r\n\r\n1F0,1B0\r\n", "0F0,0B0\n  \t\n1F0,1B0\n"}) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_schedule_csv(text); }),
                    AllOf(HasSubstr("line 2 is empty"), HasSubstr("remove it")))
            << text;
    }
    EXPECT_THAT(thrown<UsageError>([] { table_shape(parse_schedule_csv("0F0,0B0\n,\n1F0,1B0\n")); }),
                AllOf(HasSubstr("row 2 holds no task"), HasSubstr("remove it")));
}

TEST(ScheduleTable, NamesACellWithHalfAQuoteOrAnotherLineEnd) {
    for (const std::string_view text : {"0F0,\"0B0\n", "0F0,0B0\rx\n", "0F0,'0B0'\n"}) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_schedule_csv(text); }),
                    AllOf(HasSubstr("row 1, column 2 is"), HasSubstr("such as 3F0")))
            << text;
    }
}

void expect_programs(std::string_view csv, const Schedule& schedule, int lanes, int micro_batches) {
    const TaskGraph dumped = table_graph(parse_schedule_csv(csv), {.checkpoint = Checkpoint::never});
    const std::size_t partitions = usual_partitions(schedule, static_cast<std::size_t>(lanes));
    PipelineShape shape{.num_partitions = static_cast<int>(partitions),
                        .num_micro_batches = micro_batches,
                        .checkpoint = Checkpoint::never};
    shape.placement = placement_of(schedule, partitions, static_cast<std::size_t>(lanes));
    const TaskGraph named = make_schedule(schedule, shape);
    EXPECT_EQ(dumped.shape().placement, named.shape().placement) << to_string(schedule);
    for (int lane = 0; lane < lanes; ++lane) {
        EXPECT_EQ(program_of(dumped, lane), program_of(named, lane)) << to_string(schedule) << " lane " << lane;
    }
}

TEST(ScheduleTable, RunsWhatTorchDumpsAsTheNamedSchedules) {
    expect_programs(kInterleaved, Schedule::interleaved_1f1b, 2, 4);
    expect_programs(kLoopedBfs, Schedule::looped_bfs, 2, 3);
    expect_programs(kInterleavedZeroBubble, Schedule::interleaved_zero_bubble, 2, 4);
    expect_programs(kZeroBubbleV, Schedule::zero_bubble_v, 3, 6);
    expect_programs(kDualPipeV, Schedule::dualpipe_v, 2, 5);

    const TaskGraph zbv = table_graph(parse_schedule_csv(kZeroBubbleV), {.checkpoint = Checkpoint::never});
    // Partitions 2 and 3 share a lane: no copy between them.
    EXPECT_FALSE(zbv.find({0, TaskKind::copy_forward, 2, 0, -1}).has_value());
    EXPECT_EQ(program_of(zbv, 0).at(6), (TaskKey{0, TaskKind::loss, 5, 0, -1})) << "right after forward (0, 5)";
}

// torch sums gradients there; the graph does so at the end of each lane, if there are replicas.
TEST(ScheduleTable, PassesOverTorchsGradientSums) {
    const TaskGraph one = table_graph(parse_schedule_csv(kGPipe), {.checkpoint = Checkpoint::never});
    EXPECT_EQ(one.tasks().size(), 2U * 4 + 2 + 4) << "forwards and backwards, losses, copies";
    const TaskGraph two = table_graph(parse_schedule_csv(kGPipe), {.checkpoint = Checkpoint::never, .replicas = 2});
    EXPECT_EQ(program_of(two, 0).back(), (TaskKey{0, TaskKind::all_reduce, 0, -1, -1}));
    EXPECT_EQ(two.tasks().size(), one.tasks().size() + 2);
    EXPECT_THAT(thrown<UsageError>([] { table_graph(parse_schedule_csv("0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n")); }),
                HasSubstr("0REDUCE_GRAD"));
    EXPECT_THAT(thrown<UsageError>([] { table_graph(parse_schedule_csv(kOneFOneB)); }), HasSubstr("row 1 lacks 0F4"));
}

TEST(ScheduleTable, OverlappedTasksRunInTheirOrder) {
    const TaskGraph graph =
        table_graph(parse_schedule_csv("0F0,(0F1;0B0)OVERLAP_F_B,0B1\r\n"), {.checkpoint = Checkpoint::never});
    EXPECT_EQ(program_of(graph, 0).at(4), (TaskKey{0, TaskKind::backward, 0, 0, -1}));
    EXPECT_EQ(program_of(graph, 0).at(2), (TaskKey{0, TaskKind::forward, 0, 1, -1}));
}

TEST(ScheduleTable, AFullBackwardAmongHalvesRunsBothAtOnce) {
    const TaskGraph graph = table_graph(parse_schedule_csv("0F0,0I0,0F1,0B1,0W0\n"), {.checkpoint = Checkpoint::never});
    const std::vector<TaskKey> program = program_of(graph, 0);
    const auto full = std::find(program.begin(), program.end(), TaskKey{0, TaskKind::backward, 0, 1, -1});
    EXPECT_EQ(full[1], (TaskKey{0, TaskKind::backward_weight, 0, 1, -1}));
    EXPECT_EQ(full[2], (TaskKey{0, TaskKind::backward_weight, 0, 0, -1}));
}

// The engine and the simulator run this graph, so both send the gradient behind the first half.
TEST(ScheduleTable, AFullBackwardAmongHalvesSendsItsGradientAfterItsFirstHalf) {
    const TaskGraph graph = table_graph(parse_schedule_csv("0F0,0F1,0I0,0B1,0W0\n1F0,1I0,1W0,1F1,1B1\n"),
                                        {.num_partitions = 2, .checkpoint = Checkpoint::never});
    const TaskIndex copy = graph.find({0, TaskKind::copy_backward, 0, 1, -1}).value();
    std::vector<TaskKey> before;
    for (const TaskIndex task : graph.dependencies(copy)) {
        before.push_back(graph.tasks()[task].key);
    }
    EXPECT_EQ(before, (std::vector<TaskKey>{{0, TaskKind::backward, 1, 1, -1}}));
}

TEST(ScheduleTable, RecomputesStandWhereTheTableSaysOrBeforeTheirBackward) {
    const PipelineShape always{.checkpoint = Checkpoint::always};
    const std::vector<TaskKey> own =
        program_of(table_graph(parse_schedule_csv("0F0,0F1,0R1,0R0,0B0,0B1\n"), always), 0);
    EXPECT_EQ(own.at(4), (TaskKey{0, TaskKind::recompute, 0, 1, -1}));
    const std::vector<TaskKey> inserted = program_of(table_graph(parse_schedule_csv("0F0,0B0\n"), always), 0);
    EXPECT_EQ(inserted.at(2), (TaskKey{0, TaskKind::recompute, 0, 0, -1}));
    EXPECT_THAT(thrown<UsageError>([&] { table_graph(parse_schedule_csv("0F0,0F1,0R1,0B1,0B0\n"), always); }),
                HasSubstr("0R0"));
    const PipelineShape never{.checkpoint = Checkpoint::never};
    const TaskGraph all = table_graph(parse_schedule_csv("0F0,0R0,0B0\n"), never);
    EXPECT_EQ(all.shape().checkpoint, Checkpoint::always) << "as the table says";
    const TaskGraph but_last = table_graph(parse_schedule_csv("0F0,0F1,0B1,0R0,0B0\n"), never);
    EXPECT_EQ(but_last.shape().checkpoint, Checkpoint::except_last);
    EXPECT_THAT(thrown<UsageError>([&] { table_graph(parse_schedule_csv("0F0,0F1,0R1,0B1,0B0\n"), never); }),
                HasSubstr("row 1, column 3"));
}

TEST(ScheduleTable, WritesRecomputesThatDoNotStandRightBeforeTheirBackward) {
    const PipelineShape always{.num_partitions = 1, .num_micro_batches = 2, .checkpoint = Checkpoint::always};
    for (const std::string csv : {"0F0,0R0,0F1,0R1,0B0,0B1\r\n", "0F0,0F1,0B0,0B1\r\n"}) {
        EXPECT_EQ(to_csv(schedule_table(table_graph(parse_schedule_csv(csv), always))), csv);
    }
}

TEST(ScheduleTable, HasUpdatesAndAPlacementLine) {
    const std::string csv = "# placement 0,1,1,0\n0F0,,,,,3F0,3B0,,,0B0,0O\n,1F0,2F0,,,,,2B0,1B0,2O\n";
    const ScheduleTable table = parse_schedule_csv(csv);
    EXPECT_EQ(to_csv(table), csv);
    EXPECT_EQ(table.rows.at(0).at(10).at(0).task.kind, TaskKind::optimizer);
    const TaskGraph graph = table_graph(table);
    EXPECT_EQ(graph.shape().placement, (std::vector{LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}}));
    const std::string plain = "0F0,,,,,3F0,3B0,,,0B0\n,1F0,2F0,,,,,2B0,1B0\n";
    const TaskGraph without = table_graph(parse_schedule_csv(plain));
    for (int lane = 0; lane < 2; ++lane) {
        EXPECT_EQ(program_of(graph, lane), program_of(without, lane));
    }
    EXPECT_EQ(parse_schedule_csv("# placement  0, 1 ,,,\n0F0,,,0B0\n,1F0,1B0,\n").placement,
              (std::vector{LaneId{0}, LaneId{1}}))
        << "as a spreadsheet writes it";
}

TEST(ScheduleTable, RefusesUpdatesAndPlacementLinesThatDoNotFit) {
    const auto refuses = [](const std::string& csv, const std::string& reason) {
        EXPECT_THAT(thrown<UsageError>([&] { table_graph(parse_schedule_csv(csv)); }), HasSubstr(reason)) << csv;
    };
    refuses("0F0,0I0,0O,0W0\n", "row 1, column 3 holds 0O before 0W0 in column 4");
    refuses("0F0,0B0,0O,0REDUCE_GRAD\n", "row 1, column 3 holds 0O before 0REDUCE_GRAD");
    refuses("0F0,1F0,1B0,0B0,0O,1O\n", "row 1, column 6 holds 1O after 0O in column 5");
    refuses("0F0,0B0,0O0\n", "row 1, column 3 is '0O0'");
    refuses("0F0,,,0B0,1O\n,1F0,1B0,\n", "row 2, column 2 holds 1F0, but partition 1 runs on lane 0 (row 1, column 5)");
    refuses("# placement 0,0\n0F0,,,0B0\n,1F0,1B0,\n",
            "the placement line puts partition 1 on lane 0, but row 2, column 2 runs it on lane 1");
    refuses("# placement 0\n0F0,,,0B0\n,1F0,1B0,\n", "the placement line has 1 lane for 2 partitions");
    for (const std::string line : {"# placement", "# placement ", "# placement 0,,1", "# placement 0,x", "# note",
                                   "# placement -1", "# placement 99999999999999999999"}) {
        refuses(line + "\n0F0,0B0\n", "line 1 is '" + line + "'");
    }
    refuses("0F0,,,0B0\n# placement 0,1\n,1F0,1B0,\n", "line 2 is '# placement 0,1'; only the first line");
}

TEST(ScheduleTable, AcceptsEmptyLinesAtTheEndOnly) {
    EXPECT_EQ(to_csv(parse_schedule_csv("0F0,0B0\n\n \r\n")), "0F0,0B0\n");
    EXPECT_THAT(thrown<UsageError>([] { parse_schedule_csv("0F0,0B0\n\n1F0,1B0\n"); }), HasSubstr("line 2 is empty"));
}

TEST(ScheduleTable, ShowsInvisibleCharacters) {
    EXPECT_THAT(thrown<UsageError>([] { parse_schedule_csv("0F0,0B0\n\xef\xbb\xbf,1B0\n"); }),
                HasSubstr("row 2, column 1 is '\\xef\\xbb\\xbf'"));
    EXPECT_THAT(thrown<UsageError>([] { parse_schedule_csv("0F0\xc2\xa0,0B0\n"); }), HasSubstr("is '0F0\\xc2\\xa0'"));
}

TEST(ScheduleTable, NamesTheLossThatIsMissing) {
    EXPECT_THAT(thrown<UsageError>([] { table_graph(parse_schedule_csv("0F0,0L0,0F1,0B0,0B1\n")); }),
                HasSubstr("row 1 lacks 0L1"));
}

// Named schedules drawn as tables give the same programs.
TEST(ScheduleTable, NamedSchedulesAreTablesToo) {
    for (const Schedule schedule : {Schedule::one_f_one_b, Schedule::zero_bubble_h1, Schedule::model_parallel}) {
        for (const Checkpoint mode : {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}) {
            const PipelineShape shape{.num_partitions = 4, .num_micro_batches = 6, .checkpoint = mode};
            const TaskGraph named = make_schedule(schedule, shape);
            const TaskGraph again = table_graph(parse_schedule_csv(to_csv(schedule_table(named))), shape);
            for (int lane = 0; lane < 4; ++lane) {
                EXPECT_EQ(program_of(again, lane), program_of(named, lane)) << to_string(schedule) << to_string(mode);
            }
        }
    }
    EXPECT_EQ(
        to_csv(schedule_table(make_schedule(Schedule::one_f_one_b, {.num_partitions = 2, .num_micro_batches = 3}))),
        "0F0,0F1,,0B0,0F2,0B1,,0B2\r\n,1F0,1B0,1F1,1B1,1F2,1B2,\r\n");
}

/// The tasks that run as one, list by list.
std::vector<std::vector<TaskKey>> joints_of(const TaskGraph& graph) {
    std::vector<std::vector<TaskKey>> joints;
    for (std::size_t k = 0; k < graph.joints().size(); ++k) {
        std::vector<TaskKey>& keys = joints.emplace_back();
        for (const TaskIndex task : graph.joints().at(k)) {
            keys.push_back(graph.tasks()[task].key);
        }
    }
    std::ranges::sort(joints);
    return joints;
}

// A file of any size says which tasks run as one.
TEST(ScheduleTable, GivesEveryNamedScheduleBack) {
    std::mt19937 random(45);
    const auto draw = [&random](int least, int most) {
        return std::uniform_int_distribution<int>(least, most)(random);
    };
    std::size_t joined = 0;
    for (const Schedule& schedule : all_schedules()) {
        for (int round = 0; round < 15; ++round) {
            const int lanes = 2 * draw(1, 4);
            const int micro_batches = 2 * lanes * draw(1, 3);
            if (!needs_loss_inside(schedule) || !is_synchronous(schedule) || !can_run(schedule, lanes, micro_batches)) {
                continue;  // a table has a loss for each micro-batch, and drains
            }
            PipelineShape shape;
            shape.num_partitions = static_cast<int>(usual_partitions(schedule, static_cast<std::size_t>(lanes)));
            shape.num_micro_batches = micro_batches;
            shape.checkpoint = std::array{Checkpoint::never, Checkpoint::except_last, Checkpoint::always}.at(
                static_cast<std::size_t>(draw(0, 2)));
            shape.placement =
                placement_of(schedule, static_cast<std::size_t>(shape.num_partitions), static_cast<std::size_t>(lanes));
            shape.joins_pairs = draw(0, 1) == 1;
            const TaskGraph named = make_schedule(schedule, shape);
            const std::string csv = to_csv(schedule_table(named));
            const TaskGraph again = table_graph(parse_schedule_csv(csv), shape);
            for (int lane = 0; lane < lanes; ++lane) {
                EXPECT_EQ(program_of(again, lane), program_of(named, lane)) << to_string(schedule) << "\n" << csv;
            }
            EXPECT_EQ(joints_of(again), joints_of(named)) << to_string(schedule) << "\n" << csv;
            joined += named.joints().size();
        }
    }
    EXPECT_GT(joined, 100U);
}

// torch runs what an overlapped cell holds one after the other. Only a forward and a backward are a pair.
TEST(ScheduleTable, TwoBackwardsInACellRunApart) {
    const TaskGraph graph =
        table_graph(parse_schedule_csv("0F0,0F1,0F2,0F3,(0F4;0B0)OVERLAP_F_B,(0B1;0B2)OVERLAP_F_B,0I3,0W3,0B4\n"),
                    {.checkpoint = Checkpoint::never, .joins_pairs = true});
    const auto halves = [](int i) {
        return std::vector{TaskKey{0, TaskKind::backward, 0, i, -1}, TaskKey{0, TaskKind::backward_weight, 0, i, -1}};
    };
    const std::vector<std::vector<TaskKey>> joints = joints_of(graph);
    ASSERT_EQ(joints.size(), 4U);
    for (const int i : {1, 2, 4}) {
        EXPECT_EQ(std::ranges::count(joints, halves(i)), 1) << i;
    }
}

TEST(ScheduleTable, NamesTheCellThatIsWrong) {
    const auto refusal = [](std::string_view text) -> std::string {
        try {
            table_graph(parse_schedule_csv(text), {.checkpoint = Checkpoint::never});
        } catch (const UsageError& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_THAT(refusal("0F0,0X0\n"), AllOf(HasSubstr("row 1, column 2 is '0X0'"), HasSubstr("such as 3F0")));
    for (const std::string_view cell : {"F0", "0F", "0", "0F0x", "-1F0", "(0F0;0B0)", "(0F0)OVERLAP_F_B"}) {
        EXPECT_THAT(refusal("0F0,0B0," + std::string(cell) + "\n"),
                    HasSubstr("row 1, column 3 is '" + std::string(cell)));
    }
    EXPECT_THAT(refusal("0F0,99999F0\n"), HasSubstr("99999"));
    EXPECT_THAT(refusal("(0F0;0B99999999999999999999)OVERLAP_F_B\n"), HasSubstr("99999999999999999999"));
    EXPECT_THAT(refusal(""), HasSubstr("holds no task"));
    EXPECT_THAT(refusal(",,\n"), HasSubstr("holds no task"));
    EXPECT_THAT(refusal("0F0,0B0,0F0\n"), HasSubstr("row 1, column 3"));
    EXPECT_THAT(refusal("0F0,0B0,0F1\n"), HasSubstr("row 1 lacks 0B1"));
    EXPECT_THAT(refusal("0F0,0B0\n2F0,2B0\n"), HasSubstr("partition 1"));
    EXPECT_THAT(refusal("0F0,1F0,1B0\n0B0\n"), HasSubstr("row 2, column 1"));
    EXPECT_THAT(refusal("0B0,0F0\n"), HasSubstr("row 1, column 1"));
    EXPECT_THAT(refusal("0F0,0W0,0I0\n"), HasSubstr("holds 0W0 before 0I0"));
    EXPECT_THAT(refusal("0F0,0I0\n"), HasSubstr("row 1 lacks 0W0"));
    EXPECT_THAT(refusal("0F0,0I0,0B0\n"), HasSubstr("keep B, or both halves"));
    EXPECT_THAT(refusal("0F0,0L0,0B0\n1F0,1B0\n"), HasSubstr("holds the loss of partition 0"));
}

TEST(ScheduleTable, TellsADeadlockAsItsCircleOfWaits) {
    const auto circle = [](std::string_view text) -> std::string {
        try {
            table_graph(parse_schedule_csv(text), {.checkpoint = Checkpoint::never});
        } catch (const Error& error) {
            return error.what();
        }
        return "accepted";
    };
    EXPECT_EQ(circle("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"),
              "the schedule can never finish: backward (0, 0) on lane 0 waits for backward (0, 1), which lane 1 runs "
              "after forward (1, 1), which waits for forward (1, 0), which lane 0 runs after backward (0, 0); move "
              "one of them");
}

// A random order either runs, or is reported with a real cycle of waits. It never crashes.
TEST(ScheduleTable, RandomOrdersRunOrAreExplained) {
    std::mt19937 random(7);
    int accepted = 0;
    for (int round = 0; round < 300; ++round) {
        const int lanes = 1 + round % 4;
        const int micro_batches = 1 + round % 3;
        ScheduleTable table;
        for (int lane = 0; lane < lanes; ++lane) {
            std::vector<ScheduleTable::Cell> row;
            for (int i = 0; i < micro_batches; ++i) {
                row.push_back({{{0, TaskKind::forward, lane, i, -1}, false}});
                row.push_back({{{0, TaskKind::backward, lane, i, -1}, false}});
            }
            for (int swap = 0; swap < round % 5; ++swap) {
                std::swap(row[random() % row.size()], row[random() % row.size()]);
            }
            table.rows.push_back(row);
        }
        try {
            const TaskGraph graph = table_graph(table, {.checkpoint = Checkpoint::never});
            ++accepted;
            EXPECT_EQ(graph.num_lanes(), lanes);
        } catch (const UsageError& error) {
            EXPECT_THAT(error.what(), HasSubstr("; swap the two"));
        } catch (const Error& error) {
            EXPECT_THAT(error.what(), AllOf(HasSubstr("can never finish"), HasSubstr(" waits for ")));
        }
    }
    EXPECT_GT(accepted, 30);
}
}  // namespace
}  // namespace pipescope
