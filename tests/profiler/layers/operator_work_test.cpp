#include "profiler/layers/operator_work.h"

#include "hardware/operator_times.h"
#include "models/meta_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <vector>

namespace pipescope {
namespace {
std::vector<DeviceWork> work_of(const std::function<void()>& call) {
    OperatorCount count;
    call();
    return count.take();
}

double flops_of(const std::function<void()>& call) {
    return total_flops(work_of(call));
}

double bytes_of(const std::vector<DeviceWork>& work) {
    double bytes = 0;
    for (const DeviceWork& each : work) {
        bytes += each.bytes_moved;
    }
    return bytes;
}

// A multiply-add counts as two operations.
TEST(OperatorCount, CountsALinearLayerForwardAndBackward) {
    torch::nn::Linear linear(8, 16);
    const at::Tensor input = torch::randn({4, 8}).requires_grad_();
    at::Tensor output;
    EXPECT_EQ(flops_of([&] { output = linear(input); }), 2.0 * 4 * 8 * 16);
    EXPECT_EQ(flops_of([&] { output.sum().backward(); }), 2 * 2.0 * 4 * 8 * 16);
}

TEST(OperatorCount, CountsAConvolutionOnce) {
    torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(3, 8, 3).padding(1).stride(2));
    const at::Tensor input = torch::randn({2, 3, 10, 10});
    at::Tensor output;
    const double forward = 2.0 * (2 * 8 * 5 * 5) * (3 * 3 * 3);
    EXPECT_EQ(flops_of([&] { output = convolution(input); }), forward);
    EXPECT_EQ(flops_of([&] { output.sum().backward(); }), forward);  // the input wants no gradient
}

TEST(OperatorCount, CountsGroupsAndTransposedConvolutions) {
    const at::Tensor input = torch::randn({2, 4, 6, 6});
    EXPECT_EQ(flops_of([&] {
                  torch::conv2d(input, torch::randn({8, 2, 3, 3}), {}, 1, 1, 1, 2);
              }),
              2.0 * (2 * 8 * 6 * 6) * (2 * 3 * 3));
    EXPECT_EQ(flops_of([&] {
                  torch::conv_transpose2d(input, torch::randn({4, 5, 2, 2}), {}, 2);
              }),
              2.0 * (2 * 4 * 6 * 6) * (5 * 2 * 2));
}

TEST(OperatorCount, CountsAttentionAndProductsOfBatches) {
    const at::Tensor query = torch::randn({2, 3, 5, 8});
    const at::Tensor key = torch::randn({2, 3, 7, 8});
    EXPECT_EQ(flops_of([&] { at::scaled_dot_product_attention(query, key, key); }), 2.0 * 2 * 3 * 5 * 7 * (8 + 8));
    EXPECT_EQ(flops_of([&] { torch::matmul(query, key.transpose(2, 3)); }), 2.0 * 2 * 3 * 5 * 7 * 8);
}

TEST(OperatorCount, ElementwiseOperatorsMoveBytesAndViewsNothing) {
    const at::Tensor one = torch::randn({100});
    const auto sum = work_of([&] { torch::add(one, one); });
    ASSERT_EQ(sum.size(), 1U);
    EXPECT_EQ(sum[0].flops, 0);
    EXPECT_EQ(sum[0].bytes_moved, 3 * 400);
    EXPECT_EQ(bytes_of(work_of([&] { one.clone().add_(one); })), 2 * 400 + 3 * 400);  // a copy, a sum
    EXPECT_TRUE(work_of([&] { one.view({10, 10}).transpose(0, 1).slice(0, 1, 3); }).empty());
    EXPECT_TRUE(work_of([&] { torch::empty({100}); }).empty());
    EXPECT_TRUE(work_of([&] { torch::dropout(one, 0.5, /*train=*/false); }).empty());
}

TEST(OperatorCount, IsTheSameOnMeta) {
    const auto count = [] {
        torch::nn::Sequential model(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3)), torch::nn::ReLU(),
                                    torch::nn::Flatten(), torch::nn::Linear(4 * 6 * 6, 10));
        const at::Tensor input = torch::randn({2, 3, 8, 8});
        return work_of([&] { model->forward(input).sum().backward(); });
    };
    const std::vector<DeviceWork> real = count();
    const MetaDevice on_meta;
    const std::vector<DeviceWork> meta = count();
    EXPECT_EQ(total_flops(meta), total_flops(real));
    EXPECT_NEAR(bytes_of(meta), bytes_of(real), 0.1 * bytes_of(real));
}

TEST(OperatorCount, EstimatesOneOperatorAfterTheOther) {
    DeviceType device;
    device.flops_per_second["float32"] = 1e9;
    device.memory_bytes_per_second = 1e9;
    device.launch_ns = 5;
    const KernelProgram program;
    const OperatorTimes times(device, "float32", program);
    EXPECT_DOUBLE_EQ(times.all({{100, 10, 1}, {0, 30, 1}, {0, 1, 1}}, {}, 0), 100 + 30 + 5);
}

TEST(OperatorCount, KnowsTheShapesOfProducts) {
    torch::nn::Linear linear(8, 16);
    const at::Tensor input = torch::randn({2, 3, 8}).requires_grad_();
    at::Tensor output;
    const auto shape_of = [](const std::vector<DeviceWork>& work) {
        std::vector<ProductShape> shapes;
        for (const DeviceWork& each : work) {
            if (const auto* shape = std::get_if<ProductShape>(&each.shape)) {
                shapes.insert(shapes.end(), static_cast<std::size_t>(each.kernels), *shape);
            }
        }
        return shapes;
    };
    EXPECT_EQ(shape_of(work_of([&] { output = linear(input); })), (std::vector{ProductShape{1, 6, 16, 8}}));
    EXPECT_THAT(shape_of(work_of([&] { output.sum().backward(); })),
                testing::UnorderedElementsAre(ProductShape{1, 6, 8, 16},
                                              testing::AnyOf(ProductShape{1, 16, 8, 6}, ProductShape{1, 8, 16, 6})));
    const at::Tensor heads = torch::randn({2, 3, 5, 8});
    EXPECT_EQ(shape_of(work_of([&] { torch::matmul(heads, heads.transpose(2, 3)); })),
              (std::vector{ProductShape{6, 5, 5, 8}}));
}

TEST(OperatorCount, KnowsTheShapeOfAttentionAndWhetherItIsCausal) {
    const at::Tensor query = torch::randn({2, 3, 5, 8}).requires_grad_();
    const at::Tensor key = torch::randn({2, 3, 5, 8});
    for (const bool is_causal : {false, true}) {
        std::vector<AttentionShape> shapes;
        for (const DeviceWork& each :
             work_of([&] { at::scaled_dot_product_attention(query, key, key, {}, 0, is_causal).sum().backward(); })) {
            if (const auto* shape = std::get_if<AttentionShape>(&each.shape)) {
                shapes.push_back(*shape);
            }
        }
        const double pairs = is_causal ? 0.5 : 1;
        EXPECT_EQ(shapes, (std::vector{AttentionShape{6, 5, 5, 8, 8, pairs, false},
                                       AttentionShape{6, 5, 5, 8, 8, pairs, true}}));
    }
}

TEST(OperatorCount, ALookUpReadsTheRowsItTakes) {
    const at::Tensor table = torch::randn({1000, 8});
    const at::Tensor rows = torch::arange(5);
    EXPECT_EQ(bytes_of(work_of([&] { at::embedding(table, rows); })), 5 * 8 + 2 * 5 * 8 * 4);
}

/// The chains of a call.
Operators chains_of(const std::function<void()>& call) {
    OperatorCount count;
    call();
    count.take();
    return count.chains().front();
}
double kernels_of(const Operators& work) {
    double kernels = 0;
    for (const DeviceWork& each : work) {
        kernels += each.kernels;
    }
    return kernels;
}
double logits_of(const Operators& work) {
    double logits = 0;
    for (const DeviceWork& each : work) {
        const auto* entropy = std::get_if<CrossEntropyShape>(&each.shape);
        logits += entropy != nullptr ? entropy->logits * each.kernels : 0;
    }
    return logits;
}

TEST(OperatorCount, PoolingsSortsAndBatchNormsAreChainsOfTheirOwnByAnyName) {
    const at::Tensor image = torch::randn({2, 4, 6, 6});
    const at::Tensor ones = torch::ones({4});
    const auto between = [&](const std::function<at::Tensor(const at::Tensor&)>& call) {
        return kernels_of(chains_of([&] { torch::relu(call(torch::relu(image))); }));
    };
    EXPECT_EQ(between([](const at::Tensor& x) { return x.tanh(); }), 1);
    EXPECT_EQ(between([](const at::Tensor& x) { return at::avg_pool2d(x, 2); }), 3);
    EXPECT_EQ(between([](const at::Tensor& x) { return at::_adaptive_avg_pool2d(x, {2, 2}); }), 3);
    EXPECT_EQ(between([](const at::Tensor& x) { return std::get<0>(at::_unique2(x)); }), 3);
    EXPECT_EQ(between([&](const at::Tensor& x) {
                  return std::get<0>(at::_native_batch_norm_legit(x, ones, ones, true, 0.1, 1e-5));
              }),
              3);
    EXPECT_EQ(between([](const at::Tensor& x) { return at::slice_scatter(x, x.slice(0, 0, 1), 0, 1, 2); }), 1);
}

TEST(OperatorCount, OnlyALogarithmOfASoftmaxFromWhichClassesArePickedIsACrossEntropy) {
    const at::Tensor scores = torch::randn({6, 5}).requires_grad_();
    const at::Tensor classes = torch::zeros({6}, at::kLong);
    EXPECT_EQ(logits_of(chains_of([&] { torch::log_softmax(scores, 1).exp().sum().backward(); })), 0);
    EXPECT_EQ(logits_of(chains_of([&] { torch::cross_entropy_loss(scores, classes); })), 30);
    EXPECT_EQ(logits_of(chains_of([&] { torch::cross_entropy_loss(scores, classes).backward(); })), 60);
    EXPECT_EQ(logits_of(chains_of([&] {  // two losses in one chain
                  torch::cross_entropy_loss(scores, classes) +
                      torch::cross_entropy_loss(scores.slice(0, 0, 2), classes.slice(0, 0, 2));
              })),
              40);
    EXPECT_EQ(logits_of(chains_of(
                  [&] { torch::nll_loss((2 * torch::log_softmax(scores.to(at::kDouble), 1)), classes).backward(); })),
              60);
    EXPECT_EQ(logits_of(chains_of([&] {  // smoothed labels
                  torch::cross_entropy_loss(scores, classes, {}, at::Reduction::Mean, -100, 0.1).backward();
              })),
              60);
}

TEST(OperatorCount, AChainSumsAGradientInPlace) {
    torch::nn::Linear linear(torch::nn::LinearOptions(8, 16).bias(false));
    const at::Tensor input = torch::randn({4, 8});
    linear(input).sum().backward();
    OperatorCount count;
    const at::Tensor output = linear(input);
    count.take();
    const at::Tensor ones = torch::ones({4, 16});
    count.keep({ones});
    count.take();
    output.backward(ones);
    count.take();
    EXPECT_EQ(bytes_of(count.chains()[2]), 3 * 8 * 16 * 4);
}
}  // namespace
}  // namespace pipescope
