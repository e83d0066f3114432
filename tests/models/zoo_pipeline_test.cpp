// Every model of the zoo in the pipeline: its gradients equal those of the plain model for every cut.

#include "engine/gpipe.h"
#include "engine/plain_model.h"
#include "models/zoo.h"
#include "tests/models/small_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kMiniBatch = 4;
constexpr std::int64_t kChunks = 2;

// Uses double everywhere, so that results are equal except for rounding.
Tensors doubled(const Tensors& tensors) {
    Tensors all;
    for (const at::Tensor& tensor : tensors) {
        all.push_back(tensor.is_floating_point() ? tensor.to(at::kDouble) : tensor);
    }
    return all;
}

template <class Model>
at::Tensor train_step(Model& model, const ModelSpec& spec) {
    model.to(at::kDouble);
    const Batch batch = spec.make_batch(kMiniBatch, 7);
    return model.step(doubled(batch.input), doubled(batch.target), spec.loss);
}

// Cuts at about two thirds and before the last layer, so that pairs and skips cross partitions.
std::vector<std::int64_t> three_partitions(std::size_t layers) {
    const auto count = static_cast<std::int64_t>(layers);
    const std::int64_t first = std::clamp<std::int64_t>(2 * count / 3, 1, count - 2);
    return {first, count - first - 1, 1};
}

class ZooPipeline : public testing::TestWithParam<std::string> {
protected:
    ZooPipeline() { at::set_num_threads(1); }
};

TEST_P(ZooPipeline, GivesThePlainModelsLossAndGradients) {
    const ModelSpec spec = make_model(GetParam());
    torch::manual_seed(0);
    PlainModel plain(spec.layers, {.chunks = kChunks, .seed = 3});
    torch::manual_seed(0);
    GPipe pipeline(spec, {.balance = three_partitions(spec.layers.size()),
                          .devices = {"cpu", "cpu", "cpu"},
                          .chunks = kChunks,
                          .checkpoint = Checkpoint::always,
                          .seed = 3});
    const at::Tensor expected_loss = train_step(plain, spec);
    const at::Tensor loss = train_step(pipeline, spec);
    EXPECT_NEAR(loss.item<double>(), expected_loss.item<double>(), 1e-10);

    const NamedTensors expected = plain.named_parameters();
    const NamedTensors parameters = pipeline.named_parameters();
    ASSERT_EQ(parameters.size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_EQ(parameters[i].first, expected[i].first);
        const at::Tensor gradient = parameters[i].second.grad();
        ASSERT_EQ(gradient.defined(), expected[i].second.grad().defined()) << expected[i].first;
        if (gradient.defined()) {
            EXPECT_TRUE(at::allclose(gradient, expected[i].second.grad(), 1e-7, 1e-10)) << expected[i].first;
        }
    }
}

// As simulated, an emulated partition has a backward even if none of its layers has parameters.
TEST(EmulatedPipeline, GoesBackwardThroughAPartitionWithoutParameters) {
    LayerProfile layer;
    layer.name = "pool";
    layer.forward_ns = layer.recompute_ns = {1e6};
    layer.backward_ns = {20e6};
    layer.output_bytes = layer.saved_bytes = layer.transient_bytes = {80};
    Profile profile;
    profile.model = "without parameters";
    profile.samples = {2};
    profile.input_bytes = {80};
    profile.loss_ns = {0};
    profile.layers = {layer, layer};
    const ModelSpec spec = emulated_model(profile);
    const Batch batch = spec.make_batch(4, 0);
    for (const Checkpoint checkpoint : {Checkpoint::never, Checkpoint::except_last, Checkpoint::always}) {
        GPipe pipeline(spec, {.balance = {1, 1}, .devices = {"cpu", "cpu"}, .chunks = 2, .checkpoint = checkpoint});
        const auto start = std::chrono::steady_clock::now();
        pipeline.step(batch.input, batch.target, spec.loss);
        EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(60)) << to_string(checkpoint);
    }
}

INSTANTIATE_TEST_SUITE_P(Zoo, ZooPipeline, testing::ValuesIn(kSmallModels),
                         [](const auto& tested) { return tested.param.substr(0, tested.param.find(':')); });
}  // namespace
}  // namespace pipescope
