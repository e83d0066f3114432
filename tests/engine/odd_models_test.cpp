// Unusual models compared with the plain model: dtypes, layouts, modules of torch, custom nodes.

#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <functional>
#include <string>
#include <tuple>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::HasSubstr;

bool is_differentiable(const at::Tensor& tensor) {
    return tensor.is_floating_point() || tensor.is_complex();
}

Tensors fresh_leaves(const Tensors& input) {
    Tensors leaves;
    for (const at::Tensor& tensor : input) {
        at::Tensor leaf = tensor.detach().clone();
        leaves.push_back(is_differentiable(leaf) ? leaf.requires_grad_() : leaf);
    }
    return leaves;
}

void backward(const Tensors& outputs, const Tensors& gradients) {
    Tensors ends, end_gradients;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].requires_grad()) {
            ends.push_back(outputs[k]);
            end_gradients.push_back(gradients[k]);
        }
    }
    torch::autograd::backward(ends, end_gradients);
}

bool are_close(const at::Tensor& actual, const at::Tensor& expected, double tolerance) {
    if (!actual.defined() || !expected.defined()) {
        return actual.defined() == expected.defined() ||
               (actual.defined() ? actual : expected).abs().sum().item().toDouble() == 0;
    }
    if (expected.numel() == 0) {
        return actual.sizes() == expected.sizes();
    }
    const at::Tensor a = actual.to_dense().to(torch::kComplexDouble);
    const at::Tensor b = expected.to_dense().to(torch::kComplexDouble);
    return (a - b).abs().max().item<double>() <= tolerance * (1 + b.abs().max().item<double>());
}

struct Result {
    Tensors outputs;
    Tensors input_gradients;
    NamedTensors gradients;
};

template <class Model>
Result trained(Model& model, const Tensors& input) {
    Result result;
    const Tensors leaves = fresh_leaves(input);
    result.outputs = model.forward(leaves);
    torch::manual_seed(2);
    Tensors gradients;
    for (const at::Tensor& output : result.outputs) {
        gradients.push_back(is_differentiable(output) ? torch::randn_like(output) : at::Tensor());
    }
    backward(result.outputs, gradients);
    for (const at::Tensor& leaf : leaves) {
        result.input_gradients.push_back(leaf.grad());
    }
    result.gradients = gradients_of(model.named_parameters());
    return result;
}

void expect_same(const Result& actual, const Result& expected, double tolerance) {
    ASSERT_EQ(actual.outputs.size(), expected.outputs.size());
    for (std::size_t k = 0; k < expected.outputs.size(); ++k) {
        EXPECT_EQ(actual.outputs[k].dtype(), expected.outputs[k].dtype());
        EXPECT_TRUE(are_close(actual.outputs[k], expected.outputs[k], tolerance)) << "output " << k;
    }
    for (std::size_t k = 0; k < expected.input_gradients.size(); ++k) {
        EXPECT_TRUE(are_close(actual.input_gradients[k], expected.input_gradients[k], tolerance)) << "input " << k;
    }
    for (std::size_t k = 0; k < expected.gradients.size(); ++k) {
        EXPECT_TRUE(are_close(actual.gradients[k].second, expected.gradients[k].second, tolerance))
            << expected.gradients[k].first;
    }
}

void expect_as_torch(const std::vector<LayerSpec>& layers, const Tensors& input, double tolerance = 1e-10) {
    const auto n = static_cast<std::int64_t>(layers.size());
    for (const std::int64_t chunks : {1, 4}) {
        torch::manual_seed(1);
        PlainModel plain(layers, {.chunks = chunks, .seed = 3});
        const Result expected = trained(plain, input);
        for (const Driver driver : {Driver::scheduled, Driver::autograd}) {
            for (const auto mode : kModes) {
                for (const auto& balance :
                     {std::vector<std::int64_t>{n}, std::vector<std::int64_t>(layers.size(), 1)}) {
                    const ::testing::ScopedTrace trace(__FILE__, __LINE__,
                                                       "chunks " + std::to_string(chunks) + ", " + to_string(mode) +
                                                           ", balance " + to_string(Balance(balance)) +
                                                           (driver == Driver::autograd ? ", autograd" : ""));
                    torch::manual_seed(1);
                    GPipe model(layers, {.balance = balance,
                                         .devices = cpus(balance.size()),
                                         .chunks = chunks,
                                         .checkpoint = mode,
                                         .driver = driver,
                                         .seed = 3,
                                         .host_cores = static_cast<int>(balance.size())});
                    expect_same(trained(model, input), expected, tolerance);
                }
            }
        }
    }
}

at::Tensor parameter(at::IntArrayRef shape, at::ScalarType dtype = at::kDouble) {
    return torch::randn(shape, dtype).requires_grad_();
}
LayerSpec with(Tensors parameters, FunctionLayer::Function function) {
    return {"layer", [parameters, function] {
                NamedTensors named;
                for (const at::Tensor& each : parameters) {
                    each.mutable_grad() = at::Tensor();
                    named.emplace_back("p" + std::to_string(named.size()), each);
                }
                return std::make_unique<FunctionLayer>(function, named);
            }};
}
LayerSpec of(FunctionLayer::Function function) {
    return function_layer("layer", std::move(function));
}
LayerSpec module(std::function<torch::nn::AnyModule()> make, at::ScalarType dtype = at::kDouble) {
    return {"module", [=] {
                auto layer = module_layer(make());
                layer->to(dtype);
                return layer;
            }};
}

TEST(OddModels, OfComplexNumbers) {
    const at::Tensor w = parameter({4, 4}, at::kComplexDouble);
    const at::Tensor p = parameter({4}, at::kComplexDouble);
    expect_as_torch({with({w}, [=](const Tensors& in) { return Tensors{in[0].matmul(w)}; }),
                     with({p},
                          [=](const Tensors& in) {
                              return Tensors{in[0] * p.unsqueeze(0), torch::abs(in[0])};
                          }),
                     of([](const Tensors& in) {
                         return Tensors{torch::view_as_real(in[0].conj().resolve_conj()), in[1]};
                     })},
                    {torch::randn({5, 4}, at::kComplexDouble)});
}

TEST(OddModels, OfHalfPrecisionAndOfCastsOnTheWay) {
    const at::Tensor w = parameter({4, 4}, at::kBFloat16);
    const at::Tensor p = parameter({4}, at::kFloat);
    expect_as_torch({of([](const Tensors& in) { return Tensors{in[0].to(at::kBFloat16)}; }),
                     with({w}, [=](const Tensors& in) { return Tensors{in[0].matmul(w)}; }),
                     with({p}, [=](const Tensors& in) { return Tensors{in[0].to(at::kFloat) + p.unsqueeze(0)}; })},
                    {torch::randn({5, 4}, at::kDouble)}, 0.05);
}

TEST(OddModels, UnderAutocast) {
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    expect_as_torch({module([] { return torch::nn::AnyModule(torch::nn::Linear(6, 8)); }, at::kFloat),
                     module([] { return torch::nn::AnyModule(torch::nn::LayerNorm(torch::nn::LayerNormOptions({8}))); },
                            at::kFloat),
                     module([] { return torch::nn::AnyModule(torch::nn::Linear(8, 4)); }, at::kFloat)},
                    {torch::randn({5, 6})}, 0.05);
    at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, false);
}

struct RecurrentImpl final : torch::nn::Module {
    torch::nn::LSTM lstm = register_module("lstm", torch::nn::LSTM(torch::nn::LSTMOptions(4, 3).batch_first(true)));
    torch::nn::GRU gru = register_module("gru", torch::nn::GRU(torch::nn::GRUOptions(3, 4).batch_first(true)));
    std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) {
        const auto [y, state] = lstm(x);
        const auto [z, last] = gru(y);
        return {z, std::get<0>(state).transpose(0, 1)};
    }
};

TEST(OddModels, OfRecurrentModules) {
    expect_as_torch(
        {module([] { return torch::nn::AnyModule(std::make_shared<RecurrentImpl>()); }), of([](const Tensors& in) {
             return Tensors{in[0].tanh(), in[1]};
         })},
        {torch::randn({5, 3, 4}, at::kDouble)});
}

TEST(OddModels, OfEmbeddingsWithSparseGradients) {
    const auto embedding = [](bool sparse) {
        return module([sparse] {
            return torch::nn::AnyModule(torch::nn::Embedding(torch::nn::EmbeddingOptions(7, 4).sparse(sparse)));
        });
    };
    const auto bag = module([] {
        return torch::nn::AnyModule(
            torch::nn::EmbeddingBag(torch::nn::EmbeddingBagOptions(7, 4).sparse(true).mode(torch::kSum)));
    });
    const at::Tensor tokens = torch::randint(7, {5, 3}, at::kLong);
    const LayerSpec end = of([](const Tensors& in) { return Tensors{in[0] * 2}; });
    expect_as_torch({embedding(true), end}, {tokens});
    expect_as_torch({embedding(false), end}, {tokens});
    expect_as_torch({bag, end}, {tokens});
}

TEST(OddModels, WithHooksOnTheInputsOfLayers) {
    const auto hooked = [](const at::Tensor& w) {
        return with({w}, [=](const Tensors& in) {
            if (in[0].requires_grad()) {
                in[0].register_hook([](const at::Tensor& gradient) { return 2 * gradient; });
            }
            return Tensors{in[0].matmul(w)};
        });
    };
    expect_as_torch({hooked(parameter({4, 4})), of([](const Tensors& in) { return Tensors{in[0].tanh()}; }),
                     hooked(parameter({4, 4}))},
                    {torch::randn({5, 4}, at::kDouble)});
}

TEST(OddModels, OfImagesInChannelsLast) {
    expect_as_torch(
        {module([] { return torch::nn::AnyModule(torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 4, 3).padding(1))); }),
         module([] { return torch::nn::AnyModule(torch::nn::BatchNorm2d(4)); }), of([](const Tensors& in) {
             return Tensors{torch::max_pool2d(in[0], {2, 2}).contiguous()};
         }),
         module([] { return torch::nn::AnyModule(torch::nn::Conv2d(4, 2, 1)); })},
        {torch::randn({6, 3, 4, 4}, at::kDouble).contiguous(at::MemoryFormat::ChannelsLast)});
}

TEST(OddModels, OfTensorsWithoutElementsAndOfAnyNumberOfRows) {
    const at::Tensor w = parameter({4, 4});
    expect_as_torch({with({w},
                          [=](const Tensors& in) {
                              return Tensors{in[0].matmul(w), in[0].narrow(1, 0, 0)};
                          }),
                     of([](const Tensors& in) {
                         return Tensors{in[0], in[1], in[0].index({in[0].select(1, 0).gt(0)}), in[0].narrow(0, 0, 0)};
                     })},
                    {torch::randn({5, 4}, at::kDouble)});
}

/// Two outputs, the second without a gradient. Accepts undefined gradients.
struct WithoutMaterializing : torch::autograd::Function<WithoutMaterializing> {
    static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
        context->set_materialize_grads(false);
        const at::Tensor signs = x.sign();
        context->mark_non_differentiable({signs});
        context->save_for_backward({x});
        return {x * x, signs, x.clone()};
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        const at::Tensor x = context->get_saved_variables()[0];
        at::Tensor gradient = gradients[0].defined() ? gradients[0] * x * 2 : at::Tensor();
        if (gradients[2].defined()) {
            gradient = gradient.defined() ? gradient + gradients[2] : gradients[2];
        }
        return {gradient};
    }
};

struct SavedGradient : torch::autograd::Function<SavedGradient> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& p, const at::Tensor& c) {
        context->save_for_backward({c});
        return (p * c).sum();
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list) {
        return {context->get_saved_variables()[0], at::Tensor()};
    }
};

TEST(OddModels, OfNodesOfOnesOwn) {
    const at::Tensor p = parameter({4});
    const at::Tensor c = torch::randn({4}, at::kDouble);
    const at::Tensor before = c.clone();
    expect_as_torch(
        {of([](const Tensors& in) { return WithoutMaterializing::apply(in[0]); }), of([](const Tensors& in) {
             return Tensors{in[2] + in[1], in[2]};
         }),
         with({p}, [=](const Tensors& in) { return Tensors{in[0] + p.unsqueeze(0)}; })},
        {torch::randn({5, 4}, at::kDouble)});
    GPipe model({with({p}, [=](const Tensors& in) { return Tensors{in[0] * 0 + SavedGradient::apply(p, c)}; })},
                {.balance = {1}, .devices = cpus(1), .chunks = 3});
    model.forward(torch::ones({3, 1}, at::kDouble)).sum().backward();
    EXPECT_TRUE(torch::equal(c, before));
    EXPECT_TRUE(torch::allclose(p.grad(), before * 3));
}

TEST(OddModels, ThatTakeGradientsInside) {
    const at::Tensor w = parameter({4, 4});
    expect_as_torch({with({w},
                          [=](const Tensors& in) {
                              const at::AutoGradMode grad_mode(true);
                              const at::Tensor x = in[0].detach().requires_grad_();
                              const at::Tensor slope = torch::autograd::grad({x.pow(3).sum()}, {x})[0];
                              return Tensors{in[0].matmul(w) + slope};
                          }),
                     of([](const Tensors& in) {
                         const auto without = [&] {
                             const at::NoGradGuard no_grad;
                             return in[0] * 2;
                         };
                         return Tensors{in[0] * without()};
                     })},
                    {torch::randn({5, 4}, at::kDouble)});
}

TEST(OddModels, ThatPassInferenceTensorsOn) {
    const at::Tensor w = parameter({4});
    expect_as_torch({with({w},
                          [=](const Tensors& in) {
                              const at::Tensor scaled = in[0] * w;
                              const c10::InferenceMode inference;
                              return Tensors{scaled, in[0].sin()};
                          }),
                     of([](const Tensors& in) { return Tensors{in[0] + in[1].clone()}; })},
                    {torch::randn({5, 4}, at::kDouble)});
}

// The gradient of an energy with respect to positions, from which an earlier layer made features.
TEST(OddModels, WhoseGradientsInsideWouldLackAPartAreRefused) {
    const at::Tensor a = parameter({4, 4});
    const std::vector<LayerSpec> layers = {
        with({a},
             [=](const Tensors& in) {
                 return Tensors{in[0].matmul(a).sin(), in[0] * 1};
             }),
        of([](const Tensors& in) {
            const at::AutoGradMode grad_mode(true);
            const at::Tensor energy = in[0].sum() + in[1].cos().sum();
            return Tensors{torch::autograd::grad({energy}, {in[1]}, {}, true, true)[0]};
        })};
    const at::Tensor input = torch::randn({4, 4}, at::kDouble).requires_grad_();
    const auto sum = [](const at::Tensor& output, const at::Tensor&) { return output.sum(); };
    const GPipeOptions options = {.chunks = 2, .checkpoint = Checkpoint::never};
    for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{2}, {1, 1}}) {
        GPipeOptions cut = options;
        cut.balance = balance;
        cut.devices = cpus(balance.size());
        GPipe model(layers, cut);
        if (balance.size() == 1) {
            EXPECT_NO_THROW(model.step(input, {}, sum)) << "one partition knows the whole graph";
            continue;
        }
        EXPECT_THAT(thrown<EngineError>([&] { model.step(input, {}, sum); }), HasSubstr("move the cut"));
    }
    GPipe pair({with({a},
                     [=](const Tensors& in) {
                         return Tensors{in[0].matmul(a).sin(), in[0].matmul(a)};
                     })},
               {.balance = {1}, .devices = cpus(1), .chunks = 2});
    EXPECT_THAT(
        thrown<EngineError>([&] {
            pair.step({input}, {}, [](const Tensors& outputs, const Tensors&) {
                return torch::autograd::grad({(outputs[0] * outputs[1]).sum()}, {outputs[0]}, {}, true, true)[0].sum();
            });
        }),
        HasSubstr("or the loss"));
}

// One layer computes the weights of another, which has experts too. A split backward takes both for activations.
TEST(OddModels, WhoseProductsTakeWeightsFromEarlierLayersInHalvesToo) {
    const at::Tensor a = parameter({6, 36});
    const at::Tensor b = parameter({6, 6});
    const at::Tensor gate = parameter({6, 3});
    const at::Tensor experts = parameter({3, 6, 6});
    const std::vector<LayerSpec> layers = {
        with({a, b},
             [=](const Tensors& in) {
                 return Tensors{in[0].matmul(b).tanh(), in[0].matmul(a).view({-1, 6, 6})};
             }),
        of([](const Tensors& in) {
            return Tensors{torch::bmm(in[0].unsqueeze(1), in[1]).squeeze(1), in[1].mean(0, true)};
        }),
        with({b.detach().clone().requires_grad_()},
             [=](const Tensors& in) { return Tensors{torch::linear(in[0], in[1][0]).tanh()}; }),
        with({gate, experts}, [=](const Tensors& in) {
            const auto [weights, chosen] = in[0].matmul(gate).softmax(1).topk(2, 1);
            at::Tensor sum = in[0] * 1;
            for (std::int64_t k = 0; k < 3; ++k) {
                const at::Tensor places = (chosen == k).nonzero();
                const at::Tensor rows = places.select(1, 0);
                const at::Tensor share = weights.index({rows, places.select(1, 1)}).unsqueeze(1);
                sum = sum.index_add(0, rows, in[0].index_select(0, rows).matmul(experts[k]) * share);
            }
            return Tensors{sum};
        })};
    const at::Tensor input = samples(8);
    const auto loss = [](const Tensors& output, const Tensors&) { return output[0].pow(2).mean(); };
    PlainModel plain(layers, {.chunks = 4});
    plain.step({input}, {}, loss);
    NamedTensors expected;
    for (const auto& [name, gradient] : gradients_of(plain.named_parameters())) {
        expected.emplace_back(name, gradient.defined() ? gradient.clone() : gradient);
    }
    for (const auto schedule : {Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        for (const auto mode : kModes) {
            for (const auto& balance : {std::vector<std::int64_t>{4}, {2, 2}, {1, 1, 1, 1}}) {
                GPipeOptions options = on_host(balance, 4, mode);
                options.schedule = schedule;
                GPipe model(layers, options);  // the gradients are undefined again
                model.step({input}, {}, loss);
                expect_equal_norm_wise(gradients_of(model.named_parameters()), expected);
            }
        }
    }
}

// A network of a differential equation, whose boundary values the loss multiplies in, by the input.
TEST(OddModels, WhoseLossTakesAGradientOfTheOutputByTheInputAreRefused) {
    const std::vector<LayerSpec> layers = {linear(6, 8), tanh_layer(), linear(8, 1)};
    const at::Tensor input = samples(4).requires_grad_();
    const auto slope = [](const at::Tensor& values, const at::Tensor& x, bool allow_unused = false) {
        return torch::autograd::grad({values.sum()}, {x}, {}, true, true, allow_unused)[0];
    };
    const auto residual = [=](const at::Tensor& output, const at::Tensor& x) {
        return (slope(output * x, x) - output).pow(2).mean();
    };
    const auto of_own_input = [=](const at::Tensor& output, const at::Tensor& x) {
        return slope(output, input, true).pow(2).mean() + output.sum() + x.sum();
    };
    const auto of_reference = [=](const at::Tensor& output, const at::Tensor& x) {
        return (output - slope(x.pow(3), x)).pow(2).mean();
    };
    for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
        for (const auto mode : kModes) {
            GPipeOptions with = on_host({1, 2}, 2, mode);
            with.schedule = schedule;
            GPipe model(layers, with);
            const auto refused = HasSubstr("take such gradients in a layer");
            EXPECT_THAT(thrown<EngineError>([&] { model.step(input, input, residual); }), refused)
                << to_string(schedule);
            EXPECT_THAT(thrown<EngineError>([&] { model.step(input, input, of_own_input); }), refused)
                << to_string(schedule);
            EXPECT_THAT(thrown<EngineError>([&] { model.step(input * 1, input, of_own_input); }), refused)
                << to_string(schedule);
            // Those without the output are right.
            model.zero_grad();
            input.mutable_grad() = at::Tensor();
            model.step(input, input, of_reference);
            const NamedTensors gradients = gradients_of(model.named_parameters());
            const at::Tensor of_input = input.grad().clone();
            input.mutable_grad() = at::Tensor();
            GPipe plain(layers, on_host({3}, 1, Checkpoint::never, Driver::autograd));
            plain.load_state_dict(model.state_dict());
            plain.step(input, input, of_reference);
            expect_equal_norm_wise(gradients, gradients_of(plain.named_parameters()));
            expect_equal_norm_wise({{"input", of_input}}, {{"input", input.grad()}});
        }
    }
    // What the message says works.
    GPipe connected(layers, on_host({1, 2}, 2, Checkpoint::never, Driver::autograd));
    EXPECT_THROW(connected.step(input, input, residual), EngineError);
    residual(connected.forward(input), input).backward();
    torch::nn::Sequential plain(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 1));
    plain->to(torch::kFloat64);
    const auto ours = connected.parameters();
    const auto theirs = plain->parameters();
    for (std::size_t k = 0; k < ours.size(); ++k) {
        theirs[k].detach().copy_(ours[k]);
    }
    residual(plain->forward(input), input).backward();
    for (std::size_t k = 0; k < ours.size(); ++k) {
        EXPECT_TRUE(torch::allclose(ours[k].grad(), theirs[k].grad(), 1e-10, 1e-12)) << k;
    }
}

TEST(OddModels, WithTensorsThatNoLayerListsAreRefusedIfComputedAgain) {
    const at::Tensor hidden = parameter({4});
    const at::Tensor w = parameter({4});
    const std::vector<LayerSpec> layers = {of([=](const Tensors& in) { return Tensors{in[0] + hidden}; }),
                                           with({w}, [=](const Tensors& in) { return Tensors{in[0] * w}; })};
    const at::Tensor input = torch::randn({6, 4}, at::kDouble);
    const auto sum = [](const at::Tensor& output, const at::Tensor&) { return output.sum(); };
    for (const Driver driver : kBothDrivers) {
        GPipe again(layers, on_host({1, 1}, 2, Checkpoint::always, driver));
        EXPECT_THAT(thrown<LayerError>([&] { again.step(input, {}, sum); }), HasSubstr("name the tensor"));
        hidden.mutable_grad() = at::Tensor();
        GPipe once(layers, on_host({1, 1}, 2, Checkpoint::never, driver));
        once.step(input, {}, sum);
        EXPECT_TRUE(torch::allclose(hidden.grad(), w.detach() * 6));
    }
    // Without any such tensor, nothing is refused.
    GPipe plain({of([](const Tensors& in) { return Tensors{in[0].sin()}; }), layers[1]},
                on_host({1, 1}, 2, Checkpoint::always));
    EXPECT_NO_THROW(plain.step(input, {}, sum));
}

TEST(OddModels, WhoseOutputsAreOneTensorOrTheInput) {
    const at::Tensor p = parameter({4});
    const LayerSpec same = of([](const Tensors& in) { return Tensors{in[0], in[0]}; });
    expect_as_torch({same}, {torch::randn({5, 4}, at::kDouble)});
    expect_as_torch({same, of([](const Tensors& in) {
                         return Tensors{in[1], in[0], in[1].view({-1, 2, 2})};
                     }),
                     with({p},
                          [=](const Tensors& in) {
                              return Tensors{in[0] + p.unsqueeze(0), in[1], in[2]};
                          })},
                    {torch::randn({5, 4}, at::kDouble)});
    const at::Tensor twice = torch::randn({5, 4}, at::kDouble);
    expect_as_torch({of([](const Tensors& in) { return Tensors{in[0] * in[1]}; })}, {twice, twice});
}
}  // namespace
}  // namespace pipescope
