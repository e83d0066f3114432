#include "analysis/trace_warnings.h"

#include "analysis/recorded_run.h"

#include "trace/store/process_json.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

TEST(LoadWarnings, NameWhatTookMoreThanATwentieth) {
    using testing::IsEmpty;
    EXPECT_THAT(load_warnings(std::nullopt, "x"), IsEmpty());
    EXPECT_THAT(load_warnings(MachineLoad{0.05, 0.05, 1}, "x"), IsEmpty());
    EXPECT_THAT(load_warnings(MachineLoad{0.12, 0, {}}, "the profile was taken"), ElementsAre(HasSubstr("12.00 %")));
    EXPECT_THAT(load_warnings(MachineLoad{0, 0.08, {}}, "x"), ElementsAre(HasSubstr("8.00 %")));
}

TEST(LoadWarnings, SayWhereProfileAndRunDiffer) {
    using testing::IsEmpty;
    using testing::SizeIs;
    const MachineLoad quiet{0.01, 0.02, {}};
    const MachineLoad busy{0.2, 0, {}};
    EXPECT_THAT(load_warnings(quiet, quiet), IsEmpty());
    EXPECT_THAT(load_warnings(busy, busy), SizeIs(2));
    EXPECT_THAT(load_warnings(quiet, std::nullopt), IsEmpty());
    EXPECT_THAT(load_warnings(quiet, busy), ElementsAre(HasSubstr("while the run was recorded"), HasSubstr("17.00 %")))
        << "their shares, which another message may give without the host's part, are not repeated";
    EXPECT_THAT(load_warnings(busy, quiet).back(), HasSubstr("17.00 % of the cores' time less during the run"));
}

TEST(LossWarning, TellsHowManyRangesWereLostAndIsSilentWhereNoneWere) {
    EXPECT_EQ(loss_warning({{"nvtx", 7, 100, 0, 2, 1}}), "");
    EXPECT_THAT(loss_warning({{"nvtx", 7, 100, 3, 0, 0}, {"nvtx", 8, 50, 0, 0, 1}}),
                AllOf(HasSubstr("lost 3 of 154 ranges, on 1 of 2 threads"), HasSubstr("not shown")));
}

// Each source loses something else, and wants another remedy.
TEST(LossWarning, TellsWhatOfTheDeviceAndOfTheFileIsMissing) {
    const std::vector<DropRecord> drops{
        {"nvtx", 7, 100, 3, 0, 0}, {"cupti", 7, 1000, 40, 0, 0}, {"trace", 0, 0, 500, 0, 0}};
    const auto warnings = loss_warnings(drops);
    ASSERT_EQ(warnings.size(), 3u);
    EXPECT_TRUE(refuse_bubbles(warnings));
    EXPECT_FALSE(refuse_bubbles(std::vector<TraceWarning>{{Severity::caution, "x"}}));
    EXPECT_THAT(warnings[0].text, HasSubstr("lost 3 of 103 ranges, on 1 of 1 thread"));
    EXPECT_THAT(warnings[1].text, StartsWith("CUPTI lost 40 records of device work: "));
    EXPECT_THAT(warnings[2].text, StartsWith("500 rows could not be written: "));
    const std::string device_only = loss_warning({{"nvtx", 7, 100, 0, 0, 0}, {"cupti", 7, 1000, 40, 0, 0}});
    EXPECT_THAT(device_only, AllOf(StartsWith("CUPTI lost 40 records"), Not(HasSubstr("PIPESCOPE_RING_ENTRIES"))));
}

TEST(TraceWarnings, WithholdBubblesOfTasksWhoseTimesAreThoseOfLaunches) {
    OpenedTrace trace;
    trace.run[std::string(kLaunchesKey)] = R"({"ranks": [0, 2]})";
    const std::vector<TraceWarning> warnings = trace_warnings(trace);
    EXPECT_TRUE(refuse_bubbles(warnings));
    EXPECT_EQ(why_no_bubbles(warnings), "the tasks' times are not known");
    EXPECT_THAT(warnings[0].text, StartsWith("the ranges of ranks 0, 2 only launch work on a device"));
    EXPECT_TRUE(recorded_run(trace).only_launches);
}

// A lane on an accelerator only launches its tasks.
TEST(TraceWarnings, WithholdBubblesOfLanesOnAccelerators) {
    OpenedTrace trace;
    trace.run = {{"format", "{}"}, {"closed", "true"}};
    trace.measured.lanes = {{"lane 0", "cpu"}, {"lane 1", "cuda:0"}};
    EXPECT_THAT(trace_warnings(trace), testing::IsEmpty()) << "no run, but a simulation";
    trace.steps.emplace_back();
    EXPECT_EQ(why_no_bubbles(trace_warnings(trace)), "the tasks' times are not known");
    EXPECT_THAT(texts_of(trace_warnings(trace)), ElementsAre(StartsWith("lane 1 is on an accelerator")));
    trace.measured.lanes[1].device = "cpu";
    EXPECT_THAT(trace_warnings(trace), testing::IsEmpty());
}

TEST(TraceWarnings, SayThatATraceIsOfOneRankOfSeveral) {
    OpenedTrace trace;
    ProcessFacts process;
    process.rank = 2;
    process.size = 4;
    trace.run["process"] = to_json(process);
    EXPECT_THAT(texts_of(trace_warnings(trace)),
                ElementsAre(AllOf(HasSubstr("the trace of rank 2 of 4 alone"), HasSubstr("'pipescope merge'"))));
    EXPECT_TRUE(refuse_bubbles(trace_warnings(trace)));
    process = {};
    trace.run["process"] = to_json(process);
    EXPECT_TRUE(trace_warnings(trace).empty());
}

// The rank of lane 0 runs the first and the last task of a step; another one begins once it has waited for it.
TEST(TraceWarnings, WithholdStepTimesThatOneRankAloneDoesNotTell) {
    const auto why = [](const std::string& schedule, std::vector<LaneId> lanes) {
        PipelineOptions options;
        options.balance = Balance({1, 1, 1, 1});
        options.schedule = parse_schedule(schedule);
        ProcessFacts process;
        process.size = 2;
        process.lanes = std::move(lanes);
        OpenedTrace trace;
        trace.run["process"] = to_json(process);
        trace.run["configuration"] = to_json(options);
        const std::vector<TraceWarning> warnings = trace_warnings(trace);
        EXPECT_TRUE(refuse_bubbles(warnings));
        const bool says_so = warnings.front().text.find("step times and rates are not known") != std::string::npos;
        EXPECT_EQ(says_so, !why_no_step_times(warnings).empty());
        return why_no_step_times(warnings);
    };
    const std::string alone = "this is the trace of one rank alone";
    EXPECT_EQ(why("1f1b", {LaneId{0}, LaneId{1}}), "");
    EXPECT_EQ(why("1f1b", {LaneId{2}, LaneId{3}}), alone);
    EXPECT_EQ(why("zero-bubble-h1", {LaneId{0}, LaneId{1}}), alone) << "another lane may end the step";
}
}  // namespace
}  // namespace pipescope
