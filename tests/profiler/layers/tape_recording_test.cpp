#include "profiler/layers/tape_recording.h"

#include "balance/profile.h"
#include "models/zoo.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/models/small_models.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;
using tracking_allocator::kMeasuredOwner;

struct Peaks {
    Bytes forward = 0;
    Bytes checkpointed = 0;
    Bytes backward = 0;

    friend bool operator==(const Peaks&, const Peaks&) = default;
};

Bytes replayed_peak(const LayerTape& tape, const std::vector<std::int32_t>& events) {
    Bytes held = 0;
    Bytes peak = 0;
    for (const std::int32_t event : events) {
        const Bytes bytes = tape.blocks.at(static_cast<std::size_t>(std::abs(event) - 1)).bytes;
        held += event > 0 ? bytes : -bytes;
        peak = std::max(peak, held);
    }
    return peak;
}

Peaks replayed(const LayerTape& tape) {
    return {replayed_peak(tape, tape.forward), replayed_peak(tape, tape.checkpointed_forward),
            replayed_peak(tape, tape.backward)};
}

/// The peak of a call, relative to the bytes held before.
template <class Call>
Bytes measured_peak(Call call) {
    const Bytes before = tracking_allocator::allocated(kMeasuredOwner);
    tracking_allocator::reset_peak(kMeasuredOwner);
    call();
    return tracking_allocator::peak(kMeasuredOwner) - before;
}

/// Peaks of the same layer without a log.
Peaks measured(LayerChain& chain, std::size_t layer, const Activation& before) {
    Peaks peaks;
    {
        Activation running = fresh_inputs(before);
        const Activation held = running;
        const at::NoGradGuard no_grad;
        peaks.checkpointed = measured_peak([&] { chain.forward(layer, running); });
    }
    TrialGraph graph;
    Activation running = graph.open(fresh_inputs(before));
    Activation held = running;
    peaks.forward = measured_peak([&] { chain.forward(layer, running); });
    Tensors outputs = running.tensors;
    for (const at::Tensor& skip : stashed_tensors(running, chain.skips(layer))) {
        outputs.push_back(skip);
    }
    graph.close(outputs);
    outputs.clear();
    running = {};
    held = {};
    Tensors gradients = graph.output_gradients();
    peaks.backward = measured_peak([&] { graph.backward(std::move(gradients)); });
    return peaks;
}

class TapeRecordingTest : public testing::Test {
protected:
    static void SetUpTestSuite() { tracking_allocator::install(); }
    void SetUp() override { before_ = tracking_allocator::set_owner(kMeasuredOwner); }
    void TearDown() override { tracking_allocator::set_owner(before_); }

    int before_ = 0;
};

TEST_F(TapeRecordingTest, ReplayingATapeGivesTheMeasuredPeakExactly) {
    at::set_num_threads(1);
    for (const std::string& name : kSmallModels) {
        const ModelSpec model = make_model(name);
        LayerChain chain(model, 0);
        Activation at{model.make_batch(2, 0).input, {}};
        for (std::size_t layer = 0; layer < chain.size(); ++layer) {
            measured(chain, layer, at);  // parameters get their gradients
            const LayerTape tape = record_tape(chain, layer, at);
            EXPECT_EQ(replayed(tape), measured(chain, layer, at)) << name << " " << model.layers[layer].name;
            EXPECT_FALSE(tape.empty()) << name << " " << model.layers[layer].name;
            EXPECT_NO_THROW(check_tape(tape, "tape"));
            Activation running = fresh_inputs(at);
            chain.forward(layer, running);
            at = fresh_inputs(running);
        }
    }
}

std::vector<Role> roles(const LayerTape& tape) {
    std::vector<Role> roles;
    for (const TapeBlock& block : tape.blocks) {
        roles.push_back(block.role);
    }
    return roles;
}

LayerTape tape_of(std::function<at::Tensor(const at::Tensor&)> apply) {
    ModelSpec model;
    model.layers = {{"layer", [apply] {
                         return module_layer(torch::nn::AnyModule(torch::nn::Functional(
                             std::function<at::Tensor(at::Tensor)>([apply](at::Tensor x) { return apply(x); }))));
                     }}};
    LayerChain chain(model, 0);
    const Activation at{{torch::randn({100}).requires_grad_()}, {}};
    measured(chain, 0, at);  // what torch allocates once in a process is none of the layer's
    return record_tape(chain, 0, at);
}

// tanh keeps its output; its gradient goes to the layer below.
TEST_F(TapeRecordingTest, NamesWhatEachBlockIs) {
    const LayerTape tape = tape_of([](const at::Tensor& x) { return torch::tanh(x); });
    EXPECT_EQ(roles(tape), (std::vector<Role>{Role::input, Role::output, Role::output_gradient, Role::input_gradient}));
    EXPECT_EQ(tape.forward, (std::vector<std::int32_t>{2}));
    EXPECT_EQ(tape.checkpointed_forward, (std::vector<std::int32_t>{2}));
    ASSERT_FALSE(tape.backward.empty());
    EXPECT_EQ(tape.backward.front(), 4);
    EXPECT_NE(std::find(tape.backward.begin(), tape.backward.end(), -2), tape.backward.end());
}

TEST_F(TapeRecordingTest, AViewPassesItsStorageThroughBothWays) {
    const LayerTape tape = tape_of([](const at::Tensor& x) { return x.view({10, 10}); });
    EXPECT_EQ(roles(tape), (std::vector<Role>{Role::passed, Role::passed_gradient}));
    EXPECT_TRUE(tape.forward.empty());
}

// Other micro-batches hold the storage of a gathered gradient, so a backward does not free it.
TEST_F(TapeRecordingTest, RecordsTheBackwardOfAGatheredLossWhereItDiffers) {
    const auto functional = [](std::function<at::Tensor(at::Tensor)> apply) {
        return LayerSpec{"layer", [apply] { return module_layer(torch::nn::AnyModule(torch::nn::Functional(apply))); }};
    };
    ModelSpec model;
    model.layers = {functional([](at::Tensor x) { return torch::tanh(x); }),
                    functional([](at::Tensor x) { return x + torch::tanh(x); })};
    model.loss = [](const Tensors& output, const Tensors&) { return (output[0] * output[0]).sum(); };
    LayerChain chain(model, 0);
    const Activation at{{torch::randn({10, 10}).requires_grad_()}, {}};
    record_tapes(chain, {at, at});  // what torch allocates once in a process is none of the layer's
    const std::vector<LayerTape> tapes = record_tapes(chain, {at, at});
    ASSERT_EQ(tapes.size(), 2U);
    ASSERT_EQ(tapes[1].gathered.size(), 1U);
    EXPECT_EQ(roles(tapes[1]), roles(tapes[1].gathered[0]));
    const auto frees_output_gradient = [](const LayerTape& tape) {
        return std::find(tape.backward.begin(), tape.backward.end(), -output_gradients_of(tape).at(0)) !=
               tape.backward.end();
    };
    EXPECT_TRUE(frees_output_gradient(tapes[1]));
    EXPECT_FALSE(frees_output_gradient(tapes[1].gathered[0]));
    EXPECT_TRUE(tapes[0].gathered.empty()) << "its gradient is the layer above's own";
}

// A layer that keeps its results until the next forward frees nothing: no tape can be replayed.
TEST_F(TapeRecordingTest, ALayerThatHoardsHasNoTape) {
    std::vector<at::Tensor> kept;
    const LayerTape tape = tape_of([&kept](const at::Tensor& x) {
        kept.push_back(torch::empty({10}));
        return x + 1;
    });
    EXPECT_TRUE(tape.empty());
}
}  // namespace
}  // namespace pipescope
