#include "cluster/program_fit.h"

#include "base/error.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

constexpr const char* kMeasuredModel =
    "gpt:layers=4,hidden=1024,heads=8,sequence=1024,vocabulary=4096,dropout=false,attention=flash";

/// Layouts of different lengths and shares of messages.
std::vector<Layout> layouts() {
    std::vector<Layout> found(4);
    found[1].data = 8;
    found[2].tensor = 4;
    found[2].micro_batch_size = 4;
    found[3].pipeline = 4;
    for (Layout& layout : found) {
        layout.batch = layout.data * layout.micro_batch_size * 8;
    }
    return found;
}

PredictedStep predicted(std::size_t k, const TrainingProgram& program) {
    static const Cluster cluster = load_cluster("dgx-a100", device_catalogue());
    Layout layout = layouts()[k];
    layout.program = std::make_shared<const TrainingProgram>(program);
    const double ns = step_of(kMeasuredModel, cluster, layout).step_ns();
    return {ns, 1e9 * static_cast<double>(k + 1)};
}

/// What a program whose constants nobody knows measures.
std::vector<MeasuredStep> measured_in(const TrainingProgram& program, std::size_t count) {
    std::vector<MeasuredStep> steps;
    for (std::size_t k = 0; k < count; ++k) {
        steps.push_back({predicted(k, program).ns, std::nullopt});
    }
    return steps;
}

TEST(ProgramFit, FindsTheFactorOfOneStep) {
    TrainingProgram truth;
    truth.work_factor = 1.4;
    const ProgramFit found = fitted_program({}, measured_in(truth, 1), "A100", false, predicted);
    EXPECT_NEAR(found.program.work_factor, 1.4, 0.01);
    EXPECT_LT(found.before[0], -0.15);
    EXPECT_NEAR(found.after[0], 0, 1e-3);
    EXPECT_TRUE(found.left_out.empty());
    EXPECT_TRUE(found.program.published.empty()) << "one step cannot say how far others lie";
    EXPECT_FALSE(found.fits_step);
}

TEST(ProgramFit, FitsATimeOfEachStepOnlyWithThreeAndIfItHelps) {
    TrainingProgram truth;
    truth.work_factor = 1.2;
    const ProgramFit factor = fitted_program({}, measured_in(truth, 4), "A100", false, predicted);
    EXPECT_NEAR(factor.program.work_factor, 1.2, 0.01);
    EXPECT_NEAR(factor.program.step_ns, 0, 1e-3 * predicted(0, truth).ns);
    truth.step_ns = 0.5 * predicted(0, truth).ns;
    const ProgramFit both = fitted_program({}, measured_in(truth, 4), "A100", false, predicted);
    EXPECT_TRUE(both.fits_step);
    EXPECT_NEAR(both.program.work_factor, 1.2, 0.02);
    EXPECT_NEAR(both.program.step_ns / truth.step_ns, 1, 0.05);
    EXPECT_LT(mean_absolute(both.left_out), 0.02);
    EXPECT_FALSE(fitted_program({}, measured_in(truth, 2), "A100", false, predicted).fits_step);
}

TEST(ProgramFit, SaysTheErrorOfStepsLeftOut) {
    std::vector<MeasuredStep> steps = measured_in({}, 3);
    steps[1].ns *= 1.5;
    TrainingProgram given;
    given.published = {{"A100", false, 80, 0.9, 1.1}, {"H100", false, 9, 0.8, 1.2}};
    const ProgramFit found = fitted_program(given, steps, "A100", false, predicted);
    ASSERT_EQ(found.left_out.size(), 3U);
    EXPECT_NEAR(found.left_out[1], 1 / 1.5 - 1, 0.02) << "the other two are exact without it";
    EXPECT_LT(std::abs(found.after[1]), std::abs(found.left_out[1]));
    ASSERT_EQ(found.program.published.size(), 2U);
    EXPECT_EQ(found.program.published[0].device, "H100");
    EXPECT_EQ(found.program.published[1].runs, 3);
    EXPECT_NEAR(found.program.published[1].high, 1.5, 0.05);
}

TEST(ProgramFit, FitsWhatAProcessHoldsToTheMemory) {
    std::vector<MeasuredStep> steps = measured_in({}, 3);
    steps[0].bytes = 1e9 * 1.25 + 3e9;
    steps[2].bytes = 3e9 * 1.25 + 5e9;
    TrainingProgram given;
    given.reserved_share = 0.25;
    const ProgramFit found = fitted_program(given, steps, "A100", false, predicted);
    EXPECT_TRUE(found.fits_context);
    EXPECT_FALSE(found.fits_step) << "two constants at most";
    EXPECT_EQ(found.program.context_bytes, Bytes{4'000'000'000});
}

TEST(ProgramFit, RefusesTimesThatNoProgramTakes) {
    EXPECT_THAT(thrown<UsageError>([] {
                    fitted_program({}, {{1e18, std::nullopt}}, "A100", false, predicted);
                }),
                HasSubstr("check the seconds"));
}

TEST(ProgramFit, WritesAProgramThatIsReadAsTheSame) {
    for (const ProgramPointer& each : built_in_programs()) {
        TrainingProgram program = *each;
        program.work_factor = 1.0 / 3;
        EXPECT_EQ(parse_program(program_text(program)), program) << each->name;
    }
}
}  // namespace
}  // namespace pipescope
