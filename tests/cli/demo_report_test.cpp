#include "cli/demo_report.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

DemoPart small_part() {
    DemoPart part;
    part.title = "mlp on 2 lanes";
    part.compared.comparison.measured_step_time = Nanoseconds{100'000'000};
    part.compared.comparison.simulated_step_time = Nanoseconds{98'000'000};
    part.compared.comparison.step_error = -0.02;
    part.compared.comparison.measured_bubble_fraction = 0.25;
    part.compared.comparison.simulated_bubble_fraction = 0.24;
    part.compared.comparison.lanes = {{{}, {}, 0, 0, 2048, 1024}, {{}, {}, 0, 0, std::nullopt, 1024}};
    part.loss_before = 2.5;
    part.loss_after = 1.25;
    part.uncertainty = 0.03;
    part.commands = {"pipescope compare trace.sqlite"};
    return part;
}

TEST(DemoReport, ShowsMeasuredAgainstPredictedWithTheErrors) {
    EXPECT_EQ(demo_table(small_part()).str(),
              "                    measured  predicted         error\n"
              "step time           100.0 ms   98.00 ms       -2.00 %\n"
              "bubble fraction      25.00 %    24.00 %  -1.00 points\n"
              "lane 0 peak memory  2.00 KiB   1.00 KiB      -50.00 %\n"
              "lane 1 peak memory             1.00 KiB\n");
    EXPECT_THAT(demo_text(small_part()), AllOf(HasSubstr("loss 2.5000 before, 1.2500 after"),
                                               HasSubstr("uncertain by 3.00 % (standard error)")));
}

TEST(DemoReport, ShowsThePeakAtTheMeasuredInstantsWhereItIsAnother) {
    DemoPart part = small_part();
    part.compared.comparison.replay.emplace();
    EXPECT_THAT(demo_text(part), Not(HasSubstr("instants"))) << "memory is unknown";
    part.compared.comparison.replay->peak_bytes = {2048, 1000};
    EXPECT_THAT(demo_table(part).str(),
                HasSubstr("lane 0 peak memory                    2.00 KiB   1.00 KiB      -50.00 %\n"
                          "lane 0 peak at the measured instants  2.00 KiB   2.00 KiB       +0.00 %\n"
                          "lane 1 peak memory                               1.00 KiB\n"));
    part.compared.comparison.replay->peak_bytes = {1024, 1024};
    EXPECT_THAT(demo_text(part), Not(HasSubstr("instants")));
}

TEST(DemoReport, LeadsWithTheProfileThatMetTheSameMachineAndShowsTheEarlierOneBelow) {
    DemoPart part = small_part();
    EXPECT_TRUE(demo_json(part).at("in_turns").is_null());
    EXPECT_TRUE(demo_json(part).at("beforehand").is_null());
    part.in_turns = true;
    part.beforehand = Nanoseconds{110'000'000};
    EXPECT_THAT(demo_table(part).str(),
                HasSubstr("step time                      100.0 ms   98.00 ms       -2.00 %\n"
                          "predicted before the training  100.0 ms   110.0 ms      +10.00 %\n"));
    EXPECT_THAT(demo_text(part), AllOf(HasSubstr("profiled between the steps"), HasSubstr("may have changed since")));
    EXPECT_EQ(demo_json(part).at("in_turns").at("simulated_step_mean_ns"), 98'000'000);
    EXPECT_EQ(demo_json(part).at("in_turns").at("step_error"), -0.02);
    EXPECT_EQ(demo_json(part).at("beforehand").at("simulated_step_mean_ns"), 110'000'000);
    EXPECT_NEAR(demo_json(part).at("beforehand").at("step_error"), 0.1, 1e-12);
}

TEST(DemoReport, JudgesNoTimeOfABusyMachine) {
    DemoPart part = small_part();
    part.load = MachineLoad{0.06, 0.03, {}};
    EXPECT_THAT(demo_text(part), Not(HasSubstr("not judged")));
    EXPECT_EQ(demo_json(part).at("judged"), true);
    part.load = MachineLoad{0.06, 0.05, {}};
    EXPECT_THAT(demo_table(part).str(), AllOf(Not(HasSubstr("-2.00 %")), HasSubstr("-50.00 %")));
    EXPECT_THAT(demo_text(part),
                HasSubstr("not judged: other programs or the host took 11.00 % of the cores' time, more "
                          "than 10.00 %; repeat the demo on a quiet machine"));
    EXPECT_EQ(demo_json(part).at("judged"), false);
}

TEST(DemoReport, LeavesOutWhatWasNotMeasured) {
    DemoPart part = small_part();
    part.loss_before.reset();
    part.uncertainty.reset();
    EXPECT_THAT(demo_text(part), AllOf(Not(HasSubstr("loss")), Not(HasSubstr("uncertain"))));
    EXPECT_TRUE(demo_json(part).at("loss_before").is_null());
    EXPECT_EQ(demo_json(part).at("step_error"), -0.02);
}

TEST(DemoReport, ShowsThePictureOnlyWhereThereIsOne) {
    DemoPart part = small_part();
    EXPECT_THAT(demo_markdown({part}, R"({"cores": 2})"),
                AllOf(Not(HasSubstr("![")), HasSubstr("- cores: 2"), HasSubstr("    pipescope compare trace.sqlite")));
    part.picture = "timeline.png";
    EXPECT_THAT(demo_markdown({part}, "{}"), HasSubstr("](timeline.png)"));
}
}  // namespace
}  // namespace pipescope
