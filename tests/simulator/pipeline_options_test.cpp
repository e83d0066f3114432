#include "simulator/pipeline_options.h"
#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(PipelineOptions, ComeBackFromTheirJson) {
    PipelineOptions options;
    options.balance = Balance({2, 3});
    options.chunks = 8;
    options.batch = 64;
    options.checkpoint = Checkpoint::always;
    options.schedule = Schedule::one_f_one_b;
    options.update = Update::staggered;
    options.placement = {LaneId{1}, LaneId{0}};
    options.hardware.devices = {"cpu", "cuda:0"};
    options.hardware.speeds = {1, 0.5};
    options.hardware.link = {1.6e10, 5000};
    options.hardware.memory_limit = Bytes{1} << 40;
    options.hardware.memory_limits = {Bytes{1} << 41, Bytes{1} << 39};
    options.optimizer = "adam";
    options.master_weights = true;
    options.hardware.host_cores = 2;
    options.hardware.link.sharing = LinkSharing::sender;
    options.backward_order = BackwardOrder::first_first;
    options.recompute_start = RecomputeStart::ordinary;
    options.replicas = 4;
    options.most_in_flight = 3;
    options.hardware.expandable_segments = true;
    options.hardware.processes = 2;
    EXPECT_EQ(parse_pipeline_options(to_json(options)), options);
    options.hardware.link = {.times = {{1024, 5000}, {1 << 20, 1.5e6, 2e6}}, .protocol = LinkProtocol::rendezvous};
    EXPECT_EQ(parse_pipeline_options(to_json(options)), options);
    options.hardware.link.sends = Sends::serial;
    options.hardware.link.place = LinkPlace::between_racks;
    options.hardware.nearer = {{2, {.bytes_per_second = 1e9}}, {4, {.latency_ns = 7, .sends = Sends::blocking}}};
    options.hardware.replica_link = Link{.bytes_per_second = 3e9};
    options.hardware.pairs = {{0, 1, {.bytes_per_second = 2e9}}, {1, 1, {.latency_ns = 5}}};
    options.gradient_bucket = 40'000'000;
    options.weight_copies = 6;
    options.experts = {4, {{.bytes_per_second = 1e9}, {.latency_ns = 3}}, 1.5};
    EXPECT_EQ(parse_pipeline_options(to_json(options)), options);
    EXPECT_EQ(parse_pipeline_options(to_json(PipelineOptions{})), PipelineOptions{});
}

TEST(PipelineOptions, TakeDefaultsForWhatIsAbsentAndIgnoreTheUnknown) {
    const PipelineOptions options = parse_pipeline_options(R"({"balance": [1, 1], "seed": 7, "memory_limit": null})");
    EXPECT_EQ(options.balance, Balance({1, 1}));
    EXPECT_EQ(options.chunks, 1);
    EXPECT_FALSE(options.hardware.memory_limit);
}

TEST(PipelineOptions, NameTheKeyOfAFault) {
    const auto refuses = [](const char* json, const char* starts) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_pipeline_options(json); }), StartsWith(starts));
    };
    refuses("[1]", "the configuration is not a JSON object");
    refuses("{", "$ is not valid JSON in line 1, column 2, where it ends; the configuration is one JSON object");
    refuses(R"({"chunks": "8"})", "chunks is \"8\"");
    refuses(R"({"chunks": 1.5})", "chunks is 1.5");
    refuses(R"({"batch": 18446744073709551615})", "batch is 18446744073709551615");
    refuses(R"({"balance": 3})", "balance is 3");
    refuses(R"({"balance": [1, null]})", "balance[1] is null");
    refuses(R"({"balance": [1, 0]})", "balance[1] is 0");
    refuses(R"({"checkpoint": "sometimes"})", "checkpoint 'sometimes'");
    refuses(R"({"schedule": "zigzag"})", "schedule 'zigzag'");
    refuses(R"({"placement": [0, -1]})", "placement[1] is -1");
    refuses(R"({"devices": [1]})", "devices[0] is 1");
    refuses(R"({"speeds": ["fast"]})", "speeds[0] is \"fast\"");
    refuses(R"({"link": 5})", "link is 5");
    refuses(R"({"memory_limits": [1, "2"]})", "memory_limits[1] is \"2\"");
    refuses(R"({"link": {"latency_ns": "1us"}})", "link.latency_ns is \"1us\"");
    refuses(R"({"optimizer": 2})", "optimizer is 2");
}

TEST(PipelineOptions, LimitEachLaneByTheSmallerOfWhatIsSaid) {
    PipelineOptions options;
    EXPECT_THAT(memory_limits_of(options.hardware, 3), IsEmpty());
    options.hardware.memory_limit = 400;
    EXPECT_THAT(memory_limits_of(options.hardware, 3), ElementsAre(400, 400, 400));
    EXPECT_EQ(memory_limit_text(options.hardware), "400 B");
    options.hardware.memory_limits = {300, 500};
    EXPECT_THAT(memory_limits_of(options.hardware, 2), ElementsAre(300, 400));
    EXPECT_EQ(memory_limit_text(options.hardware), "300 B, 400 B");
    options.hardware.memory_limit.reset();
    EXPECT_THAT(memory_limits_of(options.hardware, 2), ElementsAre(300, 500));
    options.balance = Balance({1, 1, 1});
    EXPECT_THAT(thrown<UsageError>([&] { check_options(options, 3); }),
                StartsWith("--memory-limit names 2 lanes; the pipeline has 3"));
    options.hardware.memory_limits = {300, 0, 1};
    EXPECT_THAT(thrown<UsageError>([&] { check_options(options, 3); }), HasSubstr("lane 1"));
}

TEST(PipelineOptions, AreRefusedByTheNameOfTheOption) {
    const auto refuses = [](const PipelineOptions& options, const char* starts) {
        EXPECT_THAT(thrown<UsageError>([&] { check_options(options, 2); }), StartsWith(starts));
    };
    PipelineOptions good;
    good.balance = Balance({1, 1});
    good.chunks = good.batch = 2;
    check_options(good, 2);
    PipelineOptions bad = good;
    bad.most_in_flight = -1;
    refuses(bad, "--in-flight is -1; it counts micro-batches");
    bad.most_in_flight = 1;
    refuses(bad, "--in-flight is 1 with 2 micro-batches; gpipe");
    bad = good;
    bad.replicas = 2;
    check_options(bad, 2);
    bad.schedule = Schedule::pipedream;
    refuses(bad, "--replicas is 2 with schedule pipedream");
    bad.schedule = Schedule::gpipe;
    bad.update = Update::staggered;
    refuses(bad, "--update is staggered with replicas 2");
    bad = good;
    bad.update = Update::staggered;
    check_options(bad, 2);
    bad.schedule = Schedule::pipedream;
    refuses(bad, "--update is staggered with schedule pipedream, which never drains");
    bad.schedule = Schedule::one_f_one_b;
    bad.most_in_flight = 2;
    refuses(bad, "--update is staggered with in-flight 2");
    bad = good;
    bad.hardware.speeds = {1};
    refuses(bad, "--speed names 1 lane; the pipeline has 2");
    bad = good;
    bad.hardware.devices = {"cpu"};
    refuses(bad, "--devices names 1 lane; the pipeline has 2");
    bad = good;
    bad.hardware.link.bytes_per_second = -1;
    refuses(bad, "the link bandwidth is -1");
    bad = good;
    bad.hardware.memory_limit = 0;
    refuses(bad, "the memory limit is 0 bytes");
    bad = good;
    bad.hardware.host_cores = -1;
    refuses(bad, "--cores is -1");
}

TEST(Hardware, CopiesItsLastLaneForFurtherOnes) {
    Hardware hardware;
    EXPECT_EQ(described_lanes(hardware), std::nullopt);
    EXPECT_EQ(with_lanes(hardware, 3), hardware) << "lanes that are alike stay alike";
    hardware.devices = {"cpu", "gpu", "gpu"};
    hardware.speeds = {1, 0.5};
    EXPECT_EQ(described_lanes(hardware), 2);
    const Hardware more = with_lanes(hardware, 4);
    EXPECT_THAT(more.devices, ElementsAre("cpu", "gpu", "gpu", "gpu"));
    EXPECT_THAT(more.speeds, ElementsAre(1, 0.5, 0.5, 0.5));
    EXPECT_THAT(with_lanes(hardware, 1).devices, ElementsAre("cpu"));
}

TEST(Hardware, OfADeviceTypeKeepsALinkAndASmallerLimit) {
    DeviceType type;
    type.memory_bytes = 1000;
    type.link_bytes_per_second = 8e9;
    type.link_efficiency = 0.5;
    type.link_latency_ns = 7;
    Hardware hardware;
    hardware.link.sharing = LinkSharing::all;
    EXPECT_EQ(hardware_on(type, hardware).link, (Link{4e9, 7, LinkSharing::all}));
    EXPECT_EQ(hardware_on(type, hardware).memory_limit, 1000);
    type.headroom_bytes = 300;
    EXPECT_EQ(hardware_on(type, hardware).memory_limit, 700);
    hardware.link = {1e9, 0, LinkSharing::none};
    hardware.memory_limit = 10;
    EXPECT_EQ(hardware_on(type, hardware), hardware);
}

TEST(OptimizerStateFactor, KnowsNamesAndNumbers) {
    EXPECT_EQ(optimizer_state_factor("sgd"), 0);
    EXPECT_EQ(optimizer_state_factor("momentum"), 1);
    EXPECT_EQ(optimizer_state_factor("adam"), 2);
    EXPECT_EQ(optimizer_state_factor("adamw"), 2);
    // torchgpipe's param_scale, minus weights and gradients.
    EXPECT_EQ(optimizer_state_factor("amsgrad"), 5 - 2);
    EXPECT_EQ(optimizer_state_factor("adadelta"), 4 - 2);
    EXPECT_EQ(optimizer_state_factor("adagrad"), 3 - 2);
    EXPECT_EQ(optimizer_state_factor("rmsprop"), 3 - 2);
    EXPECT_EQ(optimizer_state_factor("rmsprop-centered-momentum"), 5 - 2);
    EXPECT_EQ(optimizer_state_factor("0.25"), 0.25);
    for (const char* bad : {"", "lion", "-1", "nan", "inf", "2x", "1e9"}) {
        EXPECT_THAT(thrown<UsageError>([&] { optimizer_state_factor(bad); }),
                    AllOf(HasSubstr(std::string("'") + bad + "'"), HasSubstr("sgd")));
    }
    EXPECT_THAT(thrown<UsageError>([] { optimizer_state_factor("lion"); }), HasSubstr("is not known"));
    EXPECT_THAT(thrown<UsageError>([] { optimizer_state_factor("1e9"); }),
                AllOf(HasSubstr("bytes of state per byte of parameter"), HasSubstr("from 0 to 1000"),
                      testing::Not(HasSubstr("is not known"))));
}

// bfloat16 with Adam and master weights: weight 2, gradient 2, copy 4, two states of 4 each: 16 bytes per parameter.
TEST(PipelineOptions, MasterWeightsAreFloat32CopiesBesideFloat32State) {
    PipelineOptions options;
    options.optimizer = "adam";
    EXPECT_EQ(optimizer_state_factor(options, "bfloat16"), 2) << "torch keeps its state in the parameter's dtype";
    options.master_weights = true;
    EXPECT_EQ(2 + 2 + 2 * optimizer_state_factor(options, "bfloat16"), 16);
    options.optimizer = "sgd";
    EXPECT_EQ(optimizer_state_factor(options, "float16"), 2);
    check_master_weights(options, "float16");
    EXPECT_THAT(thrown<UsageError>([&] { check_master_weights(options, "float32"); }),
                testing::HasSubstr("float32 parameters"));
}
}  // namespace
}  // namespace pipescope
