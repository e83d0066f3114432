#include "answers/asked_pipeline.h"

#include "answers/asked_pipeline.h"
#include "answers/pipeline_rows.h"
#include "answers/profile_again.h"
#include "base/error.h"
#include "simulator/option_texts.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// The flags of options by name, as simulate takes them.
AskedPipeline flags_of(const std::vector<OptionValue>& values) {
    OptionTable table;
    AskedPipeline flags;
    add_balance_option(table, flags);
    add_batch_options(table, flags);
    add_schedule_options(table, flags, "");
    add_hardware_options(table, flags);
    add_parameter_options(table, flags);
    add_replicas_option(table, flags);
    table.take({{"balance", "2,3"}, {"batch", "64"}});
    table.take(values);
    return flags;
}
AskedPipeline valid_flags() {
    return flags_of({{"chunks", "8"}});
}

TEST(AskedPipeline, BecomeOptions) {
    const PipelineOptions options = pipeline_options(flags_of({{"chunks", "8"},
                                                               {"checkpoint", "always"},
                                                               {"placement", "0,0"},
                                                               {"devices", "cpu"},
                                                               {"speed", ".5"},
                                                               {"link-bandwidth", "12GB/s"},
                                                               {"link-latency", "10us"},
                                                               {"link-sharing", "sender"},
                                                               {"memory-limit", "1GiB"},
                                                               {"optimizer", "adam"},
                                                               {"schedule", "1f1b"},
                                                               {"cores", "3"}}));
    EXPECT_EQ(options.balance, Balance({2, 3}));
    EXPECT_EQ(options.chunks, 8);
    EXPECT_EQ(options.batch, 64);
    EXPECT_EQ(options.checkpoint, Checkpoint::always);
    EXPECT_EQ(options.schedule, Schedule::one_f_one_b);
    EXPECT_THAT(options.placement, ElementsAre(LaneId{0}, LaneId{0}));
    EXPECT_THAT(options.hardware.devices, ElementsAre("cpu"));
    EXPECT_THAT(options.hardware.speeds, ElementsAre(0.5));
    EXPECT_EQ(options.hardware.link, (Link{12e9, 1e4, LinkSharing::sender}));
    EXPECT_EQ(options.hardware.memory_limit, Bytes{1} << 30);
    EXPECT_EQ(options.hardware.host_cores, 3);
    EXPECT_EQ(options.optimizer, "adam");
}

TEST(AskedPipeline, LeftOutAreTheDocumentedDefaults) {
    const PipelineOptions options = pipeline_options(valid_flags());
    EXPECT_EQ(options.checkpoint, Checkpoint::except_last);
    EXPECT_EQ(options.schedule, Schedule::gpipe);
    EXPECT_EQ(options.hardware, Hardware{});
    EXPECT_EQ(options.optimizer, "sgd");
}

TEST(AskedPipeline, LimitTheMemoryOfAllLanesAlikeOrOfEach) {
    const PipelineOptions options = pipeline_options(flags_of({{"chunks", "8"}, {"memory-limit", "1GiB,2KiB"}}));
    EXPECT_FALSE(options.hardware.memory_limit.has_value());
    EXPECT_THAT(options.hardware.memory_limits, ElementsAre(Bytes{1} << 30, 2048));
}

TEST(AskedPipeline, RefuseWhatCannotWork) {
    const auto refuses = [](const std::vector<OptionValue>& values, const std::string& why) {
        EXPECT_THAT(thrown<UsageError>([&] { pipeline_options(flags_of(values)); }), HasSubstr(why));
    };
    refuses({{"chunks", "0"}}, "chunks is 0");
    refuses({{"chunks", "8"}, {"speed", "1,0"}}, "above 0");
    for (const std::string bad : {"nan", "inf", "-inf", "1e400", "-1", "x"}) {
        refuses({{"chunks", "8"}, {"speed", "1," + bad}}, "--speed");
    }
    refuses({{"chunks", "8"}, {"placement", "0,-1"}}, "--placement is '0,-1'");
    refuses({{"chunks", "8"}, {"placement", "0,4294967296"}}, "placement[1] is 4294967296");
    refuses({{"chunks", "8"}, {"devices", "cpu,,cpu"}}, "item 1 is empty");
    refuses({{"chunks", "8"}, {"memory-limit", "1GiB,much"}}, "--memory-limit is 'much'");
    refuses({{"chunks", "8"}, {"checkpoint", "sometimes"}}, "checkpoint 'sometimes'");
    refuses({{"chunks", "8"}, {"cores", "-1"}}, "cores is -1");
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

TEST(AskedPipeline, LeaveAssumptionsThatSayHowToOverrideThem) {
    const std::vector<Assumption> assumptions{{"optimizer", "adam", "as for a language model"}};
    EXPECT_EQ(assumptions_text(assumptions),
              "\nassumed: optimizer adam, as for a language model; --optimizer overrides it\n");
    EXPECT_EQ(assumptions_json(assumptions).at("optimizer"), "adam");
}

TEST(AskedPipeline, TakeAnotherDtypeOnlyWhereBytesStayAndTimesAreEstimated) {
    AskedPipeline flags = valid_flags();
    flags.dtype = "tf32";
    flags.device_types = "A100";
    const CheckedProfile profile = profile_on("cpu", 4);
    const EstimatedPipeline fast = estimated_pipeline(flags, pipeline_options(flags), profile, "out/p.json", 2);
    EXPECT_EQ(fast.profile->dtype, "tf32");
    EXPECT_EQ(fast.profile->device, "A100");
    EXPECT_EQ(fast.options.hardware.memory_limit, 81604378624);  // 80 GiB without 5 % of headroom
    EXPECT_EQ(fast.options.hardware.link.bytes_per_second, 240e9);
    flags.dtype = "float32";
    const EstimatedPipeline plain = estimated_pipeline(flags, pipeline_options(flags), profile, "out/p.json", 2);
    EXPECT_NEAR(plain.profile->layers[0].forward_ns[0] / fast.profile->layers[0].forward_ns[0], 8, 1e-9)
        << "156 and 19.5 TFLOP/s";
    const auto refusal = [&](const std::string& dtype, const std::string& types) {
        flags.dtype = dtype;
        flags.device_types = types;
        return [&] { estimated_pipeline(flags, pipeline_options(flags), profile, "out/p.json", 2); };
    };
    EXPECT_THAT(thrown<UsageError>(refusal("bfloat16", "A100")), HasSubstr("out/p-bfloat16.json"));
    Profile estimated = profile;
    estimated.estimated = true;
    estimated.device = "A100";
    estimated.dtype = "bfloat16";
    estimated.samples = {2, 4};
    EXPECT_EQ(profile_command_of(estimated, "my p.json", {{1, 4}, ""}),
              "pipescope profile mlp --device meta --device-type A100 --dtype bfloat16 --micro-batch-sizes 1,2,4 "
              "-o 'my p.json' --force");
    estimated.command_options = {"--device-catalogue", "my devices.json", "--co-running", "3"};
    EXPECT_EQ(profile_command_of(estimated, "p.json", {}),
              "pipescope profile mlp --device meta --device-type A100 --dtype bfloat16 --micro-batch-sizes 2,4 "
              "--device-catalogue 'my devices.json' --co-running 3 -o p.json --force");
    estimated.command_options.clear();
    estimated.estimated = false;
    estimated.device = "cuda:0";
    estimated.model = "emulated:p.json";
    EXPECT_EQ(profile_command_of(estimated, "q.json", {}),
              "pipescope profile emulated:p.json --device cuda:0 --micro-batch-sizes 2,4 -o q.json --force");
    EXPECT_THAT(thrown<UsageError>(refusal("tf32", "")), HasSubstr("--device-types"));
    EXPECT_THAT(thrown<UsageError>(refusal("nonsense", "A100")), HasSubstr("nonsense"));
    EXPECT_THAT(thrown<UsageError>(refusal("tf32", "V100")), HasSubstr("V100"));
    EXPECT_THAT(thrown<UsageError>(refusal("", "A100,H100")), HasSubstr("A100,H100"));
    EXPECT_THAT(thrown<UsageError>(refusal("", "A100,a100")), HasSubstr("twice"));
}

TEST(AskedPipeline, ShareTheBatchAmongReplicas) {
    EXPECT_EQ(pipeline_options(flags_of({{"chunks", "8"}, {"replicas", "4"}})).replicas, 4);
    for (const char* bad : {"0", "-1", "7"}) {
        const AskedPipeline flags = flags_of({{"chunks", "8"}, {"replicas", bad}});
        EXPECT_THAT(thrown<UsageError>([&] { pipeline_options(flags); }), HasSubstr("replicas is "));
    }
}

// What a pipeline is written as, simulate reads back as the same pipeline.
TEST(AskedPipeline, ReadOptionTextsBack) {
    std::mt19937 random(7);
    const auto maybe = [&random](auto& value, const auto& given) {
        if (random() % 2 == 0) {
            value = given;
        }
    };
    for (int k = 0; k < 200; ++k) {
        PipelineOptions options;
        options.balance = Balance({2, 3});
        options.batch = 64;
        options.chunks = 1 + static_cast<std::int64_t>(random() % 9);
        maybe(options.checkpoint, Checkpoint::always);
        maybe(options.schedule, Schedule::one_f_one_b);
        maybe(options.placement, std::vector{LaneId{0}, LaneId{0}});
        maybe(options.optimizer, "0.125");
        maybe(options.master_weights, true);
        maybe(options.recompute_start, RecomputeStart::ordinary);
        if (options.schedule == Schedule::gpipe) {
            maybe(options.backward_order, BackwardOrder::first_first);
        }
        if (k % 3 == 0) {
            maybe(options.update, Update::staggered);
        } else {
            maybe(options.replicas, 4);
            maybe(options.most_in_flight, 2);
        }
        Hardware& hardware = options.hardware;
        maybe(hardware.devices, std::vector<std::string>{"cpu", "a b"});
        maybe(hardware.speeds, std::vector{1 / 3.0, 1e-7});
        maybe(hardware.memory_limit, 1'234'567'891);
        if (!hardware.memory_limit) {
            maybe(hardware.memory_limits, std::vector<Bytes>{1, 2'000'000'000'001});
        }
        maybe(hardware.host_cores, 3);
        maybe(hardware.processes, 2);
        maybe(hardware.expandable_segments, true);
        maybe(hardware.link.bytes_per_second, 500.0);
        maybe(hardware.link.latency_ns, 12.5);
        maybe(hardware.link.sharing, LinkSharing::host);
        maybe(hardware.link.protocol, LinkProtocol::blocking);

        OptionTable table;
        AskedPipeline flags;
        add_simulated_pipeline_options(table, flags);
        for (const OptionText& each : option_texts(options)) {
            if (each.value == "true") {
                table.take({{each.option, true}});
            } else {
                table.take({{each.option, each.value}});
            }
        }
        EXPECT_EQ(simulated_pipeline_options(flags), options) << k;
    }
}

TEST(AskedPipeline, AreNamedAsTheyChange) {
    PipelineOptions from;
    from.hardware.link.bytes_per_second = 12e9;
    from.update = Update::staggered;
    PipelineOptions to = from;
    EXPECT_THAT(changed_options(from, to), IsEmpty());
    to.checkpoint = Checkpoint::never;
    to.hardware.link.bytes_per_second = 0;
    to.hardware.host_cores = 2;
    EXPECT_THAT(changed_options(from, to), ElementsAre(OptionText{"checkpoint", "never"}, OptionText{"cores", "2"},
                                                       OptionText{"link-bandwidth", ""}));
}
}  // namespace
}  // namespace pipescope
