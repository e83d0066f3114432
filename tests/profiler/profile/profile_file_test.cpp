#include "profiler/profile/profile_file.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const char* const kSmallest = R"({"format": "pipescope.profile", "version": 1, "samples": [1, 2], "layers": [
    {"name": "a", "forward_ns": [10, 20], "backward_ns": [20, 40.5], "output_bytes": [64, 128], "parameter_bytes": 12}]})";

const char* const kEverything = R"({"format": "pipescope.profile", "version": 1,
    "model": "unet", "device": "cpu", "dtype": "float64", "threads": 2, "co_running_lanes": 3, "host_cores": 4,
    "co_running_slowdown": [1, 1.25], "command_options": ["--seed", "7"], "step_cv": 0.01, "lane_cv": 0.005, "estimated": true, "program": {"name": "ours", "fused": false, "attention": ["flash-2"], "product_share_on": {"A100": 0.5}},
    "samples": [1, 2], "input_bytes": [4, 8], "loss_ns": [1, 2], "loss_batch": {"samples": [16, 32], "ns": [9, 11], "transient_bytes": [70, 80]}, "loss_transient_bytes": [3, 5], "optimizer_ns": 5, "launch_ns": 6, "load": {"others": 0.25, "stolen": 0.5, "pressure": 0.125}, "later": {"z": 1, "a": [2]},
    "layers": [
      {"name": "encoder", "parameter_bytes": 1, "gradient_bytes": 2, "buffer_bytes": 3, "forward_ns": [1, 2],
       "recompute_ns": [3, 4], "graph_forward_ns": [3.5, 4.5], "backward_ns": [5, 6], "forward_cv": 0.02, "backward_cv": 0.03, "output_bytes": [7, 8],
       "saved_bytes": [9, 10], "transient_bytes": [11, 12], "flops": [1e12, 2e12],
       "forward_operators": [[[2, 8, 4, {"product": [1, 2, 3, 4]}], [1, 0, 9]], [[1, 5, 6, {"attention": [8, 16, 32, 4, 2, 0.5]}]]],
       "backward_operators": [[[1, 5, 6, {"attention_backward": [8, 16, 32, 4, 2, 1]}]], []],
       "forward_chains": [[[1, 0, 7, {"cross_entropy": 12}]], []], "backward_chains": [[], [[3, 0, 1]]], "keeps_input": false, "keeps_output": true,
       "aliases_input": true, "passes_gradient": true, "stash": {"skip_0": [13, 14]},
       "launches": {"backward": {"host_ns": 15, "paced_ns": 16.5, "sends_ns": 17, "receives_ns": 18}}, "tape": [null, {"blocks": [["output", 8], ["own", 64]], "forward": [2, 1], "backward": [-2]}], "note": "kept"},
      {"name": "decoder", "forward_ns": [1, 2], "backward_ns": [5, 6], "output_bytes": [7, 8], "pop": ["skip_0"]}]})";

std::string with(std::string text, const std::string& part, const std::string& other) {
    const std::size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return text.replace(at, part.size(), other);
}

TEST(ProfileFile, FillsInTheDefaults) {
    const Profile profile = parse_profile(kSmallest);
    const LayerProfile& layer = profile.layers.at(0);
    EXPECT_EQ(layer.recompute_ns, layer.forward_ns);
    EXPECT_TRUE(layer.graph_forward_ns.empty());
    EXPECT_EQ(layer.gradient_bytes, 12);
    EXPECT_EQ(layer.saved_bytes, (PerSize{0, 0}));
    EXPECT_EQ(layer.backward_ns, (PerSize{20, 40.5}));
    EXPECT_TRUE(layer.keeps_input);
    EXPECT_FALSE(layer.keeps_output);
    EXPECT_FALSE(layer.aliases_input);
    EXPECT_EQ(profile.input_bytes, (PerSize{0, 0}));
    EXPECT_EQ(profile.threads, 1);
    EXPECT_FALSE(profile.estimated);
}

TEST(ProfileFile, ReadsEveryField) {
    const Profile profile = parse_profile(kEverything);
    EXPECT_EQ(profile.model, "unet");
    EXPECT_EQ(profile.dtype, "float64");
    EXPECT_EQ(profile.threads, 2);
    EXPECT_EQ(profile.co_running_lanes, 3);
    EXPECT_EQ(profile.host_cores, 4);
    EXPECT_EQ(profile.co_running_slowdown, (PerLane{1, 1.25}));
    EXPECT_TRUE(profile.estimated);
    ASSERT_TRUE(profile.program);
    EXPECT_FALSE(profile.program->fused);
    EXPECT_EQ(profile.program->product_share_of("A100"), 0.5);
    EXPECT_EQ(profile.program->attention, (std::vector<std::string>{"flash-2"}));
    EXPECT_EQ(profile.command_options, (std::vector<std::string>{"--seed", "7"}));
    EXPECT_EQ(profile.step_cv, 0.01);
    EXPECT_EQ(profile.lane_cv, 0.005);
    EXPECT_EQ(profile.load, (MachineLoad{0.25, 0.5, 0.125}));
    EXPECT_EQ(profile.input_bytes, (PerSize{4, 8}));
    EXPECT_EQ(profile.loss_ns, (PerSize{1, 2}));
    EXPECT_EQ(profile.loss_batch, (BatchLoss{{16, 32}, {9, 11}, {70, 80}}));
    EXPECT_EQ(profile.loss_transient_bytes, (PerSize{3, 5}));
    EXPECT_EQ(profile.optimizer_ns, 5);
    EXPECT_EQ(profile.launch_ns, 6);
    const LayerProfile& layer = profile.layers.at(0);
    EXPECT_EQ(layer.parameter_bytes, 1);
    EXPECT_EQ(layer.gradient_bytes, 2);
    EXPECT_EQ(layer.buffer_bytes, 3);
    EXPECT_EQ(layer.recompute_ns, (PerSize{3, 4}));
    EXPECT_EQ(layer.graph_forward_ns, (PerSize{3.5, 4.5}));
    EXPECT_EQ(layer.forward_cv, 0.02);
    EXPECT_EQ(layer.backward_cv, 0.03);
    EXPECT_EQ(layer.flops, (PerSize{1e12, 2e12}));
    EXPECT_EQ(layer.launches, (std::map<std::string, LaunchTimes>{{"backward", {15, 16.5, 17, 18}}}));
    EXPECT_EQ(layer.forward_operators, (std::vector<Operators>{{{8, 4, 2, ProductShape{1, 2, 3, 4}}, {0, 9, 1}},
                                                               {{5, 6, 1, AttentionShape{8, 16, 32, 4, 2, 0.5}}}}));
    EXPECT_EQ(layer.backward_operators,
              (std::vector<Operators>{{{5, 6, 1, AttentionShape{8, 16, 32, 4, 2, 1, true}}}, {}}));
    EXPECT_EQ(layer.forward_chains, (std::vector<Operators>{{{0, 7, 1, CrossEntropyShape{12}}}, {}}));
    EXPECT_EQ(layer.backward_chains, (std::vector<Operators>{{}, {{0, 1, 3}}}));
    EXPECT_FALSE(layer.keeps_input);
    EXPECT_TRUE(layer.keeps_output);
    EXPECT_TRUE(layer.aliases_input);
    EXPECT_TRUE(layer.passes_gradient);
    EXPECT_FALSE(profile.layers.at(1).passes_gradient);
    EXPECT_EQ(layer.stash.at("skip_0"), (PerSize{13, 14}));
    EXPECT_EQ(profile.layers.at(1).pop, (std::vector<std::string>{"skip_0"}));
}

TEST(ProfileFile, WritesBackWhatItReadUnknownFieldsIncluded) {
    const Profile profile = parse_profile(kEverything);
    const std::string text = to_json(profile);
    EXPECT_EQ(parse_profile(text), profile);
    EXPECT_EQ(to_json(parse_profile(text)), text) << "same profile, same bytes";
    EXPECT_THAT(text, HasSubstr(R"("later": {"z":1,"a":[2]})"));  // in the order it came
    EXPECT_THAT(text, HasSubstr(R"("note":"kept")"));
    EXPECT_THAT(text, HasSubstr(R"("tape":[null,{"blocks":[["output",8],["own",64]],"forward":[2,1],)"
                                R"("checkpointed_forward":[2,1,-2],"backward":[-2]}])"));
    EXPECT_THAT(text, AllOf(HasSubstr(R"("forward_ns":[1,2])"), Not(HasSubstr("1.0"))));
}

struct BadProfile {
    const char* what;
    std::string text;
    const char* starts;  ///< of the message: the path
    const char* holds;
};

class MalformedProfile : public ::testing::TestWithParam<BadProfile> {};

TEST_P(MalformedProfile, IsRefusedWithThePathOfTheFault) {
    EXPECT_THAT(thrown<ProfileError>([] { parse_profile(GetParam().text); }),
                AllOf(StartsWith(GetParam().starts), HasSubstr(GetParam().holds)));
}

std::vector<BadProfile> bad_profiles() {
    const auto deep = [] {
        return with(kSmallest, "\"version\": 1", "\"version\": 1, \"deep\": " + std::string(100000, '['));
    };
    return {
        {"Empty", "", "$ is not valid JSON", "correct it"},
        {"NotJson", "SQLite format 3", "$ is not valid JSON in line 1, column 1, at 'SQLite forma'", "correct it"},
        {"CutOff", std::string(kSmallest).substr(0, 150), "layers[0]", "not valid JSON"},
        {"Array", "[1, 2]", "$ is [1,2]", "an object"},
        {"NaN", with(kSmallest, "[20, 40.5]", "[20, NaN]"), "layers[0].backward_ns[1] is not valid JSON in line",
         "at 'NaN"},
        {"Infinite", with(kSmallest, "40.5", "1e999"), "layers[0].backward_ns[1] is 1e999, which is too large",
         "below 1.8e308"},
        {"NegativeStepCv", with(kSmallest, "\"version\": 1,", "\"version\": 1, \"step_cv\": -0.5,"), "step_cv is -0.5",
         "not negative"},
        {"LaneCvAboveStepCv", with(kSmallest, "\"version\": 1,", "\"version\": 1, \"step_cv\": 0.1, \"lane_cv\": 0.5,"),
         "lane_cv is 0.5", "at most that"},
        {"LoadAboveOne",
         with(kSmallest, "\"version\": 1,", "\"version\": 1, \"load\": {\"others\": 2, \"stolen\": 0},"),
         "load.others is 2", "from 0 to 1"},
        {"LoadWithoutStolen", with(kSmallest, "\"version\": 1,", "\"version\": 1, \"load\": {\"others\": 0},"),
         "load.stolen is missing", "add it"},
        {"Negative", with(kSmallest, "40.5", "-1"), "layers[0].backward_ns[1] is -1", "not negative"},
        {"Huge", with(kSmallest, "128", "1e300"), "layers[0].output_bytes[1] is 1", "2^53"},
        {"BeyondAPebibyte", with(kSmallest, "128", "1125899906842625"), "layers[0].output_bytes[1] is 1",
         "2^50 (1 PiB)"},
        {"ParametersBeyondAPebibyte", with(kSmallest, "12}", "1125899906842625}"), "layers[0].parameter_bytes is 1",
         "2^50 (1 PiB)"},
        {"HugeParameters", with(kSmallest, "12}", "9223372036854775807}"), "layers[0].parameter_bytes", "2^53"},
        {"OverflowingParameters", with(kSmallest, "12}", "18446744073709551615}"), "layers[0].parameter_bytes",
         "whole"},
        {"FractionalParameters", with(kSmallest, "12}", "1.5}"), "layers[0].parameter_bytes is 1.5", "whole number"},
        {"Text", with(kSmallest, "40.5", "\"fast\""), "layers[0].backward_ns[1] is \"fast\"", "a number"},
        {"Null", with(kSmallest, "[10, 20]", "null"), "layers[0].forward_ns is null", "an array"},
        {"Short", with(kSmallest, "[10, 20]", "[10]"), "layers[0].forward_ns holds 1 number;", "which has 2"},
        {"Long", with(kSmallest, "[10, 20]", "[1, 2, 3]"), "layers[0].forward_ns holds 3 numbers", "which has 2"},
        {"EmptyArray", with(kSmallest, "[10, 20]", "[]"), "layers[0].forward_ns holds 0 numbers", "which has 2"},
        {"EmptyOptionalArray", with(kSmallest, "\"name\"", "\"saved_bytes\": [], \"name\""),
         "layers[0].saved_bytes is []", "leave it out"},
        {"NoForward", with(kSmallest, "\"forward_ns\": [10, 20],", ""), "layers[0].forward_ns is missing", "add it"},
        {"NoBackward", with(kSmallest, "\"backward_ns\": [20, 40.5],", ""), "layers[0].backward_ns is missing",
         "add it"},
        {"NoOutput", with(kSmallest, "\"output_bytes\": [64, 128],", ""), "layers[0].output_bytes is missing",
         "add it"},
        {"NoName", with(kSmallest, "\"name\": \"a\",", ""), "layers[0].name is missing", "add it"},
        {"NoLayers", R"({"format": "pipescope.profile", "version": 1, "samples": [1]})", "layers is missing", "add it"},
        {"ZeroLayers", R"({"format": "pipescope.profile", "version": 1, "samples": [1], "layers": []})",
         "layers is empty", "at least one layer"},
        {"NoSamples", with(kSmallest, "\"samples\": [1, 2], ", ""), "samples is missing", "add it"},
        {"EmptySamples", with(kSmallest, "[1, 2]", "[]"), "samples is empty", "at least one"},
        {"DescendingSamples", with(kSmallest, "[1, 2]", "[2, 1]"), "samples[1] is 1 after 2", "ascend"},
        {"RepeatedSamples", with(kSmallest, "[1, 2]", "[2, 2]"), "samples[1] is 2 after 2", "ascend"},
        {"ZeroSamples", with(kSmallest, "[1, 2]", "[0, 2]"), "samples[0] is 0", "from 1"},
        {"HalfSamples", with(kSmallest, "[1, 2]", "[0.5, 2]"), "samples[0] is 0.5", "whole number"},
        {"NoFormat", with(kSmallest, "\"format\": \"pipescope.profile\", ", ""), "format is missing", "add it"},
        {"OtherFormat", with(kSmallest, "pipescope.profile", "chrome"), "format is \"chrome\"", "pipescope.profile"},
        {"NewerVersion", with(kSmallest, "\"version\": 1", "\"version\": 2"), "version is 2", "update pipescope"},
        {"OlderVersion", with(kSmallest, "\"version\": 1", "\"version\": 0"), "version is 0", "reads version 1"},
        {"TextVersion", with(kSmallest, "\"version\": 1", "\"version\": \"1\""), "version is \"1\"", "a number"},
        {"LayerNoObject", with(kSmallest, "\"layers\": [", "\"layers\": [7, "), "layers[0] is 7", "an object"},
        {"Flag", with(kSmallest, "\"name\"", "\"keeps_input\": 1, \"name\""), "layers[0].keeps_input is 1",
         "true or false"},
        {"ManyThreads", with(kSmallest, "\"samples\"", "\"threads\": 5000000000, \"samples\""), "threads is 5000000000",
         "correct"},
        {"NoThreads", with(kSmallest, "\"samples\"", "\"threads\": 0, \"samples\""), "threads is 0", "at least 1"},
        {"KeyTwice", with(kSmallest, "\"name\"", "\"name\": \"b\", \"name\""), "layers[0].name appears twice",
         "remove one"},
        {"Deep", deep(), "deep", "nests deeper"},
        {"StashNoObject", with(kSmallest, "\"name\"", "\"stash\": [1], \"name\""), "layers[0].stash is [1]",
         "an object"},
        {"PopNoText", with(kSmallest, "\"name\"", "\"pop\": [1], \"name\""), "layers[0].pop[0] is 1", "a string"},
        {"TapeNoArray", with(kSmallest, "\"name\"", "\"tape\": {}, \"name\""), "layers[0].tape is {}", "an array"},
        {"TapeShort", with(kSmallest, "\"name\"", "\"tape\": [null], \"name\""), "layers[0].tape holds 1 tape;",
         "which has 2"},
        {"TapeNoBlocks", with(kSmallest, "\"name\"", "\"tape\": [null, {}], \"name\""),
         "layers[0].tape[1].blocks is missing", "record"},
        {"TapeRole",
         with(kSmallest, "\"name\"",
              "\"tape\": [null, {\"blocks\": [[\"mine\", 8]], \"forward\": [], \"backward\": []}], \"name\""),
         "layers[0].tape[1].blocks[0][0] is \"mine\"", "own, input"},
        {"TapeEvent",
         with(kSmallest, "\"name\"",
              "\"tape\": [{\"blocks\": [[\"own\", 8]], \"forward\": [2], \"backward\": []}, null], \"name\""),
         "layers[0].tape[0].checkpointed_forward[0] is 2", "number of a block"},
        {"Slowdown", with(kSmallest, "\"samples\"", "\"co_running_slowdown\": [1, 0], \"samples\""),
         "co_running_slowdown[1] is 0", "from 1 to 1e6"},
        {"SlowdownBelowOne", with(kSmallest, "\"samples\"", "\"co_running_slowdown\": [1, 0.1], \"samples\""),
         "co_running_slowdown[1] is 0.1", "from 1 to 1e6"},
        {"SlowdownOfOneLane", with(kSmallest, "\"samples\"", "\"co_running_slowdown\": [5, 6], \"samples\""),
         "co_running_slowdown[0] is 5", "write 1"},
        {"HugeOptimizer", with(kSmallest, "\"samples\"", "\"optimizer_ns\": 1e308, \"samples\""),
         "optimizer_ns is 1e+308;", "at most 2^53"},
        {"HostCores", with(kSmallest, "\"samples\"", "\"host_cores\": -2, \"samples\""), "host_cores is -2", "use 0"},
        {"LossBatchShort",
         with(kSmallest, "\"samples\"", "\"loss_batch\": {\"samples\": [8], \"ns\": []}, \"samples\""),
         "loss_batch.ns has 0 entries", "one is needed"},
        {"LossBatchDescends",
         with(kSmallest, "\"samples\"", "\"loss_batch\": {\"samples\": [8, 8], \"ns\": [1, 2]}, \"samples\""),
         "loss_batch.samples[1] is 8", "ascend"},
        {"LossBatchNegative",
         with(kSmallest, "\"samples\"", "\"loss_batch\": {\"samples\": [8], \"ns\": [-2]}, \"samples\""),
         "loss_batch.ns[0] is -2", "not negative"},
        {"LossBatchWithoutBytes",
         with(kSmallest, "\"samples\"",
              "\"loss_batch\": {\"samples\": [8], \"ns\": [1], \"transient_bytes\": [1, 2]}, \"samples\""),
         "loss_batch.transient_bytes has 2 entries", "one is needed"},
        {"LossBatchNoObject", with(kSmallest, "\"samples\"", "\"loss_batch\": 3, \"samples\""), "loss_batch is 3",
         "an object"},
        {"WeightsLongerThanTheBackward",
         with(kSmallest, "\"backward_ns\"", "\"backward_weight_ns\": [1, 5e9], \"backward_ns\""),
         "layers[0].backward_weight_ns[1] is 5e+09 in layer '", "is a part of the latter"},
        {"UnknownShape",
         with(kSmallest, "\"name\"", R"("forward_operators": [[[1, 2, 3, {"products": 1}]], []], "name")"),
         "layers[0].forward_operators[0][0][3].products is unknown", "product"},
        {"ShapeWithoutANumber",
         with(kSmallest, "\"name\"", R"("forward_operators": [[[1, 2, 3, {"product": [1, 2, 3]}]], []], "name")"),
         "layers[0].forward_operators[0][0][3].product is [1,2,3]", "batch, m, n and k"},
        {"ProgramWithoutAName", with(kSmallest, "\"samples\"", "\"program\": {}, \"samples\""),
         "program.name is missing", "profile"},
        {"ChainsOfAnotherSize", with(kSmallest, "\"name\"", R"("forward_chains": [[]], "name")"),
         "layers[0].forward_chains holds the operators of 1 size", "samples"},
        {"PopUnknown", with(kSmallest, "\"name\"", "\"pop\": [\"x\"], \"name\""), "layers[0].pop[0] is 'x'",
         "once by each"},
    };
}
INSTANTIATE_TEST_SUITE_P(Faults, MalformedProfile, ::testing::ValuesIn(bad_profiles()),
                         [](const auto& each) { return each.param.what; });

TEST(ProfileFile, AnEmptyNameIsQuoted) {
    EXPECT_THAT(thrown<ProfileError>([] { load_profile(""); }), StartsWith("'': cannot be opened; "));
}

TEST(ProfileFile, AnEmptyFileIsCalledEmpty) {
    const TemporaryFolder folder;
    write_text(folder / "p.json", "");
    EXPECT_THAT(thrown<ProfileError>([&] { load_profile(folder / "p.json"); }),
                HasSubstr("p.json: is empty; a profile is not; make one with"));
}

TEST(ProfileFile, SurvivesAnyDamageToItsText) {
    // Each damaged file is either refused or read as a profile with a valid invariant.
    std::mt19937 random(7);
    const std::string whole = kEverything;
    int refused = 0;
    for (int round = 0; round < 3000; ++round) {
        std::string text = whole;
        for (int hits = 1 + static_cast<int>(random() % 3); hits > 0; --hits) {
            const std::size_t at = random() % text.size();
            switch (random() % 3) {
                case 0: text[at] = static_cast<char>(random() % 256); break;
                case 1: text.erase(at, 1 + random() % 20); break;
                default: text.insert(at, 1, "[]{},:\"-9e."[random() % 11]); break;
            }
        }
        try {
            const Profile profile = parse_profile(text);
            EXPECT_NO_THROW(check_profile(profile));
            EXPECT_NO_THROW(to_json(profile));
        } catch (const ProfileError&) {
            ++refused;
        }
    }
    EXPECT_GT(refused, 1000);
}

/// True for one line with value, rule and remedy that starts with a JSON path.
bool is_one_sentence_with_a_path(const std::string& message) {
    const std::size_t path = message.find(' ');
    return path != std::string::npos && path > 0 && std::count(message.begin(), message.end(), ';') >= 2 &&
           std::none_of(message.begin(), message.end(), [](char each) { return each >= 0 && each < 32; });
}

TEST(ProfileFile, SaysWhereAndWhatIsWrongWhateverValueStandsWhereItShouldNot) {
    using Json = nlohmann::json;
    std::mt19937 random(8);
    const std::vector<Json> others = {nullptr,          true,      -1,         0,     0.5,   1e18,
                                      9007199254740993, 1e308,     "x",        "\n;", "s;k", Json::array(),
                                      Json::object(),   {1, 2, 3}, {{"a", 1}}, -0.0};
    int refused = 0;
    constexpr int kRounds = 3000;
    for (int round = 0; round < kRounds; ++round) {
        Json damaged = Json::parse(kEverything);
        std::vector<Json*> nodes;
        const std::function<void(Json&)> collect = [&](Json& node) {
            nodes.push_back(&node);
            for (Json& each : node) {
                if (node.is_structured()) {
                    collect(each);
                }
            }
        };
        collect(damaged);
        Json& node = *nodes[random() % nodes.size()];
        if (node.is_array() && !node.empty() && random() % 2 == 0) {
            const Json first = node.front();
            if (random() % 2 == 0) {
                node.erase(node.begin());
            } else {
                node.push_back(first);
            }
        } else {
            node = others[random() % others.size()];
        }
        try {
            const Profile profile = parse_profile(damaged.dump());
            EXPECT_EQ(parse_profile(to_json(profile)), profile) << damaged.dump();
        } catch (const ProfileError& fault) {
            ++refused;
            EXPECT_TRUE(is_one_sentence_with_a_path(fault.what())) << fault.what();
        }
    }
    EXPECT_GT(refused, kRounds / 2);
    EXPECT_LT(refused, kRounds);
}

class ProfileOnDisk : public ::testing::Test {
protected:
    void SetUp() override {
        directory_ = std::filesystem::path(::testing::TempDir()) /
                     ("profile_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()));
        std::filesystem::remove_all(directory_);
        std::filesystem::create_directories(directory_);
    }
    void TearDown() override { std::filesystem::remove_all(directory_); }

    std::filesystem::path directory_;
};

TEST_F(ProfileOnDisk, ComesBackAsItWasWritten) {
    const Profile profile = parse_profile(kEverything);
    std::ofstream(directory_ / "p.json") << to_json(profile);
    EXPECT_EQ(load_profile(directory_ / "p.json"), profile);
}

TEST_F(ProfileOnDisk, NamesTheFileInItsErrors) {
    const std::string missing = (directory_ / "none.json").string();
    EXPECT_THAT(thrown<ProfileError>([&] { load_profile(missing); }), StartsWith(missing + ": cannot be opened"));
    EXPECT_THAT(thrown<ProfileError>([&] { load_profile(directory_); }), HasSubstr("is a directory"));
    std::ofstream(directory_ / "bad.json") << "{}";
    EXPECT_THAT(thrown<ProfileError>([&] { load_profile(directory_ / "bad.json"); }),
                HasSubstr("bad.json: format is missing"));
}
}  // namespace
}  // namespace pipescope
