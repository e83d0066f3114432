#include "analysis/recorded_run.h"

#include "analysis/measured_steps.h"
#include "profiler/profile/profile_file.h"
#include "schedule/schedules.h"
#include "simulator/pipeline_options.h"
#include "tests/analysis/sample_run.h"
#include "trace/store/opened_trace.h"
#include "trace/store/pipeline_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct GraphOf : testing::Test {
    const SampleRun sample;
    const std::shared_ptr<const TaskGraph> graph = pipeline_graph_of(sampleProfile(sample), sampleOptions(sample));
    OpenedTrace trace;

    void SetUp() override { ASSERT_NE(graph, nullptr); }
    void add_profile_and_options() {
        trace.run["configuration"] = to_json(sampleOptions(sample));
        trace.profile_json = to_json(sampleProfile(sample));
    }
};

TEST_F(GraphOf, ATraceWithAPipelineNeedsNoProfile) {
    trace.run["pipeline"] = pipeline_json(*graph);
    const RecordedRun run = recorded_run(trace);
    ASSERT_NE(run.graph, nullptr);
    EXPECT_EQ(run.graph->tasks().size(), graph->tasks().size());
    EXPECT_FALSE(run.why_not_simulated.empty());
}

TEST_F(GraphOf, AnEarlierTraceIsThatOfItsProfileAndOptions) {
    EXPECT_EQ(recorded_run(trace).graph, nullptr);
    add_profile_and_options();
    const RecordedRun run = recorded_run(trace);
    ASSERT_NE(run.graph, nullptr);
    EXPECT_EQ(run.graph->tasks().size(), graph->tasks().size());
}

TEST_F(GraphOf, ADamagedPipelineIsToldAndLeftAside) {
    add_profile_and_options();
    trace.run["pipeline"] = R"({"partitions": 2})";
    const RecordedRun run = recorded_run(trace);
    EXPECT_NE(run.graph, nullptr) << "from the profile";
    EXPECT_THAT(texts_of(run.warnings),
                Contains(StartsWith("the recorded pipeline has no micro_batches; every pipeline "
                                    "has a whole number of that name; record the run again")));
    trace.run["pipeline"] = R"({"partitions": "two"})";
    EXPECT_THAT(texts_of(recorded_run(trace).warnings),
                Contains(StartsWith("the recorded pipeline has the partitions \"two\"; ")));
    trace.run["pipeline"] = "[1";
    EXPECT_THAT(texts_of(recorded_run(trace).warnings),
                Contains(StartsWith("the recorded pipeline is '[1'; it is one JSON object; ")));
    EXPECT_EQ(refuse_bubbles(run.warnings), refuse_bubbles(recorded_run(OpenedTrace{}).warnings));
}

TEST_F(GraphOf, ATaskOfAPartitionThatThePipelineLacksIsTold) {
    trace.run["pipeline"] = pipeline_json(*graph);
    RecordedRun run = recorded_run(trace);
    const std::size_t before = run.warnings.size();
    const int partitions = graph->shape().num_partitions;
    warn_of_partition(run, partitions - 1);
    EXPECT_EQ(run.warnings.size(), before);
    warn_of_partition(run, partitions);
    EXPECT_THAT(texts_of(run.warnings),
                Contains(AllOf(HasSubstr("partition " + std::to_string(partitions)),
                               HasSubstr("0 to " + std::to_string(partitions - 1)), HasSubstr("record it again"))));
}

TEST_F(GraphOf, ALaneBeyond32BitsIsToldAsAFaultOfTheRecordedPipeline) {
    add_profile_and_options();
    nlohmann::json pipeline = nlohmann::json::parse(pipeline_json(*graph));
    pipeline["placement"][1] = std::int64_t{1} << 33;
    trace.run["pipeline"] = pipeline.dump();
    const RecordedRun run = recorded_run(trace);
    EXPECT_NE(run.graph, nullptr) << "from the profile";
    EXPECT_THAT(texts_of(run.warnings), Contains(StartsWith("the recorded pipeline is set aside: index 8589934592")));
}

TEST_F(GraphOf, AConfigurationThatCannotBeSimulatedIsToldWithoutTheOptionsOfACommand) {
    add_profile_and_options();
    nlohmann::json configuration = nlohmann::json::parse(trace.run.at("configuration"));
    configuration["replicas"] = 3;
    configuration["batch"] = 4;
    trace.run["configuration"] = configuration.dump();
    RecordedRun run = recorded_run(trace);
    EXPECT_FALSE(simulate_run(run));
    EXPECT_THAT(run.why_not_simulated, AllOf(HasSubstr("replicas is 3"), Not(HasSubstr("--replicas"))));
}

// A training loop in Python describes its run by the first mini-batch.
TEST_F(GraphOf, ARunWhoseFirstStepHasOtherSamplesIsThatOfMostSteps) {
    add_profile_and_options();
    const std::int64_t batch = parse_pipeline_options(trace.run.at("configuration")).batch;
    nlohmann::json configuration = nlohmann::json::parse(trace.run.at("configuration"));
    configuration["batch"] = 1;
    trace.run["configuration"] = configuration.dump();
    PipelineShape first = graph->shape();
    first.num_micro_batches = 1;
    trace.run["pipeline"] = pipeline_json(make_schedule(Schedule::gpipe, first));
    const auto record = [&](const std::vector<std::int64_t>& samples) {
        trace.steps.clear();
        for (std::size_t k = 0; k < samples.size(); ++k) {
            StepRecord step;
            step.step = static_cast<std::int32_t>(k);
            step.warmup = k == 0;
            step.samples = samples[k];
            trace.steps.push_back(step);
        }
        return recorded_run(trace);
    };
    const RecordedRun run = record({1, batch, batch, 2});
    EXPECT_EQ(run.options->batch, batch);
    ASSERT_NE(run.graph, nullptr);
    EXPECT_EQ(run.graph->shape().num_micro_batches, graph->shape().num_micro_batches);
    EXPECT_THAT(steps_to_compare(run, {}, {}).numbers(), ElementsAre(1, 2));
    EXPECT_THAT(texts_of(run.warnings), Contains(HasSubstr("the configuration names a mini-batch of 1 sample;")));
    EXPECT_THAT(texts_of(run.warnings), Not(Contains(HasSubstr("recorded pipeline"))));

    const RecordedRun as_described = record({1, batch, 1, batch, 1});
    EXPECT_EQ(as_described.options->batch, 1) << "equally frequent";
    EXPECT_EQ(as_described.graph->shape().num_micro_batches, 1);
    EXPECT_EQ(record({1, 0, 0}).options->batch, 1) << "an earlier recorder noted no samples";
}

TEST_F(GraphOf, APipelineThatIsNotThatOfItsConfigurationIsToldAndLeftAside) {
    add_profile_and_options();
    PipelineShape other = graph->shape();
    other.num_micro_batches += 1;
    trace.run["pipeline"] = pipeline_json(make_schedule(Schedule::gpipe, other));
    const RecordedRun run = recorded_run(trace);
    ASSERT_NE(run.graph, nullptr);
    EXPECT_EQ(run.graph->shape().num_micro_batches, graph->shape().num_micro_batches) << "from the options";
    EXPECT_THAT(texts_of(run.warnings),
                Contains(AllOf(HasSubstr("micro-batches; its configuration has"), HasSubstr("(chunks "))));
}
}  // namespace
}  // namespace pipescope
