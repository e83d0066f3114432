#include "models/emulated_wait.h"
#include "models/zoo.h"

#include "base/error.h"
#include "engine/gradients/micro_batch_graph.h"
#include "profiler/profile/profile_file.h"

#include <ATen/SequenceNumber.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace pipescope {
namespace {
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr double kMs = 1e6;

LayerProfile layer_of(const std::string& name) {
    LayerProfile layer;
    layer.name = name;
    layer.parameter_bytes = 400;
    layer.gradient_bytes = 400;
    layer.buffer_bytes = 8;
    layer.forward_ns = {4 * kMs, 8 * kMs};
    layer.recompute_ns = {4 * kMs, 8 * kMs};
    layer.backward_ns = {6 * kMs, 12 * kMs};
    layer.output_bytes = {80, 160};
    layer.saved_bytes = {1000, 2000};
    layer.transient_bytes = {300, 600};
    return layer;
}

Profile two_layers() {
    Profile profile;
    profile.model = "made up";
    profile.samples = {2, 4};
    profile.input_bytes = {16, 32};
    profile.loss_ns = {kMs, 2 * kMs};
    profile.layers = {layer_of("first"), layer_of("second")};
    return profile;
}

template <class Work>
double milliseconds(Work work) {
    const auto start = steady_clock::now();
    work();
    return duration<double, std::milli>(steady_clock::now() - start).count();
}

TEST(Emulated, HasTheShapesAndSizesOfTheProfile) {
    const ModelSpec model = emulated_model(two_layers());
    ASSERT_EQ(model.layers.size(), 2U);
    EXPECT_EQ(model.layers[1].name, "second");
    EXPECT_EQ(model_size(model).parameters, 200);
    const Batch batch = model.make_batch(4, 0);
    EXPECT_EQ(batch.input[0].nbytes(), 32U);
    const auto layer = model.layers[0].make();
    EXPECT_EQ(layer->parameters()[0].second.nbytes(), 400U);
    EXPECT_EQ(layer->buffers()[0].second.nbytes(), 8U);
    const at::Tensor output = layer->forward(batch.input).at(0);
    EXPECT_EQ(output.nbytes(), 160U);
    EXPECT_EQ(output.size(0), 4);
}

// At least the profile's time at the given size, and less than ten times that, unless the machine stalls each time.
TEST(Emulated, WaitsAsLongAsTheLayerTook) {
    const ModelSpec model = emulated_model(two_layers());
    const auto layer = model.layers[0].make();
    const Batch batch = model.make_batch(3, 0);
    at::Tensor output;
    double forward = 60;
    while (forward >= 60) {
        forward = milliseconds([&] { output = layer->forward(batch.input).at(0); });
        EXPECT_GE(forward, 6);
    }
    at::Tensor loss;
    EXPECT_GE(milliseconds([&] { loss = model.loss({output}, batch.target); }), 1.5);
    EXPECT_GE(milliseconds([&] { loss.backward(); }), 9);
}

TEST(Emulated, WaitsLongerWhereAForwardKeepsItsGraph) {
    Profile profile = two_layers();
    profile.layers[0].graph_forward_ns = {20 * kMs, 40 * kMs};
    const ModelSpec model = emulated_model(profile);
    const auto layer = model.layers[0].make();
    const Batch batch = model.make_batch(2, 0);
    EXPECT_GE(milliseconds([&] { layer->forward(batch.input); }), 20);
    double without = 20;
    for (int tries = 0; tries < 20 && without >= 20; ++tries) {
        const at::NoGradGuard no_grad;
        without = milliseconds([&] { layer->forward(batch.input); });
    }
    EXPECT_LT(without, 20);
}

TEST(Emulated, WaitsForEachHalfOfASplitBackward) {
    for (const bool is_first : {false, true}) {  // the first layer's input needs no gradient
        Profile profile = two_layers();
        profile.layers[1].backward_weight_ns = {2 * kMs, 4 * kMs};
        const auto layer = emulated_model(profile).layers[1].make();
        MicroBatchGraph graph;
        const Tensors input = graph.open({torch::zeros({2, 20}).requires_grad_(!is_first)});
        const LayerMarks marks{at::sequence_number::peek()};
        const at::Tensor output = layer->forward(input).at(0);
        graph.close({output});
        SplitNotes notes(1);
        Tensors gradients;
        EXPECT_GE(milliseconds([&] { gradients = graph.backward_inputs({torch::ones_like(output)}, marks, notes); }),
                  4);
        EXPECT_EQ(gradients.size() == 1 && gradients[0].defined(), !is_first);
        EXPECT_FALSE(layer->parameters()[0].second.grad().defined());
        EXPECT_GE(milliseconds([&] { graph.backward_weights(); }), 2);
        EXPECT_TRUE(layer->parameters()[0].second.grad().defined());
        EXPECT_TRUE(notes[0].has_weights_later);
        EXPECT_TRUE(notes[0].whole.empty());
    }
}

TEST(Emulated, HasABackwardEvenWhereTheInputNeedsNone) {
    Profile profile = two_layers();
    profile.layers[0].parameter_bytes = 0;
    const auto layer = emulated_model(profile).layers[0].make();
    for (const auto& [name, parameter] : layer->parameters()) {
        EXPECT_EQ(parameter.nbytes(), 0U) << name;
    }
    EXPECT_TRUE(layer->forward({torch::zeros({2, 2})}).at(0).requires_grad());
}

TEST(Emulated, LeavesGradientsOfTheRightSizes) {
    const ModelSpec model = emulated_model(two_layers());
    const auto first = model.layers[0].make();
    const auto second = model.layers[1].make();
    const at::Tensor input = torch::zeros({2, 2}, torch::requires_grad());
    const at::Tensor middle = first->forward({input}).at(0);
    second->forward({middle}).at(0).sum().backward();
    EXPECT_EQ(input.grad().sizes(), input.sizes());
    EXPECT_EQ(first->parameters()[0].second.grad().nbytes(), 400U);
    EXPECT_EQ(second->parameters()[0].second.grad().nbytes(), 400U);
}

TEST(Emulated, KeepsAndAliasesWhatTheLayerDoes) {
    Profile profile = two_layers();
    profile.layers[0].keeps_input = false;
    profile.layers[1].keeps_input = true;
    const ModelSpec model = emulated_model(profile);
    for (const std::size_t index : {0, 1}) {
        at::Tensor input = torch::zeros({2, 10}, torch::requires_grad()) * 1;
        const auto storage = input.storage().getWeakStorageImpl();
        const Tensors output = model.layers[index].make()->forward({input});
        input = at::Tensor();
        EXPECT_EQ(storage.lock() != nullptr, index == 1);
    }
    profile.layers[0].aliases_input = true;
    const at::Tensor input = torch::zeros({2, 10}, torch::requires_grad());
    const at::Tensor output = emulated_model(profile).layers[0].make()->forward({input}).at(0);
    EXPECT_EQ(output.data_ptr(), input.data_ptr());
    output.sum().backward();
    EXPECT_TRUE(input.grad().defined());
}

TEST(Emulated, KeepsBetweenTheHalvesOfABackwardWhatItsTapeSays) {
    for (const bool stays : {false, true}) {
        Profile profile = two_layers();
        profile.layers[0].keeps_input = true;
        LayerTape tape;
        using Role = TapeBlock::Role;
        tape.blocks = {{Role::input, 160},
                       {Role::own, 1000},
                       {Role::output, 80},
                       {Role::output_gradient, 80},
                       {Role::input_gradient, 160}};
        tape.forward = {2, 3};
        LayerTape halves = tape;
        halves.backward = stays ? std::vector<std::int32_t>{5} : std::vector<std::int32_t>{5, -1};
        halves.backward_weight = stays ? std::vector<std::int32_t>{-2, -4, -1} : std::vector<std::int32_t>{-2, -4};
        tape.backward = {5, -2, -4, -1};
        tape.halves = {halves};
        profile.layers[0].tape = {tape, tape};
        const auto layer = emulated_model(profile).layers[0].make();
        at::Tensor source = torch::zeros({2, 20}, torch::requires_grad()) * 1;
        const auto storage = source.storage().getWeakStorageImpl();
        MicroBatchGraph graph;
        Tensors input = graph.open({source});
        const LayerMarks marks{at::sequence_number::peek()};
        const at::Tensor output = layer->forward(input).at(0);
        graph.close({output});
        source = at::Tensor();
        input.clear();
        SplitNotes notes(1);
        EXPECT_TRUE(storage.lock() != nullptr);
        graph.backward_inputs({torch::ones_like(output)}, marks, notes);
        EXPECT_EQ(storage.lock() != nullptr, stays);
        graph.backward_weights();
        EXPECT_TRUE(storage.lock() == nullptr);
        EXPECT_TRUE(layer->parameters()[0].second.grad().defined());
    }
}

TEST(Emulated, HoldsTheSavedBytesOnlyForABackwardToCome) {
    const auto layer = emulated_model(two_layers()).layers[0].make();
    const torch::NoGradGuard no_grad;
    EXPECT_FALSE(layer->forward({torch::zeros({2, 2})}).at(0).requires_grad());
}

TEST(Emulated, JoinsMicroBatchesOfDifferentSizesAgain) {
    Profile profile = two_layers();
    profile.layers[0].output_bytes = {100, 160};  // not proportional
    const auto layer = emulated_model(profile).layers[0].make();
    const at::Tensor two = layer->forward({torch::zeros({2, 2})}).at(0);
    const at::Tensor three = layer->forward({torch::zeros({3, 2})}).at(0);
    EXPECT_EQ(torch::cat({two, three}).size(0), 5);
}

TEST(Emulated, IsMadeFromAProfileFile) {
    const std::filesystem::path path = std::filesystem::path(testing::TempDir()) / "emulated_test_profile.json";
    std::ofstream(path) << to_json(two_layers());
    const ModelSpec model = make_model("emulated:" + path.string());
    EXPECT_EQ(model.layers.size(), 2U);
    EXPECT_EQ(model.name, "emulated:" + path.string());
    std::filesystem::remove(path);
    EXPECT_THROW(make_model("emulated:" + path.string()), Error);
}
}  // namespace
}  // namespace pipescope
