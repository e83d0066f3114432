#include "trace/merge/merge_rank_files.h"

#include "base/stop_check.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "tests/trace/one_step_trace.h"
#include "tests/trace/rank_files.h"
#include "trace/foreign/chrome_export.h"
#include "trace/foreign/chrome_import.h"
#include "trace/open_trace.h"
#include "trace/store/process_json.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <fstream>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::int64_t kBase = 1'790'857'026'000'000'000;

/// A step of ScheduleGPipe with one micro-batch on two ranks: forward there, backward back. Messages take 20 us.
class MergeRankFiles : public testing::Test {
protected:
    fs::path first() const {
        return RankFile(0, 2)
            .range("ProfilerStep#5", 0, 200)
            .range("Forward 0", 10, 35)
            .range("c10d::send", 30, 34)
            .message("gloo:send", 33, 60)
            .range("Backward 0", 100, 160)
            .message("gloo:recv", 101, 140)
            .range("Optimizer.step#SGD.step", 170, 180)
            .write(folder_ / "rank0.json", kBase);
    }
    /// `off`: ns by which the host's wall clock is wrong.
    fs::path second(std::int64_t off = 0) const {
        return RankFile(1, 2)
            .range("ProfilerStep#5", 0, 200)
            .range("Forward 0", 10, 80)
            .message("gloo:recv", 11, 50)
            .range("Backward 0", 90, 125)
            .range("c10d::send", 120, 124)
            .message("gloo:send", 123, 150)
            .write(folder_ / "rank1.json", kBase + off);
    }
    MergedTrace merge(const std::vector<fs::path>& inputs) const {
        return merge_rank_files(inputs, folder_ / "out.sqlite", IfExists::replace, TaskRules());
    }
    OpenedTrace merged() const { return open_trace(folder_ / "out.sqlite"); }

    const TemporaryFolder folder_;
};

std::vector<std::string> tasks_of(const OpenedTrace& trace) {
    std::vector<std::string> texts;
    for (const Slice& slice : trace.measured.slices) {
        texts.push_back(fmt::format("{} {}..{} on {}", to_string(slice.key), slice.start.count() / 1000,
                                    slice.end.count() / 1000, slice.lane.value()));
    }
    return texts;
}

TEST_F(MergeRankFiles, MakesOneTimelineOfTheRanks) {
    const MergedTrace result = merge({second(), first()});
    EXPECT_EQ(result.tasks, 7);
    EXPECT_EQ(result.copies, 2u);
    EXPECT_THAT(result.warnings, IsEmpty());
    EXPECT_EQ(result.processes.at(1).bound, Nanoseconds{20'000});
    const OpenedTrace trace = merged();
    EXPECT_THAT(tasks_of(trace),
                ElementsAre("step 5 forward (0, 0) 10..30 on 0", "step 5 copy_forward (0, 0) 30..50 on 0",
                            "step 5 forward (0, 1) 50..80 on 1", "step 5 backward (0, 1) 90..120 on 1",
                            "step 5 copy_backward (0, 0) 120..140 on 1", "step 5 backward (0, 0) 140..160 on 0",
                            "step 5 optimizer of partition 0 170..180 on 0"));
    EXPECT_EQ(trace.measured.slices[1].bytes, 32 * 256 * 4);
    EXPECT_EQ(trace.run.at(std::string(kMicroBatchKey)), R"({"samples":32})");
    EXPECT_THAT(trace.measured.lanes, ElementsAre(LaneInfo{"rank 0", ""}, LaneInfo{"rank 1", ""}));
    EXPECT_EQ(trace.steps.at(0).step, 5);
    EXPECT_EQ(trace.utc_epoch_ns, kBase);
    ASSERT_EQ(trace.tracks.size(), 2u);
    EXPECT_EQ(trace.tracks[0].group, "rank 0 \u00b7 process 4000 (python3)");
    EXPECT_EQ(trace.tracks[1].name, "rank 1 \u00b7 thread 4001 (python3)");
    EXPECT_EQ(clock_bound(merged_processes(trace.run)), Nanoseconds{20'000});
}

// The second rank comes 15 us later to the first sum of gradients, and the second one takes 10 us longer.
TEST_F(MergeRankFiles, PartsCollectivesOfWhichAllRanksAreKnown) {
    const auto rank = [&](int number, double late) {
        RankFile file(number, 2);
        const auto sum = [&](double start, double end, int call) {
            file.call(start - 1, call)
                .work("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)", start, end,
                      fmt::format(
                          R"("correlation": {}, "Collective name": "allreduce", "dtype": "Float", "Group size": 2, )"
                          R"("In msg nelems": 8, "Out msg nelems": 8, "Process Group Ranks": "[0, 1]")",
                          call),
                      9);
        };
        file.range("ProfilerStep#5", 0, 300);
        file.range(fmt::format("PP:{}F0", number), 1, 3).launched(2, 10, 20);
        file.range(fmt::format("PP:{}B0", number), 4, 6).launched(5, 20, 40);
        sum(40 + late, 75, 8'000);
        sum(100, 130, 8'001);
        return file.write(folder_ / fmt::format("rank{}.json", number), kBase);
    };
    merge({rank(0, 0), rank(1, 15)});
    std::vector<std::string> devices;
    for (const RangeTrack& track : merged().tracks) {
        if (track.kind == RangeTrack::Kind::stream) {
            devices.push_back(track.group.substr(0, std::string("GPU 0 ").size()));
        }
    }
    EXPECT_THAT(devices, ElementsAre("GPU 0 ", "GPU 0 ", "GPU 1 ", "GPU 1 ")) << "both ranks have a GPU 0";
    std::vector<std::string> parts;
    for (const LaneWork& work : merged().lane_work) {
        parts.push_back(fmt::format("{} {}..{} on {}", to_string(work.kind), work.start.count() / 1000,
                                    work.end.count() / 1000, work.lane.value()));
    }
    EXPECT_THAT(parts, ElementsAre("collective 40..75 on 0", "collective 100..130 on 0", "collective_wait 40..55 on 0",
                                   "collective_slow 120..130 on 0", "collective 55..75 on 1",
                                   "collective 100..130 on 1", "collective_slow 120..130 on 1"));
}

// Only the profiler's range shows when the device began the forward, so its launch is not known to pace it.
TEST_F(MergeRankFiles, WritesNoNumberForWhatIsNotKnown) {
    merge({RankFile(0, 2)
               .range("PP:0F0", 0, 3)
               .launched(1, 10, 30)
               .range("PP:0SEND_F0", 4, 8)
               .launched(6, 30, 40, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 20)
               .range("PP:0B0", 9, 11)
               .launched(10, 70, 90)
               .write(folder_ / "rank0.json", kBase),
           RankFile(1, 2)
               .range("PP:1RECV_F0", 1, 3)
               .launched(2, 4, 40, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 20)
               .range("PP:1F0", 4, 6)
               .launched(5, 40, 50)
               .range("PP:1B0", 7, 9)
               .launched(8, 50, 60)
               .write(folder_ / "rank1.json", kBase)});
    SQLite::Database db(folder_ / "out.sqlite");
    const auto count = [&](const std::string& where) {
        return db
            .execAndGet(
                "SELECT count(*) FROM PIPESCOPE_TASK_DEVICE AS d JOIN PIPESCOPE_TASK AS t ON t.id = d.taskId "
                "WHERE t.kind " +
                where)
            .getInt();
    };
    EXPECT_EQ(count("= 'copy_forward' AND paced IS NULL"), 1);
    EXPECT_EQ(count("!= 'copy_forward' AND paced > 0"), 4);
}

TEST_F(MergeRankFiles, CorrectsAWallClockByTheMessages) {
    const MergedTrace result = merge({first(), second(-1'000'000)});
    EXPECT_EQ(result.largest_shift, Nanoseconds{1'000'000});
    EXPECT_EQ(tasks_of(merged()).at(2), "step 5 forward (0, 1) 50..80 on 1");
}

TEST_F(MergeRankFiles, StatesNoBoundIfNoOffsetPutsTheMessagesInOrder) {
    // What was sent at 30 comes at 20, and what is sent at 190 comes at 140.
    const fs::path slow = RankFile(1, 2)
                              .range("ProfilerStep#5", 0, 200)
                              .range("Forward 0", 10, 30)
                              .message("gloo:recv", 11, 20)
                              .range("Backward 0", 90, 195)
                              .message("gloo:send", 190, 210)
                              .write(folder_ / "rank1.json", kBase);
    const MergedTrace result = merge({first(), slow});
    EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("30.0 us")));
    EXPECT_EQ(clock_bound(result.processes), std::nullopt);
    EXPECT_EQ(clock_bound(merged_processes(merged().run)), std::nullopt);
    EXPECT_EQ(merged().run.at(std::string(kEarlyMessagesKey)), R"({"most_ns": 30000})");
}

// Replicas send messages of the same names. The second one runs 5 ms later.
TEST_F(MergeRankFiles, MatchesMessagesWithinAReplicaOnly) {
    std::vector<fs::path> files;
    for (int rank = 0; rank < 4; ++rank) {
        const double t = 5000.0 * (rank % 2);
        RankFile file(rank, 4, "mesh_pp", rank % 2 == 0 ? "0, 2" : "1, 3");
        file.range("ProfilerStep#5", t, t + 200);
        if (rank < 2) {
            file.range("Forward 0", t + 10, t + 35).message("gloo:send", t + 33, t + 60);
            file.range("Backward 0", t + 100, t + 160).message("gloo:recv", t + 101, t + 140);
        } else {
            file.range("Forward 0", t + 10, t + 80).message("gloo:recv", t + 11, t + 50);
            file.range("Backward 0", t + 90, t + 125).message("gloo:send", t + 123, t + 150);
        }
        files.push_back(file.write(folder_ / fmt::format("{}.json", rank), kBase));
    }
    const MergedTrace result = merge(files);
    EXPECT_THAT(result.warnings, ElementsAre(HasSubstr("rank 1 has tasks of rank 0 again"),
                                             HasSubstr("rank 3 has tasks of rank 2 again")));
    EXPECT_EQ(result.copies, 2U);
    EXPECT_TRUE(clock_bound(merged_processes(merged().run)));
    EXPECT_FALSE(merged().run.contains(std::string(kEarlyMessagesKey)));
}

TEST_F(MergeRankFiles, WarnsIfMessagesMoveAClockByMoreThanASecond) {
    EXPECT_THAT(merge({first(), second(-900'000'000)}).warnings, IsEmpty());
    EXPECT_THAT(merge({first(), second(-20'000'000'000)}).warnings,
                ElementsAre(HasSubstr("the messages move the clock of rank 1 by 20.000 s;")));
}

TEST_F(MergeRankFiles, SaysWhichRankIsMissingOrUnchecked) {
    const fs::path third =
        RankFile(2, 4).range("ProfilerStep#5", 0, 9).range("Forward 0", 1, 2).write(folder_ / "2.json");
    const fs::path zeroth =
        RankFile(0, 4).range("ProfilerStep#5", 0, 9).range("Forward 0", 1, 2).write(folder_ / "0.json");
    EXPECT_THAT(merge({zeroth, third}).warnings,
                ElementsAre(HasSubstr("the clock of rank 2 could not be"),
                            AllOf(HasSubstr("ranks 1, 3 of 4 are not given"), HasSubstr("may include the wait"))));
    EXPECT_EQ(missing_ranks_entry(merged().run), (MissingRanks{{1, 3}, 4}));
}

// Which ranks are missing follows from the process group of the pipeline, or else from messages whose other end is not
// there. Without either they may be missing.
TEST_F(MergeRankFiles, FindsTheRanksThatItsTasksWaitFor) {
    const auto stage = [&](int rank, int size, bool messages, bool open_end, const std::string& group = "default_pg",
                           const std::string& ranks = "") {
        RankFile file(rank, size, group, ranks);
        const std::string name = "PP:" + std::to_string(rank);
        file.range("ProfilerStep#5", 0, 200).range(name + "F0", 10, 30).range(name + "B0", 90, 140);
        if (messages && rank == 0) {
            file.message("gloo:send", 25, 40).message("gloo:recv", 91, 130);
        } else if (messages) {
            file.message("gloo:recv", 11, 20).message("gloo:send", 135, 150);
        }
        if (open_end) {
            file.message("gloo:recv", 95, 125);
        }
        return file.write(folder_ / fmt::format("rank{}.json", rank));
    };
    const auto missing = [&](const std::vector<fs::path>& files) {
        merge(files);
        return missing_ranks_entry(merged().run);
    };
    using Missing = std::optional<MissingRanks>;
    EXPECT_EQ(missing({stage(0, 2, true, false)}), (Missing{{{1}, 2}})) << "where its messages come from";
    EXPECT_EQ(missing({stage(0, 2, true, false), stage(1, 2, true, false)}), std::nullopt);
    EXPECT_EQ(missing({stage(0, 4, true, false), stage(1, 4, true, false)}), std::nullopt) << "the others are replicas";
    EXPECT_EQ(missing({stage(0, 3, true, false), stage(1, 3, true, true)}), (Missing{{{2}, 3}}));
    EXPECT_EQ(missing({stage(0, 4, false, false), stage(1, 4, false, false)}), (Missing{{{2, 3}, 4}})) << "or replicas";
    EXPECT_EQ(missing({stage(0, 4, false, false, "mesh_pp", "0, 1"), stage(1, 4, false, false, "mesh_pp", "0, 1")}),
              std::nullopt);
    EXPECT_EQ(missing({stage(0, 4, true, false, "mesh_pp", "0, 1, 3"), stage(1, 4, true, false, "mesh_pp", "0, 1, 3")}),
              (Missing{{{3}, 4}}));
    EXPECT_EQ(missing({stage(1, 2, false, false)}), (Missing{{{0}, 2}}));
}

// torch.distributed.pipelining cuts a short mini-batch into as many micro-batches as the others.
TEST_F(MergeRankFiles, NoteTheSamplesOfEachStep) {
    for (const int rank : {0, 1}) {
        RankFile file(rank, 2);
        for (int step = 0; step < 4; ++step) {
            const double t = 1000 * step;
            file.range("ProfilerStep#" + std::to_string(step), t, t + 900);
            for (int i = 0; i < 2; ++i) {
                const double at = t + 100 * i + 50 * rank;
                file.range(fmt::format("PP:{}F{}", rank, i), at, at + 40);
                const int samples = step < 2 ? 8 : step == 2 ? 5 : 5 - i;
                file.message(rank == 0 ? "gloo:send" : "gloo:recv", at + (rank == 0 ? 30 : 1),
                             at + (rank == 0 ? 45 : 5), samples);
            }
        }
        file.write(folder_ / fmt::format("rank{}.json", rank));
    }
    merge({folder_ / "rank0.json", folder_ / "rank1.json"});
    EXPECT_EQ(merged().run.at(std::string(kMicroBatchKey)),
              R"({"samples":8,"others":[{"samples":null,"steps":[3]},{"samples":5,"steps":[2]}]})");
}

// A count of its steps would be paired with other numbers, and its clock moved by whole steps.
TEST_F(MergeRankFiles, LeavesOutTheTasksOfARankThatNamesNoStepsBesideOthersThatDo) {
    const fs::path unnamed = RankFile(1, 2)
                                 .range("Forward 0", 10, 80)
                                 .message("gloo:recv", 11, 50)
                                 .range("Backward 0", 90, 125)
                                 .message("gloo:send", 123, 150)
                                 .write(folder_ / "rank1.json", kBase);
    const MergedTrace result = merge({first(), unnamed});
    EXPECT_EQ(result.copies, 0u);
    EXPECT_EQ(result.largest_shift, Nanoseconds{0});
    EXPECT_THAT(result.warnings, Contains(AllOf(HasSubstr("rank 1 names no steps, and other ranks do"),
                                                HasSubstr("profile all ranks with ProfilerStep"))));
    EXPECT_THAT(
        result.warnings,
        Contains(HasSubstr("rank 1 of 2 (which names no steps although other ranks do) is not given or left out")));
    const OpenedTrace trace = merged();
    EXPECT_THAT(tasks_of(trace), Each(HasSubstr("step 5"))) << "of the other rank";
    EXPECT_THAT(tasks_of(trace), Not(Contains(HasSubstr("forward (0, 1)"))));
    EXPECT_EQ(missing_ranks_entry(trace.run), (MissingRanks{{1}, 2, {1}}));
    EXPECT_EQ(trace.tracks.size(), 2u) << "its ranges are shown";
}

TEST_F(MergeRankFiles, NotesThatTheMicroBatchesOfEveryStepDiffer) {
    for (const int rank : {0, 1}) {
        RankFile file(rank, 2);
        file.range("ProfilerStep#4", 0, 900);
        for (int i = 0; i < 2; ++i) {
            const double at = 100 * i + 50 * rank;
            file.range(fmt::format("PP:{}F{}", rank, i), at, at + 40);
            file.message(rank == 0 ? "gloo:send" : "gloo:recv", at + (rank == 0 ? 30 : 1), at + (rank == 0 ? 45 : 5),
                         3 - i);
        }
        file.write(folder_ / fmt::format("rank{}.json", rank));
    }
    merge({folder_ / "rank0.json", folder_ / "rank1.json"});
    EXPECT_EQ(merged().run.at(std::string(kMicroBatchKey)),
              R"({"samples":null,"others":[{"samples":null,"steps":[4]}]})");
}

TEST_F(MergeRankFiles, StatesNoBoundForAnUncheckedClock) {
    const auto bare = [&](int rank) {
        return RankFile(rank, 2)
            .range("PP:" + std::to_string(rank) + "F0", 1, 2)
            .write(folder_ / (std::to_string(rank) + ".json"));
    };
    EXPECT_EQ(merge({bare(0), bare(1)}).processes.at(1).bound, std::nullopt);
    const std::vector<MergedProcess> stored = merged_processes(merged().run);
    ASSERT_EQ(stored.size(), 2u);
    EXPECT_EQ(stored[1].bound, std::nullopt);
    EXPECT_EQ(clock_bound(stored), std::nullopt);
}

TEST_F(MergeRankFiles, LeavesOutAReplica) {
    const fs::path replica = RankFile(1, 2).range("PP:0F0", 1, 2).write(folder_ / "1.json");
    const fs::path original = RankFile(0, 2).range("PP:0F0", 1, 2).write(folder_ / "0.json");
    EXPECT_THAT(merge({original, replica}).warnings,
                testing::Contains(HasSubstr("rank 1 has tasks of rank 0 again, such as step 0 forward (0, 0)")));
    EXPECT_EQ(merged().measured.slices.size(), 1u);
}

/// The file without the entry that names its rank.
fs::path without_rank(const RankFile& file, const fs::path& path) {
    std::string text = file.text(kBase);
    const std::size_t entry = text.find("\"distributedInfo\"");
    text.erase(entry, text.find("\"displayTimeUnit\"") - entry);
    std::ofstream(path) << text;
    return path;
}

TEST_F(MergeRankFiles, TakesRanksFromTheFilesNames) {
    const auto range = [](int rank) { return RankFile(rank, 2).range(fmt::format("PP:{}F0", rank), 1, 2); };
    const std::vector<fs::path> words{without_rank(range(1), folder_ / "a_rank-1.json"),
                                      without_rank(range(0), folder_ / "a_rank-0.json")};
    EXPECT_TRUE(are_rank_files(words));
    const MergedTrace merged_words = merge(words);
    ASSERT_EQ(merged_words.processes.size(), 2U);
    EXPECT_EQ(merged_words.processes[1].rank, 1);
    EXPECT_THAT(merged_words.warnings, Contains(AllOf(HasSubstr("so their names decide"), HasSubstr("is of rank 1"))));
    EXPECT_EQ(merge({without_rank(range(0), folder_ / "job-0.json"), without_rank(range(1), folder_ / "job-1.json")})
                  .processes.size(),
              2U);
}

// Numbers of processes are no ranks.
TEST_F(MergeRankFiles, TakesRanksFromThePartitionsIfNamesDoNotTell) {
    const auto range = [](int rank) { return RankFile(rank, 2).range(fmt::format("PP:{}F0", rank), 1, 2); };
    const std::vector<fs::path> files{without_rank(range(1), folder_ / "node_812.json"),
                                      without_rank(range(0), folder_ / "node_977.json")};
    const MergedTrace result = merge(files);
    EXPECT_THAT(result.warnings, Contains(AllOf(HasSubstr("the partitions of their tasks decide"),
                                                HasSubstr("node_812.json' is of rank 1"))));
    EXPECT_EQ(merged().measured.lanes.at(1).name, "rank 1");
}

TEST_F(MergeRankFiles, LeavesOutAFileWithoutARankBesideThoseOfAllRanks) {
    std::ofstream(folder_ / "plain.json") << R"([{"ph": "X", "name": "PP:0F0", "ts": 1, "dur": 1}])";
    EXPECT_THAT(merge({first(), second(), folder_ / "plain.json"}).warnings,
                ElementsAre(AllOf(HasSubstr("plain.json' does not say which rank recorded it"),
                                  HasSubstr("move it to another folder"))));
    EXPECT_EQ(merged().measured.lanes.size(), 2U);
}

TEST_F(MergeRankFiles, RefusesFilesThatAreNoRun) {
    const auto refused = [&](const std::vector<fs::path>& inputs, const std::string& why) {
        EXPECT_THAT(thrown<TraceFormatError>([&] { merge(inputs); }), HasSubstr(why));
    };
    const fs::path copy = folder_ / "copy.json";
    fs::copy_file(first(), copy);
    refused({first(), copy}, "are both of rank 0");
    refused({first(), RankFile(1, 3).range("a", 1, 2).write(folder_ / "three.json")}, "of a run of 2 ranks");
    std::ofstream(folder_ / "plain.json") << R"([{"ph": "X", "name": "a", "ts": 1, "dur": 1}])";
    refused({first(), folder_ / "plain.json"}, "does not say which rank recorded it");
    std::ofstream(folder_ / "odd.json") << R"({"schemaVersion": 1, "distributedInfo": {"rank": 1}, "traceEvents":
        [{"ph": "X", "name": "a", "ts": 1, "dur": 1}]})";
    refused({first(), folder_ / "odd.json"},
            "odd.json' does not say which rank recorded it: \"distributedInfo\" has no world_size");
    EXPECT_TRUE(are_rank_files({first(), second()}));
    EXPECT_FALSE(are_rank_files({first(), copy}));
    EXPECT_FALSE(are_rank_files({first()}));
    EXPECT_FALSE(are_rank_files({first(), folder_ / "plain.json"}));
}

// What a folder of traces holds besides them, and ranks that recorded nothing.
TEST_F(MergeRankFiles, LeavesOutFilesThatHoldNothing) {
    std::ofstream(folder_ / "config.json") << R"({"model": {"layers": 4}})";
    std::ofstream(folder_ / "empty.json");
    const fs::path bare = RankFile(2, 3).write(folder_ / "rank2.json");
    const std::vector<fs::path> all{folder_ / "config.json", folder_ / "empty.json", first(), second(), bare};
    const MergedTrace result = merge(all);
    EXPECT_EQ(result.processes.size(), 2U);
    EXPECT_EQ(result.tasks, 7);
    EXPECT_THAT(result.warnings,
                Contains(AllOf(HasSubstr("config.json"), HasSubstr("is JSON without a list"), HasSubstr("left out"))));
    EXPECT_THAT(result.warnings, Contains(AllOf(HasSubstr("empty.json"), HasSubstr("is empty; it is left out"))));
    EXPECT_THAT(result.warnings, Contains(AllOf(HasSubstr("rank2.json"), HasSubstr("it holds no task and no range"))));
    EXPECT_TRUE(are_rank_files({all.begin(), all.begin() + 4}));
    EXPECT_FALSE(are_rank_files({all.begin(), all.begin() + 3})) << "one rank";
    EXPECT_THAT(thrown<TraceFormatError>([&] {
                    merge({folder_ / "config.json", folder_ / "empty.json"});
                }),
                HasSubstr("none of 2 files holds anything to show"));
}

TEST_F(MergeRankFiles, LeavesOutFilesThatCannotBeRead) {
    write_text(folder_ / "text.json", "no JSON");
    write_text(folder_ / "faulty.json", R"({"traceEvents": [ {"ph": "X", fault)");
    write_text(folder_ / "other.sqlite", "SQLite format 3");
    const MergedTrace result =
        merge({first(), second(), folder_ / "text.json", folder_ / "faulty.json", folder_ / "other.sqlite"});
    EXPECT_EQ(result.tasks, 7);
    for (const char* name : {"text.json", "faulty.json", "other.sqlite"}) {
        EXPECT_THAT(result.warnings,
                    Contains(AllOf(HasSubstr(name), HasSubstr("cannot be read ("), HasSubstr("left out"))));
    }
    EXPECT_THROW(merge({folder_ / "text.json"}), TraceError) << "alone, it is refused";
}

// The order in which threads finish decides nothing.
TEST_F(MergeRankFiles, GivesTheSameTraceWhateverTheNumberOfThreads) {
    std::vector<fs::path> files;
    for (int rank = 0; rank < 9; ++rank) {
        RankFile file(rank, 12);
        for (int k = 0; k < 40 * (9 - rank); ++k) {  // the first files take longest
            file.range(fmt::format("Forward {}", k), 10 + 20 * k, 20 + 20 * k);
        }
        files.push_back(file.write(folder_ / fmt::format("rank{}.json", rank), kBase));
        files.push_back(folder_ / fmt::format("rank{}_damaged.json", rank));
        write_text(files.back(), fmt::format("no JSON {}", rank));
    }
    const auto merged_by = [&](int threads) {
        const fs::path out = folder_ / fmt::format("{}.sqlite", threads);
        const MergedTrace result = merge_rank_files(files, out, IfExists::replace, TaskRules(), {.threads = threads});
        return std::pair(result.warnings, read_text(out));
    };
    const auto [warnings, bytes] = merged_by(1);
    EXPECT_THAT(warnings, testing::SizeIs(testing::Gt(9)));
    for (const int threads : {2, 4, 7}) {
        const auto [others, again] = merged_by(threads);
        EXPECT_EQ(others, warnings);
        EXPECT_EQ(again, bytes) << threads << " threads";
    }
}

TEST_F(MergeRankFiles, ReportsTheFirstFileThatCannotBeUsed) {
    std::vector<fs::path> files{first(), second()};
    for (int k = 0; k < 8; ++k) {
        files.push_back(folder_ / fmt::format("profile{}.json", k));
        write_text(files.back(), R"({"format": "pipescope.profile", "version": 1})");
    }
    for (int round = 0; round < 20; ++round) {
        EXPECT_THAT(thrown<TraceFormatError>([&] {
                        merge_rank_files(files, folder_ / "out.sqlite", IfExists::replace, TaskRules(), {.threads = 4});
                    }),
                    HasSubstr("profile0.json' is a profile"));
    }
}

TEST_F(MergeRankFiles, TellsTheShareThatIsDoneAndStopsOnRequest) {
    std::vector<double> told;
    merge_rank_files({first(), second()}, folder_ / "out.sqlite", IfExists::replace, TaskRules(),
                     {.progress = [&](double done) { told.push_back(done); }});
    EXPECT_TRUE(std::ranges::is_sorted(told));
    EXPECT_GE(told.front(), 0);
    EXPECT_EQ(told.back(), 1);

    RankFile endless(0, 2);
    for (int k = 0; k < 200'000; ++k) {
        endless.range("Forward 0", k, k + 0.5);
    }
    const fs::path large = endless.write(folder_ / "rank0.json", kBase);
    const StopCheck check([] { return false; });
    EXPECT_THROW(merge({large, second()}), ComputationStopped);
}

TEST_F(MergeRankFiles, TakesTheRanksThatTheUserGives) {
    const auto merge_as = [&](const std::vector<int>& ranks) {
        return merge_rank_files({first(), second()}, folder_ / "out.sqlite", IfExists::replace, TaskRules(), {ranks});
    };
    const MergedTrace result = merge_as({1, 0});
    EXPECT_EQ(result.processes.at(0).pid, 4001);
    EXPECT_EQ(merged().measured.lanes.at(1).name, "rank 1");
    EXPECT_THAT(thrown<UsageError>([&] { merge_as({0}); }),
                AllOf(HasSubstr("--ranks names 1 rank"), HasSubstr("rank1.json")));
    EXPECT_THAT(thrown<TraceFormatError>([&] { merge_as({1, 1}); }), HasSubstr("are both of rank 1"));
}

TEST_F(MergeRankFiles, LeavesOutJsonThatIsNoTrace) {
    const std::vector<std::string> texts{"[]", R"({"traceEvents": []})", R"([{"a": 1}])", "3", R"("x")", "null"};
    std::vector<fs::path> all{first(), second()};
    for (std::size_t k = 0; k < texts.size(); ++k) {
        all.push_back(folder_ / fmt::format("other{}.json", k));
        write_text(all.back(), texts[k]);
    }
    EXPECT_TRUE(are_rank_files(all));
    const MergedTrace result = merge(all);
    EXPECT_EQ(result.tasks, 7);
    for (std::size_t k = 0; k < texts.size(); ++k) {
        EXPECT_THAT(result.warnings,
                    Contains(AllOf(HasSubstr(fmt::format("other{}.json", k)), HasSubstr("it is left out"))))
            << texts[k];
    }
    write_text(folder_ / "text.json", "no JSON");
    EXPECT_FALSE(are_rank_files({first(), second(), folder_ / "text.json"}));
}

// The profiler writes when it recorded at the end of the file.
TEST_F(MergeRankFiles, PlacesAFileThatWasCutOffByTheOthers) {
    merge({first(), second()});
    const OpenedTrace whole = merged();
    std::string text = read_text(second());
    const std::string base = fmt::format("\"baseTimeNanoseconds\": {}, ", kBase);
    text.erase(text.find(base), base.size());
    write_text(folder_ / "rank1.json", text.substr(0, text.find("\n], \"traceName\"")));
    const MergedTrace result = merge({first(), folder_ / "rank1.json"});
    EXPECT_THAT(result.warnings, Contains(AllOf(HasSubstr("rank1.json"), HasSubstr("of the other ranks"))));
    EXPECT_THAT(result.warnings, Contains(AllOf(HasSubstr("the file was cut off"), HasSubstr("(rank 1)"))));
    EXPECT_EQ(merged().measured.slices, whole.measured.slices);
}

TEST_F(MergeRankFiles, NeedsNoLookAtASingleFile) {
    write_text(folder_ / "damaged.json", "{\"a\": ");
    EXPECT_FALSE(are_rank_files({folder_ / "damaged.json"}));
}

TEST_F(MergeRankFiles, SaysWhatTheImporterLeftOut) {
    std::ofstream(folder_ / "t.json") << R"([{"ph": "X", "ts": 1, "dur": 1}, {"ph": "X", "ts": 1, "dur": []}])";
    EXPECT_THAT(merge({folder_ / "t.json"}).warnings, ElementsAre(HasSubstr("1 event was omitted")));
}

TEST_F(MergeRankFiles, KeepsAnnotationsOfStreamsApartFromWork) {
    const fs::path file = RankFile(0, 1)
                              .range("PP:0F0", 0, 9)
                              .launched(1, 10, 20)
                              .work_without_call(40, 50)
                              .on_device("PP:0F0", 10, 20)
                              .write(folder_ / "t.json");
    const OpenedTrace before = open_trace(file);
    merge({file});
    for (const OpenedTrace& trace : {before, merged()}) {
        const auto found = std::ranges::find(trace.tracks, RangeTrack::Kind::annotations, &RangeTrack::kind);
        ASSERT_NE(found, trace.tracks.end());
        EXPECT_EQ(found->name, "stream 7, annotations");
        EXPECT_EQ(trace.names.at(found->ranges.at(0).name), "PP:0F0");
        const auto stream = std::ranges::find(trace.tracks, RangeTrack::Kind::stream, &RangeTrack::kind);
        ASSERT_NE(stream, trace.tracks.end());
        EXPECT_EQ(stream->ranges.size(), 2U);
    }
}

TEST_F(MergeRankFiles, KeepsWorkOfDevicesAndCounters) {
    std::string text = RankFile(0, 1).range("Forward 0", 1, 9).text();
    const std::string devices = R"("deviceProperties": [)";
    text.insert(text.find(devices) + devices.size(), R"({"id": 0, "name": "NVIDIA H200"})");
    text.insert(text.rfind("\n]"), R"(,
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 4000, "tid": 4000, "ts": 2, "dur": 1,
         "args": {"correlation": 5}},
        {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4, "dur": 2, "args": {"correlation": 5}},
        {"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 0, "args": {"labels": "GPU 0"}},
        {"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7"}},
        {"ph": "C", "name": "queue", "pid": 1, "ts": 3, "args": {"length": 3}})");
    std::ofstream(folder_ / "t.json") << text;
    merge({folder_ / "t.json"});
    const OpenedTrace trace = merged();
    const auto track = [&](RangeTrack::Kind kind) { return std::ranges::find(trace.tracks, kind, &RangeTrack::kind); };
    ASSERT_NE(track(RangeTrack::Kind::stream), trace.tracks.end());
    EXPECT_EQ(track(RangeTrack::Kind::stream)->group, "GPU 0 (NVIDIA H200)");
    EXPECT_THAT(trace.measured.lanes, ElementsAre(LaneInfo{"rank 0", "NVIDIA H200"}));
    EXPECT_EQ(track(RangeTrack::Kind::stream)->name, "stream 7");
    ASSERT_NE(track(RangeTrack::Kind::calls), trace.tracks.end());
    EXPECT_EQ(track(RangeTrack::Kind::calls)->ranges.at(0).correlation,
              track(RangeTrack::Kind::stream)->ranges.at(0).correlation);
    EXPECT_TRUE(std::ranges::count(trace.names, "queue: length"));
}
/// The first range with the name, in tracks of the group.
const TraceRange* range_of(const OpenedTrace& trace, const std::string& group, const std::string& name) {
    for (const RangeTrack& track : trace.tracks) {
        const auto found =
            std::ranges::find(track.ranges, name, [&](const TraceRange& range) { return trace.names.at(range.name); });
        if (track.group.find(group) != std::string::npos && found != track.ranges.end()) {
            return &*found;
        }
    }
    return nullptr;
}

TEST_F(MergeRankFiles, NumbersManyDevicesInLinearTime) {
    constexpr int kDevices = 20'000;
    std::string text = "[";
    for (int k = 0; k < kDevices; ++k) {
        text += fmt::format(R"j({}{{"ph":"X","cat":"kernel","name":"k","pid":"GPU {} (x)","tid":"stream 7")j",
                            k == 0 ? "" : ",", k);
        text += fmt::format(R"(,"ts":{},"dur":1}})", k);
    }
    std::ofstream(folder_ / "t.json") << text << "]";
    const std::clock_t begin = std::clock();
    merge({folder_ / "t.json"});
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC) << "it takes two seconds, or far longer if it is quadratic";
}

TEST_F(MergeRankFiles, SaysThatOwnTracesNeedNoImport) {
    write_sample_trace(folder_ / "own.sqlite");
    {
        std::ofstream out(folder_ / "own.json");
        export_chrome(open_trace(folder_ / "own.sqlite"), out);
    }
    for (const char* name : {"own.sqlite", "own.json"}) {
        EXPECT_THAT(thrown<TraceFormatError>([&] { merge({folder_ / name}); }),
                    AllOf(HasSubstr(name), HasSubstr("'pipescope view' and export take it as it is"),
                          Not(HasSubstr("the others"))));
    }
}

// Each range leads back to its event, and so to all its arguments; arrows lead between the ranges of one file.
TEST_F(MergeRankFiles, KeepsEventsAndArrows) {
    for (const int rank : {0, 1}) {
        std::string text = RankFile(rank, 2).range("Forward 0", 1, 9).range("loss", 20 + rank, 30).text();
        text.insert(text.rfind("\n]"), fmt::format(R"(,
            {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": {0}, "tid": {0}, "ts": 2, "dur": 1,
             "args": {{"correlation": 5}}}},
            {{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 4, "dur": 2,
             "args": {{"correlation": 5, "grid": [1, 2, {1}]}}}},
            {{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 7, "dur": 1,
             "bind_id": 9, "flow_in": true, "args": {{"correlation": 6}}}},
            {{"ph": "X", "cat": "cpu_op", "name": "copy_", "pid": {0}, "tid": {0}, "ts": 5, "dur": 1, "bind_id": 9,
             "flow_out": true}})",
                                                   4000 + rank, rank));
        std::ofstream(folder_ / fmt::format("r{}.json", rank)) << text;
    }
    merge({folder_ / "r0.json", folder_ / "r1.json"});
    const OpenedTrace trace = merged();
    ASSERT_EQ(trace.event_files.size(), 2U);
    std::size_t events = 0;
    for (const RangeTrack& track : trace.tracks) {
        for (const TraceRange& range : track.ranges) {
            ASSERT_GT(range.event, 0U) << trace.names.at(range.name);
            const auto event = event_of_chrome(trace.event_files.at(range.file), range.event - 1);
            ASSERT_TRUE(event.is_object());
            const bool is_copy = track.kind == RangeTrack::Kind::stream && event.at("name") == "Memcpy HtoD";
            EXPECT_TRUE(is_copy || event.at("name") == trace.names.at(range.name)) << event.dump();
            EXPECT_NE(trace.event_files.at(range.file)
                          .find(fmt::format("r{}.json", track.group.find("rank 1") != std::string::npos ? 1 : 0)),
                      std::string::npos)
                << track.group;
            ++events;
        }
    }
    EXPECT_EQ(events, 12U);
    const TraceRange* gemm = range_of(trace, "rank 1", "gemm");
    ASSERT_NE(gemm, nullptr);
    EXPECT_EQ(event_of_chrome(trace.event_files.at(gemm->file), gemm->event - 1).at("args").at("grid").at(2), 1);
    ASSERT_EQ(trace.arrows.size(), 2U) << "one in each file";
    for (const RangeArrow& arrow : trace.arrows) {
        const TraceRange& from = trace.tracks.at(arrow.from.track).ranges.at(arrow.from.range);
        const TraceRange& to = trace.tracks.at(arrow.to.track).ranges.at(arrow.to.range);
        EXPECT_EQ(trace.names.at(from.name), "copy_");
        EXPECT_EQ(from.file, to.file);
        EXPECT_EQ(trace.tracks.at(arrow.to.track).kind, RangeTrack::Kind::stream);
    }
}
}  // namespace
}  // namespace pipescope
