#include "profiler/layers/layer_bytes.h"

#include "models/zoo.h"
#include "profiler/memory/tracking_allocator.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
/// Measures the whole model and its loss.
ModelBytes measure_bytes(LayerChain& chain, const Batch& batch) {
    LayerWalk walk({batch.input, {}});
    for (std::size_t layer = 0; layer < chain.size(); ++layer) {
        walk.next(chain, layer);
    }
    walk.loss(chain, batch.target);
    return walk.bytes();
}

class FunctionLayer : public Layer {
public:
    explicit FunctionLayer(std::function<Tensors(const Tensors&)> function) : function_(std::move(function)) {}
    Tensors forward(const Tensors& inputs) override { return function_(inputs); }
    NamedTensors parameters() const override { return {}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    std::function<Tensors(const Tensors&)> function_;
};

LayerSpec function(const std::string& name, std::function<at::Tensor(const at::Tensor&)> apply) {
    return {name, [apply] {
                return std::make_unique<FunctionLayer>(
                    [apply](const Tensors& inputs) { return Tensors{apply(inputs[0])}; });
            }};
}

template <class Module>
LayerSpec module(const std::string& name, std::function<Module()> make) {
    return {name, [make] { return module_layer(torch::nn::AnyModule(make())); }};
}

LayerSpec linear(std::int64_t input, std::int64_t output) {
    return module<torch::nn::Linear>("linear", [=] { return torch::nn::Linear(input, output); });
}

class LayerBytesTest : public testing::Test {
protected:
    static void SetUpTestSuite() { tracking_allocator::install(); }

    // Starts with a linear layer, so that the following layers get an input that requires a gradient.
    static std::vector<LayerBytes> measure(std::vector<LayerSpec> layers, std::int64_t batch = 4) {
        ModelSpec model;
        model.layers = {linear(8, 8)};
        model.layers.insert(model.layers.end(), layers.begin(), layers.end());
        LayerChain chain(model, 0);
        return measure_bytes(chain, {{torch::randn({batch, 8})}, {}}).layers;
    }
};

struct Keeps {
    std::string name;
    std::function<at::Tensor(const at::Tensor&)> apply;
    bool input;
    bool output;
    Bytes saved;
};

// Each layer is between a linear layer, which does not keep its output, and an addition, which does not keep its input.
TEST_F(LayerBytesTest, TellsWhichTensorsAutogradKeeps) {
    const std::vector<Keeps> cases = {
        {"gelu", [](const at::Tensor& x) { return torch::gelu(x); }, true, false, 0},
        {"relu", [](const at::Tensor& x) { return torch::relu(x); }, false, true, 0},
        {"softmax", [](const at::Tensor& x) { return torch::softmax(x, 1); }, false, true, 0},
        {"residual", [](const at::Tensor& x) { return x + 1; }, false, false, 0},
        {"tanh of relu", [](const at::Tensor& x) { return torch::tanh(torch::relu(x)); }, false, true, 4 * 8 * 4},
        {"product", [](const at::Tensor& x) { return x * (x + 1); }, true, false, 4 * 8 * 4},
        {"exp", [](const at::Tensor& x) { return torch::exp(x); }, false, true, 0},
    };
    for (const Keeps& each : cases) {
        const auto bytes =
            measure({function(each.name, each.apply), function("add", [](const at::Tensor& x) { return x + 1; })});
        EXPECT_EQ(bytes[1].keeps_input, each.input) << each.name;
        EXPECT_EQ(bytes[1].keeps_output, each.output) << each.name;
        EXPECT_EQ(bytes[1].saved, each.saved) << each.name;
        EXPECT_EQ(bytes[1].output, 4 * 8 * 4) << each.name;
        EXPECT_FALSE(bytes[1].aliases_input) << each.name;
    }
}

TEST_F(LayerBytesTest, BatchNormKeepsItsInputAndItsStatistics) {
    const auto bytes = measure({module<torch::nn::BatchNorm1d>("norm", [] { return torch::nn::BatchNorm1d(8); })});
    EXPECT_TRUE(bytes[1].keeps_input);
    EXPECT_FALSE(bytes[1].keeps_output);
    EXPECT_EQ(bytes[1].saved, 2 * 8 * 4);  // mean and deviation of 8 features
}

TEST_F(LayerBytesTest, FlattenMakesNoBytesOfItsOwn) {
    const auto bytes = measure({function("flatten", [](const at::Tensor& x) { return x.view({-1, 4}).flatten(); })});
    EXPECT_TRUE(bytes[1].aliases_input);
    EXPECT_EQ(bytes[1].saved, 0);
    EXPECT_EQ(bytes[1].output, 4 * 8 * 4);
    EXPECT_FALSE(bytes[1].keeps_input);
}

TEST_F(LayerBytesTest, AreExactForAChainOfLinearLayers) {
    constexpr Bytes kBatch = 4;
    const auto bytes = measure({linear(8, 16), linear(16, 2)}, kBatch);
    ASSERT_EQ(bytes.size(), 3U);
    const std::vector<Bytes> widths = {8, 16, 2};
    for (std::size_t layer = 0; layer < 3; ++layer) {
        EXPECT_EQ(bytes[layer].output, kBatch * widths[layer] * 4);
        EXPECT_EQ(bytes[layer].saved, 0);
        EXPECT_TRUE(bytes[layer].keeps_input);
        EXPECT_FALSE(bytes[layer].keeps_output);
    }
    // Backward of 8 -> 16 needs, besides the gradients of output and input, the weight's (16 x 8) before it is added to
    // .grad. The bias's is smaller and may or may not overlap.
    EXPECT_GE(bytes[1].transient, 16 * 8 * 4);
    EXPECT_LE(bytes[1].transient, (16 * 8 + 16) * 4);
}

TEST_F(LayerBytesTest, DropoutSavesItsMask) {
    const auto bytes = measure({function("dropout", [](const at::Tensor& x) { return torch::dropout(x, 0.5, true); })});
    EXPECT_GT(bytes[1].saved, 0);
    EXPECT_FALSE(bytes[1].keeps_input);
}

TEST_F(LayerBytesTest, TransientIsWhatTheLayerFreesAgain) {
    const auto bytes = measure({function("detour", [](const at::Tensor& x) {
        const at::Tensor scratch = torch::empty({1000});
        return x.neg();
    })});
    EXPECT_EQ(bytes[1].transient, 4000);
    EXPECT_EQ(bytes[1].saved, 0);
}

TEST_F(LayerBytesTest, IntegerInputsPass) {
    ModelSpec model;
    model.layers = {module<torch::nn::Embedding>("embedding", [] { return torch::nn::Embedding(10, 8); }),
                    linear(8, 8)};
    LayerChain chain(model, 0);
    const auto bytes = measure_bytes(chain, {{torch::arange(6)}, {}}).layers;
    EXPECT_EQ(bytes[0].output, 6 * 8 * 4);
    EXPECT_TRUE(bytes[0].keeps_input);
}

/// Applies a linear layer to the first tensor of a pair and passes the second one through.
class PairedLinear : public Layer {
public:
    Tensors forward(const Tensors& inputs) override { return {linear_(inputs[0]), inputs[1]}; }
    NamedTensors parameters() const override { return {{"weight", linear_->weight}, {"bias", linear_->bias}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    torch::nn::Linear linear_{16, 16};
};

LayerSpec pair_function(const std::string& name, std::function<Tensors(const Tensors&)> apply) {
    return {name, [apply] { return std::make_unique<FunctionLayer>(apply); }};
}

// For an addition, both gradients are the output's own; for a concatenation, they are views of it.
TEST_F(LayerBytesTest, TellsWhereTheGradientIsTheOutputs) {
    const std::vector<std::pair<std::string, bool>> cases = {{"add", true}, {"multiply", false}};
    for (const auto& [name, passes] : cases) {
        const auto bytes = measure({function(name, [passes](const at::Tensor& x) { return passes ? x + 1 : x * 2; })});
        EXPECT_EQ(bytes[1].passes_gradient, passes) << name;
    }
    const ModelSpec unet = make_model("unet:B=1,C=2,size=64");
    LayerChain chain(unet, 0);
    const auto bytes = measure_bytes(chain, unet.make_batch(1, 0)).layers;
    int concatenations = 0;
    for (const LayerBytes& each : bytes) {
        EXPECT_TRUE(each.pop.empty() || each.passes_gradient);
        concatenations += each.pop.empty() ? 0 : 1;
    }
    EXPECT_EQ(concatenations, 5);
}

// A skip in a tuple counts once, at the layer that keeps it.
TEST_F(LayerBytesTest, CountsSkipsInATupleOnce) {
    ModelSpec model;
    model.layers = {linear(64, 64),
                    pair_function("split",
                                  [](const Tensors& in) {
                                      return Tensors{in[0], in[0]};
                                  }),
                    pair_function("quarter",
                                  [](const Tensors& in) {
                                      return Tensors{in[0].narrow(1, 0, 16).clone(), in[1]};
                                  }),
                    {"paired", [] { return std::make_unique<PairedLinear>(); }},
                    pair_function("join", [](const Tensors& in) {
                        return Tensors{at::cat({in[0], in[1]}, 1)};
                    })};
    LayerChain chain(model, 0);
    const auto bytes = measure_bytes(chain, {{torch::randn({8, 64})}, {}}).layers;
    constexpr Bytes kSkip = 8 * 64 * 4;
    EXPECT_TRUE(bytes[1].aliases_input);
    EXPECT_EQ(bytes[1].output, kSkip);  // the same storage twice
    EXPECT_EQ(bytes[1].saved, 0);
    // The quarter travels with the skip, which the next layer does not keep as an input.
    EXPECT_EQ(bytes[2].output, kSkip + kSkip / 4);
    EXPECT_FALSE(bytes[3].keeps_input);
    EXPECT_EQ(bytes[3].saved, kSkip / 4);
}

// Cross-entropy keeps the log-softmax of the output, and creates its gradient besides that of the output.
TEST_F(LayerBytesTest, TheLossNeedsMoreThanItsGradient) {
    const ModelSpec model = make_model("transformer:layers=1,width=16,heads=2,sequence=8,vocabulary=50");
    LayerChain chain(model, 0);
    const ModelBytes bytes = measure_bytes(chain, model.make_batch(4, 0));
    constexpr Bytes kOutput = 4 * 8 * 50 * 4;
    EXPECT_GE(bytes.loss_transient, 2 * kOutput);
    EXPECT_LT(bytes.loss_transient, 2 * kOutput + 1000);
}

TEST(Segments, AreAsLongAsTheLimitAllows) {
    LayerBytes layer;
    layer.output = 6;
    layer.saved = 4;
    const std::vector<LayerBytes> layers(5, layer);
    EXPECT_EQ(segments_below(layers, 1000), (std::vector<std::size_t>{5}));
    EXPECT_EQ(segments_below(layers, 20), (std::vector<std::size_t>{2, 4, 5}));
    EXPECT_EQ(segments_below(layers, 1), (std::vector<std::size_t>{1, 2, 3, 4, 5}));
}
}  // namespace
}  // namespace pipescope
