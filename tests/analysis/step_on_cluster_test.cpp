#include "analysis/step_on_cluster.h"

#include "tests/analysis/sample_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A step whose pipeline takes `pipeline`, and its rest a quarter of that.
StepOnCluster step_of(Nanoseconds pipeline, std::int64_t batch) {
    return {.layout = "p2 d1 t4 v1 b1",
            .pipeline = pipeline,
            .whole = pipeline + pipeline / 4,
            .batch = batch,
            .model_flops = 8e12,
            .lane_devices = 4,
            .checkpoint = "except_last",
            .optimizer = "adam"};
}

class StepOnClusterTest : public testing::Test {
protected:
    StepOnClusterTest() {
        run_.partitions = 3;
        run_.cv = 0.05;
        profile_ = sampleProfile(run_);
        options_ = sampleOptions(run_);
        simulation_ = simulate(CheckedProfile(profile_), options_);
        step_ = step_of(simulation_.step_time, options_.batch);
    }

    SampleRun run_;
    Profile profile_;
    PipelineOptions options_;
    Simulation simulation_;
    StepOnCluster step_;
};

TEST_F(StepOnClusterTest, FiguresOfASimulationBecomeThoseOfTheWholeStep) {
    Simulation whole = simulation_;
    whole.flops = ModelFlops{.step = 1, .lanes = {}, .peak_per_second = 1e12};
    add_rest_of_step(whole, step_);
    const StepFigures pipeline = figures_without_noise(simulation_);
    const StepFigures figures = figures_without_noise(whole);
    EXPECT_EQ(figures.step, step_.whole);
    EXPECT_NEAR(figures.samples_per_second, pipeline.samples_per_second / 1.25, 1e-6 * pipeline.samples_per_second);
    EXPECT_NEAR(figures.speedup, pipeline.speedup / 1.25, 1e-6);
    EXPECT_EQ(figures.bubble, pipeline.bubble) << "of the pipeline";
    EXPECT_EQ(whole.step_time, simulation_.step_time);
    ASSERT_TRUE(whole.noise);
    EXPECT_EQ(expected_figures(whole).step, whole.noise->mean + step_.after_pipeline());
    EXPECT_EQ(expected_step(whole), expected_figures(whole).step);
    EXPECT_EQ(longer_by(*whole.noise, step_.after_pipeline()).low, whole.noise->low + step_.after_pipeline());
    EXPECT_EQ(whole.flops->step, 8e12);
    EXPECT_EQ(whole.flops->peak_per_second, 4e12);
}

TEST_F(StepOnClusterTest, OperationsFollowTheBatch) {
    const ModelFlops flops = of_whole_step({.step = 1, .lanes = {}, .peak_per_second = {}}, step_, 2 * options_.batch);
    EXPECT_EQ(flops.step, 16e12);
    EXPECT_FALSE(flops.peak_per_second);
}

TEST_F(StepOnClusterTest, AdviceComparesWholeStepsAndNotesWhatIsKept) {
    Advice advice = advise(CheckedProfile(profile_), options_);
    const double before = relative_change(advice, advice.moves.front());
    add_rest_of_step(advice, step_, options_);
    EXPECT_EQ(expected_figures(advice.base).step, step_.whole);
    const auto kept = [](const Move& move) { return move.note.find("is kept at") != std::string::npos; };
    bool any_kept = false;
    for (const Move& move : advice.moves) {
        EXPECT_NEAR(
            relative_change(advice, move),
            static_cast<double>(expected_step(move.simulation).count()) / static_cast<double>(step_.whole.count()) - 1,
            1e-9);
        EXPECT_EQ(kept(move), move.simulation.options.balance != options_.balance ||
                                  move.simulation.options.placement != options_.placement ||
                                  move.kind == MoveKind::links)
            << move.title;
        any_kept = any_kept || kept(move);
    }
    EXPECT_TRUE(any_kept);
    EXPECT_GT(relative_change(advice, advice.moves.front()), before) << "a part of the step does not change";
}

TEST_F(StepOnClusterTest, OnlyWhatMovesWeightsOrLinksChangesTheRest) {
    PipelineOptions changed = options_;
    changed.chunks *= 2;
    changed.batch *= 2;
    changed.checkpoint = Checkpoint::always;
    changed.schedule = Schedule::one_f_one_b;
    changed.hardware.memory_limit = 1;
    EXPECT_THAT(changes_after_pipeline(options_, changed), IsEmpty());
    EXPECT_EQ(kept_text(step_, {}), "");
    changed.balance = Balance({2, 1});
    changed.hardware.link.bytes_per_second = 1e9;
    changed.hardware.speeds = {1, 1, 0.5};
    changed.optimizer = "sgd-like";
    changed.schedule = Schedule::pipedream;
    const std::vector<std::string> changes = changes_after_pipeline(options_, changed);
    EXPECT_THAT(changes, ElementsAre("other cuts", "another optimizer", "other speeds of lanes", "other links",
                                     "a schedule that never drains"));
    EXPECT_THAT(kept_text(step_, {"other cuts", "other links"}),
                HasSubstr("ms, which other cuts and other links would change"));
}
}  // namespace
}  // namespace pipescope
