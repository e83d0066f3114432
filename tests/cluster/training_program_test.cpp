#include "cluster/training_program.h"

#include "base/error.h"
#include "cluster/step_bounds.h"
#include "simulator/memory/memory_fit.h"
#include "tests/cluster/clusters.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

constexpr const char* kModel =
    "gpt:layers=4,hidden=1024,heads=8,sequence=1024,vocabulary=4096,dropout=false,attention=flash";

/// The step in ns of a small model on A100s, with a program that `change` alters.
double step_with(const std::function<void(TrainingProgram&)>& change, Layout layout = {},
                 const std::string& model = kModel, const char* cluster_name = "dgx-a100") {
    const Cluster cluster = load_cluster(cluster_name, device_catalogue());
    TrainingProgram program;
    change(program);
    layout.program = std::make_shared<const TrainingProgram>(program);
    layout.batch = layout.data * layout.micro_batch_size * 4;
    return step_of(model, cluster, layout).step_ns();
}
void nothing(TrainingProgram& /*program*/) {}

TEST(TrainingProgram, BuiltInOnesHaveSourcesAndAreFoundByName) {
    std::vector<std::string> names;
    for (const ProgramPointer& each : built_in_programs()) {
        names.push_back(each->name);
        EXPECT_FALSE(each->source.empty()) << each->name;
        EXPECT_EQ(load_program(each->name), each);
    }
    EXPECT_THAT(names, testing::ElementsAre("megatron-core", "nemo", "megatron-deepspeed", "fsdp", "torchtitan",
                                            "deepspeed", "maxtext"));
    EXPECT_THAT(thrown<UsageError>([] { load_program("megatron"); }), HasSubstr("name one of megatron-core, nemo"));
}

TEST(TrainingProgram, ReadsAFileAndNamesItsFaults) {
    const auto parse = [](const std::string& fields) {
        return parse_program(R"({"format": "pipescope.program", "version": 1, "name": "ours")" + fields + "}");
    };
    EXPECT_EQ(parse("").product_share, 1);
    EXPECT_EQ(parse(R"(, "attention": ["flash-2"], "sends": "serial")").attention.front(), "flash-2");
    EXPECT_THAT(thrown<ProfileError>([&] { parse(R"(, "product_share": 0)"); }), HasSubstr("product_share is 0"));
    EXPECT_THAT(thrown<ProfileError>([&] { parse(R"(, "tensor_overlap": 2)"); }), HasSubstr("tensor_overlap is 2"));
    EXPECT_THAT(thrown<ProfileError>([&] { parse(R"(, "product_shares": 1)"); }),
                HasSubstr("product_shares is unknown"));
    EXPECT_THAT(thrown<ProfileError>([&] { parse(R"(, "gradient_bytes": 3)"); }), HasSubstr("2, 4 or 8"));
    EXPECT_THAT(thrown<ProfileError>([&] { parse(R"(, "pipeline_zero": 1.5)"); }),
                HasSubstr("a stage of ZeRO, 0 to 3"));
    EXPECT_EQ(parse(R"(, "work_factor_on": {"H100": 1.2})").work_factor_of("H100"), 1.2);
    EXPECT_THAT(thrown<ProfileError>([&] { parse(R"(, "work_factor_on": {"H100": 0})"); }), HasSubstr("above 0"));
    EXPECT_THAT(thrown<ProfileError>([] { parse_program("{}"); }), HasSubstr("pipescope.program"));
}

TEST(TrainingProgram, NamesDevicesAndKernelsThatSomeCatalogueHas) {
    const auto check = [](const std::function<void(TrainingProgram&)>& change) {
        TrainingProgram program;
        change(program);
        check_names(program, {});
    };
    const auto refused = [&](const std::function<void(TrainingProgram&)>& change) {
        return thrown<UsageError>([&] { check(change); });
    };
    check([](TrainingProgram& program) { program.work_factor_on = program.product_share_on = {{"H100", 0.9}}; });
    EXPECT_THAT(refused([](TrainingProgram& program) {
                    program.work_factor_on = {{"H10", 1.2}};
                }),
                HasSubstr("a work_factor_on for 'H10', which no catalogue has; the nearest is H100"));
    EXPECT_THAT(refused([](TrainingProgram& program) {
                    program.product_share_on = {{"H10", 0.9}};
                }),
                HasSubstr("a product_share_on for 'H10', which no catalogue has; the nearest is H100"));
    EXPECT_THAT(refused([](TrainingProgram& program) { program.attention = {"flash-9"}; }),
                HasSubstr("the kernel of attention 'flash-9'"));
}

TEST(TrainingProgram, ADefaultOneChangesNothing) {
    Layout layout;
    layout.batch = 4;
    const Cluster cluster = load_cluster("dgx-a100", device_catalogue());
    EXPECT_EQ(step_with(nothing), step_of(kModel, cluster, layout).step_ns());
}

TEST(TrainingProgram, UnfusedOperatorsSlowProductsAndFixedTimesMakeAStepLonger) {
    const double plain = step_with(nothing);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.product_share = 0.5; }), 1.2 * plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.product_depth = 1024; }), 1.2 * plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.forward_tensors = 20; }), 1.02 * plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.backward_tensors = 20; }), 1.02 * plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.loss_bytes = 200; }), 1.02 * plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.parameter_bytes = 100; }), 1.02 * plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.update_share = 0.1; }), plain);
    EXPECT_NEAR(step_with([](TrainingProgram& program) { program.step_ns = 1e6; }), plain + 1e6, 1);
}

TEST(TrainingProgram, AHostLimitsBlocksOrAddsToThem) {
    const double plain = step_with(nothing);
    const auto with = [](double launch, bool waits) {
        return step_with([&](TrainingProgram& program) {
            program.launch_ns = launch;
            program.forward_launches = program.backward_launches = 10;
            program.host_waits = waits;
        });
    };
    EXPECT_EQ(with(1, false), plain);  // the device is slower
    EXPECT_GT(with(1e6, false), 2 * plain);
    constexpr double kBlocks = 4 * 4 * 2;  // micro-batches, layers, passes
    EXPECT_NEAR(with(1000, true), plain + kBlocks * 10 * 1000, 100);
}

TEST(TrainingProgram, ItsKernelOfAttentionHasARateOfItsOwn) {
    const std::string narrow = "gpt:layers=4,hidden=1024,heads=16,sequence=8192,vocabulary=4096,attention=flash";
    const std::string wide = "gpt:layers=4,hidden=1024,heads=8,sequence=8192,vocabulary=4096,attention=flash";
    const auto with = [&](const char* kernel, const std::string& model) {
        return step_with([&](TrainingProgram& program) { program.attention = {"unknown", kernel}; }, {}, model);
    };
    EXPECT_GT(with("flash-1", wide), 1.2 * with("flash-2", wide));
    EXPECT_GT(with("flash-2", narrow), 1.02 * with("flash-2", wide));
    EXPECT_EQ(with("none", wide), step_with(nothing, {}, wide));  // the device has no such kernel
}

TEST(TrainingProgram, SumsThatOverlapAreShorterAndSlowTheirWork) {
    Layout layout;
    layout.tensor = 4;
    const auto with = [&](double overlap, double slowdown) {
        return step_with(
            [&](TrainingProgram& program) {
                program.tensor_overlap = overlap;
                program.overlap_slowdown = slowdown;
            },
            layout);
    };
    EXPECT_LT(with(0.8, 0), with(0.4, 0));
    EXPECT_LT(with(0.4, 0), with(0, 0));
    EXPECT_GT(with(0.8, 0.5), with(0.8, 0));
    EXPECT_GT(step_with([](TrainingProgram& program) { program.tensor_sum_share = 0.5; }, layout), 1.02 * with(0, 0));
}

TEST(TrainingProgram, GathersThatWaitMakeAStepLonger) {
    Layout layout;
    layout.data = 16;
    layout.zero = 3;
    layout.gradient_bucket = 1 << 20;
    const double plain = step_with(nothing, layout);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.forward_gather_overlap = false; }, layout), plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.backward_gather_overlap = false; }, layout), plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.overlap_slowdown = 0.5; }, layout), plain);
    EXPECT_GT(step_with([](TrainingProgram& program) { program.between_share = 0.25; }, layout), 1.1 * plain);
    layout.zero = 1;
    EXPECT_LT(step_with([](TrainingProgram& program) { program.update_gather_overlap = true; }, layout),
              step_with(nothing, layout));
}

TEST(TrainingProgram, ALowerStageOfZeroRunsInAPipelineIfTheProgramSaysSo) {
    Layout layout;
    layout.data = 16;
    layout.gradient_bucket = 1 << 20;
    const auto with = [&](int pipeline, int zero, int most) {
        layout.pipeline = pipeline;
        layout.zero = zero;
        return step_with([most](TrainingProgram& program) { program.pipeline_zero = most; }, layout);
    };
    EXPECT_NE(with(2, 3, 3), with(2, 1, 3));
    EXPECT_EQ(with(2, 3, 1), with(2, 1, 3));
    EXPECT_EQ(with(2, 0, 1), with(2, 0, 3));
    EXPECT_EQ(with(1, 3, 1), with(1, 3, 3));
}

TEST(TrainingProgram, TheSlowestOfMoreDevicesIsSlower) {
    const auto with = [](int replicas) {
        Layout layout;
        layout.data = replicas;
        layout.gradient_bucket = 1 << 20;
        return step_with([](TrainingProgram& program) { program.device_spread = 0.01; }, layout) /
               step_with(nothing, layout);
    };
    EXPECT_EQ(with(1), 1);
    EXPECT_NEAR(with(8), 1 + 0.01 * 1.42, 5e-4);  // expected maximum of 8 standard normal variables
    EXPECT_GT(with(64), with(8));
}

// The published runs with heads of 108 and 225 took about half as long again as those with heads of 216.
TEST(TrainingProgram, StoredScoresOfMisalignedHeadsRunWithoutTensorUnits) {
    const auto with = [](int heads, const char* attention) {
        return step_with(nothing, {},
                         "gpt:layers=4,hidden=1728,sequence=2048,vocabulary=4096,heads=" + std::to_string(heads) +
                             ",attention=" + attention);
    };
    EXPECT_GT(with(16, "standard"), 1.5 * with(8, "standard"));  // 108 and 216 wide
    EXPECT_LT(with(16, "flash"), 1.2 * with(8, "flash"));
}

TEST(TrainingProgram, ProductsInFloat8AreQuickerThanTheRest) {
    const std::string model = "gpt:layers=4,hidden=8192,heads=64,sequence=4096,vocabulary=4096,attention=flash";
    Layout layout;
    const double plain = step_with(nothing, layout, model, "dgx-h100");
    set_dtype(layout, "float8");
    EXPECT_EQ(layout.dtype, "bfloat16");
    const double quick = step_with(nothing, layout, model, "dgx-h100");
    EXPECT_LT(quick, 0.8 * plain);
    EXPECT_GT(quick, 0.5 * plain);
    EXPECT_THAT(thrown<UsageError>([&] { step_with(nothing, layout, model); }), HasSubstr("dtype is float8 on A100"));
    EXPECT_THAT(thrown<UsageError>([&] { set_dtype(layout, "fp8"); }),
                HasSubstr("--dtype is 'fp8'; it must be one of float64, float32, tf32, float16, bfloat16, or for the "
                          "products of a gpt: model float8, float8-rowwise, float8-mx, float4"));
}

TEST(TrainingProgram, EachScalingOfProductsHasItsCosts) {
    const std::string model = "gpt:layers=4,hidden=8192,heads=64,sequence=4096,vocabulary=4096,attention=flash";
    const auto step = [&](const char* dtype, const std::string& products, std::int64_t micro_batches = 1) {
        Layout layout{.batch = micro_batches};
        set_dtype(layout, dtype);
        Cluster cluster = load_cluster("dgx-h100", device_catalogue());
        cluster.groups.front().device = find_device(device_catalogue(), "B200");
        layout.program = std::make_shared<const TrainingProgram>(parse_program(
            R"({"format": "pipescope.program", "version": 1, "name": "ours", "short_products": )" + products + "}"));
        return simulate_layout(parse_language_model(model), cluster, cluster.groups.front(), layout).step_ns();
    };
    for (const char* dtype : {"float8-rowwise", "float8-mx"}) {
        EXPECT_EQ(step(dtype, "{}"), step("float8", "{}")) << dtype;
        const std::string name = "{\"" + std::string(dtype) + "\": ";
        const double usual = step(dtype, "{}");
        EXPECT_GT(step(dtype, name + R"({"share": 0.5}})"), 1.2 * usual) << dtype;
        EXPECT_GT(step(dtype, name + R"({"cast_bytes": 8}})"), 1.02 * usual) << dtype;
        EXPECT_EQ(step("float8", name + R"({"share": 0.5, "cast_bytes": 8}})"), usual) << dtype;
        EXPECT_EQ(step("bfloat16", name + R"({"share": 0.5}})"), step("bfloat16", "{}")) << dtype;
    }
    EXPECT_LT(step("float4", "{}"), step("float8", "{}"));
    EXPECT_THAT(thrown<ProfileError>([&] { step("float8", R"({"mxfp8": {}})"); }), HasSubstr("mxfp8"));
    EXPECT_THAT(thrown<ProfileError>([&] { step("float8", R"({"float8-mx": {"share": 0}})"); }),
                HasSubstr("short_products.float8-mx.share"));
}

TEST(TrainingProgram, SeveralTypesOfDevicesHaveTheWidestRange) {
    Cluster cluster = load_cluster("dgx-h100", device_catalogue());
    cluster.groups.push_back(cluster.groups.front());
    cluster.groups[1].device = find_device(device_catalogue(), "B200");
    Layout layout{.pipeline = 2, .batch = 4, .program = load_program("nemo")};
    const auto range_of = [&](std::size_t first, std::size_t second) {
        const PipelineParts parts{{&cluster.groups[first], 1}, {&cluster.groups[second], 1}};
        return simulate_layout(parse_language_model(kModel), cluster, parts, layout).range;
    };
    const StepRange forth = range_of(0, 1);
    const StepRange back = range_of(1, 0);
    EXPECT_EQ(forth.low, back.low);
    EXPECT_EQ(forth.high, back.high);
    EXPECT_EQ(forth.runs, back.runs);
    EXPECT_EQ(forth.device, "H100 and B200");
    for (const char* type : {"H100", "B200"}) {
        const StepRange each = step_range(*layout.program, type, false);
        EXPECT_LE(forth.low, each.low) << type;
        EXPECT_GE(forth.high, each.high) << type;
    }
}

// Blocks of one scale per 32 numbers need tensor units that multiply scales: those of devices with float4.
TEST(TrainingProgram, ScalesOfBlocksNeedADeviceThatHasThem) {
    Layout layout;
    set_dtype(layout, "float8-mx");
    EXPECT_THAT(thrown<UsageError>([&] { step_with(nothing, layout, kModel, "dgx-h100"); }),
                HasSubstr("dtype is float8-mx on H100"));
    for (const DeviceType& device : device_catalogue()) {
        EXPECT_EQ(device.flops_per_second.contains("float8-mx"), device.flops_per_second.contains("float4"))
            << device.name;
        EXPECT_EQ(device.flops_per_second.contains("float8-rowwise"), device.flops_per_second.contains("float8"))
            << device.name;
    }
}

TEST(TrainingProgram, BlocksAtTheEndsStayInBfloat16) {
    const auto step = [](std::int64_t of_program, const std::string& key, const char* dtype = "float8") {
        Layout layout;
        set_dtype(layout, dtype);
        return step_with([&](TrainingProgram& program) { program.bfloat16_blocks = of_program; }, layout,
                         "gpt:layers=8,hidden=4096,heads=32,sequence=2048,vocabulary=4096,attention=flash" + key,
                         "dgx-h100");
    };
    const double all_short = step(0, "");
    const double two_whole = step(1, "");
    EXPECT_GT(two_whole, 1.05 * all_short);
    EXPECT_EQ(step(0, ",bfloat16_blocks=1"), two_whole);  // the model's number goes first
    EXPECT_EQ(step(3, ",bfloat16_blocks=1"), two_whole);
    EXPECT_EQ(step(100, ""), step(4, ""));
    EXPECT_NEAR(step(4, ""), step(0, "", "bfloat16"), 1e-6 * two_whole);
    EXPECT_EQ(step(2, "", "bfloat16"), step(0, "", "bfloat16"));
    EXPECT_NEAR(step(2, "") - two_whole, two_whole - all_short, 1e-6 * two_whole);
    EXPECT_THAT(thrown<UsageError>([&] { step(0, ",bfloat16_blocks=5"); }),
                HasSubstr("bfloat16_blocks is 5 of 8 layers"));
}

constexpr const char* kRoutedModel =
    "gpt:layers=4,hidden=1024,heads=8,sequence=1024,vocabulary=4096,dropout=false,attention=flash,gated=true,"
    "experts=16,top_k=2,expert_hidden=1024";

TEST(TrainingProgram, CardsOfOneTypeMayBeSlower) {
    const auto slower = [](TrainingProgram& program) { program.work_factor_on = {{"A100", 1.5}}; };
    EXPECT_GT(step_with(slower), 1.3 * step_with(nothing));
    EXPECT_EQ(step_with(slower, {}, kModel, "dgx-h100"), step_with(nothing, {}, kModel, "dgx-h100"));
}

TEST(TrainingProgram, ProductsThatAddGradientsMoveLessAndHoldEmptyOnes) {
    Layout layout;
    const auto fused = [](TrainingProgram& program) { program.fused_gradients = true; };
    EXPECT_LT(step_with(fused, layout), 0.99 * step_with(nothing, layout));
    const auto peak = [&](bool fuses, double logit_bytes, const char* dtype = "bfloat16") {
        TrainingProgram program;
        program.fused_gradients = fuses;
        program.logit_bytes = logit_bytes;
        Layout with = layout;
        set_dtype(with, dtype);
        with.batch = 4;
        with.program = std::make_shared<const TrainingProgram>(program);
        return highest_peak(step_of(kModel, load_cluster("dgx-h100", device_catalogue()), with).simulation);
    };
    EXPECT_GT(peak(true, 4), peak(false, 4));
    EXPECT_LT(peak(true, 2), peak(true, 4));
    EXPECT_LT(peak(true, 4, "float8"), peak(true, 4));  // inputs of products are kept in float8
    EXPECT_EQ(peak(false, 4, "float8"), peak(false, 4));
}

// A device with the memory that a step needs does not surely lack any.
TEST(TrainingProgram, WhatItDoesNotKeepIsNoShortfall) {
    TrainingProgram program;
    program.fused_gradients = true;
    program.selective_share = 0.6;
    const auto with_program = std::make_shared<const TrainingProgram>(program);
    const std::vector<DeviceType> catalogue = device_catalogue();
    for (const char* text : {kModel, kRoutedModel}) {
        const LanguageModel model = parse_language_model(text);
        for (const char* dtype : {"bfloat16", "float8", "float4"}) {
            for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
                Layout layout{.pipeline = 2, .micro_batch_size = 16, .batch = 128, .recompute = recompute};
                layout.program = with_program;
                set_dtype(layout, dtype);
                Cluster cluster = load_cluster("dgx-h100", device_catalogue());
                NodeGroup& group = cluster.groups.front();
                group.device = find_device(catalogue, "B200");
                const PipelineParts parts{{&group, layout.pipeline}};
                const Bytes peak = highest_peak(simulate_layout(model, cluster, parts, layout).simulation);
                group.device.memory_bytes = peak + group.device.headroom_bytes;
                EXPECT_TRUE(simulate_layout(model, cluster, parts, layout).simulation.feasible);
                EXPECT_FALSE(sure_shortfall(model, layout, parts)) << text << dtype << to_string(recompute);
                group.device.memory_bytes = peak / 4 + group.device.headroom_bytes;
                EXPECT_TRUE(sure_shortfall(model, layout, parts)) << text << dtype << to_string(recompute);
            }
        }
    }
}

TEST(TrainingProgram, TheHostLaunchesExpertsOneByOne) {
    const auto with = [](double casts, const char* dtype) {
        Layout layout;
        set_dtype(layout, dtype);
        return step_with(
            [&](TrainingProgram& program) {
                program.launch_ns = 50'000;
                program.cast_launches = casts;
            },
            layout, kRoutedModel, "dgx-h100");
    };
    EXPECT_GT(with(4, "float8"), 2 * with(0, "float8"));
    EXPECT_EQ(with(4, "bfloat16"), with(0, "bfloat16"));  // casts are those of short dtypes
}

TEST(TrainingProgram, WideExpertsAreSplitAsTheirProgramDoes) {
    Layout layout;
    layout.data = 4;
    layout.tensor = 4;
    layout.expert = 2;
    layout.sequence_parallel = true;
    const LanguageModel model = parse_language_model(kRoutedModel);
    const auto split_from = [&](double width) {
        TrainingProgram program;
        program.split_experts_from = width;
        Layout with = layout;
        with.program = std::make_shared<const TrainingProgram>(program);
        return expert_tensor_of(model, with);
    };
    EXPECT_EQ(split_from(0), 1);
    EXPECT_EQ(split_from(2048), 1);
    EXPECT_EQ(split_from(1024), 4);
    layout.expert = 8;  // too few devices for 8 x 4 parts
    EXPECT_EQ(split_from(1024), 1);
    layout.expert_tensor = 4;
    layout.expert = 2;
    EXPECT_EQ(layout.expert_ranks(), (RankGroup{2, 4, 16}));
    EXPECT_EQ(layout.expert_copies(), (RankGroup{2, 8, 16}));
    // Experts of a quarter of the width are a quarter of the parameters, and the tokens of all ranks are gathered.
    EXPECT_NE(step_with([](TrainingProgram& program) { program.split_experts_from = 1024; }, layout, kRoutedModel),
              step_with(nothing, layout, kRoutedModel));
}

TEST(TrainingProgram, WaysOfTokensOverlapBetweenNodesAndMayBeSlower) {
    Layout layout;
    layout.data = 16;
    layout.expert = 16;
    const auto with = [&](double overlap, double rate) {
        return step_with(
            [&](TrainingProgram& program) {
                program.dispatch_overlap = overlap;
                program.dispatch_share = rate;
            },
            layout, kRoutedModel);
    };
    EXPECT_LT(with(0.5, 1), with(0, 1));
    EXPECT_GT(with(0, 0.5), with(0, 1));
    layout.expert = 8;  // in one node
    EXPECT_EQ(with(0.5, 1), with(0, 1));
}

// Experts on several nodes: what a pair hides includes the tokens' ways.
TEST(TrainingProgram, PairsOverlapAsItStates) {
    Layout layout{.pipeline = 2};
    layout.data = 16;
    layout.expert = 16;
    const auto with = [&](const Schedule& schedule, std::optional<double> share) {
        layout.schedule = schedule;
        layout.interleave = usual_partitions(schedule, 2) == 4 ? 2 : 1;
        return step_with([&](TrainingProgram& program) { program.pair_overlap = share; }, layout, kRoutedModel);
    };
    for (const Schedule schedule : {Schedule::dualpipe, Schedule::dualpipe_v}) {
        EXPECT_LT(with(schedule, 1), with(schedule, 0.5)) << to_string(schedule);
        EXPECT_LT(with(schedule, 0.5), with(schedule, 0)) << to_string(schedule);
        EXPECT_LT(with(schedule, 0.5), with(schedule, std::nullopt)) << to_string(schedule);
    }
    EXPECT_EQ(with(Schedule::one_f_one_b, 1), with(Schedule::one_f_one_b, std::nullopt)) << "it has no pairs";
    const TrainingProgram read =
        parse_program(R"({"format": "pipescope.program", "version": 1, "name": "own", "pair_overlap": 0.25})");
    EXPECT_EQ(read.pair_overlap, 0.25);
    EXPECT_EQ(parse_program(program_text(read)), read);
    EXPECT_THAT(thrown<ProfileError>([] {
                    parse_program(R"({"format": "pipescope.program", "version": 1, "name": "own", "pair_overlap": 2})");
                }),
                HasSubstr("pair_overlap"));
}

TEST(TrainingProgram, BiasesOfExpertsTakeKernelsOfTheirOwn) {
    const std::string biased = std::string(kRoutedModel) + ",norm=rms,mlp_bias=true";
    const auto unfused = [](TrainingProgram& program) { program.unfused_expert_bias = true; };
    EXPECT_GT(step_with(unfused, {}, biased), 1.05 * step_with(nothing, {}, biased));
    EXPECT_EQ(step_with(unfused, {}, kRoutedModel), step_with(nothing, {}, kRoutedModel));
}

TEST(TrainingProgram, AttentionOfFewOrWideHeadsReachesLess) {
    const auto with = [](const AttentionRate& rate, int heads) {
        Cluster cluster = load_cluster("dgx-h100", device_catalogue());
        cluster.groups.front().device.attention = {{"mine", rate}};
        TrainingProgram program;
        program.attention = {"mine"};
        Layout layout;
        layout.batch = 4;
        layout.program = std::make_shared<const TrainingProgram>(program);
        const std::string model = "gpt:layers=4,hidden=1536,sequence=8192,vocabulary=4096,attention=flash,heads=";
        return step_of(model + std::to_string(heads), cluster, layout).step_ns();
    };
    AttentionRate rate{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0};
    const double usual = with(rate, 12);
    rate.forward_half_waves = rate.backward_half_waves = 8;
    EXPECT_GT(with(rate, 12), 1.05 * usual);
    rate = {0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0, 0, 0};
    EXPECT_EQ(with(rate, 12), usual);                                                   // heads of 128
    EXPECT_GT(with(rate, 8), 1.05 * with({0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0, 0, 0}, 8));  // of 192
}
}  // namespace
}  // namespace pipescope
