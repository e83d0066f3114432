#include "models/meta_device.h"

#include "base/error.h"
#include "models/zoo.h"
#include "tests/models/skip_store.h"
#include "tests/models/small_models.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;

std::vector<std::vector<std::int64_t>> shapes(const Tensors& tensors) {
    std::vector<std::vector<std::int64_t>> all;
    for (const at::Tensor& tensor : tensors) {
        all.push_back(tensor.sizes().vec());
    }
    return all;
}

TEST(MetaDevice, ForwardsOfTheZooHaveTheirRealShapesThere) {
    at::set_num_threads(1);
    for (const std::string& name : kSmallModels) {
        const ModelSpec model = make_model(name);
        const auto on_meta = meta_layers(model);
        Tensors meta = meta_batch(model, 3).input;
        Tensors real = model.make_batch(3, 0).input;
        SkipStore meta_skips;
        SkipStore real_skips;
        for (std::size_t i = 0; i < model.layers.size(); ++i) {
            meta = meta_skips.forward(*on_meta[i], meta);
            real = real_skips.forward(*model.layers[i].make(), real);
            ASSERT_EQ(shapes(meta), shapes(real)) << name << " " << model.layers[i].name;
            for (std::size_t k = 0; k < meta.size(); ++k) {
                ASSERT_TRUE(meta[k].is_meta()) << name << " " << model.layers[i].name;
                ASSERT_EQ(meta[k].scalar_type(), real[k].scalar_type()) << name << " " << model.layers[i].name;
            }
        }
    }
}

TEST(MetaDevice, BackwardsOfTheZooGiveEveryParameterAGradient) {
    for (const std::string& name : kSmallModels) {
        const ModelSpec model = make_model(name);
        const auto layers = meta_layers(model);
        const Batch batch = meta_batch(model, 2);
        Tensors tensors = batch.input;
        SkipStore skips;
        for (const auto& layer : layers) {
            tensors = skips.forward(*layer, tensors);
        }
        model.loss(tensors, batch.target).backward();
        for (const auto& layer : layers) {
            for (const auto& [parameter, tensor] : layer->parameters()) {
                ASSERT_TRUE(tensor.grad().defined()) << name << " " << parameter;
                EXPECT_EQ(tensor.grad().sizes(), tensor.sizes()) << name << " " << parameter;
            }
        }
    }
}

// Operators that PipeScope adds to C++ torch's meta device, compared with the CPU.
TEST(MetaDevice, AddsOperatorsWhoseShapesAreTheCpus) {
    const MetaDevice meta;
    const auto shape_of = [](const std::function<at::Tensor(const at::Tensor&)>& call) {
        const at::Tensor input = at::empty({2, 4, 9, 11}, at::TensorOptions(at::kMeta)).requires_grad_();
        const at::Tensor output = call(input);
        output.sum().backward();
        EXPECT_EQ(input.grad().sizes(), input.sizes());
        return output.sizes().vec();
    };
    using Sizes = std::vector<std::int64_t>;
    EXPECT_EQ(shape_of([](const at::Tensor& x) {
                  return at::conv2d(x, at::empty({6, 2, 3, 2}), {}, {2, 1}, {1, 0}, {1, 2}, 2);
              }),
              (Sizes{2, 6, 5, 9}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) {
                  return at::conv_transpose2d(x, at::empty({4, 3, 3, 3}), {}, 2, 1, 1, 2);
              }),
              (Sizes{2, 6, 18, 22}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) {
                  return at::conv1d(x.flatten(2), at::empty({5, 4, 3}));
              }),
              (Sizes{2, 5, 97}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::group_norm(x, 2); }), (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::layer_norm(x, {11}); }), (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::log_sigmoid(x); }), (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::relu(x) + at::hardswish(x) + at::relu6(x); }),
              (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::glu(x, 1); }), (Sizes{2, 2, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::prelu(x, at::empty({4})); }), (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::adaptive_avg_pool2d(x, {3, 2}); }), (Sizes{2, 4, 3, 2}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::where(x > 0, x, at::empty({11})); }), (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::rsub(x, 1); }), (Sizes{2, 4, 9, 11}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::var(x, {1, 3}); }), (Sizes{2, 9}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::mse_loss(x, at::empty_like(x)); }), (Sizes{}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) { return at::binary_cross_entropy(x, at::empty_like(x).detach()); }),
              (Sizes{}));
    EXPECT_EQ(shape_of([](const at::Tensor& x) {
                  return at::cross_entropy_loss(x, at::empty({2, 9, 11}, at::TensorOptions(at::kLong)));
              }),
              (Sizes{}));
}

TEST(MetaDevice, EndsWithItsScope) {
    {
        const MetaDevice outer;
        { const MetaDevice inner; }
        EXPECT_TRUE(at::empty({2}).is_meta());
    }
    EXPECT_TRUE(at::empty({2}).is_cpu());
}

TEST(MetaDevice, TakesModelsOfAnySize) {
    const ModelSpec model = make_model("amoebanetd:L=72,D=512");
    const auto layers = meta_layers(model);
    Tensors tensors = meta_batch(model, 1280).input;
    for (const auto& layer : layers) {
        tensors = layer->forward(tensors);
    }
    EXPECT_EQ(shapes(tensors), (std::vector<std::vector<std::int64_t>>{{1280, 1000}}));
}

TEST(MetaDevice, RefusesABatchWithoutSamples) {
    EXPECT_THAT(thrown<UsageError>([] { meta_batch(make_model("mlp"), 0); }), HasSubstr("batch is 0"));
}
}  // namespace
}  // namespace pipescope
