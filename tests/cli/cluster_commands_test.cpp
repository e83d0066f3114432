// plan, simulate and explain with --cluster: what they refuse, and what they say that they counted.

#include "tests/cli/user.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <string>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

const std::string kModel = "gpt:layers=4,hidden=256,heads=4,sequence=64,vocabulary=512";

class ClusterCommands : public testing::Test {
protected:
    ClusterCommands() {
        user.writes("p.json", emulated_profile(1));
        user.writes("c.json", cluster(R"({"device": "A100", "count": 2, "devices": 4})"));
    }

    static std::string cluster(const std::string& nodes) {
        return R"({"format": "pipescope.cluster", "version": 1, "name": "c", "nodes": [)" + nodes +
               R"(], "between_nodes": {"bytes_per_second": 25000000000, "latency_ns": 5000}})";
    }
    std::string refused(const std::string& line) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, 2) << line << "\n" << result.err;
        EXPECT_THAT(result.err, StartsWith("pipescope: ")) << line;
        return result.err;
    }

    User user;
};

TEST_F(ClusterCommands, GradientBytesAreThoseOfAModelNotOfAProfile) {
    const std::string on = " --cluster c.json --batch 8 --device-types A100";
    const auto counted = [&](const std::string& line) {
        return user.succeeds(line + on + " --json").json().at("layout").at("gradient_bytes").get<int>();
    };
    EXPECT_EQ(counted("simulate p.json --data-parallel 2"), 4);  // as wide as its parameters
    EXPECT_EQ(counted("simulate " + kModel + " --gradient-bytes 2"), 2);
    const auto plan = user.succeeds("plan " + kModel + " --cluster c.json --batch 8 --gradient-bytes 2 --json").json();
    EXPECT_EQ(plan.at("candidates").at(0).at("layout").at("gradient_bytes"), 2);
}

TEST_F(ClusterCommands, FitsAProgramToMeasuredStepsThatPlanTakes) {
    const std::string on = " " + kModel + " --cluster c.json --batch 8 ";
    const auto step_ns = [&](const std::string& line) {
        return user.succeeds("simulate" + on + line + " --json").json().at("step_ns").get<double>();
    };
    const double one = step_ns("");
    const double two = step_ns("--data-parallel 2");
    user.writes("runs.csv", "# ours\ndata-parallel,micro-batch-size,batch,seconds\n1,,8," +
                                std::to_string(one * 2 / 1e9) + "\n2,1,8," + std::to_string(two * 2 / 1e9) + "\n");
    const std::string fit = "simulate" + on + "--measured runs.csv --program-output ours.json";
    const auto fitted = user.succeeds(fit + " --json").json();
    EXPECT_NEAR(fitted.at("step_ns").get<double>() / one, 2, 0.1);
    EXPECT_EQ(fitted.at("layout").at("program"), "measured");
    ASSERT_EQ(fitted.at("measured").at("steps").size(), 2U);
    EXPECT_NEAR(fitted.at("measured").at("steps").at(1).at("error_before").get<double>(), -0.5, 0.01);
    EXPECT_LT(fitted.at("measured").at("mean_error_left_out").get<double>(), 0.1);
    EXPECT_NEAR(step_ns("--program ours.json"), fitted.at("step_ns").get<double>(), 1);
    const auto plan = user.succeeds("plan" + on + "--program ours.json --json").json();
    EXPECT_EQ(plan.at("candidates").at(0).at("layout").at("program"), "measured");
    EXPECT_THAT(user.succeeds(fit + " --force").out, HasSubstr("mean error of steps left out: "));

    EXPECT_THAT(refused("simulate" + on + "--program-output x.json"), HasSubstr("add --measured"));
    user.writes("bad.csv", "seconds,colour\n1,red\n");
    EXPECT_THAT(
        refused("simulate" + on + "--measured bad.csv"),
        HasSubstr("bad.csv: column 'colour' is unknown; the columns are seconds, gib, batch, context-parallel"));
    user.writes("bad.csv", "seconds,batch\n0,8\n");
    EXPECT_THAT(refused("simulate" + on + "--measured bad.csv"), HasSubstr("bad.csv, line 2: seconds is '0'"));
    user.writes("bad.csv", "data-parallel\n1\n");
    EXPECT_THAT(refused("simulate" + on + "--measured bad.csv"), HasSubstr("column seconds is missing"));
    // A plan fits in the same way; a row may say its own type of device.
    const std::string plan_fit = "plan" + on + "--measured runs.csv --devices 2 --program-output again.json";
    const auto fitted_plan = user.succeeds(plan_fit + " --json").json();
    EXPECT_EQ(fitted_plan.at("measured").at("work_factor"), fitted.at("measured").at("work_factor"));
    EXPECT_EQ(fitted_plan.at("candidates").at(0).at("layout").at("program"), "measured");
    EXPECT_EQ(user.reads("again.json"), user.reads("ours.json"));
    EXPECT_THAT(user.succeeds(plan_fit + " --force").out, HasSubstr("mean error of steps left out: "));
    EXPECT_THAT(refused("plan" + on + "--program-output x.json"), HasSubstr("add --measured"));
    EXPECT_THAT(refused("plan p.json --cluster c.json --batch 8 --measured runs.csv"),
                HasSubstr("--measured is given with a profile"));
    user.writes("own.csv", "partitions,cuts,sequence_parallel,batch,seconds\n2,\"1,3\",no,8,0.1\n");
    EXPECT_THAT(user.succeeds("simulate" + on + "--measured own.csv").out, HasSubstr("p2 d1 t1 v1 b1 cuts 1,3"));
    EXPECT_THAT(refused("simulate p.json --cluster c.json --batch 8 --measured runs.csv"),
                HasSubstr("--measured is given with a profile"));
}

TEST_F(ClusterCommands, TokensGoToExpertsAsTheLayoutSays) {
    const std::string experts = "gpt:layers=4,hidden=256,heads=4,sequence=4096,vocabulary=512,experts=8,top_k=4";
    const std::string on = " --cluster c.json --batch 8 ";
    const auto explained = [&](const std::string& line) {
        return user.succeeds("explain " + experts + on + line + " --json").json();
    };
    const auto to_experts = explained("--data-parallel 8 --expert-parallel 8");
    const auto to_nodes = explained("--data-parallel 8 --expert-parallel 8 --token-dispatch node");
    EXPECT_EQ(to_experts.at("layout").at("token_dispatch"), "expert");
    EXPECT_EQ(to_nodes.at("layout").at("token_dispatch"), "node");
    EXPECT_LT(to_nodes.at("step_ns"), to_experts.at("step_ns"));
    const auto plan = user.succeeds("plan " + experts + on + "--token-dispatch node --json").json();
    for (const auto& candidate : plan.at("candidates")) {
        const auto& layout = candidate.at("layout");
        EXPECT_EQ(layout.at("token_dispatch") == "node", layout.at("expert_parallel") > 1) << "simulate refuses it";
    }
    EXPECT_THAT(
        user.succeeds("explain " + experts + on + "--data-parallel 8 --expert-parallel 8 --token-dispatch node").out,
        HasSubstr(" --token-dispatch node"));
}

TEST_F(ClusterCommands, ExplainedPartsSumToTheStepToTheNanosecond) {
    for (const char* layout : {"-n 3", "-n 2 --data-parallel 4 --sends serial", "-n 4 --micro-batch-size 2",
                               "--data-parallel 8 --zero 1", "-n 2 --schedule zero-bubble-h1"}) {
        const auto json =
            user.succeeds("explain " + kModel + " --cluster c.json --batch 8 " + layout + " --json").json();
        std::int64_t sum = 0;
        for (const auto& part : json.at("parts")) {
            EXPECT_GE(part.at("ns"), 0);
            EXPECT_NEAR(part.at("ns").get<double>(), part.at("share").get<double>() * json.at("step_ns").get<double>(),
                        1.01);
            sum += part.at("ns").get<std::int64_t>();
        }
        EXPECT_EQ(sum, json.at("step_ns")) << layout;
    }
}

TEST_F(ClusterCommands, CompareTakesWholeStepsAndNamesTheirPipelines) {
    const std::string on = "simulate " + kModel + " --cluster c.json --batch 8 --data-parallel 2 --json ";
    const auto one = user.succeeds(on + "--partitions 2 --trace one.sqlite").json();
    const auto two = user.succeeds(on + "--partitions 4 --trace two.sqlite").json();
    const auto runs = user.succeeds("compare one.sqlite two.sqlite --json").json();
    const auto whole = [](const auto& layout) { return std::llround(layout.at("step_ns").template get<double>()); };
    EXPECT_EQ(runs.at("before").at("step_ns"), whole(one));
    EXPECT_EQ(runs.at("after").at("step_mean_ns"), whole(two));
    EXPECT_LT(runs.at("before").at("pipeline_ns"), runs.at("before").at("step_ns"));
    EXPECT_EQ(runs.at("step").at("difference_ns"), whole(two) - whole(one));
    EXPECT_NEAR(runs.at("before").at("samples_per_second").get<double>(), one.at("samples_per_second").get<double>(),
                1e-3);
}

TEST_F(ClusterCommands, AdviseOnATraceOfOnePipelineGivesWholeSteps) {
    const auto step = user.succeeds("simulate " + kModel +
                                    " --cluster c.json --batch 8 --partitions 2 --tensor-parallel 2 --data-parallel 2 "
                                    "--recompute full --trace t.sqlite --json")
                          .json();
    const auto json = user.succeeds("advise t.sqlite --json").json();
    for (const char* key : {"step_ns", "pipeline_ns", "bubble_fraction"}) {
        EXPECT_EQ(json.at("base").at(key), step.at(key)) << key;
    }
    for (std::size_t lane = 0; lane < step.at("lanes").size(); ++lane) {  // of the pipeline, as the lane's times
        const char* key = "model_tflops_per_second";
        EXPECT_EQ(json.at("base").at("lanes").at(lane).at(key), step.at("lanes").at(lane).at(key));
    }
    for (const char* key : {"speedup", "samples_per_second", "tokens_per_second", "model_tflops_per_second", "mfu"}) {
        EXPECT_NEAR(json.at("base").at(key).get<double>(), step.at(key).get<double>(),
                    1e-6 * step.at(key).get<double>())
            << key;
    }
    bool any_kept = false;
    for (const auto& move : json.at("moves")) {
        const auto& changed = move.at("simulation");
        EXPECT_EQ(changed.at("step_ns").get<std::int64_t>() - changed.at("pipeline_ns").get<std::int64_t>(),
                  step.at("step_ns").get<std::int64_t>() - step.at("pipeline_ns").get<std::int64_t>());
        EXPECT_EQ(move.at("saved_ns"),
                  step.at("step_ns").get<std::int64_t>() - changed.at("step_ns").get<std::int64_t>());
        const bool kept =
            move.at("note").get<std::string>().find("what follows the pipeline is kept") != std::string::npos;
        EXPECT_TRUE(kept || move.at("kind") != "links");
        EXPECT_FALSE(kept && move.at("kind") == "micro_batches");
        any_kept = any_kept || kept;
    }
    EXPECT_TRUE(any_kept);
    EXPECT_EQ(json.at("base").at("checkpoint"), "always");
    EXPECT_EQ(json.at("base").at("optimizer"), "adam");
    EXPECT_EQ(json.at("moves").at(0).at("simulation").at("checkpoint"), "always");
}

TEST_F(ClusterCommands, SayWhatMemoryWasCountedFor) {
    const std::string line = "simulate " + kModel + " --cluster c.json --batch 8 --data-parallel 2 --zero 1";
    const auto mixed = user.succeeds(line + " --recompute full --json").json();
    EXPECT_EQ(mixed.at("optimizer"), "adam");
    EXPECT_EQ(mixed.at("master_weights"), true);
    EXPECT_EQ(mixed.at("checkpoint"), "always");
    const auto single = user.succeeds(line + " --dtype float32 --json").json();
    EXPECT_EQ(single.at("master_weights"), false);
    EXPECT_EQ(single.at("checkpoint"), "never");
}

// Rates are those of the whole step, which ends after its pipeline.
TEST_F(ClusterCommands, RatesAreOfTheWholeStep) {
    const std::string line = "simulate " + kModel + " --cluster c.json --batch 8";
    const auto object = user.succeeds(line + " --json").json();
    const double step = object.at("step_ns"), pipeline = object.at("pipeline_ns");
    ASSERT_GT(step, pipeline) << "with the optimizer";
    EXPECT_NEAR(object.at("speedup"), pipeline / step, 1e-6) << "one lane alone";
}

TEST_F(ClusterCommands, EndWithThreeIfNothingFits) {
    const std::string large =
        " gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=50257 --cluster c.json "
        "--batch 8 --devices 1";
    for (const char* command : {"plan", "explain"}) {
        const CommandResult json = user.types(command + large + " --json");
        EXPECT_EQ(json.code, 3) << command;
        EXPECT_FALSE(json.json().at("infeasible_because").is_null());
    }
}

TEST_F(ClusterCommands, LeaveRoomOnTheTypesUsedOnly) {
    user.writes("mixed.json", cluster(R"({"device": "A100", "count": 2, "devices": 4}, )"
                                      R"({"device": "V100", "count": 2, "devices": 4})"));
    const std::string on = " --cluster mixed.json --batch 8 --headroom 40GiB --device-types ";  // a V100 has less
    for (const std::string& line : {"simulate " + kModel + on, "explain " + kModel + on, "simulate p.json" + on,
                                    "plan " + kModel + " --devices 4" + on}) {
        user.succeeds(line + "A100");
        EXPECT_THAT(refused(line + "V100"), HasSubstr("V100"));
    }
}

TEST_F(ClusterCommands, SayThatOperationsAreUnknown) {
    for (const std::string line :
         {"simulate p.json --cluster c.json --batch 8", "explain p.json --cluster c.json --batch 8",
          "plan p.json --cluster c.json --batch 8 --devices 1"}) {
        auto step = user.succeeds(line + " --json").json();
        step = line.starts_with("plan") ? step.at("candidates").at(0) : step;
        for (const char* key : {"tflops_per_device", "hardware_tflops_per_device"}) {
            EXPECT_TRUE(step.at(key).is_null()) << line << " " << key;
        }
    }
    EXPECT_GT(user.succeeds("simulate " + kModel + " --cluster c.json --batch 8 --json")
                  .json()
                  .at("tflops_per_device")
                  .get<double>(),
              0);
}

// 5 % of an A100's 80 GiB, unless the catalogue or the command line says otherwise.
TEST_F(ClusterCommands, LeaveRoomForWhatIsNoTensor) {
    const std::string on = " --cluster c.json --batch 8 --json ";
    const auto headroom = [&](const std::string& line) {
        const auto memory = user.succeeds(line).json().at("device_memory");
        EXPECT_EQ(memory.size(), 1U);
        EXPECT_EQ(memory.at(0).at("device"), "A100");
        EXPECT_EQ(memory.at(0).at("memory_bytes"), std::int64_t{80} << 30);
        return memory.at(0).at("headroom_bytes").get<std::int64_t>();
    };
    EXPECT_EQ(headroom("simulate " + kModel + on), std::int64_t{4} << 30);
    EXPECT_EQ(headroom("explain " + kModel + on + "-n 2 --headroom 6GiB"), std::int64_t{6} << 30);
    EXPECT_EQ(headroom("simulate p.json" + on + "--memory-limit 72GiB"), std::int64_t{8} << 30);
    EXPECT_EQ(headroom("simulate p.json" + on + "--memory-limit 72GiB --headroom 9GiB"), std::int64_t{9} << 30);
    const auto plan = user.succeeds("plan " + kModel + on + "--devices 1,4 --memory-limit 100MB").json();
    EXPECT_FALSE(plan.at("candidates").empty());
    for (const auto& each : plan.at("candidates")) {
        EXPECT_LE(each.at("peak_bytes"), 100'000'000);
        const int devices = each.at("layout").at("devices");
        EXPECT_TRUE(devices == 1 || devices == 4) << devices;
    }
    EXPECT_EQ(user.types("simulate " + kModel + on + "--memory-limit 1MB").code, 3);
}

TEST_F(ClusterCommands, SayThatSelectiveRecomputeSavesNothingWithFlashAttention) {
    const std::string on = " --cluster c.json --batch 8 -n 2 --recompute selective";
    for (const char* command : {"simulate ", "explain "}) {
        EXPECT_EQ(user.succeeds(command + kModel + on).err, "");
        EXPECT_EQ(user.succeeds(command + kModel + ",attention=flash" + on + " --json").json().at("warnings").size(),
                  1U);
    }
}

// Half of the pairs of tokens are skipped, and attention is most of the work of long samples.
TEST_F(ClusterCommands, RelateAStepToThePeakOfAllTypesOfDevices) {
    user.writes("types.json", cluster(R"({"device": "V100", "count": 1, "devices": 8}, )"
                                      R"({"device": "H100", "count": 1, "devices": 8})"));
    const std::string model = "gpt:layers=32,hidden=1024,heads=16,sequence=2048,vocabulary=32000";
    const std::string on = " --cluster types.json --batch 24 --dtype float16 ";
    constexpr double kV100 = 125e12;
    constexpr double kH100 = 989.4e12;
    const auto mfu_of = [](const auto& step, double peak) {
        return step.at("model_flops").template get<double>() / step.at("step_ns").template get<double>() * 1e9 / peak;
    };
    const std::string simulate = "simulate " + model + on + "-n 9 --device-types V100:1,H100:8";
    const auto step = user.succeeds(simulate + " --json").json();
    const double mfu = mfu_of(step, kV100 + 8 * kH100);
    EXPECT_NEAR(step.at("mfu").get<double>(), mfu, 1e-6);
    EXPECT_LT(step.at("mfu_causal").get<double>(), mfu);
    const auto best =
        user.succeeds("plan " + model + on + "--devices 12 --json").json().at("candidates").at(0);  // more than H100s
    const std::string types = best.at("layout").at("device").get<std::string>();
    const std::size_t quick = types.find("H100:");
    ASSERT_NE(quick, std::string::npos) << types;
    const double quick_lanes = std::stoi(types.substr(quick + 5));
    const auto lanes = best.at("layout").at("pipeline").get<double>();
    EXPECT_NEAR(best.at("mfu").get<double>(),
                mfu_of(best, 12 / lanes * (quick_lanes * kH100 + (lanes - quick_lanes) * kV100)), 1e-6);
}

TEST_F(ClusterCommands, CountCausalAttentionByHalfToo) {
    const std::string longer = "gpt:layers=4,hidden=256,heads=4,sequence=65536,vocabulary=512,attention=flash";
    const auto step = user.succeeds("simulate " + longer + " --cluster c.json --batch 8 --json").json();
    const double all = 4.0 * 65536 * 65536 * 256 * 4 * 3 * 8;  // of attention, four blocks, eight samples
    const double skipped = step.at("mfu").get<double>() - step.at("mfu_causal").get<double>();
    EXPECT_NEAR(skipped / step.at("mfu").get<double>(), all / 2 / step.at("model_flops").get<double>(), 1e-9);
}

// One lane waits for nothing: all that it does not compute are the sums.
TEST_F(ClusterCommands, CallNoSumOfGradientsABubble) {
    const auto step =
        user.succeeds("simulate " + kModel + " --cluster c.json --batch 8 --data-parallel 8 --json").json();
    const auto& lane = step.at("lanes").at(0);
    EXPECT_GT(lane.at("gradient_sum_ns"), 0);
    EXPECT_NEAR(lane.at("bubble_fraction").get<double>(),
                lane.at("gradient_sum_ns").get<double>() / step.at("pipeline_ns").get<double>(), 1e-6);
}

// Every option that explain lists does something with one layout, or without one.
TEST_F(ClusterCommands, ExplainListsNoOptionThatItAlwaysRefuses) {
    const std::map<std::string, std::string> values{{"--cluster", "c.json"},
                                                    {"--batch", "8"},
                                                    {"--partitions", "2"},
                                                    {"--data-parallel", "2"},
                                                    {"--tensor-parallel", "2"},
                                                    {"--context-parallel", "1"},
                                                    {"--expert-parallel", "1"},
                                                    {"--interleave", "1"},
                                                    {"--micro-batch-size", "1"},
                                                    {"--zero", "1"},
                                                    {"--cuts", "even"},
                                                    {"--no-master-weights", ""},
                                                    {"--offload", "25GB/s"},
                                                    {"--gradient-bytes", "2"},
                                                    {"--gradient-bucket", "40MB"},
                                                    {"--sends", "serial"},
                                                    {"--token-dispatch", "expert"},
                                                    {"--schedule", "1f1b"},
                                                    {"--recompute", "full"},
                                                    {"--program", "nemo"},
                                                    {"--balance", "8"},
                                                    {"--checkpoint", "always"},
                                                    {"--optimizer", "adam"},
                                                    {"--dtype", "bfloat16"},
                                                    {"--devices", "4"},
                                                    {"--device-types", "A100"},
                                                    {"--device-catalogue", "d.json"},
                                                    {"--headroom", "4GiB"},
                                                    {"--memory-limit", "9GiB"},
                                                    {"--rank-by", "cost"},
                                                    {"--tokens", "1e9"},
                                                    {"--json", ""},
                                                    {"--master-weights", ""},
                                                    {"--sequence-parallel", "--tensor-parallel 2"}};
    user.writes("d.json",
                R"({"format": "pipescope.devices", "version": 1, "devices": [{"name": "A100", "memory_bytes": 8e10,
        "flops_per_second": {"float32": 1e12, "bfloat16": 1e13}, "memory_bytes_per_second": 1e12}]})");
    user.writes("half.json", [] {
        auto profile = nlohmann::json::parse(emulated_profile(1));
        profile["dtype"] = "bfloat16";
        return profile.dump();
    }());
    const auto commands = nlohmann::json::parse(user.succeeds("--print-commands").out);
    const auto explain = std::ranges::find_if(commands, [](const auto& each) { return each.at("name") == "explain"; });
    ASSERT_NE(explain, commands.end());
    for (const auto& option : explain->at("options")) {
        std::string name;
        for (const std::string each : option.at("names")) {
            name = each.starts_with("--") && name.empty() ? each : name;
        }
        if (name.empty() || name == "--help") {
            continue;
        }
        ASSERT_TRUE(values.contains(name)) << name << ": give it a value here, and see that explain takes it";
        const std::string given = (name == "--batch" || name == "--cluster" ? "" : name + " " + values.at(name));
        bool is_taken = false;
        for (const std::string& model : {kModel, std::string("p.json"), std::string("half.json")}) {
            for (const char* layout : {"", " -n 1"}) {
                const std::string line = "explain " + model + " --cluster c.json --batch 8 " + given +
                                         (given.starts_with("--partitions") ? "" : layout);
                is_taken = is_taken || user.types(line).code == 0;
            }
        }
        EXPECT_TRUE(is_taken) << name;
    }
}

TEST_F(ClusterCommands, PlanForTheTypesThatAreNamed) {
    user.writes("mixed.json", cluster(R"({"device": "A100", "count": 2, "devices": 4}, )"
                                      R"({"device": "V100", "count": 2, "devices": 4})"));
    const std::string plan = "plan " + kModel + " --cluster mixed.json --batch 8 --dtype float16 ";
    const auto named = user.succeeds(plan + "--device-types v100 --json").json();
    EXPECT_FALSE(named.at("candidates").empty());
    for (const auto& each : named.at("candidates")) {
        EXPECT_EQ(each.at("layout").at("device"), "V100");
    }
}

TEST_F(ClusterCommands, ExplainNamesAllOptionsOfTheLayout) {
    const std::string of = kModel + " --cluster c.json --batch 8 ";
    const std::string best = user.succeeds("explain " + of +
                                           "--devices 8 --gradient-bucket 40MB --sends overlapped "
                                           "--gradient-bytes 2 --dtype float16")
                                 .out;
    const std::string options = best.substr(6, best.find('\n') - 6);  // behind "best: "
    const std::string again = user.succeeds("explain " + of + options).out;
    EXPECT_EQ(again.substr(again.find('\n')), best.substr(best.find('\n'))) << options;
}

// What a trace says about its layout must fit its timeline.
TEST_F(ClusterCommands, WarnOfALayoutThatDoesNotFitItsTrace) {
    user.succeeds("simulate " + kModel + " --cluster c.json --batch 8 --partitions 2 --trace t.sqlite");
    const auto pipeline = user.succeeds("advise t.sqlite --json").json().at("base").at("pipeline_ns").get<double>();
    for (const char* change :
         {"'$.cluster.pipeline_ns', 1000", "'$.cluster.step_ns', 5", "'$.cluster.batch', 0", "'$.cluster.layout', 5"}) {
        SQLite::Database(user.folder() / "t.sqlite", SQLite::OPEN_READWRITE)
            .exec(std::string("UPDATE PIPESCOPE_RUN SET value = json_set(value, ") + change +
                  ") WHERE key = 'simulation'");
        const CommandResult advice = user.types("advise t.sqlite --json");
        EXPECT_EQ(advice.code, 0) << change;
        EXPECT_THAT(advice.err, HasSubstr("does not fit the trace")) << change;
        EXPECT_NEAR(advice.json().at("base").at("step_ns").get<double>(), pipeline, 1) << change;
    }
}

TEST_F(ClusterCommands, ExplainTheBestOfThePlan) {
    for (const int batch : {4, 8, 12}) {
        const std::string of = kModel + " --cluster c.json --devices 8 --json --batch " + std::to_string(batch);
        const auto plan = user.succeeds("plan " + of).json();
        EXPECT_EQ(user.succeeds("explain " + of).json().at("step_ns"), plan.at("candidates").at(0).at("step_ns"));
    }
}

TEST_F(ClusterCommands, BoundTheWholeStepOfTheBestSchedule) {
    const auto step = user.succeeds("simulate " + kModel +
                                    " --cluster c.json --batch 8 --partitions 2 --data-parallel 2 --schedule auto "
                                    "--json")
                          .json();
    const auto bound = step.at("lower_bound_ns").get<double>();
    const auto whole = step.at("step_ns").get<double>();
    EXPECT_GT(whole, step.at("pipeline_ns").get<double>());
    EXPECT_GE(bound, whole - step.at("pipeline_ns").get<double>());
    EXPECT_NEAR(step.at("gap_above_bound").get<double>(), whole / bound - 1, 1e-9);
}

TEST_F(ClusterCommands, CutAsTheLayoutSays) {
    const std::string model = "gpt:layers=16,hidden=256,heads=4,sequence=128,vocabulary=128000";
    const std::string on = " --cluster c.json --batch 16 -n 4 ";
    const auto even = user.succeeds("simulate " + model + on + "--json").json();
    const auto quickest = user.succeeds("simulate " + model + on + "--cuts quickest --json").json();
    EXPECT_EQ(even.at("layout").at("cuts"), "even");
    EXPECT_EQ(quickest.at("layout").at("cuts"), "quickest");
    EXPECT_EQ(even.at("balance"), nlohmann::json({5, 4, 4, 5}));
    EXPECT_LT(quickest.at("step_ns"), even.at("step_ns"));
    EXPECT_THAT(user.succeeds("explain " + model + on + "--cuts quickest").out, HasSubstr(" --cuts quickest"));
    EXPECT_THAT(user.succeeds("simulate " + model + on).err, HasSubstr("even cuts cost "));
    EXPECT_THAT(user.succeeds("simulate " + model + on + "--cuts quickest").err, Not(HasSubstr("cuts cost ")));
    // Own numbers, as a list or as Megatron-LM's layout.
    const auto own = user.succeeds("simulate " + model + on + "--cuts 5,5,4,2 --json").json();
    EXPECT_EQ(own.at("balance"), nlohmann::json({6, 5, 4, 3}));
    EXPECT_EQ(own.at("layout").at("cuts"), "5,5,4,2");
    EXPECT_EQ(user.succeeds("simulate " + model + on + "--cuts 'Et*5|t*5|t*4|ttL' --json").json(), own);
    EXPECT_THAT(user.succeeds("explain " + model + on + "--cuts 5,5,4,2").out, HasSubstr(" --cuts 5,5,4,2"));
    EXPECT_THAT(refused("simulate " + model + on + "--cuts 5,5,4,1"), HasSubstr("its numbers sum to 15"));
    const auto plan = user.succeeds("plan " + model + " --cluster c.json --batch 16 --cuts 5,5,4,2 --json").json();
    for (const auto& candidate : plan.at("candidates")) {
        EXPECT_EQ(candidate.at("balance"), own.at("balance"));
    }
}

TEST_F(ClusterCommands, TrainWhatTheModelAndTheOptimizerSay) {
    const std::string on = " --cluster c.json --batch 8 ";
    const auto simulated = [&](const std::string& line) {
        return user.succeeds("simulate " + line + " --json").json();
    };
    const auto adam = simulated(kModel + on);
    const auto small = simulated(kModel + on + "--optimizer adam8bit");
    EXPECT_EQ(adam.at("layout").at("optimizer"), "adam");
    EXPECT_EQ(small.at("optimizer"), "adam8bit");
    EXPECT_LT(small.at("peak_bytes"), adam.at("peak_bytes"));
    const auto plain = simulated(kModel + on + "--optimizer sgd --no-master-weights");
    EXPECT_LT(plain.at("peak_bytes"), small.at("peak_bytes"));
    const auto away = simulated(kModel + on + "--offload 25GB/s");
    EXPECT_LT(away.at("peak_bytes"), adam.at("peak_bytes"));
    EXPECT_EQ(away.at("layout").at("offload"), "25000000000B/s");
    EXPECT_GT(away.at("offloaded_bytes"), 0);
    const auto lora = simulated(kModel + ",lora=4" + on);
    EXPECT_LT(lora.at("trained_parameters"), lora.at("model_parameters"));
    EXPECT_LT(lora.at("peak_bytes"), adam.at("peak_bytes"));
    EXPECT_THAT(
        user.succeeds("explain " + kModel + on + "-n 2 --optimizer muon --no-master-weights --offload 1GB/s").out,
        HasSubstr(" --optimizer muon --no-master-weights --offload 1000000000B/s"));
    const auto plan = user.succeeds("plan " + kModel + on + "--optimizer muon --json").json();
    EXPECT_EQ(plan.at("candidates").at(0).at("layout").at("optimizer"), "muon");
    EXPECT_THAT(refused("simulate " + kModel + on + "--optimizer lion"),
                HasSubstr("it must be one of adam, bf16-adam"));
    EXPECT_THAT(refused("simulate p.json" + on + "--offload 1GB/s"), HasSubstr("--offload is given with a profile"));
    EXPECT_THAT(refused("simulate " + kModel + on + "--master-weights"), HasSubstr("--no-master-weights"));
}

TEST_F(ClusterCommands, PlanARunWithADeadlineARampAndTimedSaves) {
    const std::string plan = "plan " + kModel + " --cluster c.json --batch 32 --devices 1,2,4,8 ";
    const auto whole = user.succeeds(plan + "--steps 1000 --json").json();
    EXPECT_EQ(whole.at("deadline_hours"), nullptr);
    EXPECT_EQ(whole.at("save_seconds"), 60);
    const auto& first = whole.at("candidates").at(0);
    EXPECT_NEAR(first.at("run_hours").get<double>(), 1000 * first.at("step_ns").get<double>() / 3600e9, 1e-9);
    EXPECT_EQ(first.at("cost_interval").size(), 2U);
    EXPECT_LT(first.at("peak_interval_bytes").at(0), first.at("peak_interval_bytes").at(1));
    const auto late = user.succeeds(plan + "--steps 1000 --deadline 0.001ms --json").json();
    EXPECT_FALSE(late.at("candidates").at(0).at("in_time"));
    EXPECT_EQ(late.at("fewest_in_time"), nullptr);
    EXPECT_THAT(
        user.succeeds(plan + "--steps 1000 --deadline 0.001ms").out,
        AllOf(HasSubstr("too late"), HasSubstr("no candidate ends the run within"), HasSubstr("it would need")));
    EXPECT_THAT(user.succeeds(plan + "--steps 1000 --deadline 30d").out,
                HasSubstr("fewest devices of this plan that end the run within 30.0 days: 1 of type A100"));
    const auto ramped = user.succeeds(plan + "--steps 10 --ramp 16,8,64 --json").json();
    EXPECT_EQ(ramped.at("candidates").at(0).at("ramp").at(0).at("batch"), 16);
    // 2 bytes of each parameter and 12 of its state, in 1 MB/s.
    const auto parameters = first.at("model_parameters").get<double>();
    const auto saved = user.succeeds(plan + "--storage-bandwidth 1MB/s --json").json();
    EXPECT_NEAR(saved.at("save_seconds").get<double>(), 14 * parameters / 1e6, 1e-6 * parameters);
    EXPECT_THAT(refused(plan + "--storage-bandwidth 1MB/s --checkpoint-time 1s"), HasSubstr("leave one out"));
    EXPECT_THAT(refused(plan + "--deadline 30d"), HasSubstr("add --tokens or --steps"));
    EXPECT_THAT(refused(plan + "--steps 10 --tokens 1e6"), HasSubstr("both say how long the run is"));
    EXPECT_THAT(refused(plan + "--steps 1.5"), HasSubstr("whole steps"));
}

TEST_F(ClusterCommands, RefuseNamesOfAProgramThatNothingHas) {
    const std::string on = "simulate " + kModel + " --cluster c.json --batch 8 --program own.json";
    const auto writes = [&](const std::string& keys) {
        user.writes("own.json", R"({"format": "pipescope.program", "version": 1, "name": "ours", )" + keys + "}");
    };
    writes(R"("attention": ["flsh-2"])");
    EXPECT_THAT(refused(on), AllOf(HasSubstr("the kernel of attention 'flsh-2'"), HasSubstr("the nearest is flash-2")));
    writes(R"("product_share_on": {"A10O": 0.9})");
    EXPECT_THAT(refused(on), HasSubstr("a product_share_on for 'A10O', which no catalogue has; the nearest is A10"));
    writes(R"("attention": ["flash-2"], "product_share_on": {"A100": 0.9})");
    user.succeeds(on);
}

TEST_F(ClusterCommands, ConsiderAllLayoutsThatTheySimulate) {
    const auto plan = user.succeeds("plan p.json --cluster c.json --batch 8 --devices 8 --json").json();
    EXPECT_GE(plan.at("considered").get<int>(), plan.at("simulated").get<int>());
}
}  // namespace
}  // namespace pipescope
