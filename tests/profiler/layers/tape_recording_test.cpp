#include "profiler/layers/tape_recording.h"

#include "engine/skippable.h"
#include "models/zoo.h"
#include "profiler/layers/layer_trial.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/profile/profile.h"
#include "tests/models/small_models.h"

#include <ATen/SequenceNumber.h>
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

/// Peaks of both halves of the same layer's split backward without a log, and what it holds between them.
std::vector<Bytes> measured_halves(LayerChain& chain, std::size_t layer, const Activation& before) {
    TrialGraph graph;
    Activation running = graph.open(fresh_inputs(before));
    const LayerMarks marks{at::sequence_number::peek()};
    chain.forward(layer, running);
    Tensors outputs = stashed_tensors(running, chain.skips(layer));
    outputs.insert(outputs.end(), running.tensors.begin(), running.tensors.end());
    running = {};
    graph.close(outputs);
    outputs.clear();
    Tensors gradients = graph.output_gradients();
    const Bytes start = tracking_allocator::allocated(kMeasuredOwner);
    Tensors arrived;
    const Bytes first = measured_peak([&] { arrived = graph.backward_inputs(std::move(gradients), marks); });
    const Bytes between = tracking_allocator::allocated(kMeasuredOwner) - start;
    return {first, between, measured_peak([&] { graph.backward_weights(); })};
}
std::vector<Bytes> replayed_halves(const LayerTape& tape) {
    Bytes between = 0;
    for (const std::int32_t event : tape.backward) {
        const Bytes bytes = tape.blocks.at(static_cast<std::size_t>(std::abs(event) - 1)).bytes;
        between += event > 0 ? bytes : -bytes;
    }
    return {replayed_peak(tape, tape.backward), between, replayed_peak(tape, tape.backward_weight)};
}

TEST_F(TapeRecordingTest, ReplayingTheHalvesOfASplitBackwardGivesTheirMeasuredPeaksExactly) {
    at::set_num_threads(1);
    for (const std::string& name : kSmallModels) {
        const ModelSpec model = make_model(name);
        LayerChain chain(model, 0);
        Activation at{model.make_batch(2, 0).input, {}};
        for (std::size_t layer = 0; layer < chain.size(); ++layer) {
            measured(chain, layer, at);  // parameters get their gradients
            measured_halves(chain, layer, at);
            const LayerTape tape = record_tape(chain, layer, at, nullptr, BackwardWay::in_halves);
            EXPECT_FALSE(tape.empty()) << name << " " << model.layers[layer].name;
            EXPECT_EQ(replayed_halves(tape), measured_halves(chain, layer, at))
                << name << " " << model.layers[layer].name;
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

LayerSpec layer_of(SkipNames names, SkipForward forward, std::shared_ptr<torch::nn::Module> module = nullptr) {
    return {"layer", [=] { return skippable_layer(module, names, forward); }};
}
LayerSpec function(std::function<Tensors(const Tensors&)> apply) {
    return layer_of({}, [apply](const Tensors& in, SkipContext&) { return apply(in); });
}

/// Tapes of layers that are recorded from this input.
std::vector<LayerTape> tapes_of(std::vector<LayerSpec> layers, const Activation& start,
                                std::function<at::Tensor(const Tensors&)> loss = {}) {
    ModelSpec model;
    model.layers = std::move(layers);
    if (loss) {
        model.loss = [loss](const Tensors& outputs, const Tensors&) { return loss(outputs); };
    }
    LayerChain chain(model, 0);
    std::vector<Activation> before;
    Activation running = start;
    for (std::size_t layer = 0; layer < chain.size(); ++layer) {
        before.push_back(running);
        chain.forward(layer, running);
        running = as_leaves(running);
    }
    record_tapes(chain, before);  // what torch allocates once in a process is none of the layer's
    return record_tapes(chain, before);
}

at::Tensor leaf(at::IntArrayRef sizes) {
    return torch::randn(sizes).requires_grad_();
}

/// Whether a layer of one input and output hands its output's gradient down, changed in place or not at all.
bool passes_gradient(const LayerTape& tape) {
    return input_gradients_of(tape).at(0) == output_gradients_of(tape).at(0);
}

LayerSpec module(const std::string& name, std::function<std::unique_ptr<Layer>()> make) {
    return {name, std::move(make)};
}

// A linear layer keeps its input and the gradient of its output for the second half. The relu above frees its output in
// the first.
TEST_F(TapeRecordingTest, RecordsWhatASplitBackwardKeepsForTheWeights) {
    const auto tapes =
        tapes_of({module("linear", [] { return module_layer(torch::nn::AnyModule(torch::nn::Linear(8, 4))); }),
                  function([](const Tensors& in) { return Tensors{torch::relu(in[0])}; })},
                 {{leaf({16, 8})}, {}});
    ASSERT_EQ(tapes.at(0).halves.size(), 1U);
    const LayerTape& linear = tapes[0].halves[0];
    const auto frees = [](const std::vector<std::int32_t>& events, std::int32_t block) {
        return std::count(events.begin(), events.end(), -block) == 1;
    };
    for (const std::int32_t kept : {inputs_of(linear).at(0), output_gradients_of(linear).at(0)}) {
        EXPECT_TRUE(!frees(linear.backward, kept) && frees(linear.backward_weight, kept));
    }
    EXPECT_EQ(input_gradients_of(linear).at(0), linear.backward.at(0));
    EXPECT_TRUE(tapes.at(1).halves.empty()) << "as in a whole backward";
}

// The sum's gradient goes to the linear layer, which keeps it, and to the layer below: autograd adds nothing to it in
// place there, unlike in a whole backward.
TEST_F(TapeRecordingTest, DoesNotAddInPlaceToAGradientThatTheSecondHalfNeeds) {
    auto linear = std::make_shared<torch::nn::LinearImpl>(8, 8);
    const auto tapes =
        tapes_of({function([](const Tensors& in) { return Tensors{torch::tanh(in[0])}; }),
                  function([](const Tensors& in) { return Tensors{in[0] + torch::tanh(in[0])}; }),
                  layer_of(
                      {}, [linear](const Tensors& in, SkipContext&) { return Tensors{in[0] + linear->forward(in[0])}; },
                      linear)},
                 {{leaf({16, 8})}, {}});
    ASSERT_EQ(tapes.at(2).halves.size(), 1U);
    EXPECT_TRUE(passes_gradient(tapes[2]));
    EXPECT_FALSE(passes_gradient(tapes[2].halves[0]));
    EXPECT_TRUE(tapes.at(1).halves.empty()) << "what it gets is a new tensor in either case";
}

// The gradient of a gathered mini-batch is held by all its parts, so autograd does not add to one in place. A part that
// nothing needs any more goes then, for it may be the last.
TEST_F(TapeRecordingTest, RecordsTheBackwardOfAGatheredLossWhereItDiffers) {
    const auto tapes = tapes_of({function([](const Tensors& in) { return Tensors{torch::tanh(in[0])}; }),
                                 function([](const Tensors& in) { return Tensors{in[0] + torch::tanh(in[0])}; })},
                                {{leaf({10, 10})}, {}}, [](const Tensors& out) { return (out[0] * out[0]).sum(); });
    ASSERT_EQ(tapes.at(1).gathered.size(), 1U);
    const LayerTape& gathered = tapes[1].gathered[0];
    EXPECT_TRUE(passes_gradient(tapes[1]));
    EXPECT_FALSE(passes_gradient(gathered));
    EXPECT_EQ(std::count(gathered.backward.begin(), gathered.backward.end(), -output_gradients_of(gathered).at(0)), 1);
    EXPECT_TRUE(tapes[0].gathered.empty()) << "its gradient is the layer above's own";
}

// The stashed tensor is the output too. Its gradient from the pop, a part of a larger one, comes first, so the sum of
// both takes a new tensor. The recording once gave the output's gradient first, to which autograd adds in place.
TEST_F(TapeRecordingTest, AddsTheGradientOfAnOutputToThatOfTheSkip) {
    const auto tapes = tapes_of({layer_of({.stash = {{"", "x"}}},
                                          [](const Tensors& in, SkipContext& skips) {
                                              skips.stash("x", in[0]);
                                              return in;
                                          }),
                                 function([](const Tensors& in) { return Tensors{torch::tanh(in[0])}; }),
                                 layer_of({.pop = {{"", "x"}}},
                                          [](const Tensors& in, SkipContext& skips) {
                                              return Tensors{torch::cat({in[0], skips.pop("x")}, 1)};
                                          })},
                                {{leaf({4, 8})}, {}});
    const std::int32_t sum = input_gradients_of(tapes.at(0)).at(0);
    ASSERT_NE(sum, 0);
    EXPECT_EQ(tapes[0].blocks.at(static_cast<std::size_t>(sum) - 1).role, Role::input_gradient);
}

// A mean square error leaves a contiguous gradient, whatever the layout of the output.
TEST_F(TapeRecordingTest, TakesTheGradientsThatTheLossLeaves) {
    const auto transpose = function([](const Tensors& in) { return Tensors{torch::tanh(in[0]).t(), in[0] * 2}; });
    const auto tapes = tapes_of({transpose}, {{leaf({4, 8})}, {}}, [](const Tensors& out) {
        return torch::mse_loss(out[0], torch::zeros({8, 4}));
    });
    const std::vector<std::int32_t> gradients = output_gradients_of(tapes.at(0));
    ASSERT_EQ(gradients.size(), 2U);
    EXPECT_NE(gradients[0], 0);
    EXPECT_EQ(gradients[1], 0) << "the loss does not use it";
}

TEST_F(TapeRecordingTest, RecordsTheBackwardBehindACheckpointedPartition) {
    torch::nn::Linear linear(8, 8);
    const auto half = layer_of(
        {},
        [linear](const Tensors& in, SkipContext&) mutable {
            return Tensors{linear(in[0]), in[0]};
        },
        linear.ptr());
    const auto join = function([](const Tensors& in) { return Tensors{in[0] * in[1]}; });
    const auto tapes = tapes_of({half, join, function([](const Tensors& in) { return Tensors{torch::tanh(in[0])}; })},
                                {{torch::randn({4, 8})}, {}});
    EXPECT_TRUE(tapes.at(0).all_gradients.empty()) << "nothing is below it";
    const LayerTape& alone = tapes.at(1);
    EXPECT_EQ(input_gradients_of(alone).at(1), 0) << "of data";
    ASSERT_EQ(alone.all_gradients.size(), 1U);
    EXPECT_NE(input_gradients_of(alone.all_gradients[0]).at(1), 0);
    EXPECT_TRUE(tapes.at(2).all_gradients.empty()) << "it takes no data";
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
