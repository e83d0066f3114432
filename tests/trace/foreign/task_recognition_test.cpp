#include "trace/foreign/task_recognition.h"

#include "tests/temporary_folder.h"
#include "tests/trace/rank_files.h"
#include "trace/open_trace.h"
#include "trace/store/process_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <iterator>
#include <set>
#include <utility>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

/// "F(1, 0) 12..20" for micro-batch 1 on partition 0, times in us since the first event.
std::vector<std::string> texts_of(const OpenedTrace& trace) {
    std::vector<std::string> texts;
    for (const Slice& slice : trace.measured.slices) {
        texts.push_back(fmt::format("{} {}..{} on {}", to_string(slice.key), slice.start.count() / 1000,
                                    slice.end.count() / 1000, trace.measured.lanes.at(slice.lane.index()).name));
    }
    return texts;
}

class TaskRecognition : public testing::Test {
protected:
    OpenedTrace opened(const RankFile& file) { return open_trace(file.write(folder_ / "t.json")); }
    OpenedTrace opened(const std::string& text, const std::string& rules = "") {
        std::ofstream(folder_ / "t.json") << text;
        OpenOptions options;
        if (!rules.empty()) {
            options.rules = std::make_shared<const TaskRules>(TaskRules::parse(
                R"({"format": "pipescope.task-rules", "version": 1, "rules": [)" + rules + "]}", "r.json"));
        }
        return open_trace(folder_ / "t.json", options);
    }

    const TemporaryFolder folder_;
};

TEST_F(TaskRecognition, FindsTheTasksOfARankInItsSteps) {
    const OpenedTrace trace = opened(RankFile(1, 2)
                                         .range("ProfilerStep#2", 0, 100)
                                         .range("PP:1RECV_F0", 5, 8)
                                         .message("gloo:recv", 6, 20)
                                         .range("PP:1RECV_F1", 8, 9)
                                         .message("gloo:recv", 8.5, 25)
                                         .range("PP:1F0", 9, 30)  // waits until 20
                                         .range("PP:3I0", 30, 40)
                                         .range("PP:3W0", 40, 45)
                                         .range("Optimizer.step#SGD.step", 60, 70)
                                         .range("ProfilerStep#3", 100, 200)
                                         .range("PP:1F0", 108, 130)
                                         .range("PP:1F0", 210, 230));
    EXPECT_THAT(
        texts_of(trace),
        ElementsAre("step 2 forward (0, 1) 20..30 on rank 1", "step 2 backward (0, 3) 30..40 on rank 1",
                    "step 2 backward_weight (0, 3) 40..45 on rank 1",
                    "step 2 optimizer of partition 1 60..70 on rank 1", "step 3 forward (0, 1) 108..130 on rank 1"));
    ASSERT_EQ(trace.steps.size(), 2u);
    EXPECT_EQ(trace.steps[0].step, 2);
    EXPECT_EQ(trace.steps[0].wall_end, Nanoseconds{100'000});
    EXPECT_EQ(recording_process(trace.run)->rank, 1);
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("1 range of the pipeline outside of every step"));
}

TEST_F(TaskRecognition, TouchingTasksDoNotOverlapByRounding) {
    const auto ends = [&](double end) {
        std::vector<std::int64_t> found;
        for (const Slice& slice :
             opened(RankFile(0, 2).range("PP:0F0", 10, end).range("PP:0F1", 20, 30)).measured.slices) {
            found.push_back(slice.end.count() - slice.start.count());
        }
        return found;
    };
    EXPECT_THAT(ends(20.001), ElementsAre(10'000, 10'000));
    EXPECT_THAT(ends(20.002), ElementsAre(10'002, 10'000)) << "an overlap that rounding cannot make";
}

TEST_F(TaskRecognition, TakesTheStageOfGPipeFromTheRankInItsPipeline) {
    // Ranks 1 and 3 are a pipeline, as a device mesh of two replicas has it.
    const OpenedTrace trace = opened(RankFile(3, 4, "mesh_pp", "1, 3")
                                         .range("Forward 0", 10, 50)
                                         .message("gloo:recv", 12, 30)
                                         .range("Forward 0", 110, 150)
                                         .range("Backward 0", 150, 160));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 1) 20..40 on rank 3", "step 1 forward (0, 1) 100..140 on rank 3",
                            "step 0 backward (0, 1) 140..150 on rank 3"));
}

TEST_F(TaskRecognition, EndsATaskWhereItsThreadOnlySends) {
    // As ScheduleGPipe: it waits for the input, computes, and the call that sends the output blocks.
    const OpenedTrace trace = opened(RankFile(1, 3)
                                         .range("Forward 0", 0, 100)
                                         .range("c10d::recv_", 1, 2)
                                         .message("gloo:recv", 1.5, 10)
                                         .range("aten::linear", 12, 30)
                                         .range("c10d::send", 40, 60)
                                         .range("aten::contiguous", 45, 46)  // part of sending
                                         .message("gloo:send", 59, 200)      // which goes on after the task
                                         .range("c10d::send", 61, 95)        // a second tensor
                                         .message("gloo:send", 94, 210));
    EXPECT_THAT(texts_of(trace), ElementsAre("step 0 forward (0, 1) 10..40 on rank 1"));
}

TEST_F(TaskRecognition, KeepsAMessageAmidTheComputationInItsTask) {
    // As attention that passes keys around a ring of ranks.
    const OpenedTrace trace = opened(RankFile(0, 2)
                                         .range("Forward 0", 0, 100)
                                         .range("c10d::send", 10, 20)
                                         .message("gloo:send", 19, 99)
                                         .range("aten::mm", 30, 40)
                                         .range("Backward 0", 100, 200)
                                         .message("nccl:send 0->1", 150, 260)
                                         .range("aten::mm", 160, 170));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 0..100 on rank 0", "step 0 backward (0, 0) 100..200 on rank 0"));
}

TEST_F(TaskRecognition, SaysThatStepsShareANumber) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("ProfilerStep#1", 0, 100)
                                         .range("PP:0F0", 10, 20)
                                         .range("ProfilerStep#1", 200, 300)
                                         .range("PP:0F0", 210, 220)
                                         .range("PP:0B0", 220, 230));
    EXPECT_THAT(texts_of(trace), ElementsAre("step 1 forward (0, 0) 10..20 on rank 0"));
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, AllOf(HasSubstr("1 step has a number"), HasSubstr("2 ranges")));
}

TEST_F(TaskRecognition, PrefersTheInnerRange) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("PP:0F0", 10, 50)
                                         .range("PP:0F0", 20, 40)  // wrapped around the computation by the user
                                         .range("PP:0B0", 60, 62));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 10..30 on rank 0", "step 0 backward (0, 0) 50..52 on rank 0"));
}

// Two steps of a forward and a backward, which the host launches long before the device runs them.
TEST_F(TaskRecognition, TakesTheKernelsOfRangesThatOnlyLaunch) {
    RankFile file(0, 1);
    for (const int step : {0, 1}) {
        const double t = 100 * step;
        file.range(fmt::format("ProfilerStep#{}", step), t, t + 90);
        file.range("PP:0F0", t + 1, t + 5).launched(t + 2, t + 10, t + 20).launched(t + 3, t + 22, t + 30);
        file.range("PP:0B0", t + 6, t + 9).launched(t + 7, t + 31, t + 70).launched(t + 8, t + 5, t + 6, "Memcpy", 9);
    }
    const OpenedTrace trace = opened(file);
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 10..30 on rank 0", "step 0 backward (0, 0) 31..70 on rank 0",
                            "step 1 forward (0, 0) 110..130 on rank 0", "step 1 backward (0, 0) 131..170 on rank 0"));
    EXPECT_THAT(trace.diagnostics, IsEmpty());
    EXPECT_FALSE(trace.run.contains(std::string(kLaunchesKey)));
}

// The host waits for each kernel. If kernels are most of a task, the device does its work, otherwise the host.
TEST_F(TaskRecognition, TakesTheHostsTimesIfKernelsAreTheSmallerPartOfRanges) {
    const auto with_backward = [&](double end) {
        return texts_of(opened(
            RankFile(0, 1).range("PP:0F0", 0, 10).launched(1, 2, 9).range("PP:0B0", 10, 30).launched(11, 12, end)));
    };
    EXPECT_THAT(with_backward(29),
                ElementsAre("step 0 forward (0, 0) 2..9 on rank 0", "step 0 backward (0, 0) 12..29 on rank 0"));
    EXPECT_THAT(with_backward(14),
                ElementsAre("step 0 forward (0, 0) 0..10 on rank 0", "step 0 backward (0, 0) 10..30 on rank 0"));
}

// Four steps of three micro-batches. The second forward has a second kernel where `has_second` says so.
RankFile with_fewer_kernels(const std::function<bool(int step)>& has_second) {
    RankFile file(0, 1);
    for (const int step : {0, 1, 2, 3}) {
        const double t = 200 * step;
        file.range(fmt::format("ProfilerStep#{}", step), t, t + 190);
        for (const int i : {0, 1, 2}) {
            const double at = t + 60 * i;
            file.range(fmt::format("PP:0F{}", i), at + 1, at + 4).launched(at + 2, at + 10, at + 20);
            if (i != 1 || has_second(step)) {
                file.launched(at + 3, at + 20, at + 25);
            }
            file.range(fmt::format("PP:0B{}", i), at + 5, at + 8).launched(at + 6, at + 30, at + 50);
        }
    }
    return file;
}

// The profiler may lose a kernel and its call.
TEST_F(TaskRecognition, LeavesOutStepsInWhichATaskHasFewerKernelsThanUsual) {
    const auto steps_of = [](const OpenedTrace& trace) {
        std::set<std::int32_t> steps;
        std::ranges::transform(trace.measured.slices, std::inserter(steps, steps.end()),
                               [](const Slice& slice) { return slice.key.step; });
        return steps;
    };
    const OpenedTrace once = opened(with_fewer_kernels([](int step) { return step != 2; }));
    EXPECT_THAT(steps_of(once), ElementsAre(0, 1, 3));
    EXPECT_THAT(once.diagnostics.at(0).text,
                StartsWith("rank 0: 1 task has fewer kernels than the same task of most steps, such as step 2 forward "
                           "(1, 0)"));
    EXPECT_THAT(once.diagnostics.at(1).text, StartsWith("step 2 is left out"));
    const OpenedTrace mostly = opened(with_fewer_kernels([](int step) { return step == 2; }));
    EXPECT_THAT(steps_of(mostly), ElementsAre(0, 1, 2, 3)) << "the task usually has one";
    EXPECT_THAT(mostly.diagnostics, IsEmpty());
}

// Zero bubble of Primus and of sail-sg: the numbers are those of a micro-batch and of a rank's partition.
TEST_F(TaskRecognition, CountsThePartitionsOfARankBesideThoseOfOthers) {
    const auto of_rank = [](std::int32_t position, std::int64_t first, std::int64_t second) {
        RankTasks tasks;
        tasks.rank = position;
        tasks.chunks = 2;
        for (const auto& [chunk, start] : {std::pair(0, first), {1, second}}) {
            tasks.tasks.push_back({{0, TaskKind::forward, 2 * position + chunk, 0, -1},
                                   LaneId{0},
                                   Nanoseconds{start},
                                   Nanoseconds{start + 10},
                                   0});
        }
        return tasks;
    };
    const auto partitions = [](std::vector<RankTasks> ranks) {
        const ChunkPlaces places = chunk_places(ranks);
        std::vector<std::int32_t> found;
        for (RankTasks& rank : ranks) {
            place_chunks(rank, places);
            std::ranges::transform(rank.tasks, std::back_inserter(found),
                                   [](const Slice& slice) { return slice.key.partition; });
        }
        return found;
    };
    EXPECT_THAT(partitions({of_rank(0, 0, 20), of_rank(1, 10, 30)}), ElementsAre(0, 2, 1, 3));
    EXPECT_THAT(partitions({of_rank(0, 0, 30), of_rank(1, 10, 20)}), ElementsAre(0, 3, 1, 2)) << "a V";
    EXPECT_THAT(partitions({of_rank(0, 0, 20), of_rank(600, 10, 30)}), IsEmpty()) << "more than a trace can hold";
    EXPECT_THAT(texts_of(opened(RankFile(0, 1)
                                    .range("F0.0.0", 0, 10)
                                    .range("F0.1.0", 10, 20)
                                    .range("B0.1.0", 20, 30)
                                    .range("B0.0.0", 30, 40))),
                ElementsAre("step 0 forward (0, 0) 0..10 on rank 0", "step 0 forward (0, 1) 10..20 on rank 0",
                            "step 0 backward (0, 1) 20..30 on rank 0", "step 0 backward (0, 0) 30..40 on rank 0"));
}

// A batch sends and receives by one kernel.
TEST_F(TaskRecognition, GivesAKernelToAllMessagesOfItsBatch) {
    OpenedTrace trace = opened(RankFile(1, 3)
                                   .range("PP:1F0", 0, 3)
                                   .launched(1, 10, 30)
                                   .range("PP:1SEND_F0", 4, 8)
                                   .range("PP:1RECV_B0", 4, 8)
                                   .launched(6, 30, 70, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 20)
                                   .range("PP:1B0", 9, 11)
                                   .launched(10, 70, 90));
    trace.rank = RecordingRank{1, 3, 1, {0, 1, 2}};
    const RankTasks rank = recognize_tasks(trace, TaskRules()).ranks.at(0);
    const TaskKey output{0, TaskKind::copy_forward, 1, 0, -1};
    const TaskKey gradient{0, TaskKind::copy_backward, 1, 0, -1};
    ASSERT_TRUE(rank.sent.contains(output));
    ASSERT_TRUE(rank.arrived.contains(gradient));
    EXPECT_EQ(rank.sent.at(output).began, rank.arrived.at(gradient).began);
    EXPECT_EQ(rank.sent.at(output).ended, rank.arrived.at(gradient).ended);
    EXPECT_TRUE(rank.sent.at(output).began);
}

// Kernels of messages wait for the other rank.
TEST_F(TaskRecognition, LeavesTheKernelsOfMessagesOutOfATask) {
    const OpenedTrace trace = opened(RankFile(1, 2)
                                         .range("PP:1F0", 0, 3)
                                         .launched(1, 10, 50, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 20)
                                         .launched(2, 50, 60)
                                         .range("PP:1B0", 4, 6)
                                         .launched(5, 60, 80));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 1) 50..60 on rank 1", "step 0 backward (0, 1) 60..80 on rank 1"));
}

TEST_F(TaskRecognition, TakesTheProfilersRangesOnTheDeviceIfCallsAreUnknown) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("PP:0F0", 0, 2)
                                         .on_device("PP:0F0", 10, 30)
                                         .range("PP:0B0", 3, 4)
                                         .on_device("PP:0B0", 30, 70)
                                         .on_device("PP:0B0", 30, 35, 9));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 10..30 on rank 0", "step 0 backward (0, 0) 30..70 on rank 0"));
}

// The profiler loses device work at the start of a session. A step is never timed by both clocks.
TEST_F(TaskRecognition, LeavesOutStepsWhoseKernelsAreLost) {
    RankFile file(0, 1);
    for (const int step : {3, 4, 5}) {
        const double t = 100 * step;
        file.range(fmt::format("ProfilerStep#{}", step), t, t + 90);
        file.range("PP:0F0", t + 1, t + 3).range("PP:0B0", t + 4, t + 6);
        if (step > 3) {
            file.launched(t + 2, t + 10, t + 30).on_device("PP:0F0", t + 10, t + 30);
        }
        file.launched(t + 5, t + 30, t + 70).on_device("PP:0B0", t + 30, t + 70);
    }
    const OpenedTrace trace = opened(file);
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 4 forward (0, 0) 110..130 on rank 0", "step 4 backward (0, 0) 130..170 on rank 0",
                            "step 5 forward (0, 0) 210..230 on rank 0", "step 5 backward (0, 0) 230..270 on rank 0"));
    ASSERT_EQ(trace.diagnostics.size(), 1U);
    EXPECT_THAT(trace.diagnostics[0].text, StartsWith("step 3 is left out: on rank 0 the ranges only launch work on a "
                                                      "device, and the kernels of some tasks are missing"));
}

// A call without its kernel shows that the profiler lost the kernel, although the task has others.
TEST_F(TaskRecognition, LeavesOutStepsThatLackSomeKernels) {
    RankFile file(0, 1);
    for (const int step : {0, 1}) {
        const double t = 100 * step;
        file.range(fmt::format("ProfilerStep#{}", step), t, t + 90);
        file.range("PP:0F0", t + 1, t + 3).launched(t + 2, t + 10, t + 30);
        file.range("PP:0B0", t + 4, t + 6).launched(t + 5, t + 30, t + 70);
    }
    file.call(5.5);
    const OpenedTrace trace = opened(file);
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 1 forward (0, 0) 110..130 on rank 0", "step 1 backward (0, 0) 130..170 on rank 0"));
    EXPECT_THAT(trace.on_device, SizeIs(2));
}

// Copies count in a task without kernels, so a lost one leaves the task's time unknown. Beside kernels, they do not.
TEST_F(TaskRecognition, LeavesOutStepsWhoseTasksOfCopiesLackOne) {
    const auto texts = [&](bool loses, bool has_kernel) {
        RankFile file(0, 1);
        for (const int step : {0, 1}) {
            const double t = 100 * step;
            file.range(fmt::format("ProfilerStep#{}", step), t, t + 90);
            file.range("PP:0F0", t + 1, t + 3).launched(t + 2, t + 10, t + 30, "Memcpy DtoD");
            if (has_kernel) {
                file.launched(t + 2.1, t + 30, t + 35);
            }
            file.range("PP:0B0", t + 4, t + 6).launched(t + 5, t + 35, t + 70);
        }
        if (loses) {
            file.call(2.5, 9'999, "cudaMemcpyAsync");
        }
        return texts_of(opened(file));
    };
    EXPECT_THAT(texts(false, false), Contains("step 0 forward (0, 0) 10..30 on rank 0"));
    EXPECT_THAT(texts(true, false), AllOf(SizeIs(2), Not(Contains(HasSubstr("step 0")))));
    EXPECT_THAT(texts(true, true), Contains("step 0 forward (0, 0) 30..35 on rank 0"));
}

/// Two steps of a forward of two kernels and a backward of one. `add_second` adds the forward's second kernel.
RankFile with_second_kernels(const std::function<void(RankFile&, double)>& add_second) {
    RankFile file(0, 1);
    for (const int step : {0, 1}) {
        const double t = 100 * step;
        file.range(fmt::format("ProfilerStep#{}", step), t, t + 90);
        file.range("PP:0F0", t + 1, t + 3).launched(t + 1.5, t + 10, t + 20);
        add_second(file, t);
        file.range("PP:0B0", t + 4, t + 6).launched(t + 5, t + 30.5, t + 70);
    }
    return file;
}

// A profiler without the kernels of CUDA graphs loses the same kernels of each task.
TEST_F(TaskRecognition, KnowsNoTimesIfEachTaskLacksAKernel) {
    const OpenedTrace trace =
        opened(with_second_kernels([](RankFile& file, double t) { file.call(t + 2.5, 9000 + static_cast<int>(t)); }));
    EXPECT_EQ(trace.run.at(std::string(kLaunchesKey)), R"({"ranks": [0]})");
    ASSERT_EQ(trace.diagnostics.size(), 1U);
    EXPECT_THAT(
        trace.diagnostics[0].text,
        StartsWith("rank 0: 2 of the 6 calls that launch the tasks' kernels (33 %) have no kernel in the file"));
}

TEST_F(TaskRecognition, KnowsNoTimesIfEveryTaskLacksOneOfItsKernels) {
    RankFile file =
        with_second_kernels([](RankFile& made, double t) { made.call(t + 2.5, 9000 + static_cast<int>(t)); });
    file.call(5.5, 9200);
    file.call(105.5, 9300);
    EXPECT_EQ(opened(file).run.at(std::string(kLaunchesKey)), R"({"ranks": [0]})")
        << "the known kernels run after the ranges, which only launch them";
}

TEST_F(TaskRecognition, TakesAnAnnotationThatIsLongerThanTheKnownKernels) {
    const auto texts = [&](double end) {
        return texts_of(opened(with_second_kernels([end](RankFile& file, double t) {
            file.call(t + 2.5, 9000 + static_cast<int>(t)).on_device("PP:0F0", t + 10, t + end);
        })));
    };
    EXPECT_THAT(texts(28), Contains("step 0 forward (0, 0) 10..28 on rank 0"));
    EXPECT_THAT(texts(20), Not(Contains(HasSubstr("10..20")))) << "it lacks the kernel too";
}

// The profiler rounds a range's start and duration, so the range may be 1 ns shorter than its kernels.
TEST_F(TaskRecognition, WorksNoLongerThanATaskLasts) {
    RankFile file(0, 1);
    for (const int step : {0, 1}) {
        const double t = 100 * step;
        file.range(fmt::format("ProfilerStep#{}", step), t, t + 90);
        file.range("PP:0F0", t + 1, t + 3).launched(t + 2, t + 10, t + 30).on_device("PP:0F0", t + 10, t + 29.999);
        file.range("PP:0B0", t + 4, t + 6).launched(t + 5, t + 31, t + 70).on_device("PP:0B0", t + 31, t + 70);
    }
    file.call(5.6);  // without its kernel, so that the ranges show more whole steps
    const OpenedTrace trace = opened(file);
    ASSERT_THAT(texts_of(trace), Contains("step 1 forward (0, 0) 110..129 on rank 0"));
    for (const TaskOnDevice& task : trace.on_device) {
        EXPECT_LE(task.busy, task.end - task.start);
        EXPECT_GE(task.launch_gap, Nanoseconds{0});
    }
}

TEST_F(TaskRecognition, TakesACallWithinALaunchForTheSameLaunch) {
    const OpenedTrace trace = opened(with_second_kernels([](RankFile& file, double t) {
        file.launched(t + 2, t + 20, t + 30).call(t + 2.2, 9000 + static_cast<int>(t));
    }));
    EXPECT_THAT(texts_of(trace), Contains("step 1 forward (0, 0) 110..130 on rank 0"));
    EXPECT_THAT(trace.diagnostics, IsEmpty());
}

// A record that was never completed has no end, or no times at all.
TEST_F(TaskRecognition, TakesKernelsWithImpossibleTimesForLost) {
    const auto found = [&](double start, double end) {
        return opened(with_second_kernels(
            [&](RankFile& file, double t) { file.launched(t + 2, t == 0 ? start : t + 20, t == 0 ? end : t + 30); }));
    };
    for (const auto& [start, end] : {std::pair(0.0, 0.0), {20.0, 20.0}, {-15.0, -5.0}}) {
        const OpenedTrace trace = found(start, end);
        ASSERT_EQ(trace.measured.slices.size(), 2U) << start;
        EXPECT_EQ(trace.measured.slices[0].key.step, 1);
        EXPECT_EQ(trace.measured.slices[0].duration(), Nanoseconds{20'000});
        EXPECT_THAT(trace.diagnostics.at(0).text, StartsWith("rank 0: 1 kernel has impossible times"));
    }
}

TEST_F(TaskRecognition, LeavesOutTheRangesOfTasksOnStreamsOfMessages) {
    const OpenedTrace trace =
        opened(RankFile(0, 1)
                   .range("PP:0F0", 0, 2)
                   .on_device("PP:0F0", 10, 30)
                   .work_without_call(10, 30)
                   .on_device("PP:0F0", 0, 60, 20)
                   .work_without_call(0, 60, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 20)
                   .range("PP:0B0", 3, 4)
                   .on_device("PP:0B0", 61, 70));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 10..30 on rank 0", "step 0 backward (0, 0) 61..70 on rank 0"));
}

// Kernels that wait for other ranks explain no other work.
TEST_F(TaskRecognition, NotesUnknownWorkUnderAMessage) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("PP:0F0", 0, 3)
                                         .launched(1, 10, 20)
                                         .launched(2, 20, 60, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage)", 20)
                                         .work_without_call(30, 40, "stray", 9)
                                         .range("PP:0B0", 4, 5)
                                         .launched(4, 60, 80));
    EXPECT_EQ(trace.run.at(std::string(kDeviceTimeKey)),
              R"({"lanes":[{"lane":0,"busy_ns":40000,"unattributed_ns":10000}]})");
}

// The device waits for its host before the second kernel, and for something else before the third.
TEST_F(TaskRecognition, TellsTheCausesOfGapsWithinATask) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("PP:0F0", 0, 60)
                                         .launched(1, 5, 10)
                                         .launched(35, 40, 50)
                                         .launched(36, 90, 100)
                                         .range("PP:0B0", 61, 62)
                                         .launched(61, 100, 120));
    ASSERT_EQ(trace.on_device.size(), 2U);
    EXPECT_EQ(trace.on_device[0].busy, Nanoseconds{25'000});
    EXPECT_EQ(trace.on_device[0].launch_gap, Nanoseconds{30'000});
    EXPECT_EQ(trace.on_device[0].paced, Nanoseconds{94'000});
}

TEST_F(TaskRecognition, KnowsNoTimesOfHostsThatLaunchOnGpus) {
    const std::string text = RankFile(0, 1).range("PP:0F0", 0, 2).range("PP:0B0", 3, 4).text();
    const std::string gloo = R"("backend": "gloo")";
    EXPECT_FALSE(opened(text).run.contains(std::string(kLaunchesKey)));
    EXPECT_TRUE(opened(std::string(text).replace(text.find(gloo), gloo.size(), R"("backend": "nccl")"))
                    .run.contains(std::string(kLaunchesKey)));
}

RankTasks with_forwards(int rank, std::int32_t partition) {
    RankTasks tasks;
    tasks.rank = rank;
    tasks.tasks.push_back({{0, TaskKind::forward, partition, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{9}, 0});
    return tasks;
}

TEST_F(TaskRecognition, ShowsOneReplicaByGroupsOrElseByTheOrderOfRanks) {
    const std::vector<RankTasks> ranks{with_forwards(1, 0), with_forwards(2, 1), with_forwards(3, 1)};
    const auto lanes = [&](const std::vector<RecordingRank>& given) {
        OpenedTrace trace;
        set_timeline(ranks, given, trace);
        std::vector<std::string> names;
        for (const LaneInfo& lane : trace.measured.lanes) {
            names.push_back(lane.name);
        }
        return names;
    };
    EXPECT_THAT(lanes({}), ElementsAre("rank 1", "rank 2"));
    EXPECT_THAT(lanes({{1, 4, 0, {1, 3}}, {2, 4, 1, {0, 2}}, {3, 4, 1, {1, 3}}}), ElementsAre("rank 1", "rank 3"));
}

// NCCL's kernels wait for each other: the message moves while both run.
TEST_F(TaskRecognition, StartsACopyWhenBothRanksRunItsKernel) {
    RankTasks sender;
    sender.tasks.push_back({{0, TaskKind::forward, 0, 0, -1}, LaneId{0}, Nanoseconds{0}, Nanoseconds{10}, 0});
    RankTasks receiver;
    receiver.rank = 1;
    receiver.tasks.push_back({{0, TaskKind::forward, 1, 0, -1}, LaneId{0}, Nanoseconds{60}, Nanoseconds{80}, 0});
    const TaskKey copy{0, TaskKind::copy_forward, 0, 0, -1};
    sender.sent[copy] = {Nanoseconds{10}, 0, 0, Nanoseconds{10}, Nanoseconds{4}};
    receiver.arrived[copy] = {Nanoseconds{60}, 0, 0, Nanoseconds{45}, Nanoseconds{44}};
    OpenedTrace trace;
    set_timeline({sender, receiver}, {}, trace);
    ASSERT_EQ(trace.measured.slices.size(), 3U);
    EXPECT_EQ(trace.measured.slices[1].key, copy);
    EXPECT_EQ(trace.measured.slices[1].start, Nanoseconds{45});
    EXPECT_EQ(trace.measured.slices[1].end, Nanoseconds{60});
    ASSERT_EQ(trace.on_device.size(), 1U);
    EXPECT_EQ(trace.on_device[0].launch, Nanoseconds{44});
}

TEST_F(TaskRecognition, TakesTheNamesThatEmitNvtxWrites) {
    const OpenedTrace trace =
        opened(RankFile(0, 1).range("PP:0F0, op_id = 7", 0, 10).range("PP:0B0, seq = 3, op_id = 8", 10, 30));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 0..10 on rank 0", "step 0 backward (0, 0) 10..30 on rank 0"));
}

TEST_F(TaskRecognition, SaysThatTimesAreUnknownIfNoStepHasItsKernels) {
    const OpenedTrace without_calls = opened(
        RankFile(0, 1).range("PP:0F0", 0, 2).work_without_call(10, 30).range("PP:0B0", 3, 4).work_without_call(30, 70));
    EXPECT_EQ(without_calls.run.at(std::string(kLaunchesKey)), R"({"ranks": [0]})");
    EXPECT_THAT(unknown_times_warning(without_calls.run),
                AllOf(StartsWith("the ranges of rank 0 only launch work on a device"), HasSubstr("--trace=cuda,nvtx")));
    const OpenedTrace half = opened(
        RankFile(0, 1).range("PP:0F0", 0, 2).launched(1, 10, 30).range("PP:0B0", 3, 4).work_without_call(30, 70));
    EXPECT_TRUE(half.run.contains(std::string(kLaunchesKey)));
    EXPECT_THAT(unknown_times_warning(opened(RankFile(0, 1).range("PP:0F0", 0, 2)).run), IsEmpty());
    const OpenedTrace calls_alone =
        opened(RankFile(0, 1).range("PP:0F0", 0, 2).range("cudaLaunchKernel", 1, 1.5).range("PP:0B0", 3, 4));
    EXPECT_TRUE(calls_alone.run.contains(std::string(kLaunchesKey)));
}

// The thread of emit_nvtx()'s names; PyTorch's profiler draws arrows instead.
TEST_F(TaskRecognition, FindsBackwardsByTheOperatorsOfForwards) {
    RankFile file(0, 1);
    for (int step = 0; step < 2; ++step) {
        const double t = 200 * step;
        for (int i = 0; i < 2; ++i) {
            const int seq = 10 * step + i;
            file.range(fmt::format("PP:0F{}", i), t + 10 * i, t + 10 * i + 8)
                .range(fmt::format("aten::relu, seq = {}, op_id = 1", seq), t + 10 * i + 1, t + 10 * i + 2)
                .range(fmt::format("aten::mm, seq = {}, op_id = 2", seq), t + 10 * i + 2, t + 10 * i + 4)
                .range(fmt::format("MmBackward0, seq = {}, op_id = 3", seq), t + 100 + 20 * i, t + 110 + 20 * i)
                .range("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", t + 111 + 20 * i,
                       t + 112 + 20 * i);
        }
    }
    EXPECT_THAT(texts_of(opened(file)),
                ElementsAre("step 0 forward (0, 0) 0..8 on rank 0", "step 0 forward (1, 0) 10..18 on rank 0",
                            "step 0 backward (0, 0) 100..112 on rank 0", "step 0 backward (1, 0) 120..132 on rank 0",
                            "step 1 forward (0, 0) 200..208 on rank 0", "step 1 forward (1, 0) 210..218 on rank 0",
                            "step 1 backward (0, 0) 300..312 on rank 0", "step 1 backward (1, 0) 320..332 on rank 0"));
    file.range("PP:0B0", 500, 501);  // the program names its backwards
    EXPECT_THAT(texts_of(opened(file)), Contains(HasSubstr("backward (0, 0) 500..501")));
    EXPECT_THAT(texts_of(opened(file)), Not(Contains(HasSubstr("backward (0, 0) 100..112"))));
}

TEST_F(TaskRecognition, GivesKernelsWithoutCallsToTheTaskAroundThem) {
    const auto file = [](bool between) {
        RankFile made(0, 1);
        for (int step = 0; step < 2; ++step) {
            const double t = 100 * step;
            made.range(fmt::format("ProfilerStep#{}", step), t, t + 90)
                .range("PP:0F0", t, t + 2)
                .launched(t + 0.5, t + 10, t + 20)
                .launched(t + 1, t + 30, t + 40)
                .range("PP:0B0", t + 3, t + 5)
                .launched(t + 4, t + 50, t + 60);
        }
        return made.work_without_call(22, 28).work_without_call(between ? 42 : 24, between ? 45 : 26);
    };
    const OpenedTrace whole = opened(file(false));
    EXPECT_THAT(texts_of(whole), Contains("step 0 forward (0, 0) 10..40 on rank 0"));
    EXPECT_EQ(whole.on_device.at(0).kernels, 4);
    EXPECT_THAT(texts_of(opened(file(true))), Each(StartsWith("step 1"))) << "a kernel of either task";
}

TEST_F(TaskRecognition, NotesWhatTheDeviceDoesBesideTheTasks) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("PP:0F0", 0, 3)
                                         .launched(0.5, 6, 8, "Memcpy HtoD (Pinned -> Device)")
                                         .launched(1, 10, 20)
                                         .launched(2, 20, 25, "ncclDevKernel_AllReduce_Sum_f32", 9)
                                         .launched(2.5, 25, 30)
                                         .range("PP:0B0", 4, 5)
                                         .launched(4, 40, 60)
                                         .launched(4.5, 60, 70, "ncclDevKernel_AllReduce_Sum_f32", 9)
                                         .range("other", 31, 31.8)
                                         .launched(31.5, 32, 36)
                                         .range("enumerate(DataLoader)#_Iter.__next__", 80, 90));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 10..30 on rank 0", "step 0 backward (0, 0) 40..60 on rank 0"));
    EXPECT_EQ(trace.on_device.at(0).busy, Nanoseconds{20'000}) << "the collective within it counts";
    const auto us = [](int time) { return Nanoseconds{1000 * time}; };
    EXPECT_THAT(trace.lane_work, ElementsAre(LaneWork{LaneId{0}, LaneWorkKind::collective, us(20), us(25)},
                                             LaneWork{LaneId{0}, LaneWorkKind::collective, us(60), us(70)},
                                             LaneWork{LaneId{0}, LaneWorkKind::loading, us(6), us(8)},
                                             LaneWork{LaneId{0}, LaneWorkKind::data, us(80), us(90)}));
    EXPECT_EQ(trace.run.at(std::string(kDeviceTimeKey)),
              R"({"lanes":[{"lane":0,"busy_ns":44000,"unattributed_ns":4000}]})");
}

// In the first half of a split backward, the first partition has nothing to compute.
TEST_F(TaskRecognition, TakesAHalfWithoutKernelsForNothing) {
    const OpenedTrace trace = opened(RankFile(0, 1)
                                         .range("PP:0F0", 0, 2)
                                         .launched(1, 10, 30)
                                         .range("PP:0I0", 3, 4)
                                         .range("PP:0W0", 5, 6)
                                         .launched(5.5, 40, 60));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 10..30 on rank 0", "step 0 backward (0, 0) 30..30 on rank 0",
                            "step 0 backward_weight (0, 0) 40..60 on rank 0"));
}

// Each distinct name once cost a walk over all ranges.
TEST_F(TaskRecognition, FindsTensOfThousandsOfNames) {
    constexpr int kTasks = 20'000;
    RankFile file(0, 1);
    for (int i = 0; i < kTasks; ++i) {
        file.range(fmt::format("PP:0F{}", i), 2 * i, 2 * i + 1).range(fmt::format("PP:0B{}", i), 1e6 + i, 1e6 + i + 1);
    }
    const std::clock_t begin = std::clock();
    EXPECT_EQ(opened(file).measured.slices.size(), 2U * kTasks);
    EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC) << "it takes half a second, or minutes if it is quadratic";
}

// Each task once cost a walk over all ranges within it.
TEST_F(TaskRecognition, FindsTensOfThousandsOfNestedTasks) {
    constexpr int kDepth = 60'000;
    RankFile file(0, 1);
    for (int i = 0; i < kDepth; ++i) {
        file.range(fmt::format("PP:0F{}", i), i, 4 * kDepth - i);
    }
    file.message("gloo:send", 2 * kDepth, 2 * kDepth + 1);
    const std::clock_t begin = std::clock();
    const OpenedTrace trace = opened(file);
    EXPECT_LT(std::clock() - begin, 20 * CLOCKS_PER_SEC) << "it takes a second, or a minute if it is quadratic";
    ASSERT_EQ(trace.measured.slices.size(), static_cast<std::size_t>(kDepth));
    for (const Slice& slice : trace.measured.slices) {
        ASSERT_EQ(slice.end.count(), std::int64_t{2'000} * kDepth) << "all of them end with sending";
    }
}

TEST_F(TaskRecognition, EndsATaskWithTheMessagesOfItsInnerTask) {
    const OpenedTrace trace = opened(RankFile(0, 2)
                                         .range("PP:0F0", 0, 100)
                                         .range("gloo:send", 10, 20)
                                         .range("PP:0F1", 30, 60)
                                         .range("aten::mm", 35, 40)
                                         .range("gloo:send", 50, 55)
                                         .range("PP:0F2", 110, 200)
                                         .range("PP:0F3", 120, 160)
                                         .range("gloo:send", 150, 170)  // goes on after the inner task
                                         .range("aten::contiguous", 165, 168)
                                         .range("PP:0F4", 210, 300)
                                         .range("PP:0F5", 210, 260)
                                         .range("gloo:send", 250, 260)
                                         .range("aten::mm", 270, 280));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 0..50 on rank 0", "step 0 forward (1, 0) 30..50 on rank 0",
                            "step 0 forward (2, 0) 110..150 on rank 0", "step 0 forward (3, 0) 120..150 on rank 0",
                            "step 0 forward (5, 0) 210..250 on rank 0", "step 0 forward (4, 0) 210..300 on rank 0"));
}

TEST_F(TaskRecognition, TakesMessagesFromTheOuterRangeAndTheTaskFromTheInner) {
    const OpenedTrace trace = opened(RankFile(1, 2)
                                         .range("Forward 0", 10, 50)
                                         .message("gloo:recv", 11, 31)
                                         .range("PP:1F0", 30, 40)
                                         .range("Forward 0", 110, 150)
                                         .range("PP:1F0", 130, 140));
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 1) 21..30 on rank 1", "step 1 forward (0, 1) 120..130 on rank 1"));
}

TEST_F(TaskRecognition, CountsMicroBatchesThatNamesLackAndTakesProcessesForRanks) {
    const char* const events = R"([
        {"ph": "X", "name": "train_step", "pid": 1, "tid": 1, "ts": 0, "dur": 50},
        {"ph": "X", "name": "fwd", "pid": 1, "tid": 1, "ts": 1, "dur": 2},
        {"ph": "X", "name": "fwd", "pid": 1, "tid": 1, "ts": 4, "dur": 2},
        {"ph": "X", "name": "train_step", "pid": 2, "tid": 2, "ts": 0, "dur": 50},
        {"ph": "X", "name": "fwd", "pid": 2, "tid": 2, "ts": 5, "dur": 2}])";
    const OpenedTrace trace = opened(events, R"({"name": "steps", "pattern": "train_step", "kind": "step"},
                                                {"name": "forwards", "pattern": "fwd", "kind": "forward"})");
    EXPECT_THAT(texts_of(trace),
                ElementsAre("step 0 forward (0, 0) 1..3 on rank 0", "step 0 forward (1, 0) 4..6 on rank 0",
                            "step 0 forward (0, 1) 5..7 on rank 1"));
    EXPECT_THAT(trace.diagnostics, IsEmpty());
}

TEST_F(TaskRecognition, TakesThreadsForLanesIfEachRunsPartitionsOfItsOwn) {
    // As PipeScope's own GPipe in one process: the optimizer runs in the thread of the training loop.
    const std::string events = R"([
        {"ph": "X", "name": "PP:0F0", "pid": 1, "tid": 2, "ts": 10, "dur": 10},
        {"ph": "X", "name": "PP:1F0", "pid": 1, "tid": 3, "ts": 20, "dur": 10},
        {"ph": "X", "name": "PP:1L0", "pid": 1, "tid": 3, "ts": 30, "dur": 5},
        {"ph": "X", "name": "PP:1R0", "pid": 1, "tid": 3, "ts": 35, "dur": 5},
        {"ph": "X", "name": "PP:1B0", "pid": 1, "tid": 3, "ts": 40, "dur": 10},
        {"ph": "X", "name": "PP:0B0", "pid": 1, "tid": 2, "ts": 50, "dur": 10},
        {"ph": "X", "name": "Optimizer.step#SGD.step", "pid": 1, "tid": 1, "ts": 70, "dur": 10})";
    EXPECT_THAT(
        texts_of(opened(events + "]")),
        ElementsAre("step 0 forward (0, 0) 0..10 on rank 0, lane 0", "step 0 forward (0, 1) 10..20 on rank 0, lane 1",
                    "step 0 loss (0, 1) 20..25 on rank 0, lane 1", "step 0 recompute (0, 1) 25..30 on rank 0, lane 1",
                    "step 0 backward (0, 1) 30..40 on rank 0, lane 1",
                    "step 0 backward (0, 0) 40..50 on rank 0, lane 0",
                    "step 0 optimizer of partition 0 60..70 on rank 0, lane 0"));
    // Backwards in a thread of torch's engine: the partition has no thread of its own.
    EXPECT_THAT(
        texts_of(opened(events + R"(, {"ph": "X", "name": "PP:0B1", "pid": 1, "tid": 4, "ts": 60, "dur": 10}])")),
        Each(HasSubstr("on rank 0")));
    EXPECT_THAT(
        texts_of(opened(events + R"(, {"ph": "X", "name": "PP:0B1", "pid": 1, "tid": 4, "ts": 60, "dur": 10}])")),
        Each(Not(HasSubstr("lane"))));
}

TEST_F(TaskRecognition, SaysThatARuleMatchesNothing) {
    const OpenedTrace trace = opened(RankFile(0, 1).range("PP:0F0", 10, 50).text(),
                                     R"({"name": "mine", "pattern": "fwd", "kind": "forward"})");
    EXPECT_EQ(trace.measured.slices.size(), 1u);
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("the rule 'mine' matches no range"));
}

TEST_F(TaskRecognition, SaysWhichNumbersAreOutOfRange) {
    const OpenedTrace trace = opened(RankFile(1, 2)
                                         .range("ProfilerStep#99999999999", 0, 100)
                                         .range("PP:0F0", 10, 20)
                                         .range("PP:99999F0", 20, 30)
                                         .range("PP:0F70000", 30, 40)
                                         .text(),
                                     R"({"name": "mine", "pattern": "PP:99.*", "kind": "loss", "partition": 1})");
    EXPECT_THAT(texts_of(trace), ElementsAre("step 0 forward (0, 0) 10..20 on rank 1", testing::_));
    EXPECT_THAT(texts_of(trace).back(), HasSubstr("loss"));
    ASSERT_EQ(trace.diagnostics.size(), 2u);
    EXPECT_THAT(trace.diagnostics[0].text,
                AllOf(StartsWith("rank 1: 1 range of the rule 'torch.distributed.pipelining, schedules"),
                      HasSubstr("'70000'")));
    EXPECT_THAT(trace.diagnostics[1].text, HasSubstr("'steps of torch.profiler'"));
}

TEST_F(TaskRecognition, SaysWhichTasksATraceCannotHold) {
    const OpenedTrace trace = opened(RankFile(0, 1).range("PP:0F0", 10, 20).range("PP:0B0", 20, 1e13));
    EXPECT_EQ(trace.measured.slices.size(), 1u);
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text,
                AllOf(StartsWith("rank 0: 1 task is left out; the first one starts at"), HasSubstr("within 2^53 ns")));
}

// A lost range, or the forwards of an evaluation, shift all later steps of a program that names none.
TEST_F(TaskRecognition, SaysThatCountedStepsAreOutOfOrder) {
    const auto told = [&](int lost, bool names_steps) {
        RankFile file(0, 2);
        for (int step = 0; step < 3; ++step) {
            if (names_steps) {
                file.range(fmt::format("ProfilerStep#{}", step), 100 * step, 100 * step + 99);
            }
            file.range("PP:0F0", 100 * step + 10, 100 * step + 20);
            if (step != lost) {
                file.range("PP:0B0", 100 * step + 30, 100 * step + 50);
            }
        }
        std::string texts;
        for (const DiagnosticRecord& each : opened(file).diagnostics) {
            texts += each.text;
        }
        return texts;
    };
    EXPECT_EQ(told(-1, false), "");
    EXPECT_EQ(told(2, false), "") << "the last step's, as where a file was cut off";
    EXPECT_EQ(told(1, true), "");
    EXPECT_THAT(told(1, false), AllOf(HasSubstr("step 1 backward (0, 0)"), HasSubstr("name the steps by a task rule")));
}

TEST_F(TaskRecognition, LeavesTrainingWithoutAPipelineAlone) {
    const OpenedTrace trace =
        opened(RankFile(0, 2).range("ProfilerStep#1", 0, 100).range("Optimizer.step#SGD.step", 60, 70));
    EXPECT_FALSE(trace.has_tasks());
    EXPECT_FALSE(trace.run.contains("process"));
}

TEST_F(TaskRecognition, SaysThatAStepRepeatsItsTasks) {
    const OpenedTrace trace =
        opened(RankFile(0, 1).range("ProfilerStep#1", 0, 100).range("PP:0F0", 10, 20).range("PP:0F0", 30, 40));
    EXPECT_EQ(trace.measured.slices.size(), 1u);
    ASSERT_EQ(trace.diagnostics.size(), 1u);
    EXPECT_THAT(trace.diagnostics[0].text, HasSubstr("1 range is a step's task again"));
}

// All of them would count as one step, which no figure shows.
TEST_F(TaskRecognition, SaysHowManyStepsNoRuleNames) {
    const auto warnings_of = [](const OpenedTrace& trace) {
        std::string all;
        for (const DiagnosticRecord& each : trace.diagnostics) {
            all += each.text + "\n";
        }
        return all;
    };
    RankFile file(0, 1);
    for (int step = 0; step < 3; ++step) {
        const double from = 100.0 * step;
        file.range(fmt::format("Training iteration {}", step), from, from + 90)
            .range(fmt::format("Forward {}", step), from + 1, from + 10)
            .range(fmt::format("Backward {}", step), from + 20, from + 40);
    }
    EXPECT_THAT(warnings_of(opened(file)),
                HasSubstr("ranges of 3 steps, but no task rule names them, so all tasks count as one step; add a rule "
                          "such as {\"name\": \"steps\", \"pattern\": \"Training iteration (?<step>\\\\d+)\""));
    const std::string rule =
        R"json({"name": "steps", "pattern": "Training iteration (?<step>\\d+)", "kind": "step"})json";
    EXPECT_THAT(warnings_of(opened(file.text(), rule)), Not(HasSubstr("no task rule names them")));
    // The n-th range of a task is that of step n.
    EXPECT_THAT(warnings_of(opened(RankFile(0, 1)
                                       .range("step 0", 0, 90)
                                       .range("PP:0F0", 1, 10)
                                       .range("step 1", 100, 190)
                                       .range("PP:0F0", 101, 110))),
                Not(HasSubstr("no task rule names them")));
}

TEST(UsualStepNumber, IsThatOfNamesOfTrainingLoops) {
    EXPECT_EQ(usual_step_number("step 7"), 7);
    EXPECT_EQ(usual_step_number("Training_Iteration: 12"), 12);
    EXPECT_EQ(usual_step_number("train iter#3"), 3);
    for (const char* name : {"step", "stepping 7", "step 123456789", "my step 7", "step 7 done", "iterate 7", ""}) {
        EXPECT_EQ(usual_step_number(name), std::nullopt) << name;
    }
}
}  // namespace
}  // namespace pipescope
