#include "answers/change_check.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// The output of a run: a warm-up step of 9 s, then two of that many ms.
nlohmann::json output_of_run(int first_ms, int second_ms, int batch = 8, const char* update = "synchronous") {
    nlohmann::json steps = nlohmann::json::array();
    for (const std::int64_t ms : {9000, first_ms, second_ms}) {
        steps.push_back({{"loss", 2.5},
                         {"step_ns", ms * 1'000'000},
                         {"wall_step_ns", (ms + 10) * 1'000'000},
                         {"warmup", ms == 9000}});
    }
    return {{"steps", steps},   {"bubble_fraction", 0.25}, {"batch", batch},
            {"update", update}, {"load", nullptr},         {"lanes", {{{"peak_bytes", 1024}}, {{"peak_bytes", 4096}}}}};
}

ChangeCheck check_of(const std::vector<int>& before, const std::vector<int>& after, int batch_after = 8,
                     const char* update_after = "synchronous") {
    CheckedSide then{.command = "pipescope run m"};
    CheckedSide now{.command = "pipescope run m -m 2"};
    for (std::size_t k = 0; k < before.size(); ++k) {
        add_turn(then, output_of_run(before[k] - 5, before[k] + 5));
        add_turn(now, output_of_run(after[k] - 5, after[k] + 5, batch_after, update_after));
    }
    return checked_change(std::move(then), std::move(now));
}

TEST(ChangeCheck, LeavesOutTheWarmUp) {
    CheckedSide side{.command = "pipescope run m"};
    add_turn(side, output_of_run(100, 300));
    EXPECT_EQ(side.turns.front().steps, 2);
    EXPECT_DOUBLE_EQ(side.turns.front().step, 200e6);
    EXPECT_DOUBLE_EQ(side.turns.front().wall_step, 210e6);
    EXPECT_EQ(side.turns.front().peak, 4096);
    EXPECT_FALSE(side.turns.front().load);
    nlohmann::json loaded = output_of_run(100, 300);
    loaded["load"] = {{"others", 0.25}, {"stolen", 0.5}, {"pressure", nullptr}};
    add_turn(side, loaded);
    ASSERT_TRUE(side.turns.back().load);
    EXPECT_EQ(side.turns.back().load->stolen, 0.5);
    EXPECT_FALSE(side.turns.back().load->pressure);
    nlohmann::json warm = output_of_run(100, 300);
    for (auto& step : warm["steps"]) {
        step["warmup"] = true;
    }
    EXPECT_THAT(thrown<Error>([&] { add_turn(side, warm); }),
                AllOf(HasSubstr("pipescope run m"), HasSubstr("--steps")));
}

TEST(ChangeCheck, SaysFasterAndSlower) {
    const ChangeCheck faster = check_of({200, 202, 198}, {180, 181, 179});
    EXPECT_EQ(faster.verdict(), "faster");
    EXPECT_EQ(faster.more_rounds(), std::nullopt);
    EXPECT_THAT(change_check_text(faster), AllOf(HasSubstr("the change is faster: the step takes 10.00 % less time"),
                                                 HasSubstr("3 rounds"), HasSubstr("paired t-test")));
    EXPECT_EQ(check_of({180, 181, 179}, {200, 202, 198}).verdict(), "slower");
}

TEST(ChangeCheck, SaysWhatWouldDecide) {
    const ChangeCheck check = check_of({200, 202, 198}, {195, 204, 190});
    EXPECT_EQ(check.verdict(), "cannot be told apart");
    ASSERT_TRUE(check.more_rounds());
    const nlohmann::ordered_json object = change_check_json(check);
    EXPECT_EQ(object.at("more_steps"), *check.more_rounds() * 2);
    EXPECT_EQ(object.at("step").at("distinct"), false);
    EXPECT_THAT(change_check_text(check), HasSubstr("--rounds " + std::to_string(3 + *check.more_rounds()) + "\n"));
    EXPECT_THAT(change_check_text(check_of({200, 202, 198}, {200, 198, 202})), HasSubstr("no practical number"));
}

TEST(ChangeCheck, DecidesNothingByOneRound) {
    const ChangeCheck check = check_of({200}, {100});
    EXPECT_EQ(check.verdict(), "cannot be told apart");
    EXPECT_THAT(change_check_text(check), HasSubstr("not decided"));
    EXPECT_EQ(change_check_json(check).at("step").at("low"), nullptr);
}

TEST(ChangeCheck, ComparesTimesPerSampleIfBatchesDiffer) {
    const ChangeCheck check = check_of({200, 202, 198}, {380, 381, 379}, 16);
    EXPECT_TRUE(check.per_sample);
    EXPECT_NEAR(check.step.ratio, 0.95, 0.001);
    EXPECT_THAT(change_check_text(check), HasSubstr("the batch was 8 samples and is 16 samples"));
}

TEST(ChangeCheck, JudgesByWallStepsIfOneSideIsStaggered) {
    const ChangeCheck check = check_of({200, 202, 198}, {205, 207, 203}, 8, "staggered");
    EXPECT_EQ(check.judged, CheckedTime::wall_step);
    EXPECT_EQ(change_check_json(check).at("judged_by"), "wall_step_ns");
    EXPECT_THAT(change_check_text(check), HasSubstr("the wall step decides"));
    EXPECT_THAT(change_check_text(check_of({200, 202}, {180, 183})), Not(HasSubstr("the wall step decides")));
}
}  // namespace
}  // namespace pipescope
