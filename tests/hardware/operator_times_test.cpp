#include "hardware/operator_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace pipescope {
namespace {
DeviceType h100() {
    return find_device(device_catalogue(), "H100");
}

KernelProgram with_flash() {
    KernelProgram program;
    program.name = "ours";
    program.attention = {"flash-2"};
    return program;
}

TEST(OperatorTimes, AProductsShapeSetsItsTime) {
    const DeviceType device = h100();
    const KernelProgram program;
    const OperatorTimes times(device, "bfloat16", program);
    const double usual = 2.0 * 8192 * 8192 * 8192 / (peak_rate(device, "bfloat16") * device.matmul_efficiency) * 1e9;
    EXPECT_NEAR(times.product({1, 8192, 8192, 8192}), usual, 0.1 * usual);
    // The same operations with a short sum fill fewer tiles, or lose more of each.
    EXPECT_GT(times.product({1, 8192, 65536, 1024}), times.product({1, 8192, 8192, 8192}));
    KernelProgram half;
    half.product_share = 0.5;
    EXPECT_DOUBLE_EQ(OperatorTimes(device, "bfloat16", half).product({1, 8192, 8192, 8192}),
                     2 * times.product({1, 8192, 8192, 8192}));
}

TEST(OperatorTimes, HeadsWhoseRowsAreNotAlignedLeaveTheTensorCores) {
    const DeviceType device = h100();
    const KernelProgram program;
    const OperatorTimes times(device, "bfloat16", program);
    EXPECT_GT(times.product({64, 2048, 2048, 108}), 3 * times.product({64, 2048, 2048, 112}));
    EXPECT_LT(times.product({1, 2048, 2048, 108}), 3 * times.product({1, 2048, 2048, 112})) << "a whole matrix";
}

TEST(OperatorTimes, CausalAttentionTakesHalf) {
    const DeviceType device = h100();
    for (const KernelProgram& program : {KernelProgram{}, with_flash()}) {
        const OperatorTimes times(device, "bfloat16", program);
        AttentionShape shape{32, 8192, 8192, 128, 128};
        const double all = times.attention(shape);
        shape.pairs = 0.5;
        EXPECT_NEAR(times.attention(shape), all / 2, 1e-9 * all);
        const double forward = times.attention(shape);
        shape.is_backward = true;
        EXPECT_GT(times.attention(shape), 2 * forward) << "it computes the scores again";
    }
}

TEST(OperatorTimes, WorkIsPricedByItsShape) {
    const DeviceType device = h100();
    const KernelProgram program = with_flash();
    const OperatorTimes times(device, "bfloat16", program);
    const ProductShape product{1, 2048, 4096, 4096};
    const AttentionShape attention{32, 2048, 2048, 128, 128, 0.5};
    EXPECT_DOUBLE_EQ(times.of({2e12, 1, 3, product}), 3 * times.product(product));
    EXPECT_DOUBLE_EQ(times.of({2e12, 1, 2, attention}), 2 * times.attention(attention));
    EXPECT_DOUBLE_EQ(times.of({0, 1e9, 1}), times.pass(1e9));
    EXPECT_DOUBLE_EQ(times.of({0, 1e6, 1, CrossEntropyShape{1e9}}), times.pass(1e9 * program.loss_bytes / 2));
    EXPECT_DOUBLE_EQ(times.of({0, 4e10, 2, CrossEntropyShape{1e9}}), 2 * times.pass(2e10)) << "never below its bytes";
}

// 77 tokens for each of eight experts are no multiple of 16 bytes, but each expert's matrices lie by themselves.
TEST(OperatorTimes, MatricesOfExpertsNeedNoAlignmentAndStartOneByOne) {
    const DeviceType device = h100();
    const KernelProgram program;
    const OperatorTimes times(device, "bfloat16", program);
    const ProductShape experts{8, 4096, 1536, 77};
    const ProductShape aligned{8, 4096, 1536, 80};
    EXPECT_LT(times.matrices(experts, "bfloat16"), times.matrices(aligned, "bfloat16"));
    EXPECT_GT(times.product(experts), 2 * times.product(aligned));
    EXPECT_DOUBLE_EQ(times.matrices(aligned, "bfloat16"), times.product(aligned) + 8 * device.launch_ns);
    const ProductShape one{1, 4096, 1536, 77};
    EXPECT_DOUBLE_EQ(times.matrices(one, "bfloat16"), times.product(one));
}

TEST(OperatorTimes, AttentionSlowsDownWithFewQueriesAndWideHeads) {
    DeviceType device = h100();
    KernelProgram program;
    program.attention = {"flash"};
    AttentionRate rate;
    rate.forward = rate.narrow_forward = 0.6;
    rate.wide_forward = 0.3;
    device.attention["flash"] = rate;
    const AttentionShape shape{64, 8192, 8192, 128, 128, 0.5};
    AttentionShape wide = shape;
    wide.width = wide.value_width = 192;
    const auto time_of = [&](const AttentionShape& each) {
        return OperatorTimes(device, "bfloat16", program).attention(each);
    };
    const double at_full_rate = time_of(shape);
    EXPECT_NEAR(time_of(wide) / at_full_rate, 1.5 * 0.6 / 0.3, 1e-9) << "half as fast, for 1.5 times the work";
    // As many waves of 256 queries as halve the rate: twice the time.
    device.attention["flash"].forward_half_waves = 64.0 * 8192 / 256 / device.multiprocessors;
    EXPECT_NEAR(time_of(shape) / at_full_rate, 2, 1e-9);
}

TEST(OperatorTimes, OnlyAProgramThatFusesCountsChains) {
    const DeviceType device = h100();
    const Operators operators{{2e12, 1e6, 1, ProductShape{1, 2048, 4096, 4096}}, {0, 5e9, 5}};
    const Operators chains{{0, 1e9, 1}};
    KernelProgram program;
    const double product = OperatorTimes(device, "bfloat16", program).product({1, 2048, 4096, 4096});
    const double pass = OperatorTimes(device, "bfloat16", program).pass(1e9);
    const auto all = [&] { return OperatorTimes(device, "bfloat16", program).all(operators, chains, 0); };
    EXPECT_DOUBLE_EQ(all(), product + pass);
    program.fused = false;
    EXPECT_DOUBLE_EQ(all(), product + 5 * pass);
    program.fused = true;
    EXPECT_DOUBLE_EQ(OperatorTimes(device, "bfloat16", program).all(operators, {}, 0), product + 5 * pass)
        << "an older profile has no chains";
}

TEST(OperatorTimes, AProgramsTensorsCountForEachAttention) {
    const DeviceType device = h100();
    const KernelProgram program = with_flash();
    const OperatorTimes times(device, "bfloat16", program);
    const AttentionShape shape{32, 2048, 2048, 128, 128, 0.5};
    const Operators operators{{2e12, 1e6, 2, shape}};
    const Operators chains{{0, 1e9, 1}};
    const double result = 32 * 2048 * 128 * 2;
    EXPECT_DOUBLE_EQ(times.all(operators, chains, 10) - times.all(operators, chains, 0), 2 * times.pass(10 * result));
}

TEST(OperatorTimes, AHostThatIsSlowerThanItsKernelsSetsTheTime) {
    const DeviceType device = h100();
    KernelProgram program;
    program.launch_ns = 1e6;
    const Operators operators(4, {0, 1e6, 1});
    EXPECT_DOUBLE_EQ(OperatorTimes(device, "bfloat16", program).all(operators, {}, 0), 4e6);
    program.host_waits = true;
    EXPECT_GT(OperatorTimes(device, "bfloat16", program).all(operators, {}, 0), 4e6);
}
}  // namespace
}  // namespace pipescope
