#include "trace/store/pipeline_json.h"

#include "base/error.h"
#include "schedule/schedules.h"
#include "schedule/shared_routes.h"
#include "schedule/skip_routes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <string>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

void expect_same(const TaskGraph& a, const TaskGraph& b) {
    ASSERT_EQ(a.tasks().size(), b.tasks().size());
    for (TaskIndex task = 0; task < a.tasks().size(); ++task) {
        const Task& each = a.tasks()[task];
        const std::optional<TaskIndex> other = b.find(each.key);
        ASSERT_TRUE(other) << to_string(each.key);
        EXPECT_EQ(each.lane, b.tasks()[*other].lane);
        EXPECT_EQ(each.receiver, b.tasks()[*other].receiver);
        std::vector<TaskKey> needs, others;
        for (const TaskIndex needed : a.dependencies(task)) {
            needs.push_back(a.tasks()[needed].key);
        }
        for (const TaskIndex needed : b.dependencies(*other)) {
            others.push_back(b.tasks()[needed].key);
        }
        EXPECT_EQ(needs, others) << to_string(each.key);
    }
    EXPECT_EQ(a.shape().num_lanes(), b.shape().num_lanes());
    EXPECT_EQ(a.shape().replicas, b.shape().replicas);
}

TEST(PipelineJson, GivesEveryScheduleBack) {
    for (const Schedule& schedule : all_schedules()) {
        for (const Checkpoint mode : {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}) {
            for (const RecomputeStart start : {RecomputeStart::early, RecomputeStart::ordinary}) {
                PipelineShape shape{.num_partitions = 4,
                                    .num_micro_batches = 8,
                                    .checkpoint = mode,
                                    .skips = {{PartitionId{1}, {PartitionId{1}}}},
                                    .recompute_start = start,
                                    .replicas = mode == Checkpoint::never ? 2 : 1};
                shape.placement = placement_of(schedule, 4, 2);
                const std::vector<SkipLayers> skips = {{LayerId{0}, {LayerId{1}, LayerId{2}, LayerId{3}}}};
                std::ranges::copy(skip_routes(skips, Balance({1, 1, 1, 1}), shape.placement).routes,
                                  std::back_inserter(shape.skips));
                shape.joins_pairs = start == RecomputeStart::early;
                if (is_synchronous(schedule) && !is_bidirectional(schedule)) {
                    const std::vector<LayerId> all = {LayerId{0}, LayerId{1}, LayerId{2}, LayerId{3}};
                    shape.shared =
                        shared_routes({{all, start == RecomputeStart::early}}, Balance({1, 1, 1, 1}), shape.placement);
                }
                const TaskGraph graph = make_schedule(schedule, shape);
                SCOPED_TRACE(pipeline_json(graph));
                expect_same(parse_pipeline_json(pipeline_json(graph)), graph);
            }
        }
    }
}

TEST(PipelineJson, ReadsAsAPerson) {
    const TaskGraph graph = make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2});
    EXPECT_EQ(pipeline_json(graph),
              R"({"partitions":2,"micro_batches":2,"checkpoint":"except_last","loss":"mini_batch",)"
              R"("recompute_start":"early","replicas":1,"placement":[0,1],"skips":[],)"
              R"("programs":["0F0 0F1 0B1 0R0 0B0","1F0 1F1 1L 1B1 1R0 1B0"]})");
}

TEST(PipelineJson, RefusesWhatIsNoPipeline) {
    const std::string whole =
        pipeline_json(make_schedule(Schedule::gpipe, {.num_partitions = 2, .num_micro_batches = 2}));
    const auto with = [&](const std::string& from, const std::string& to) {
        std::string text = whole;
        return text.replace(text.find(from), from.size(), to);
    };
    const auto refuses = [](const std::string& text, const std::string& why) {
        EXPECT_THAT(thrown<Error>([&] { parse_pipeline_json(text); }), HasSubstr(why)) << text;
    };
    refuses("{", "the recorded pipeline is '{'; it is one JSON object; record the run again");
    refuses("[]", "the recorded pipeline is '[]'; it is one JSON object; record the run again");
    refuses("null", "the recorded pipeline is 'null'; it is one JSON object; record the run again");
    refuses(with("\"partitions\":2", "\"partitions\":\"2\""),
            "has the partitions \"2\"; every pipeline has a whole number of that name; record the run again");
    refuses(with("\"partitions\":2", "\"partitions\":0"), "number of partitions is 0");
    refuses(with("[0,1]", "[0,-1]"), "-1");
    refuses(with("[0,1]", "[0,7]"), "7");
    refuses(with("\"skips\":[]", "\"skips\":[[1,9]]"), "skip 0 runs");
    refuses(with("\"skips\":[]", "\"skips\":[[0]]"), "to none");
    refuses(with("mini_batch", "maxi_batch"),
            "the scope of the loss is 'maxi_batch'; it must be one of mini_batch, micro_batch");
    refuses(with("0F1", "0X1"), "holds the task '0X1'; a task is partition, letter and micro-batch");
    refuses(with("0F1", "0F99999999999"), "'0F99999999999'");
    refuses(with("0F1", "17"), "'17'");
    refuses(with("0F1", "0F0"), "twice");
    refuses(with("0F1", "1F1"), "where its partition is not");
    refuses(with("0F0 0F1", "0F0"), "can never finish");
    refuses(with("\"0F0 0F1 0B1 0R0 0B0\",", ""), "programs of 1 lanes");
    const auto with_joints = [&](const std::string& joints) {
        return with("\"programs\"", "\"joints\":" + joints + ",\"programs\"");
    };
    refuses(with_joints("7"), "has the joints 7; every pipeline has a list of lists of pairs of that name");
    refuses(with_joints("[[[0,-1]],[]]"), "on lane 0, which has 5; joined tasks are two or more, in order");
    refuses(with_joints("[[[0,1]],[]]"), "joins 1 tasks from 0 on lane 0, which has 5");
    refuses(with_joints("[[[4,2]],[]]"), "joins 2 tasks from 4 on lane 0, which has 5");
    refuses(with_joints("[[[9,2]],[]]"), "joins 2 tasks from 9 on lane 0, which has 5");
    refuses(with_joints("[[[1,2],[2,2]],[]]"), "joins 2 tasks from 2 on lane 0, which has 5");
    refuses(with_joints("[[],[],[[0,2]]]"), "joins 2 tasks from 0 on lane 2, which has 0");
    refuses(with("\"replicas\":1", "\"replicas\":1,\"bidirectional\":1"),
            "has the bidirectional 1; every pipeline has a truth value of that name");
    refuses(with("\"micro_batches\":2", "\"micro_batches\":3,\"bidirectional\":true"),
            "the pipeline is bidirectional with 2 partitions on 2 lanes, 3 micro-batches");
}

// Texts of builds that knew no bidirectional pipelines, joined tasks, shared parameters or skips with several readers.
TEST(PipelineJson, ReadsWhatAnEarlierBuildWrote) {
    const std::string text =
        R"({"partitions":3,"micro_batches":2,"checkpoint":"never","loss":"mini_batch","recompute_start":"early",)"
        R"("replicas":1,"placement":[0,1,2],"skips":[[0,2]],)"
        R"("programs":["0F0 0F1 0B1 0B0","1F0 1F1 1B1 1B0","2F0 2F1 2L 2B1 2B0"]})";
    const TaskGraph graph = parse_pipeline_json(text);
    expect_same(graph, make_schedule(Schedule::gpipe, {.num_partitions = 3,
                                                       .num_micro_batches = 2,
                                                       .checkpoint = Checkpoint::never,
                                                       .skips = {{PartitionId{0}, {PartitionId{2}}}}}));
    EXPECT_EQ(graph.joints().size(), 0U);
    EXPECT_FALSE(graph.shape().bidirectional);
    EXPECT_EQ(pipeline_json(graph), text);
}
}  // namespace
}  // namespace pipescope
