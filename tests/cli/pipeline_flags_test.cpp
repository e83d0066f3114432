#include "cli/pipeline_flags.h"

#include "schedule/error.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <map>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

PipelineFlags valid_flags() {
    PipelineFlags flags;
    flags.balance = "2,3";
    flags.chunks = 8;
    flags.batch = 64;
    return flags;
}

TEST(PipelineFlags, BecomeOptions) {
    PipelineFlags flags = valid_flags();
    flags.checkpoint = "always";
    flags.placement = "0,0";
    flags.devices = "cpu";
    flags.speed = ".5";
    flags.link_bandwidth = "12GB/s";
    flags.link_latency = "10us";
    flags.memory_limit = "1GiB";
    flags.optimizer = "adam";
    const PipelineOptions options = pipeline_options(flags);
    EXPECT_EQ(options.balance, Balance({2, 3}));
    EXPECT_EQ(options.chunks, 8);
    EXPECT_EQ(options.batch, 64);
    EXPECT_EQ(options.checkpoint, Checkpoint::always);
    EXPECT_THAT(options.placement, ElementsAre(LaneId{0}, LaneId{0}));
    EXPECT_THAT(options.devices, ElementsAre("cpu"));
    EXPECT_THAT(options.speeds, ElementsAre(0.5));
    EXPECT_EQ(options.link, (Link{12e9, 1e4}));
    EXPECT_EQ(options.memory_limit, Bytes{1} << 30);
    EXPECT_EQ(options.optimizer, "adam");
}

TEST(PipelineFlags, LeftOutAreTheDocumentedDefaults) {
    const PipelineOptions options = pipeline_options(valid_flags());
    EXPECT_EQ(options.checkpoint, Checkpoint::except_last);
    EXPECT_EQ(options.schedule, Schedule::gpipe);
    EXPECT_EQ(options.link, Link{});
    EXPECT_TRUE(options.speeds.empty());
    EXPECT_EQ(options.optimizer, "sgd");
    EXPECT_FALSE(options.memory_limit.has_value());
}

TEST(PipelineFlags, LimitTheMemoryOfAllLanesAlikeOrOfEach) {
    PipelineFlags flags = valid_flags();
    flags.memory_limit = "1GiB,2KiB";
    const PipelineOptions options = pipeline_options(flags);
    EXPECT_FALSE(options.memory_limit.has_value());
    EXPECT_THAT(options.memory_limits, ElementsAre(Bytes{1} << 30, 2048));
    flags.memory_limit = "1GiB,much";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("--memory-limit is 'much'")));
}

TEST(PipelineFlags, RefuseWhatCannotWork) {
    PipelineFlags flags = valid_flags();
    flags.chunks = 0;
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("chunks is 0")));
    flags = valid_flags();
    flags.speed = "1,0";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("above 0")));
    flags = valid_flags();
    flags.placement = "0,-1";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("--placement is '0,-1'")));
    flags = valid_flags();
    flags.placement = "0,4294967296";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("placement[1] is 4294967296")));
    flags = valid_flags();
    flags.devices = "cpu,,cpu";
    EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("item 1 is empty")));
    flags = valid_flags();
    flags.balance = "2;3";
    EXPECT_THROW(pipeline_options(flags), BalanceError);
}

Profile profile_on(const std::string& device, int host_cores) {
    Profile profile;
    profile.model = "mlp";
    profile.device = device;
    profile.host_cores = host_cores;
    profile.samples = {1};
    LayerProfile layer;
    layer.forward_ns = layer.backward_ns = layer.output_bytes = {1000};
    layer.flops = {1e9};
    profile.layers.assign(5, layer);
    return profile;
}

std::map<std::string, std::string> assumed(const PipelineFlags& flags, const Profile& profile,
                                           PipelineOptions& options) {
    std::map<std::string, std::string> all;
    for (const Assumption& each : assume(options, flags, profile, 2)) {
        all[each.option] = each.value;
    }
    return all;
}

using Assumed = std::map<std::string, std::string>;

TEST(PipelineFlags, LeaveWhatRunDoesWhereTheProfileWasMeasuredOnTheHost) {
    PipelineOptions options;
    EXPECT_EQ(assumed({}, profile_on("cpu", 4), options),
              (Assumed{{"optimizer", "sgd"}, {"devices", "cpu"}, {"cores", "4"}}));
    EXPECT_THAT(options.devices, ElementsAre("cpu", "cpu"));
    EXPECT_EQ(options.host_cores, 4);
    // A handwritten profile, one of an accelerator and an estimated one imply nothing about lanes on this host.
    for (Profile other : {profile_on("cpu", 0), profile_on("cuda:0", 4)}) {
        options = {};
        EXPECT_EQ(assumed({}, other, options), (Assumed{{"optimizer", "sgd"}}));
        EXPECT_TRUE(options.devices.empty());
    }
    Profile estimated = profile_on("cpu", 4);
    estimated.estimated = true;
    options = {};
    EXPECT_EQ(assumed({}, estimated, options).count("devices"), 0u);
    options = {};
    options.link.latency_ns = 1;
    EXPECT_EQ(assumed({}, profile_on("cpu", 4), options).count("devices"), 0u);
    // Named devices also get the profile's cores, as in run; named cores are kept.
    PipelineFlags flags;
    flags.devices = "cpu,cpu";
    options = {};
    options.devices = {"cpu", "cpu"};
    EXPECT_EQ(assumed(flags, profile_on("cpu", 4), options), (Assumed{{"optimizer", "sgd"}, {"cores", "4"}}));
    flags.cores = 1;
    flags.optimizer = "momentum";
    options.host_cores = 1;
    EXPECT_EQ(assumed(flags, profile_on("cpu", 4), options), Assumed{});
    EXPECT_EQ(options.host_cores, 1);
}

TEST(PipelineFlags, PutLanesOnTheHostThatAreToShareItsCores) {
    PipelineFlags flags;
    flags.optimizer = "sgd";
    flags.cores = 2;
    Profile estimated = profile_on("cpu", 0);
    estimated.estimated = true;
    for (const Profile& profile : {profile_on("cpu", 0), estimated}) {
        PipelineOptions options;
        options.host_cores = 2;
        EXPECT_EQ(assumed(flags, profile, options), (Assumed{{"devices", "cpu"}}));
        EXPECT_THAT(options.devices, ElementsAre("cpu", "cpu"));
        EXPECT_EQ(options.host_cores, 2);
    }
}

TEST(PipelineFlags, RefuseCoresThatNoLaneUses) {
    PipelineFlags flags;
    flags.cores = 2;
    const auto refusal = [&](const Profile& profile, PipelineOptions options) {
        try {
            assume(options, flags, profile, 2);
        } catch (const UsageError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const std::string rule = "--cores is 2, and no lane is on cpu; only lanes on cpu share cores; ";
    const std::string remedy = "name cpu in --devices, such as cpu,cpu, or leave out --cores";
    EXPECT_EQ(refusal(profile_on("cuda:0", 4), {}), rule + remedy);
    PipelineOptions linked;
    linked.link.latency_ns = 1;
    EXPECT_EQ(refusal(profile_on("cpu", 4), linked), rule + remedy) << "a link joins devices";
    flags.devices = "cuda:0,cuda:1";
    PipelineOptions named;
    named.devices = {"cuda:0", "cuda:1"};
    EXPECT_EQ(refusal(profile_on("cpu", 4), named), rule + remedy);
    named.devices = {"cpu", "cuda:0"};
    EXPECT_EQ(refusal(profile_on("cpu", 4), named), "");
    flags.devices = "";
    flags.device_types = "A100";
    EXPECT_EQ(refusal(profile_on("cpu", 4), {}), rule + "leave out --device-types, or leave out --cores");
}

TEST(PipelineFlags, AssumeAdamForALanguageModelAndSaySo) {
    Profile profile = profile_on("A100", 0);
    profile.token_input = true;
    PipelineOptions options;
    const std::vector<Assumption> assumptions = assume(options, {}, profile, 2);
    EXPECT_EQ(options.optimizer, "adam");
    EXPECT_THAT(
        assumptions_text(assumptions),
        testing::AllOf(HasSubstr("assumed: optimizer adam, as for a language model"), HasSubstr("--optimizer")));
    EXPECT_EQ(assumptions_json(assumptions).at("optimizer"), "adam");
    PipelineFlags flags;
    flags.optimizer = "sgd";
    options.optimizer = "sgd";
    EXPECT_TRUE(assume(options, flags, profile, 2).empty());
    EXPECT_EQ(options.optimizer, "sgd");
}

TEST(PipelineFlags, TakeAnotherDtypeOnlyWhereBytesStayAndTimesAreEstimated) {
    PipelineFlags flags = valid_flags();
    flags.dtype = "tf32";
    flags.device_types = "A100";
    const Profile profile = profile_on("cpu", 4);
    const EstimatedPipeline fast = estimated_pipeline(flags, pipeline_options(flags), profile, "out/p.json", 2);
    EXPECT_EQ(fast.profile.dtype, "tf32");
    EXPECT_EQ(fast.profile.device, "A100");
    EXPECT_EQ(fast.options.memory_limit, 85899345920);
    EXPECT_EQ(fast.options.link.bytes_per_second, 240e9);
    flags.dtype = "float32";
    const EstimatedPipeline plain = estimated_pipeline(flags, pipeline_options(flags), profile, "out/p.json", 2);
    EXPECT_NEAR(plain.profile.layers[0].forward_ns[0] / fast.profile.layers[0].forward_ns[0], 8, 1e-9)
        << "156 and 19.5 TFLOP/s";
    const auto refusal = [&](const std::string& dtype, const std::string& types) {
        flags.dtype = dtype;
        flags.device_types = types;
        return [&] { estimated_pipeline(flags, pipeline_options(flags), profile, "out/p.json", 2); };
    };
    EXPECT_THAT(refusal("bfloat16", "A100"),
                ThrowsMessage<UsageError>(HasSubstr("'pipescope profile mlp --dtype bfloat16 --micro-batch-sizes 1 "
                                                    "-o out/p-bfloat16.json'")));
    Profile estimated = profile;
    estimated.estimated = true;
    estimated.device = "A100";
    estimated.dtype = "bfloat16";
    estimated.samples = {2, 4};
    EXPECT_EQ(profile_command_of(estimated, "my p.json", {{1, 4}, ""}),
              "pipescope profile mlp --device meta --device-type A100 --dtype bfloat16 --micro-batch-sizes 1,2,4 "
              "-o \"my p.json\" --force");
    estimated.estimated = false;
    estimated.device = "cuda:0";
    estimated.model = "emulated:p.json";
    EXPECT_EQ(profile_command_of(estimated, "q.json", {}),
              "pipescope profile emulated:p.json --device cuda:0 --micro-batch-sizes 2,4 -o q.json --force");
    EXPECT_THAT(refusal("tf32", ""), ThrowsMessage<UsageError>(HasSubstr("name --device-types")));
    EXPECT_THAT(refusal("nonsense", "A100"), ThrowsMessage<UsageError>(HasSubstr("dtype is 'nonsense'")));
    EXPECT_THAT(refusal("tf32", "V100"), ThrowsMessage<UsageError>(HasSubstr("dtype is tf32 on V100")));
    EXPECT_THAT(refusal("", "A100,H100"), ThrowsMessage<UsageError>(HasSubstr("name one, or use plan")));
    EXPECT_THAT(refusal("", "A100,a100"), ThrowsMessage<UsageError>(HasSubstr("A100 appears twice")));
}

TEST(PipelineFlags, ShareTheBatchAmongReplicas) {
    PipelineFlags flags = valid_flags();
    flags.replicas = 4;
    EXPECT_EQ(pipeline_options(flags).replicas, 4);
    for (const int bad : {0, -1, 7}) {
        flags.replicas = bad;
        EXPECT_THAT([&] { pipeline_options(flags); }, ThrowsMessage<UsageError>(HasSubstr("--replicas is ")));
    }
}
}  // namespace
}  // namespace pipescope
