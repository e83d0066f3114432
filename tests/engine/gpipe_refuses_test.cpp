#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

GPipeOptions options(std::vector<std::int64_t> balance, std::vector<std::string> devices = cpus(2)) {
    return {.balance = std::move(balance), .devices = std::move(devices)};
}
template <class Error, class Call>
void expect_refused(Call call, const std::string& value, const std::string& remedy) {
    EXPECT_THAT(thrown<Error>(call), AllOf(HasSubstr(value), HasSubstr(remedy)));
}

TEST(GPipeRefuses, WhatDoesNotFitTogetherAtConstruction) {
    const auto make = [](GPipeOptions with) { return [with] { GPipe(dropout_mlp(), with); }; };
    expect_refused<BalanceError>(make(options({2, 3})), "5", "6");
    expect_refused<BalanceError>(make(options({6, 0})), "balance[1] is 0", "fewer partitions");
    expect_refused<BalanceError>(make(options({})), "balance", "");
    GPipeOptions no_chunks = options({3, 3});
    no_chunks.chunks = 0;
    expect_refused<UsageError>(make(no_chunks), "chunks is 0", "use 1 or more");
    GPipeOptions odd = options({3, 3});
    odd.checkpoint = static_cast<Checkpoint>(99);
    expect_refused<UsageError>(make(odd), "checkpoint is 99", "always, except_last or never");
    odd = options({3, 3});
    odd.schedule = static_cast<Schedule::Name>(99);
    expect_refused<UsageError>(make(odd), "schedule is 99", "a name of Schedule, such as one_f_one_b");
    odd = options({3, 3});
    odd.reduction = static_cast<Reduction>(-1);
    expect_refused<UsageError>(make(odd), "reduction is -1", "mean or sum");
    odd = options({3, 3});
    odd.driver = static_cast<Driver>(7);
    expect_refused<UsageError>(make(odd), "driver is 7", "scheduled or autograd");
    expect_refused<EngineError>(make(options({3, 3}, {"cpu", "cpu:9"})), "\"cpu:9\" is not there", "write cpu");
    expect_refused<EngineError>(make(options({2, 2, 2})), "devices names 2 lanes for 3 partitions",
                                "name more devices");
    expect_refused<EngineError>(make(options({3, 3}, {"cpu", "cuda:0"})), "\"cuda:0\"", "the devices there are: cpu");
    expect_refused<EngineError>(make(options({3, 3}, {"cpu", "gpu!"})), "\"gpu!\"", "write cpu");
    expect_refused<UsageError>([] { GPipe({LayerSpec{"none", nullptr}}, options({1})); }, "layer 0 (none)", "make");
}

TEST(GPipeRefuses, PlacementsByTheNumberThatIsWrong) {
    const auto make = [](std::vector<std::int64_t> placement) {
        return [placement = std::move(placement)] {
            GPipe(dropout_mlp(), {.balance = {3, 3}, .devices = cpus(3), .placement = placement});
        };
    };
    expect_refused<UsageError>(make({-1, 0}), "placement[0] is -1", "renumber them");
    expect_refused<UsageError>(make({0, 2}), "placement[1] is 2 and there are 2 partitions", "renumber them");
    expect_refused<UsageError>(make({1, 1}), "placement[0] is 1 and no partition is on lane 0", "renumber them");
    expect_refused<UsageError>(make({0, std::int64_t{1} << 32}), "placement[1] is 4294967296", "renumber them");
    expect_refused<UsageError>(make({0}), "placement names 1 lane;", "give a lane per partition");
}

TEST(GPipeRefuses, AWrongBalanceWithEachRemedyOnce) {
    for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{2, 3}, {6, 0}, {}}) {
        try {
            GPipe(dropout_mlp(), options(balance));
            ADD_FAILURE() << "accepted";
        } catch (const BalanceError& error) {
            const std::string text = error.what();
            EXPECT_NE(text.find("'pipescope balance'"), std::string::npos) << text;
            EXPECT_EQ(text.find("'pipescope balance'"), text.rfind("'pipescope balance'")) << text;
        }
    }
}

TEST(GPipeRefuses, LayersThatStandTwiceOrShareParameters) {
    torch::nn::Linear layer(4, 4);
    expect_refused<EngineError>(
        [&] {
            GPipe(torch::nn::Sequential(layer, layer), options({1, 1}));
        },
        "child 1", "child 0");
    torch::nn::Linear tied(4, 4);
    tied->weight = layer->weight;
    tied->named_parameters();
    const auto sharing = [weight = layer->weight] {
        return std::make_unique<FunctionLayer>([](const Tensors& in) { return in; }, NamedTensors{{"weight", weight}});
    };
    expect_refused<EngineError>(
        [&] {
            GPipe({{"a", sharing}, {"b", sharing}}, options({1, 1}));
        },
        "parameter 1.weight is also 0.weight", "GPipeOptions::shared");
}

TEST(GPipeRefuses, InputsThatCannotBeCut) {
    GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::never);
    expect_refused<EngineError>([&] { model.forward(Tensors{}); }, "no tensor", "pass one");
    expect_refused<EngineError>([&] { model.forward(torch::tensor(1.0)); }, "input 0 has no dimension", "unsqueeze");
    expect_refused<EngineError>([&] { model.forward(torch::zeros({0, 6})); }, "0 samples", "skip");
    expect_refused<EngineError>(
        [&] {
            model.forward(Tensors{samples(4), samples(3)});
        },
        "input 1 holds 3 samples and input 0 holds 4", "equal");
    expect_refused<EngineError>([&] { model.forward(Tensors{samples(4), at::Tensor()}); }, "input 1", "undefined");
    EXPECT_EQ(model.forward(samples(4)).size(0), 4) << "and can be used all the same";
}

class TextLayerImpl final : public torch::nn::Module {
public:
    std::string forward(const at::Tensor&) { return "text"; }
};

TEST(GPipeRefuses, LayersThatReturnNoTensor) {
    const auto with = [](LayerSpec spec) { return two_lanes({linear(6, 6), std::move(spec)}, 2, Checkpoint::always); };
    GPipe text = with({"text", [] { return module_layer(torch::nn::AnyModule(std::make_shared<TextLayerImpl>())); }});
    expect_refused<LayerError>([&] { text.forward(samples(4)); }, "layer 1 (text): forward returned",
                               "wrap the module");
    GPipe nothing = with(function_layer("nothing", [](const Tensors&) { return Tensors{}; }));
    expect_refused<LayerError>([&] { nothing.forward(samples(4)); }, "layer 1 (nothing): forward returned no tensor",
                               "");
    GPipe undefined = with(function_layer("hole", [](const Tensors&) { return Tensors{at::Tensor()}; }));
    expect_refused<LayerError>([&] { undefined.forward(samples(4)); }, "layer 1 (hole): output 0", "undefined");
    EXPECT_EQ(undefined.last_failure()->layer_name, "hole");
    GPipe scalar = with(function_layer("sum", [](const Tensors& in) { return Tensors{in[0].sum()}; }));
    expect_refused<EngineError>([&] { scalar.forward(samples(4)); }, "output 0 of the last layer",
                                "reduce in the loss");
    GPipe in_place = with(function_layer("relu_", [](const Tensors& in) { return Tensors{in[0].relu_()}; }));
    expect_refused<LayerError>([&] { in_place.forward(samples(4)); }, "changed its input in place", "out-of-place");
}

TEST(GPipeRefuses, WhatBackwardCannotDo) {
    GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::except_last);
    const at::Tensor input = samples(4).requires_grad_();
    const at::Tensor output = model.forward(input);
    output.sum().backward({}, /*retain_graph=*/true);
    expect_refused<EngineError>([&] { output.sum().backward(); }, "a second time", "call forward() again");
    const at::Tensor freed = model.forward(input).sum();
    freed.backward();
    EXPECT_ANY_THROW(freed.backward());
    expect_refused<EngineError>([&] { model.forward(input).sum().backward({}, true, /*create_graph=*/true); },
                                "create_graph", "plain module");
    model.zero_grad();
    expect_refused<EngineError>([&] { torch::autograd::grad({model.forward(input).sum()}, {input}); }, "autograd::grad",
                                "call backward()");
    EXPECT_EQ(model.parameters()[0].grad().abs().sum().item<double>(), 0) << "nothing was added in silence";
}

TEST(GPipeRefuses, StepsThatCannotGoBackward) {
    GPipe model = two_lanes(dropout_mlp(), 2, Checkpoint::except_last);
    const at::Tensor input = samples(4);
    const at::Tensor target = samples(4, 4);
    const auto elementwise = [](const at::Tensor& o, const at::Tensor& t) { return (o - t).pow(2); };
    expect_refused<EngineError>([&] { model.step(input, target, elementwise); }, "16 values", "mean or sum");
    EXPECT_EQ(model.last_failure()->layer_name, "loss");
    expect_refused<EngineError>(
        [&] { model.step(input, target, [](const at::Tensor& o, const at::Tensor&) { return o.detach().sum(); }); },
        "does not depend", "gradients on");
    expect_refused<EngineError>(
        [&] {
            model.step(input, target, [](const at::Tensor& o, const at::Tensor&) { return at::complex(o, o).sum(); });
        },
        "a complex value", "real part");
    expect_refused<UsageError>([&] { model.step(Tensors{input}, Tensors{target}, nullptr); }, "no loss function",
                               "pass one");
    {
        const torch::NoGradGuard no_grad;
        expect_refused<UsageError>([&] { model.step(input, target, mean_square); }, "under no_grad", "forward()");
    }
}

TEST(GPipeRefuses, ALayerThatRunsItsOwnModel) {
    GPipe* self = nullptr;
    GPipe model({function_layer("self", [&](const Tensors& in) { return self->forward(in); })},
                {.balance = {1}, .devices = cpus(1)});
    self = &model;
    expect_refused<EngineError>([&] { model.forward(samples(2)); }, "a lane cannot wait for itself", "another model");
}

TEST(GPipeRefuses, AModelWithinALayerThatIsComputedAgain) {
    const auto inner = std::make_shared<GPipe>(dropout_mlp(), GPipeOptions{.balance = {6}, .devices = cpus(1)});
    const auto outer = [&](Checkpoint mode) {
        return GPipe({function_layer("inner", [inner](const Tensors& in) { return inner->forward(in); })},
                     {.balance = {1}, .devices = cpus(1), .chunks = 2, .checkpoint = mode});
    };
    const at::Tensor input = samples(4).requires_grad_();
    GPipe again = outer(Checkpoint::always);
    expect_refused<UsageError>([&] { again.forward(input).sum().backward(); }, "computes its forwards again", "never");
    GPipe once = outer(Checkpoint::never);
    once.forward(input).sum().backward();
    inner->eval();
    GPipe evaluated = outer(Checkpoint::always);
    evaluated.forward(input).sum().backward();
}

TEST(GPipeRefuses, EveryUseOfAModelThatWasMovedFrom) {
    GPipe model(dropout_mlp(), options({3, 3}));
    GPipe owner = std::move(model);
    const GPipe& moved = model;
    const at::Tensor input = samples(4);
    const auto loss = [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]); };
    const std::vector<std::function<void()>> uses = {
        [&] { model.forward(input); },
        [&] { model.forward(Tensors{input}); },
        [&] { model.step(input, samples(4, 4), mean_square); },
        [&] { model.step({input}, {samples(4, 4)}, loss); },
        [&] { moved.parameters(); },
        [&] { moved.named_parameters(); },
        [&] { moved.named_buffers(); },
        [&] { moved.state_dict(); },
        [&] { model.load_state_dict({}); },
        [&] { model.train(); },
        [&] { model.eval(); },
        [&] { moved.is_training(); },
        [&] { model.to(torch::kFloat32); },
        [&] { model.zero_grad(); },
        [&] { moved.layers(); },
        [&] { moved.size(); },
        [&] { moved.num_layers(); },
        [&] { moved[0]; },
        [&] { moved.begin(); },
        [&] { moved.end(); },
        [&] { moved.partitions(); },
        [&] { moved.task_graph(4); },
        [&] { moved.balance(); },
        [&] { moved.devices(); },
        [&] { moved.chunks(); },
        [&] { moved.checkpoint(); },
        [&] { moved.next_step(); },
        [&] { moved.last_failure(); },
        [&] {
            torch::serialize::OutputArchive archive;
            moved.save(archive);
        },
        [&] {
            torch::serialize::InputArchive archive;
            model.load(archive);
        },
    };
    for (std::size_t k = 0; k < uses.size(); ++k) {
        SCOPED_TRACE("use " + std::to_string(k));
        expect_refused<UsageError>(uses[k], "the model was moved from", "use the one that it was moved to");
    }
    model = std::move(owner);
    EXPECT_EQ(model.size(), 6u) << "it can be assigned to";
}
}  // namespace
}  // namespace pipescope
