#include "trace/foreign/task_rules.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::string file_of(const std::string& rules) {
    return R"({"format": "pipescope.task-rules", "version": 1, "rules": [)" + rules + "]}";
}

void expect_task(const TaskRules& rules, const char* name, TaskKind kind, std::optional<std::int32_t> partition,
                 std::optional<std::int32_t> micro_batch) {
    const auto meaning = rules.meaning_of(name);
    ASSERT_TRUE(meaning) << name;
    EXPECT_EQ(meaning->role, RangeRole::task) << name;
    EXPECT_EQ(meaning->task, kind) << name;
    EXPECT_EQ(meaning->partition, partition) << name;
    EXPECT_EQ(meaning->micro_batch, micro_batch) << name;
}

TEST(TaskRules, KnowTheNamesOfPyTorchsSchedules) {
    const TaskRules rules;
    expect_task(rules, "PP:3F12", TaskKind::forward, 3, 12);
    expect_task(rules, "PP:0B0", TaskKind::backward, 0, 0);
    expect_task(rules, "PP:1I2", TaskKind::backward, 1, 2);
    expect_task(rules, "PP:1W2", TaskKind::backward_weight, 1, 2);
    expect_task(rules, "1W2", TaskKind::backward_weight, 1, 2);  // in a picture that torch drew
    expect_task(rules, "Forward 7", TaskKind::forward, std::nullopt, 7);
    expect_task(rules, "Backward 0", TaskKind::backward, std::nullopt, 0);
    expect_task(rules, "Optimizer.step#AdamW.step", TaskKind::optimizer, std::nullopt, std::nullopt);
    EXPECT_EQ(rules.meaning_of("PP:2RECV_B5")->role, RangeRole::receive_backward);
    EXPECT_EQ(rules.meaning_of("gloo:recv")->role, RangeRole::receive);
    EXPECT_EQ(rules.meaning_of("nccl:send 0->1")->role, RangeRole::send);
    EXPECT_EQ(rules.meaning_of("ProfilerStep#12")->step, 12);
    for (const char* name : {"PP:1UNSHARD", "PP:(0F1;2B0)OVERLAP_F_B", "Forward", "xPP:1F0", "gloo:all_reduce"}) {
        EXPECT_FALSE(rules.meaning_of(name)) << name;
    }
    EXPECT_TRUE(rules.meaning_of("Optimizer.step#" + std::string(1'000'000, 'x')));
}

TEST(TaskRules, SayWhichNumberIsOutOfRange) {
    const TaskRules rules;
    EXPECT_EQ(rules.meaning_of("PP:1022F65534")->fault, "");
    EXPECT_EQ(rules.meaning_of("PP:1023F0")->fault,
              "the partition '1023', which must be a whole number from 0 to 1022");
    EXPECT_EQ(rules.meaning_of("PP:0F70000")->fault,
              "the micro-batch '70000', which must be a whole number from 0 to 65534");
    EXPECT_EQ(rules.meaning_of("ProfilerStep#99999999999")->fault,
              "the step '99999999999', which must be a whole number from 0 to 16777214");
}

TEST(TaskRules, OfTheUserComeFirst) {
    const TaskRules rules = TaskRules::parse(
        file_of(
            R"json({"name": "mine", "pattern": "(?:PP|stage):(?<partition>\\d)F([a-z(]?)(?<micro_batch>\\d+)",
                    "kind": "recompute"},
                   {"name": "steps", "pattern": "fwd", "kind": "forward", "partition": 2, "micro_batch": "count"})json"),
        "mine.json");
    expect_task(rules, "PP:3F12", TaskKind::recompute, 3, 12);
    expect_task(rules, "stage:1Fa4", TaskKind::recompute, 1, 4);
    expect_task(rules, "fwd", TaskKind::forward, 2, std::nullopt);
    expect_task(rules, "PP:3B12", TaskKind::backward, 3, 12);
}

/// The meaning of a name by a rule for forwards on partition 0 with this pattern, if it is the one that matches.
std::optional<RangeMeaning> meaning_by(const std::string& pattern, const std::string& name) {
    const TaskRules rules = TaskRules::parse(
        file_of(R"json({"name": "a", "pattern": ")json" + pattern + R"json(", "kind": "forward", "partition": 0})json"),
        "r.json");
    const auto meaning = rules.meaning_of(name);
    return meaning && meaning->rule == 0 ? meaning : std::nullopt;
}

TEST(TaskRules, MatchInLinearTimeWhateverThePattern) {
    const std::string long_name(10'000, 'a');
    for (const char* pattern : {"(a+)+b", "(a|aa)+b", "(.*)*(.*)*x", R"((\\w+ ?)+ #(?<step>\\d+))"}) {
        EXPECT_FALSE(meaning_by(pattern, long_name)) << pattern;
    }
    EXPECT_EQ(meaning_by(R"((\\w+ ?)+ #(?<micro_batch>\\d+))", long_name + " #7")->micro_batch, 7);
}

TEST(TaskRules, TakeBothSpellingsOfNamedParts) {
    EXPECT_EQ(meaning_by(R"(fwd (?<micro_batch>\\d+))", "fwd 3")->micro_batch, 3);
    EXPECT_EQ(meaning_by(R"(fwd (?P<micro_batch>\\d+))", "fwd 3")->micro_batch, 3);
    EXPECT_EQ(meaning_by(R"(\\(?<a>[(?<]+(?<micro_batch>\\d+))", "<a>(?<3")->micro_batch, 3);
}

TEST(TaskRules, MatchCharactersNotBytes) {
    EXPECT_EQ(meaning_by(R"(. (?<micro_batch>\\d+))", "\u65e5 2")->micro_batch, 2);
    EXPECT_TRUE(meaning_by("[\u00e9\u00e8]", "\u00e9"));
    EXPECT_FALSE(meaning_by("..", "\u00e9"));
}

TEST(TaskRules, RefuseABadFileWithOneMessage) {
    const auto refused = [](const std::string& text, const std::string& why) {
        EXPECT_THAT(thrown<TaskRulesError>([&] { TaskRules::parse(text, "r.json"); }),
                    AllOf(HasSubstr("r.json"), HasSubstr(why)))
            << text;
    };
    refused("{", "is not valid JSON");
    refused("{}", "its \"format\" must be \"pipescope.task-rules\"");
    refused(R"({"format": "pipescope.task-rules", "version": 2, "rules": []})", "has the version 2");
    refused(file_of(""), "rules is []; it must be a list of one rule or more");
    refused(file_of("7"), "rules[0] is 7; it must be an object");
    refused(file_of(std::string(300'000, '[') + std::string(300'000, ']')), "nests deeper than 64 levels");
    refused(file_of(R"({"pattern": "x", "kind": "forward"})"), "rule 1: name is missing");
    refused(file_of(R"({"name": "a", "pattern": "x", "kind": "foward"})"),
            "rule 1 ('a'): the kind 'foward' is unknown; the nearest kind is forward");
    refused(file_of(R"({"name": "a", "patern": "x"})"), "rule 1: patern is unknown; the nearest key is pattern");
    refused(R"({"format": "pipescope.task-rules", "version": 1, "rule": [], "rules": [{"name": "a"}]})",
            "rule is unknown; the nearest key is rules");
    refused(file_of(R"({"name": "a", "pattern": "x(", "kind": "forward"})"), "is no regular expression");
    refused(file_of(R"({"name": "a", "pattern": ")" + std::string(100'000, '(') + R"(", "kind": "forward"})"),
            "is no regular expression");
    refused(file_of(R"json({"name": "a", "pattern": "(a{1,900}){1,900}", "kind": "forward"})json"),
            "is no regular expression");
    refused(file_of(R"json({"name": "ahead", "pattern": "(?=a)a", "kind": "forward"})json"),
            "rule 1 ('ahead'): the pattern '(?=a)a' is no regular expression");
    refused(file_of(R"json({"name": "a", "pattern": "(?<!b)a", "kind": "forward"})json"), "without lookahead");
    refused(file_of(R"json({"name": "a", "pattern": "(a)\\1", "kind": "forward"})json"), "and back references");
    refused(file_of(R"json({"name": "a", "pattern": "(?<step>a)(?<step>b)", "kind": "forward"})json"),
            "has a second part 'step'");
    refused(file_of(R"json({"name": "a", "pattern": "(?<stage>x)", "kind": "forward"})json"), "has a part 'stage'");
    refused(file_of(R"json({"name": "a", "pattern": "(?<kind>x)", "kind": "forward"})json"),
            "the rule needs \"kinds\"");
    refused(file_of(R"({"name": "a", "pattern": "x", "kind": "forward", "partition": -1})"), "partition is -1");
    refused(file_of(R"json({"name": "a", "pattern": "(?<partition>x)", "kind": "forward", "partition": 1})json"),
            "leave one out");
    refused(file_of(R"json({"name": "a", "pattern": "(?<chunk>\\d)", "kind": "forward", "partition": 1})json"),
            "leave one out");
    EXPECT_THAT(thrown<TaskRulesError>([] { TaskRules::load("/no/such/rules.json"); }),
                HasSubstr("rules.json: cannot be opened"));
}
// The functions are those of the programs' sources, as PyTorch's profiler names them with stacks.
TEST(TaskRules, OfTheExampleKnowPythonFunctionsOfOtherPrograms) {
    const TaskRules rules = TaskRules::load(PIPESCOPE_DOCS "/examples/python_stacks.json");
    const auto kind_of = [&](const char* name) {
        const std::optional<RangeMeaning> meaning = rules.meaning_of(name);
        return meaning && meaning->role == RangeRole::task ? std::optional(meaning->task) : std::nullopt;
    };
    EXPECT_EQ(kind_of("megatron/core/pipeline_parallel/schedules.py(282): forward_step"), TaskKind::forward);
    EXPECT_EQ(kind_of("/opt/megatron/core/pipeline_parallel/schedules.py(414): backward_step"), TaskKind::backward);
    EXPECT_EQ(kind_of("deepspeed/runtime/pipe/engine.py(693): _exec_forward_pass"), TaskKind::forward);
    EXPECT_EQ(kind_of("deepspeed/runtime/pipe/engine.py(759): _exec_backward_pass"), TaskKind::backward);
    const auto role_of = [&](const char* name) { return rules.meaning_of(name).value_or(RangeMeaning{}).role; };
    EXPECT_EQ(role_of("deepspeed/runtime/pipe/engine.py(1024): _exec_send_activations"), RangeRole::send_forward);
    EXPECT_EQ(role_of("deepspeed/runtime/pipe/engine.py(1116): _exec_recv_activations"), RangeRole::receive_forward);
    EXPECT_EQ(role_of("deepspeed/runtime/pipe/engine.py(1060): _exec_send_grads"), RangeRole::send_backward);
    EXPECT_EQ(role_of("deepspeed/runtime/pipe/engine.py(1159): _exec_recv_grads"), RangeRole::receive_backward);
    // Its optimizer calls one of torch, which names itself.
    EXPECT_EQ(kind_of("deepspeed/runtime/pipe/engine.py(1221): _exec_optimizer_step"), std::nullopt);
    EXPECT_EQ(kind_of("megatron/core/pipeline_parallel/schedules.py(9): forward_step_calc_loss"), std::nullopt);
    EXPECT_EQ(kind_of("deepspeed/runtime/pipe/engine.py(1): _exec_schedule"), std::nullopt);
}
}  // namespace
}  // namespace pipescope
