#include "trace/foreign/rule_suggestion.h"

#include "tests/temporary_folder.h"
#include "tests/trace/rank_files.h"
#include "trace/open_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;
using testing::SizeIs;

class RuleSuggestion : public testing::Test {
protected:
    std::vector<SuggestedRule> suggested(const std::vector<std::string>& names) const {
        RankFile file(0, 1);
        double time = 0;
        for (const std::string& name : names) {
            file.range(name, time, time + 1);
            time += 2;
        }
        std::vector<OpenedTrace> traces;
        traces.push_back(open_trace(file.write(folder_ / "t.json")));
        return suggest_rules(traces, TaskRules());
    }

    const TemporaryFolder folder_;
};

TEST_F(RuleSuggestion, FindsWordsAndNumbers) {
    const auto rules =
        suggested({"forward_mb3_stage1", "forward_mb4_stage1", "backward_mb3_stage1", "aten::mm", "layer 3 forward"});
    ASSERT_THAT(rules, SizeIs(1));
    EXPECT_EQ(rules[0].pattern, "(?<kind>backward|forward)_mb(?<micro_batch>\\d+)_stage(?<partition>\\d+)");
    EXPECT_THAT(rules[0].kinds, ElementsAre(Pair("backward", "backward"), Pair("forward", "forward")));
    EXPECT_EQ(rules[0].matches, 3U);
}

TEST_F(RuleSuggestion, TakesANumberWithoutAWordForTheMicroBatch) {
    const auto rules = suggested({"chunk 1: FWD #7", "train step 3", "Optimizer.step#Adam.step", "recv_forward 2"});
    ASSERT_THAT(rules, SizeIs(3));
    EXPECT_EQ(rules[0].kind, "receive_forward");
    EXPECT_EQ(rules[1].pattern, "chunk\\ (?<partition>\\d+)\\:\\ FWD\\ \\#(?<micro_batch>\\d+)");
    EXPECT_EQ(rules[1].kind, "forward");
    EXPECT_EQ(rules[2].pattern, "train\\ step\\ (?<step>\\d+)");
}

TEST_F(RuleSuggestion, IgnoresSuffixesOfCallsAndWhatIsKnown) {
    const auto rules = suggested({"fwd 1, op_id = 3", "fwd 1, op_id = 4", "fwd 2, seq = 5, op_id = 6", "PP:0F1",
                                  "autograd::engine::evaluate_function: MmBackward0", "MmBackward0"});
    ASSERT_THAT(rules, SizeIs(1));
    EXPECT_EQ(rules[0].matches, 3U);
    EXPECT_EQ(rules[0].example, "fwd 1");
    EXPECT_THAT(suggested({"aten::linear", "forwarded 3", "my function"}), IsEmpty());
}

TEST_F(RuleSuggestion, WritesRulesThatMatchTheirRanges) {
    const std::vector<std::string> names{"[s1] bwd(2)", "[s1] fwd(2)", "Iteration 7"};
    const TaskRules rules = TaskRules::parse(rules_file(suggested(names)), "r.json");
    for (const std::string& name : names) {
        const std::optional<RangeMeaning> meaning = rules.meaning_of(name);
        ASSERT_TRUE(meaning.has_value()) << name;
        EXPECT_TRUE(meaning->fault.empty());
        EXPECT_FALSE(rules.rules()[meaning->rule].built_in);
    }
    EXPECT_EQ(rules.meaning_of("[s1] bwd(2)")->partition, 1);
    EXPECT_EQ(rules.meaning_of("[s1] bwd(2)")->micro_batch, 2);
    EXPECT_EQ(rules.meaning_of("[s1] bwd(2)")->task, TaskKind::backward);
    EXPECT_EQ(rules.meaning_of("Iteration 7")->step, 7);
}
}  // namespace
}  // namespace pipescope
