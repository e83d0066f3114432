#include "cluster/asked_cuts.h"
#include "base/error.h"
#include "cluster/cluster_plan.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kEight = "gpt:layers=8,hidden=64,heads=8,sequence=16,vocabulary=128";

std::vector<std::int64_t> layers_of(const LayoutStep& step) {
    return step.simulation.options.balance.layers_per_partition();
}

TEST(AskedCuts, AreNumbersOfBlocksByPartition) {
    EXPECT_EQ(parse_cuts("even"), Cuts::even);
    EXPECT_EQ(parse_cuts("quickest"), Cuts::quickest);
    EXPECT_THAT(parse_cuts("9,8,8,7").blocks(), ElementsAre(9, 8, 8, 7));
    EXPECT_THAT(parse_cuts("0,8,0").blocks(), ElementsAre(0, 8, 0));
    EXPECT_EQ(to_string(parse_cuts("9,8,8,7")), "9,8,8,7");
}

// The strings are those of Megatron-LM's own help and of its tests, expanded by hand.
TEST(AskedCuts, ReadMegatronsLayouts) {
    EXPECT_THAT(parse_cuts("Et*3|t*4|tt,tt|t*3L").blocks(), ElementsAre(3, 4, 4, 3));
    const Cuts grouped = parse_cuts("Ettt|(tt|)*3mL");
    EXPECT_THAT(grouped.blocks(), ElementsAre(3, 2, 2, 2, 0));
    EXPECT_EQ(grouped.modules(), 1);
    EXPECT_THAT(parse_cuts("E|(t*2|t|)*2L").blocks(), ElementsAre(0, 2, 1, 2, 1, 0));
    EXPECT_EQ(parse_cuts("EttL").modules(), 0);
}

TEST(AskedCuts, RefuseTextsThatAreNone) {
    const auto refuses = [](const std::string& text, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_cuts(text); }),
                    AllOf(HasSubstr("--cuts is '"), HasSubstr(part), HasSubstr("; ")))
            << text;
    };
    refuses("evn", "it must be even, quickest, numbers of blocks, or a layout of Megatron-LM");
    refuses("9,-1", "each number must be at least 0");
    refuses("9,,8", "");
    refuses("Et|tx|L", "its 'x' is no part of a layout");
    refuses("t|tL", "begin it with E");
    refuses("Et|EtL", "begin it with E");
    refuses("Et|t", "end it with L");
    refuses("EtL|t", "end it with L");
    refuses("E(t|*2L", "a '(' has no ')'");
    refuses("Et)L", "it has a ')' without '('");
    refuses("Et*|L", "a '*' is followed by no usable number");
    refuses("Etm|L", "write mL without a |");
    refuses("EmtL", "write m after t");
    refuses("E((t*1000)*1000)*1000L", "more than 200000 parts");
    refuses("E(t|)*5000L", "a pipeline has at most 4096");
    refuses("E" + std::string(100, '(') + "t" + std::string(100, ')') + "L", "its brackets are too deep");
}

TEST(AskedCuts, AreSimulated) {
    const Cluster cluster = plain_cluster(2);
    Layout layout{.pipeline = 4, .batch = 8};
    const LayoutStep even = step_of(kEight, cluster, layout);
    layout.cuts = parse_cuts("2,2,2,2");
    EXPECT_EQ(step_of(kEight, cluster, layout).step_ns(), even.step_ns());
    layout.cuts = parse_cuts("E|t*4|t*4|L");
    const LayoutStep ends_alone = step_of(kEight, cluster, layout);
    EXPECT_THAT(layers_of(ends_alone), ElementsAre(1, 4, 4, 1));
    EXPECT_GT(ends_alone.step_ns(), even.step_ns());
    EXPECT_EQ(to_string(ends_alone.layout), "p4 d1 t1 v1 b1 cuts 0,4,4,0");
}

// Partition k of Megatron's string is on lane k modulo the lanes; in a V it is the model's k-th partition too.
TEST(AskedCuts, OfInterleavedAndVPipelinesAreInTheModelsOrder) {
    const Cluster cluster = plain_cluster(2);
    for (const Schedule& schedule : {Schedule(Schedule::interleaved_1f1b), Schedule(Schedule::zero_bubble_v)}) {
        const Layout layout{
            .pipeline = 2, .interleave = 2, .batch = 8, .schedule = schedule, .cuts = parse_cuts("1,3,2,2")};
        EXPECT_THAT(layers_of(step_of(kEight, cluster, layout)), ElementsAre(2, 3, 2, 3)) << to_string(schedule);
    }
}

TEST(AskedCuts, ThatDoNotFitTheModelOrTheLayoutAreRefused) {
    const Cluster cluster = plain_cluster(2);
    const auto refuses = [&](const std::string& cuts, int pipeline, const std::string& part,
                             const std::string& model = kEight) {
        const Layout layout{.pipeline = pipeline, .batch = 8, .cuts = parse_cuts(cuts)};
        EXPECT_THAT(thrown<UsageError>([&] { step_of(model, cluster, layout); }), HasSubstr(part)) << cuts;
    };
    refuses("2,2,2", 4, "--cuts is '2,2,2'; it has 3 partitions, the layout has 4");
    refuses("2,2,2,3", 4, "its numbers sum to more than 8, the model has 8 blocks; let the numbers sum to it");
    refuses("2,2,2,1", 4, "its numbers sum to 7, the model has 8 blocks");
    refuses("4,0,2,2", 4, "partition 1 has no block; only the first one");
    refuses("9223372036854775807,9223372036854775807,1,1", 4, "its numbers sum to more than 8");
    refuses("Et*4|t*4mL", 2, "it has 1 module that predict further tokens (m), the model has 0");
    refuses("Et*4|t*4L", 2, "the model has 1", kEight + ",mtp=1");
}

TEST(AskedCuts, OfEmbeddingAndLossAloneLeaveOneBlockForEachOtherPartition) {
    const Layout layout{.pipeline = 5, .interleave = 2, .batch = 10};
    const LayoutStep step = step_of(kEight, plain_cluster(2), layout);
    EXPECT_THAT(layers_of(step), ElementsAre(1, 1, 1, 1, 1, 1, 1, 1, 1, 1));
}

TEST(AskedCuts, LimitAPlanToLayoutsWithAsManyPartitions) {
    ClusterPlanRequest request{.layout = {.batch = 16, .cuts = parse_cuts("1,2,2,3")}};
    const ClusterPlan plan = plan_cluster(parse_language_model(kEight), plain_cluster(2), request);
    ASSERT_FALSE(plan.candidates.empty());
    for (const ClusterCandidate& each : plan.candidates) {
        EXPECT_EQ(each.step.layout.pipeline * each.step.layout.interleave, 4);
        EXPECT_THAT(layers_of(each.step), ElementsAre(2, 2, 2, 4));
    }
    request.layout.cuts = parse_cuts("1,2,2,2");
    EXPECT_THAT(thrown<UsageError>([&] { plan_cluster(parse_language_model(kEight), plain_cluster(2), request); }),
                HasSubstr("its numbers sum to 7"));
}
}  // namespace
}  // namespace pipescope
