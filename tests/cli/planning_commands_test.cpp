// Effects of each option of balance, plan and simulate.

#include "tests/cli/user.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::UnorderedElementsAre;

/// Layers with these forward times in ms, and twice that backward. A million operations per ms.
std::string chain(const std::vector<int>& forward_ms, int output_bytes = 1000, int saved_bytes = 0) {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (const int ms : forward_ms) {
        layers.push_back({{"name", "l" + std::to_string(layers.size())},
                          {"forward_ns", {ms * 1'000'000}},
                          {"backward_ns", {ms * 2'000'000}},
                          {"flops", {ms * 1'000'000}},
                          {"output_bytes", {output_bytes}},
                          {"saved_bytes", {saved_bytes}}});
    }
    return nlohmann::ordered_json{
        {"format", "pipescope.profile"}, {"version", 1}, {"model", "chain"}, {"samples", {1}}, {"layers", layers}}
        .dump();
}

class PlanningCommands : public testing::Test {
protected:
    PlanningCommands() { user.writes("p.json", chain({10, 10, 10, 10})); }

    std::string refused(const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, 2) << line << "\n" << result.err;
        EXPECT_THAT(result.err, StartsWith("pipescope: ")) << line;
        EXPECT_EQ(result.out, "") << line;
        return result.err;
    }
    std::int64_t step_of(const std::string& line) const {
        return user.succeeds(line + " --json").json().at("step_ns").get<std::int64_t>();
    }

    User user;
};

TEST_F(PlanningCommands, AutoFindsAScheduleThatOthersTake) {
    auto profile = nlohmann::ordered_json::parse(chain({10, 10, 10, 10}));
    for (auto& layer : profile.at("layers")) {
        layer["parameter_bytes"] = layer["gradient_bytes"] = 8;  // so that half of the backward is for the weights
    }
    user.writes("w.json", profile.dump());
    const std::string pipeline = " w.json -m 8 --batch 8 --checkpoint never";
    const auto found =
        user.succeeds("simulate" + pipeline + " --balance 1,1,1,1 --schedule auto --schedule-output s.csv --json")
            .json();
    EXPECT_EQ(found.at("schedule"), "auto");
    EXPECT_LE(found.at("lower_bound_ns").get<std::int64_t>(), found.at("step_ns").get<std::int64_t>());
    EXPECT_LT(found.at("step_ns").get<std::int64_t>(),
              step_of("simulate" + pipeline + " --balance 1,1,1,1 --schedule 1f1b"));
    const auto again =
        user.succeeds("simulate w.json --batch 8 --checkpoint never --balance 1,1,1,1 --schedule s.csv --json").json();
    EXPECT_EQ(again.at("step_ns"), found.at("step_ns"));
    EXPECT_EQ(again.at("lower_bound_ns"), found.at("lower_bound_ns"));
    const auto named =
        user.succeeds("simulate" + pipeline + " --balance 1,1,1,1 --schedule 1f1b --trace named.sqlite --json").json();
    EXPECT_EQ(named.at("lower_bound_ns"), found.at("lower_bound_ns")) << "it is of no order";
    EXPECT_NEAR(named.at("gap_above_bound").get<double>(),
                named.at("step_ns").get<double>() / named.at("lower_bound_ns").get<double>() - 1, 1e-12);
    EXPECT_FALSE(user.succeeds("simulate" + pipeline + " --balance 1,1,1,1 --schedule pipedream --json")
                     .json()
                     .contains("lower_bound_ns"));

    EXPECT_LE(step_of("balance" + pipeline + " -n 3 --schedule auto"),
              step_of("balance" + pipeline + " -n 3 --schedule zero-bubble-h1"));
    const auto best_of_plan = [&](const std::string& schedules) {
        return user.succeeds("plan w.json -n 4 -m 8 --batch 8 --checkpoint never --json --schedule " + schedules)
            .json()
            .at("candidates")
            .at(0);
    };
    EXPECT_LE(best_of_plan("auto").at("step_ns").get<std::int64_t>(),
              best_of_plan("gpipe,1f1b,interleaved,zero-bubble-h1,v-half").at("step_ns").get<std::int64_t>());

    const std::string plan = "plan w.json -n 4 -m 8 --batch 8 --checkpoint never --json --schedule ";
    const auto planned = user.succeeds(plan + "1f1b,auto --schedule-output best.csv").json().at("candidates").at(0);
    std::string balance;
    for (const auto& layers : planned.at("balance")) {
        balance += (balance.empty() ? "" : ",") + std::to_string(layers.get<int>());
    }
    EXPECT_EQ(step_of("simulate w.json --batch 8 --checkpoint never --schedule best.csv --balance " + balance),
              planned.at("step_ns").get<std::int64_t>());
}

TEST_F(PlanningCommands, BalanceCutsByTheAlgorithmNamed) {
    user.writes("seven.json", chain({10, 10, 10, 10, 10, 10, 10}));
    user.writes("head.json", chain({2, 2, 2, 2, 2, 14}));
    const auto cut = [&](const std::string& profile, int n, const std::string& algorithm) {
        const auto object = user.succeeds("balance " + profile + " -n " + std::to_string(n) +
                                          " -m 8 --batch 8 --checkpoint never --json --algorithm " + algorithm)
                                .json();
        EXPECT_EQ(object.at("algorithm"), algorithm);
        EXPECT_EQ(object.contains("repaired"), algorithm == "block");
        return object.at("balance").get<std::vector<int>>();
    };
    // torchgpipe's method leaves the remainder to the last partition; the other algorithms are as even as seven layers
    // can be.
    EXPECT_THAT(cut("seven.json", 4, "block"), ElementsAre(1, 1, 1, 4));
    EXPECT_THAT(cut("seven.json", 4, "minmax"), UnorderedElementsAre(1, 2, 2, 2));
    EXPECT_THAT(cut("seven.json", 4, "variance"), UnorderedElementsAre(1, 2, 2, 2));
    EXPECT_THAT(cut("seven.json", 4, "optimal"), UnorderedElementsAre(1, 2, 2, 2));
    // Costs 6, 6, 6, 6, 6, 42 in three parts: the head is always the largest part; the least variance halves the rest.
    EXPECT_THAT(cut("head.json", 3, "variance"), AnyOf(ElementsAre(2, 3, 1), ElementsAre(3, 2, 1)));
    EXPECT_THAT(cut("head.json", 3, "minmax").back(), 1);
    const auto warnings = [&](const std::string& more) {
        return user.succeeds("balance seven.json -n 2 -m 2 --batch 2 " + more).err;
    };
    EXPECT_NE(warnings("--algorithm minmax --speed 1,.5"), "");
    EXPECT_EQ(warnings("--algorithm variance --speed .5,.5"), "");
    EXPECT_EQ(warnings("--algorithm optimal --speed 1,.5"), "");
}

// With few cuts the planner finds the best of them in every schedule, as balance does.
TEST_F(PlanningCommands, PlanCutsAsWellAsBalance) {
    const std::vector<std::vector<int>> chains = {{7, 8, 1, 2, 9, 3, 4}, {1, 1, 1, 9, 1, 1, 1}, {12, 2, 7, 2, 5, 1, 1}};
    for (const std::vector<int>& forward_ms : chains) {
        user.writes("u.json", chain(forward_ms, 40'000'000));
        for (const std::string options :
             {"-m 2 --batch 4 --checkpoint never --schedule 1f1b --link-bandwidth 12GB/s",
              "-m 3 --batch 4 --checkpoint always --schedule gpipe --link-bandwidth 12GB/s"}) {
            const std::int64_t best = step_of("balance u.json -n 2 " + options);
            const auto plan = user.succeeds("plan u.json -n 2 --json " + options).json();
            EXPECT_EQ(plan.at("candidates").at(0).at("step_ns"), best) << options;
        }
    }
}

TEST_F(PlanningCommands, ExpectTheSameMeanStepOfOneNoisyProfile) {
    auto profile = nlohmann::json::parse(chain({10, 10, 10, 10}));
    for (auto& layer : profile["layers"]) {
        layer["forward_cv"] = layer["backward_cv"] = 0.5;
    }
    user.writes("noisy.json", profile.dump());
    const std::string plan = "plan noisy.json -n 2 -m 8 --batch 8 --checkpoint never --schedule gpipe";
    const auto best = user.succeeds(plan + " --json").json().at("candidates").at(0);
    EXPECT_LT(best.at("cost"), best.at("cost_mean"));
    const std::string simulate = "simulate noisy.json --balance 2,2 -m 8 --batch 8 --checkpoint never";
    const auto object = user.succeeds(simulate + " --json").json();
    EXPECT_DOUBLE_EQ(object.at("samples_per_second_mean"), 8e9 / object.at("step_mean_ns").get<double>());
    EXPECT_DOUBLE_EQ(object.at("utilization_mean"), 1 - object.at("bubble_mean").get<double>());
    const auto balanced = user.succeeds("balance noisy.json -n 2 -m 8 --batch 8 --checkpoint never --json").json();
    EXPECT_EQ(balanced.at("step_ns"), 540'000'000) << "(m + n - 1) * 60 ms is the step without noise";
    EXPECT_EQ(balanced.at("step_mean_ns"), object.at("step_mean_ns"));
    EXPECT_EQ(best.at("step_mean_ns"), object.at("step_mean_ns"));
    const auto rows = user.succeeds(simulate + " --schedule all --json").json().at("schedules");
    for (const auto& row : rows) {
        EXPECT_TRUE(row.contains("samples_per_second_mean") && row.contains("speedup_mean")) << row.at("name");
    }
    const auto quiet = user.succeeds("simulate p.json --balance 2,2 -m 8 --batch 8 --json").json();
    EXPECT_FALSE(quiet.contains("speedup_mean") || quiet.contains("utilization_mean"));
}

TEST_F(PlanningCommands, OutputNeverReplacesTheInput) {
    const std::string profile = user.reads("p.json");
    EXPECT_EQ(user.types_to_shell("ln -s p.json link.json").code, 0);
    for (const std::string output : {"p.json", "./p.json", "link.json"}) {
        const CommandResult result =
            user.types("simulate p.json --balance 2,2 -m 2 --batch 2 --force --trace " + output);
        EXPECT_EQ(result.code, 1);
        EXPECT_THAT(result.err, HasSubstr("is the input"));
    }
    EXPECT_EQ(user.reads("p.json"), profile);
    user.succeeds("simulate p.json --balance 2,2 -m 2 --batch 2 --trace t.sqlite");
    for (const std::string line :
         {"export t.sqlite --format chrome -o t.sqlite --force", "view t.sqlite --render t.sqlite --force",
          "view t.sqlite --report t.sqlite --force"}) {
        EXPECT_THAT(user.types(line).err, HasSubstr("t.sqlite is the input")) << line;
    }
    user.writes("c.json", "{}");
    EXPECT_THAT(user.types("simulate p.json --balance 2,2 -m 2 --batch 2 --device-types A100 --device-catalogue c.json "
                           "--trace c.json --force")
                    .err,
                HasSubstr("c.json is the input"));
    user.writes("links.json", R"({"format": "pipescope.links", "version": 1,
                                 "times": [{"bytes": 0, "ns": 1}, {"bytes": 8, "ns": 2}]})");
    user.writes("s.csv", "0F0,0B0\n");
    EXPECT_EQ(user.types_to_shell("ln links.json hard.json").code, 0);
    for (const std::string& line : {
             std::string("simulate p.json --balance 2,2 -m 2 --batch 2 --links links.json --trace links.json --force"),
             std::string("simulate p.json --balance 2,2 -m 2 --batch 2 --links links.json --trace hard.json --force"),
             std::string("simulate p.json --balance 2,2 --batch 2 --schedule s.csv --trace s.csv --force"),
             std::string("schedule s.csv -o ./s.csv --force"),
             std::string("export t.sqlite --task-rules s.csv --format csv -o s.csv --force"),
             std::string("merge t.sqlite --task-rules s.csv -o s.csv --force"),
             std::string("record -o s.csv --force -- cat s.csv"),
         }) {
        EXPECT_THAT(user.types(line).err, HasSubstr(" is the input")) << line;
    }
    user.succeeds("simulate p.json --balance 2,2 -m 2 --batch 2 --trace t.sqlite --force");
    EXPECT_FALSE(user.has("t.sqlite-wal"));
}

// A mistyped key of a file that people write would silently leave its value at the default. A profile may come from a
// later version.
TEST_F(PlanningCommands, JsonInputsRefuseUnknownKeysExceptThoseThatProgramsWrite) {
    const std::string simulate = "simulate p.json --balance 2,2 -m 2 --batch 2 ";
    user.succeeds(simulate + "--trace t.sqlite");
    struct Input {
        std::string text;
        std::string line;
    };
    const std::vector<Input> inputs = {
        {R"({"format": "pipescope.links", "version": 1, KEY"times": [{KEY"bytes": 0, "ns": 1}, {"bytes": 8, "ns": 2}]})",
         simulate + "--links in.json"},
        {R"({"format": "pipescope.devices", "version": 1, KEY"devices": [{KEY"name": "x", )"
         R"("flops_per_second": {KEY"float32": 1e12}, "memory_bytes": 1e12, "memory_bytes_per_second": 1e12, )"
         R"("link_bytes_per_second": 1e9, "source": "a test"}]})",
         simulate + "--device-types x --device-catalogue in.json"},
        {R"({"format": "pipescope.cluster", "version": 1, KEY"name": "c", "nodes": [{KEY"device": "A100", "count": 2, )"
         R"("devices": 4}], "between_nodes": {KEY"bytes_per_second": 1e9}})",
         "doctor --cluster in.json"},
        {R"({"format": "pipescope.task-rules", "version": 1, KEY"rules": [{KEY"name": "a", "pattern": "x", )"
         R"("kind": "step"}]})",
         "export t.sqlite --task-rules in.json --format csv -o t.csv --force"},
    };
    const std::string mark = "KEY";
    const auto with_key_at = [&](std::string text, std::size_t place) {
        for (std::size_t k = 0, at = text.find(mark); at != std::string::npos; at = text.find(mark), ++k) {
            text.replace(at, mark.size(), k == place ? R"("colour": 1, )" : "");
        }
        return text;
    };
    for (const Input& input : inputs) {
        user.writes("in.json", with_key_at(input.text, 99));
        user.succeeds(input.line);
        std::size_t places = 0;
        for (std::size_t at = 0; (at = input.text.find(mark, at)) != std::string::npos; ++at) {
            user.writes("in.json", with_key_at(input.text, places++));
            const CommandResult refused = user.types(input.line);
            EXPECT_NE(refused.code, 0) << input.line;
            EXPECT_THAT(refused.err + refused.out, AllOf(HasSubstr("colour"), HasSubstr("unknown"))) << input.line;
        }
        EXPECT_GE(places, 2U);
    }
    auto profile = nlohmann::ordered_json::parse(chain({10, 10, 10, 10}));
    profile["colour"] = profile["layers"][0]["colour"] = 1;
    user.writes("later.json", profile.dump());
    user.succeeds("simulate later.json --balance 2,2 -m 2 --batch 2");
}

TEST_F(PlanningCommands, NoOutputGetsTheNameOfAPartOfATrace) {
    const std::string simulate = "simulate p.json --balance 2,2 -m 2 --batch 2 ";
    user.succeeds(simulate + "--trace t.sqlite");
    for (const std::string& line :
         {std::string("export t.sqlite --format csv -o t.sqlite-wal"), simulate + "--trace t.sqlite-journal",
          simulate + "--trace t.sqlite-wal --force", std::string("merge t.sqlite -o ./t.sqlite-shm"),
          std::string("record -o t.sqlite-wal -- true"), std::string("view t.sqlite --report t.sqlite-wal")}) {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, 1) << line;
        EXPECT_THAT(result.err, HasSubstr(" is by its name a part of ")) << line;
    }
    for (const char* part : {"t.sqlite-wal", "t.sqlite-shm", "t.sqlite-journal"}) {
        EXPECT_FALSE(user.has(part));
    }
    user.succeeds("export t.sqlite --format csv -o t.csv");
}

TEST_F(PlanningCommands, StaggeredUpdatesAreBalancedPlannedAndCompared) {
    auto profile = nlohmann::ordered_json::parse(chain({10, 10, 10, 10}));
    for (auto& layer : profile.at("layers")) {
        layer["parameter_bytes"] = layer["gradient_bytes"] = 8;  // so that half of the backward is for the weights
    }
    user.writes("w.json", profile.dump());
    const std::string step = " -m 4 --batch 4 --checkpoint never --update staggered ";
    const std::int64_t work = 4 * 2 * 30'000'000;  // of a lane that never waits
    EXPECT_EQ(step_of("balance w.json -n 2 --schedule zero-bubble-2p" + step), work);
    EXPECT_EQ(step_of("balance w.json -n 2 --schedule auto" + step), work);
    const auto best = user.succeeds("plan w.json -n 2 --schedule 1f1b,zero-bubble-2p --json" + step).json();
    EXPECT_EQ(best.at("candidates").at(0).at("step_ns"), work);
    EXPECT_EQ(best.at("candidates").at(0).at("update"), "staggered");
}

TEST_F(PlanningCommands, SizesOutsideTheProfileAreExtrapolatedAloud) {
    const std::string pipeline = "p.json -m 2 --batch 64 ";
    EXPECT_EQ(user.succeeds("balance -n 2 --json " + pipeline).json().at("extrapolated"), true);
    EXPECT_EQ(user.succeeds("balance -n 2 --json p.json -m 2 --batch 2").json().at("extrapolated"), false);
}

constexpr const char* kCatalogue = R"({"format": "pipescope.devices", "version": 1, "devices": [
    {"name": "slow", "flops_per_second": {"float32": 1e9}, "memory_bytes": 1000000, "memory_bytes_per_second": 1e12,
     "price_per_hour": 2},
    {"name": "fast", "flops_per_second": {"float32": 4e9}, "memory_bytes": 2000000, "memory_bytes_per_second": 1e12}]})";

TEST_F(PlanningCommands, PlanEstimatesForEachDeviceTypeOfACatalogueAndTakesItsPrice) {
    user.writes("devices.json", kCatalogue);
    const std::string line =
        "plan p.json -n 1 -m 1 --batch 1 --checkpoint never --device-catalogue devices.json --device-types slow,fast ";
    const auto cost_by_type = [&](const std::string& prices) {
        std::map<std::string, double> costs;
        const auto plan = user.succeeds(line + prices + " --json").json();
        for (const auto& each : plan.at("candidates")) {
            EXPECT_EQ(each.at("estimated"), true);
            costs[each.at("device_type")] = each.at("cost").get<double>();
        }
        return costs;
    };
    // 40 million operations forward and, without parameters, as many backward: 80 ms on a slow device, 20 ms on a fast
    // one. A million samples are 1e6 steps.
    const double slow_hours = 0.080 * 1e6 / 3600;
    EXPECT_EQ(user.succeeds(line + "--json").json().at("candidates").at(0).at("device_type"), "fast");
    auto costs = cost_by_type("");
    EXPECT_NEAR(costs["slow"], 2 * slow_hours, 1e-3 * slow_hours) << "the catalogue's price";
    EXPECT_NEAR(costs["fast"], slow_hours / 4, 1e-3 * slow_hours) << "no price: lane-hours";
    costs = cost_by_type("--price-per-lane-hour slow=1,fast=8");
    EXPECT_NEAR(costs["slow"], slow_hours, 1e-3 * slow_hours);
    EXPECT_NEAR(costs["fast"], 2 * slow_hours, 1e-3 * slow_hours);
    costs = cost_by_type("--price-per-lane-hour 1");
    EXPECT_NEAR(costs["slow"], slow_hours, 1e-3 * slow_hours) << "what is typed, not the catalogue's price";
    costs = cost_by_type("--price-per-lane-hour 1,slow=3");
    EXPECT_NEAR(costs["slow"], 3 * slow_hours, 1e-3 * slow_hours) << "a type's own price goes first";
    EXPECT_EQ(user.succeeds(line + "--json").json().at("cost_unit"), "price per million samples");
    EXPECT_EQ(user.succeeds("plan p.json -n 1 --batch 2 --json").json().at("cost_unit"),
              "lane-hours per million samples");
    const CommandResult tight = user.types(line + "--memory-limit 1B --json");
    EXPECT_EQ(tight.code, 3) << "the smaller of the device's memory and the limit given";
}

TEST_F(PlanningCommands, PlanTriesEveryScheduleNamed) {
    std::map<std::string, int> tried;
    const auto plan =
        user.succeeds("plan p.json -n 2 -m 2,4 --batch 4 --checkpoint never --schedule gpipe,1f1b,interleaved --json")
            .json();
    for (const auto& each : plan.at("candidates")) {
        ++tried[each.at("schedule")];
        EXPECT_EQ(each.at("partitions").size(), each.at("schedule") == "interleaved" ? 4u : 2u);
    }
    EXPECT_EQ(tried, (std::map<std::string, int>{{"gpipe", 2}, {"1f1b", 2}, {"interleaved", 2}}));
}

TEST_F(PlanningCommands, SimulateStartsRecomputesEarlyOrOnceTheGradientIsThere) {
    // Two lanes of 20 + 40 ms, four micro-batches: forwards 100 ms; then 2 recomputes beside each other and 40 + 4 x
    // 60, or every backward 60: 2 x 60 + 3 x 60.
    const std::string line = "simulate p.json --balance 2,2 -m 4 --batch 4 --checkpoint always";
    EXPECT_EQ(step_of(line), 380'000'000);
    EXPECT_EQ(step_of(line + " --recompute early"), 380'000'000);
    EXPECT_EQ(step_of(line + " --recompute ordinary"), 400'000'000);
}

TEST_F(PlanningCommands, SimulateGoesBackwardInTheOrderAskedFor) {
    const auto backwards = [&](const std::string& order) {
        user.succeeds("simulate p.json --balance 4 -m 3 --batch 3 --checkpoint never --backward " + order +
                      " --trace t.sqlite --force");
        std::istringstream rows(user.succeeds("export t.sqlite --format csv -o -").out);
        std::vector<std::string> found;
        for (std::string row; std::getline(rows, row);) {
            const std::size_t at = row.find(",backward,0,");
            if (at != std::string::npos) {
                found.push_back(row.substr(at + 12, 1));
            }
        }
        return found;
    };
    EXPECT_THAT(backwards("last-first"), ElementsAre("2", "1", "0"));
    EXPECT_THAT(backwards("first-first"), ElementsAre("0", "1", "2"));
}

TEST_F(PlanningCommands, SimulateSharesALinkAmongTheCopiesNamed) {
    // One micro-batch on three lanes never has two copies at a time; four micro-batches do.
    user.writes("wide.json", chain({1, 1, 1}, 1'000'000));
    const std::string one =
        "simulate wide.json --balance 1,1,1 -m 1 --batch 1 --checkpoint never --link-bandwidth 1GB/s";
    EXPECT_EQ(step_of(one + " --link-sharing all"), step_of(one));
    const std::string four =
        "simulate wide.json --balance 1,1,1 -m 4 --batch 4 --checkpoint never --link-bandwidth 1GB/s";
    EXPECT_LT(step_of(four), step_of(four + " --link-sharing all"));
    EXPECT_LE(step_of(four), step_of(four + " --link-sharing sender"));
    EXPECT_LE(step_of(four + " --link-sharing sender"), step_of(four + " --link-sharing all"));
    // A skip is sent together with a boundary, and its gradient with the other boundary's. On a shared port, each pair
    // of 1 ms copies takes 2 ms.
    auto skipping = nlohmann::ordered_json::parse(chain({1, 1, 1}, 1'000'000));
    skipping["layers"][0]["stash"] = {{"far", {1'000'000}}};
    skipping["layers"][2]["pop"] = {"far"};
    user.writes("skip.json", skipping.dump());
    const std::string skip =
        "simulate skip.json --balance 1,1,1 -m 1 --batch 1 --checkpoint never --link-bandwidth 1GB/s";
    EXPECT_EQ(step_of(skip), 13'000'000);
    EXPECT_EQ(step_of(skip + " --link-sharing sender"), 15'000'000);
}

TEST_F(PlanningCommands, SimulateDividesTheBatchAmongReplicas) {
    const std::string line = "simulate p.json --balance 2,2 --checkpoint never -m 4 --json --batch ";
    const auto one = user.succeeds(line + "4").json();
    const auto two = user.succeeds(line + "8 --replicas 2").json();
    EXPECT_EQ(two.at("replicas"), 2);
    EXPECT_EQ(two.at("batch"), 8);
    EXPECT_EQ(two.at("micro_batches"), 4);
    EXPECT_EQ(two.at("step_ns"), one.at("step_ns")) << "no parameters, no sum of gradients";
    EXPECT_NEAR(two.at("samples_per_second").get<double>(), 2 * one.at("samples_per_second").get<double>(), 1e-6);
    EXPECT_NEAR(two.at("speedup").get<double>(), 2 * one.at("speedup").get<double>(), 1e-9);
}

// Whatever the base assumed or was given, the printed command leads to the printed figures.
TEST_F(PlanningCommands, AdvisePrintsCommandsThatGiveItsFigures) {
    auto host = nlohmann::json::parse(chain({7, 8, 1, 2, 9, 3, 4, 5}, 40'000'000, 1'000'000));
    host["device"] = "cpu";
    host["host_cores"] = 2;
    user.writes("host.json", host.dump());
    user.writes("plain.json", chain({7, 8, 1, 2, 9, 3, 4, 5}, 40'000'000, 1'000'000));
    user.writes("links of net.json", R"({"format": "pipescope.links", "version": 1, "times":
        [{"bytes": 0, "ns": 1000}, {"bytes": 1000000, "ns": 1000000}]})");
    std::map<std::string, int> kinds;
    for (const std::string& line :
         {std::string("host.json --balance 2,2,2,2 -m 4 --batch 16"),
          std::string("host.json --balance 2,2,2,2 --chunks=4 --batch 16 --link-bandwidth 1GB/s --link-latency 1ms"),
          std::string("host.json --balance 4,4 -m 4 --batch 8 --links 'links of net.json' --in-flight 4"),
          std::string("plain.json --balance 3,5 -m4 --batch 8 --devices gpu,gpu --expandable-segments"),
          std::string("plain.json --balance 4,4 -m 2 --batch 8 --replicas 2 --memory-limit 40MB --checkpoint never"),
          std::string("plain.json --balance 3,5 -m 4 --batch 8 --device-types A100 --backward first-first"),
          std::string("plain.json --balance 3,5 -m 4 --batch 8 --schedule auto --checkpoint never"),
          std::string("plain.json --balance 2,2,2,2 --placement 0,1,0,1 --schedule interleaved -m 4 --batch 8"),
          std::string(
              "plain.json --balance 1,1,1,1,1,1,1,1 --schedule dualpipe-v --checkpoint never -m 8 --batch 8")}) {
        const CommandResult result = user.types("advise " + line + " --json");
        EXPECT_TRUE(result.code == 0 || result.code == 3) << line << "\n" << result.err;
        const auto advice = result.json();
        for (const auto& move : advice.at("moves")) {
            const auto command = move.at("command").get<std::string>();
            ASSERT_THAT(command, StartsWith("pipescope simulate ")) << line;
            const CommandResult simulated = user.types(command.substr(10) + " --json");
            EXPECT_EQ(simulated.code, move.at("simulation").at("feasible") ? 0 : 3) << command << "\n" << simulated.err;
            for (const char* key : {"step_ns", "bubble_fraction", "feasible", "balance", "schedule"}) {
                EXPECT_EQ(simulated.json().at(key), move.at("simulation").at(key)) << command;
            }
            EXPECT_EQ(simulated.json().at("lanes").at(0).at("peak_bytes"),
                      move.at("simulation").at("lanes").at(0).at("peak_bytes"))
                << command;
            ++kinds[move.at("kind")];
        }
    }
    EXPECT_EQ(kinds.size(), 8) << "every kind of move was tried";
}

TEST_F(PlanningCommands, AdviseTakesARecordedPipelineAndItsHardware) {
    const std::string pipeline = " --balance 1,3 -m 4 --batch 8 --devices a,b --link-bandwidth 1GB/s";
    user.succeeds("simulate p.json --trace t.sqlite" + pipeline);
    const auto of_trace = user.succeeds("advise t.sqlite --json").json();
    const auto of_profile = user.succeeds("advise p.json --json" + pipeline).json();
    EXPECT_EQ(of_trace.at("base").at("step_ns"), of_profile.at("base").at("step_ns"));
    ASSERT_EQ(of_trace.at("moves").size(), of_profile.at("moves").size());
    for (std::size_t k = 0; k < of_trace.at("moves").size(); ++k) {
        EXPECT_EQ(of_trace.at("moves").at(k).at("changes"), of_profile.at("moves").at(k).at("changes"));
        EXPECT_TRUE(of_trace.at("moves").at(k).at("command").is_null());
    }
    const auto& moves = of_trace.at("moves");  // schedules with two partitions on each lane are still better
    const auto found =
        std::ranges::find_if(moves, [](const auto& move) { return move.at("title") == "Balance: 2,2 instead of 1,3"; });
    ASSERT_NE(found, moves.end()) << moves;
    const auto& cuts = *found;
    EXPECT_EQ(cuts.at("effect"), "faster");
    EXPECT_NEAR(cuts.at("step_change").get<double>(), -0.25, 1e-5) << "720 instead of 960 ms, and copies";
    EXPECT_NEAR(cuts.at("saved_ns").get<double>(), 240e6, 1e4);
}

TEST_F(PlanningCommands, BalanceSaysHowManyMicroBatchesTheSamplesMake) {
    EXPECT_EQ(user.succeeds("balance p.json -n 2 -m 8 --batch 4 --json").json().at("micro_batches"), 4);
    EXPECT_EQ(user.succeeds("balance p.json -n 2 -m 2 --batch 4 --json").json().at("micro_batches"), 2);
}

TEST_F(PlanningCommands, PlanTellsWhetherAnEstimatedModelFits) {
    // Like a profile of the meta device: estimated times, bytes from shapes. Four equal layers save 10 MB per sample.
    // Without recompute, each of two lanes holds two layers and all four samples of a step, for any m: 80 MB, plus the
    // boundaries.
    auto meta = nlohmann::ordered_json::parse(chain({10, 10, 10, 10}, 1000, 10'000'000));
    meta["device"] = "A100";
    meta["estimated"] = true;
    user.writes("meta.json", meta.dump());
    const std::string line =
        "plan meta.json -n 2 -m 2,4 --batch 4 --checkpoint never --schedule gpipe --json --memory-limit ";
    const auto fits = user.succeeds(line + "85MB").json();
    const auto& best = fits.at("candidates").at(fits.at("best").get<std::size_t>());
    EXPECT_EQ(best.at("estimated"), true);
    EXPECT_EQ(best.at("feasible"), true);
    EXPECT_EQ(best.at("balance"), (nlohmann::ordered_json{2, 2}));
    EXPECT_EQ(best.at("chunks"), 4) << "the more micro-batches, the smaller the bubble";
    const CommandResult tight = user.types(line + "75MB");
    EXPECT_EQ(tight.code, 3);
    EXPECT_TRUE(tight.json().at("best").is_null());
    for (const auto& each : tight.json().at("candidates")) {
        EXPECT_EQ(each.at("feasible"), false);
        EXPECT_GE(each.at("lanes").at(0).at("peak_bytes"), 80'000'000);
    }
}

TEST_F(PlanningCommands, SimulateReservesByWholePagesWithExpandableSegments) {
    // Four layers save 30 MB each: one segment of 30 MiB (in whole 2 MiB) each, or shared pages of 20 MiB.
    user.writes("large.json", chain({1, 1, 1, 1}, 1000, 30 << 20));
    const auto reserved = [&](const std::string& option) {
        return user.succeeds("simulate large.json --balance 4 -m 1 --batch 1 --checkpoint never --json" + option)
            .json()
            .at("lanes")
            .at(0)
            .at("peak_reserved_bytes")
            .get<std::int64_t>();
    };
    constexpr std::int64_t kMiB = 1 << 20;
    EXPECT_EQ(reserved(""), 4 * 30 * kMiB + 2 * kMiB) << "and the small pool";
    EXPECT_EQ(reserved(" --expandable-segments"), 120 * kMiB + 2 * kMiB);
    user.writes("odd.json", chain({1, 1, 1, 1}, 1000, (30 << 20) + 1));
    EXPECT_EQ(reserved(""), 4 * 30 * kMiB + 2 * kMiB);
    // Commands that do not compute it do not say 0.
    const auto planned = user.succeeds("plan large.json -n 1 -m 1 --batch 1 --json").json().at("candidates").at(0);
    EXPECT_FALSE(planned.at("lanes").at(0).contains("peak_reserved_bytes"));
    const auto all = user.succeeds("simulate large.json --balance 4 -m 1 --batch 1 --schedule all --json").json();
    EXPECT_FALSE(all.at("schedules").at(0).at("lanes").at(0).contains("peak_reserved_bytes"));
}

TEST_F(PlanningCommands, TakeMeasuredTimesOfMessages) {
    user.writes("wide.json", chain({10, 10}, 4'000'000));
    user.writes("links.json", R"({"format": "pipescope.links", "version": 1,
                                  "times": [{"bytes": 1000000, "ns": 2e6}, {"bytes": 2000000, "ns": 4e6}]})");
    const std::string pipeline = " -m 1 --batch 1 --checkpoint never ";
    const std::int64_t measured = step_of("simulate wide.json --balance 1,1 --links links.json" + pipeline);
    EXPECT_EQ(measured, step_of("simulate wide.json --balance 1,1 --link-bandwidth 500MB/s" + pipeline));
    EXPECT_EQ(measured, step_of("balance wide.json -n 2 --links links.json" + pipeline));
    const auto plan = user.succeeds("plan wide.json -n 2 --links links.json --schedule gpipe --json" + pipeline).json();
    EXPECT_EQ(plan.at("candidates").at(0).at("step_ns"), measured);
    EXPECT_EQ(measured + 2 * 2 * 2'000'000, step_of("simulate wide.json --balance 1,1 --links links.json "
                                                    "--link-protocol rendezvous" +
                                                    pipeline));
}

/// A language model on an A100: 24 equal layers between an embedding and a head with 100 MB of logits per sample.
std::string language_model() {
    nlohmann::ordered_json layers = nlohmann::ordered_json::array();
    for (int l = 0; l < 26; ++l) {
        const bool head = l == 25;
        layers.push_back({{"name", "l" + std::to_string(l)},
                          {"parameter_bytes", 100'000'000},
                          {"forward_ns", {1'000'000}},
                          {"backward_ns", {2'000'000}},
                          {"flops", {1e11}},
                          {"output_bytes", {head ? 100'000'000 : 4'000'000}},
                          {"saved_bytes", {100'000'000}}});
    }
    return nlohmann::ordered_json{
        {"format", "pipescope.profile"}, {"version", 1},   {"model", "gpt"},  {"device", "A100"}, {"estimated", true},
        {"token_input", true},           {"samples", {1}}, {"layers", layers}}
        .dump();
}

TEST_F(PlanningCommands, PlanAnswersForALanguageModelOutOfTheBox) {
    user.writes("gpt.json", language_model());
    // gpipe holds the logits of 512 samples for its loss, 51 GB. No number of lanes or micro-batches helps; the remedy
    // is another schedule.
    const CommandResult none =
        user.types("plan gpt.json -n 8 -m 64 --batch 512 --memory-limit 16GiB --schedule gpipe --json");
    EXPECT_EQ(none.code, 3);
    const auto remedies = none.json().at("remedies").get<std::vector<std::string>>();
    EXPECT_THAT(remedies, testing::Contains("--schedule 1f1b"));
    for (const std::string& remedy : remedies) {
        EXPECT_THAT(none.json().at("infeasible_because").get<std::string>(), HasSubstr(remedy));
        // Replaces the typed options by those of the remedy.
        std::map<std::string, std::string> typed = {
            {"-n", "8"}, {"-m", "64"}, {"--memory-limit", "16GiB"}, {"--schedule", "gpipe"}};
        std::istringstream words(remedy);
        std::string option;
        std::string value;
        while (words >> option >> value) {
            typed[option] = value;
        }
        std::string line = "plan gpt.json --batch 512";
        for (const auto& [name, text] : typed) {
            line += " " + name + " " + text;
        }
        user.succeeds(line);
    }
}

TEST_F(PlanningCommands, SayTheDtypeAndCountTheOptimizersStateByIt) {
    auto gpt = nlohmann::ordered_json::parse(language_model());
    gpt["dtype"] = "bfloat16";
    user.writes("gpt.json", gpt.dump());
    const std::string simulate = "simulate gpt.json --balance 13,13 -m 4 --batch 4";
    const std::string balance = "balance gpt.json -n 2 -m 4 --batch 4";
    EXPECT_EQ(user.succeeds(simulate + " --json").json().at("dtype"), "bfloat16");
    EXPECT_EQ(user.succeeds(balance + " --json").json().at("dtype"), "bfloat16");
    // Lane 0: 13 layers of 50 million parameters. Adam's two states take 4 bytes each per parameter in bfloat16; master
    // weights with float32 states take 12.
    const auto state = [&](const std::string& option) {
        return user.succeeds(simulate + option + " --json")
            .json()
            .at("lanes")
            .at(0)
            .at("peak")
            .at("optimizer")
            .get<double>();
    };
    EXPECT_EQ(state(""), 13 * 50e6 * 4);
    EXPECT_EQ(state(" --master-weights"), 13 * 50e6 * 12);
}

TEST_F(PlanningCommands, BalanceAndSimulateTakeADeviceTypeAndReplicas) {
    user.writes("gpt.json", language_model());
    const std::string rest = " -m 4 --batch 8 --replicas 2 --device-types A100 --json";
    const auto balance = user.succeeds("balance gpt.json -n 2" + rest).json();
    EXPECT_EQ(balance.at("micro_batches"), 4);
    std::string cut;
    for (const auto& each : balance.at("balance")) {
        cut += (cut.empty() ? "" : ",") + each.dump();
    }
    const auto simulated = user.succeeds("simulate gpt.json --balance " + cut + rest).json();
    EXPECT_EQ(simulated.at("step_ns"), balance.at("step_ns"));
    EXPECT_EQ(simulated.at("partitions").at(1).at("device"), "A100 1");
    const auto planned = user.succeeds(
                                 "plan gpt.json -n 2 -m 4 --batch 8 --replicas 2 --device-types A100 --schedule gpipe "
                                 "--checkpoint except_last --json")
                             .json();
    EXPECT_EQ(planned.at("candidates").at(0).at("step_ns"), balance.at("step_ns"));
    EXPECT_EQ(planned.at("candidates").at(0).at("num_devices"), 4);
}
}  // namespace
}  // namespace pipescope
