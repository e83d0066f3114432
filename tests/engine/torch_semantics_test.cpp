// A pipeline behaves like torch with a plain module.

#include "engine/plain_model.h"
#include "engine/skippable.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <string>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// A learned position, added to each sample.
LayerSpec position(const at::Tensor& p) {
    return {"position", [p] {
                return std::make_unique<FunctionLayer>(
                    [p](const Tensors& in) { return Tensors{in[0] + p.unsqueeze(0)}; }, NamedTensors{{"p", p}});
            }};
}

TEST(SharedStorage, OfAOneSampleMicroBatchReachesNoCallersTensor) {
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            const at::Tensor p = torch::zeros({1}, torch::kFloat64).requires_grad_();
            GPipe model({position(p)}, on_host({1}, 3, mode, driver));
            const at::Tensor x = torch::zeros({3, 1}, torch::kFloat64).requires_grad_();
            const at::Tensor g = torch::tensor({{1.0}, {2.0}, {4.0}}, torch::kFloat64);
            const at::Tensor before = g.clone();
            model.forward(x).backward(g);
            EXPECT_TRUE(torch::equal(g, before)) << g;
            EXPECT_TRUE(torch::equal(x.grad(), before)) << x.grad();
            EXPECT_EQ(p.grad().item<double>(), 7);
        }
    }
}

TEST(SharedStorage, OnItsWayToAnotherLaneIsNotWrittenTo) {
    torch::manual_seed(5);
    const at::Tensor p = torch::randn({4}, torch::kFloat64).requires_grad_();
    const std::vector<LayerSpec> layers = {linear(6, 4), tanh_layer(), position(p), linear(4, 4)};
    const at::Tensor input = samples(8);
    const at::Tensor target = samples(8, 4);
    torch::manual_seed(1);
    PlainModel plain(layers, {.chunks = 1});
    plain.step({input}, {target}, [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]); });
    const NamedTensors expected = gradients_of(plain.named_parameters());
    for (const Driver driver : kBothDrivers) {
        for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            for (const auto mode : kModes) {
                if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                    continue;
                }
                GPipeOptions with = on_host({2, 2}, 8, mode, driver);
                with.schedule = schedule;
                torch::manual_seed(1);
                GPipe model(layers, with);
                for (int step = 0; step < 20; ++step) {
                    for (const at::Tensor& parameter : model.parameters()) {
                        parameter.mutable_grad() = at::Tensor();
                    }
                    model.step(input, target, mean_square);
                    expect_equal_norm_wise(gradients_of(model.named_parameters()), expected);
                }
            }
        }
    }
}

TEST(SharedStorage, OfTheLossFunctionsOwnLeafIsNotWrittenTo) {
    for (int order = 0; order < 2; ++order) {
        const at::Tensor c = torch::zeros({1}, torch::kFloat64).requires_grad_();
        GPipeOptions with = on_host({1, 1}, 4, Checkpoint::never);
        with.schedule = Schedule::one_f_one_b;
        with.reduction = Reduction::sum;
        GPipe model({linear(6, 1), function_layer("view", [](const Tensors& in) { return in; })}, with);
        const at::Tensor x = samples(4).requires_grad_();
        model.step(x, torch::zeros({4, 1}, torch::kFloat64), [&](const at::Tensor& o, const at::Tensor&) {
            return order == 0 ? (o.view({1, 1}) + c.unsqueeze(0)).sum() : (c.view({1, 1}) + o.view({1, 1})).sum();
        });
        EXPECT_EQ(c.grad().item<double>(), 4);
        EXPECT_EQ(model.parameters()[1].grad().item<double>(), 4);
        EXPECT_TRUE(torch::allclose(x.grad(), model.parameters()[0].detach().expand({4, 6})));
    }
}

TEST(SharedStorage, KeepsTheCallersOwnGradientBuffers) {
    // A caller may set .grad of parameters to views of one buffer: later gradients are added there.
    const at::Tensor buffer = torch::zeros({3}, torch::kFloat64);
    const at::Tensor p = torch::zeros({1}, torch::kFloat64).requires_grad_();
    p.mutable_grad() = buffer.narrow(0, 1, 1);
    GPipe model({position(p)}, on_host({1}, 3, Checkpoint::never));
    model.forward(torch::zeros({3, 1}, torch::kFloat64)).backward(torch::ones({3, 1}, torch::kFloat64));
    EXPECT_TRUE(torch::equal(buffer, torch::tensor({0.0, 3.0, 0.0}, torch::kFloat64)));
}

TEST(Step, FillsTheGradientOfItsInput) {
    torch::manual_seed(1);
    PlainModel plain(dropout_mlp(), {.chunks = 3, .seed = 4});
    const at::Tensor plain_input = samples(5).requires_grad_();
    const at::Tensor target = samples(5, 4);
    plain.step({plain_input * 2}, {target}, [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]); });
    for (const Driver driver : kBothDrivers) {
        for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            for (const bool frozen : {false, true}) {
                if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                    continue;
                }
                GPipeOptions with = on_host({2, 2, 2}, 3, Checkpoint::except_last, driver);
                with.schedule = schedule;
                with.seed = 4;
                torch::manual_seed(1);
                GPipe model(dropout_mlp(), with);
                for (const at::Tensor& parameter : model.parameters()) {
                    parameter.set_requires_grad(!frozen);
                }
                const at::Tensor input = plain_input.detach().clone().requires_grad_();
                model.step(input * 2, target, mean_square);
                expect_equal_norm_wise({{"input", input.grad()}}, {{"input", plain_input.grad()}});
                EXPECT_EQ(model.parameters()[0].grad().defined(), !frozen);
            }
        }
    }
}

TEST(Eval, GivesGradientsAsTorchDoes) {
    const auto norm = [] {
        return LayerSpec{"norm", [] {
                             auto layer = module_layer(torch::nn::AnyModule(torch::nn::BatchNorm1d(8)));
                             layer->to(torch::kFloat64);
                             return layer;
                         }};
    };
    const std::vector<LayerSpec> layers = {linear(6, 8), norm(), dropout(0.4), tanh_layer(), linear(8, 4)};
    const at::Tensor input = samples(5);
    const at::Tensor target = samples(5, 4);
    torch::manual_seed(1);
    PlainModel plain(layers, {.chunks = 1});
    plain.train(false);
    const at::Tensor plain_input = input.clone().requires_grad_();
    plain.step({plain_input}, {target}, [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]); });
    for (const Driver driver : kBothDrivers) {
        for (const auto schedule :
             {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved_1f1b, Schedule::zero_bubble_h1}) {
            for (const auto mode : kModes) {
                for (const bool deferred : {false, true}) {
                    if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                        continue;
                    }
                    GPipeOptions with = on_host({1, 1, 2, 1}, 4, mode, driver);
                    with.schedule = schedule;
                    with.deferred_batch_norm = deferred;
                    if (schedule == Schedule::interleaved_1f1b) {
                        with.devices = cpus(2);
                    }
                    torch::manual_seed(1);
                    GPipe model(layers, with);
                    model.eval();
                    const at::Tensor own = input.clone().requires_grad_();
                    mean_square(model.forward(own), target).backward();
                    expect_equal_norm_wise(gradients_of(model.named_parameters()),
                                           gradients_of(plain.named_parameters()));
                    expect_equal_norm_wise({{"input", own.grad()}}, {{"input", plain_input.grad()}});
                    EXPECT_EQ(model.next_step(), 0) << "a forward in eval mode is no step";
                    model.zero_grad();
                    model.step(input, target, mean_square);
                    expect_equal_norm_wise(gradients_of(model.named_parameters()),
                                           gradients_of(plain.named_parameters()));
                    EXPECT_EQ(model.next_step(), 1);
                    for (const auto& [name, buffer] : model.named_buffers()) {
                        EXPECT_EQ(buffer.sum().item<double>(), name.ends_with("var") ? 8 : 0) << name;
                    }
                }
            }
        }
    }
}

/// (Wx, the micro-batch's mean of Wx). The second one has the given shape.
LayerSpec with_auxiliary(const at::Tensor& w, std::vector<std::int64_t> shape) {
    return {"auxiliary", [w, shape] {
                return std::make_unique<FunctionLayer>(
                    [w, shape](const Tensors& in) {
                        const at::Tensor y = in[0].matmul(w);
                        return Tensors{y, y.mean().reshape(shape)};
                    },
                    NamedTensors{{"w", w}});
            }};
}

TEST(Outputs, OfOneValuePerMicroBatchAreGatheredOneByOne) {
    const at::Tensor w = torch::randn({6, 4}, torch::kFloat64).requires_grad_();
    const at::Tensor input = samples(7);
    const auto loss = [](const Tensors& o, const Tensors& t) { return mean_square(o[0], t[0]) + o[1].mean() * 3; };
    const at::Tensor target = samples(7, 4);
    const std::vector<LayerSpec> layers = {tanh_layer(), with_auxiliary(w, {1})};
    PlainModel plain(layers, {.chunks = 3});
    plain.step({input}, {target}, loss);
    const at::Tensor expected = std::exchange(w.mutable_grad(), at::Tensor());
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            GPipe model(layers, on_host({1, 1}, 3, mode, driver));
            const Tensors output = model.forward(Tensors{input});
            EXPECT_EQ(output[0].size(0), 7);
            EXPECT_EQ(output[1].size(0), 3) << "one for each micro-batch, in their order";
            loss(output, {target}).backward();
            EXPECT_TRUE(torch::allclose(w.grad(), expected));
            w.mutable_grad() = at::Tensor();
            model.step({input}, {target}, loss);
            EXPECT_TRUE(torch::allclose(w.grad(), expected));
            w.mutable_grad() = at::Tensor();
        }
    }
}

TEST(Outputs, ThatCannotBeGatheredAreRefused) {
    const at::Tensor w = torch::randn({6, 4}, torch::kFloat64).requires_grad_();
    for (const Driver driver : kBothDrivers) {
        GPipe scalar({with_auxiliary(w, {})}, on_host({1}, 3, Checkpoint::never, driver));
        EXPECT_THAT(thrown<EngineError>([&] { scalar.forward(Tensors{samples(7)}); }),
                    AllOf(HasSubstr("output 1 of the last layer has no dimension"), HasSubstr("unsqueeze(0)")));
        GPipe uneven({function_layer("square", [](const Tensors& in) { return Tensors{in[0].matmul(in[0].t())}; })},
                     on_host({1}, 3, Checkpoint::never, driver));
        EXPECT_THAT(thrown<EngineError>([&] { uneven.forward(Tensors{samples(7).requires_grad_()}); }),
                    AllOf(HasSubstr("output 0 of the last layer has shape [2, 2] for micro-batch 1 and [3, 3]"),
                          HasSubstr("make the others equal")));
    }
}

TEST(Inputs, ChangedInPlaceBeforeBackwardAreRefused) {
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            GPipe model(dropout_mlp(), on_host({3, 3}, 2, mode, driver));
            at::Tensor input = samples(4);
            const at::Tensor output = model.forward(input);
            input.mul_(2);
            if (mode != Checkpoint::always) {  // torch's own check of what the first layer saved
                EXPECT_THAT(thrown<c10::Error>([&] { output.sum().backward(); }),
                            HasSubstr("modified by an inplace operation"));
            } else {
                EXPECT_THAT(thrown<EngineError>([&] { output.sum().backward(); }),
                            AllOf(HasSubstr("input 0 of the model was changed in place"),
                                  HasSubstr("between forward and backward (version "), HasSubstr("change a clone")));
            }
            model.forward(input).sum().backward();
            EXPECT_TRUE(model.parameters()[0].grad().defined()) << "and the model can be used again";
        }
    }
}

TEST(Parameters, ThatChangeBeforeARecomputeAreRefused) {
    const auto update = [](const at::Tensor& parameter) { parameter.detach().mul_(2); };
    const auto replace = [](const at::Tensor& parameter) { parameter.set_data(parameter.detach().clone()); };
    for (const Driver driver : kBothDrivers) {
        for (const auto& [chunks, mode] :
             {std::pair{1, Checkpoint::always}, {3, Checkpoint::always}, {3, Checkpoint::except_last}}) {
            for (const std::function<void(const at::Tensor&)>& change :
                 {std::function<void(const at::Tensor&)>(update), std::function<void(const at::Tensor&)>(replace)}) {
                GPipe model(dropout_mlp(), on_host({3, 3}, chunks, mode, driver));
                const at::Tensor output = model.forward(samples(6));
                change(model.parameters()[3]);
                EXPECT_THAT(thrown<EngineError>([&] { output.sum().backward(); }),
                            AllOf(HasSubstr("parameter 3.bias was changed between forward and backward"),
                                  HasSubstr("go backward before the optimizer's step")));
                model.forward(samples(6)).sum().backward();
                EXPECT_TRUE(model.parameters()[3].grad().defined()) << "and the model can be used again";
            }
        }
        // Nothing is computed again.
        GPipe model(dropout_mlp(), on_host({3, 3}, 3, Checkpoint::never, driver));
        const at::Tensor output = model.forward(samples(6));
        update(model.parameters()[3]);
        output.sum().backward();
    }
}

TEST(Parameters, TrainInARecomputeAsInTheForward) {
    for (const Driver driver : kBothDrivers) {
        for (const Checkpoint mode : kModes) {
            GPipe model(dropout_mlp(), on_host({2, 4}, 3, mode, driver));
            at::Tensor unfrozen = model.parameters()[0];
            at::Tensor frozen = model.parameters()[1];
            unfrozen.set_requires_grad(false);
            const at::Tensor output = model.forward(samples(6));
            unfrozen.set_requires_grad(true);
            frozen.set_requires_grad(false);
            output.sum().backward();
            EXPECT_FALSE(unfrozen.grad().defined());
            EXPECT_FALSE(frozen.grad().defined());
            EXPECT_TRUE(unfrozen.requires_grad() && !frozen.requires_grad());
            EXPECT_TRUE(model.parameters()[2].grad().defined());
        }
    }
}

TEST(Parameters, MayChangeBetweenStepsAndAfterAForwardWithoutBackward) {
    for (const Driver driver : kBothDrivers) {
        GPipe model(dropout_mlp(), on_host({3, 3}, 3, Checkpoint::always, driver));
        for (int step = 0; step < 2; ++step) {
            model.step(samples(6), samples(6, 4), mean_square);
            model.parameters()[0].detach().mul_(0.5);
        }
        const at::Tensor unused = model.forward(samples(6));
        model.parameters()[0].detach().mul_(0.5);
        model.step(samples(6), samples(6, 4), mean_square);
    }
}

TEST(Inputs, ThatALayerKeepsAndChangesLaterAreRefused) {
    at::Tensor kept;
    const auto keep = [&](const Tensors& in) {
        kept = in[0];
        return Tensors{in[0] * 2};
    };
    GPipe model({linear(6, 4), function_layer("keep", keep)}, on_host({1, 1}, 1, Checkpoint::always));
    const at::Tensor output = model.forward(samples(4));
    kept.detach().zero_();
    EXPECT_THAT(thrown<EngineError>([&] { output.sum().backward(); }),
                HasSubstr("input 0 of partition 1 (keep) was changed in place"));
    EXPECT_EQ(model.last_failure()->task.kind, TaskKind::recompute);
}

/// Works in place, as torch's ReLU(inplace) does; then a layer that saves its input.
std::vector<LayerSpec> in_place_first(const at::Tensor& w) {
    return {function_layer("relu_", [](const Tensors& in) { return Tensors{in[0].relu_()}; }),
            {"multiply",
             [w] {
                 return std::make_unique<FunctionLayer>([w](const Tensors& in) { return Tensors{in[0] * in[0] * w}; },
                                                        NamedTensors{{"w", w}});
             }},
            function_layer("sin", [](const Tensors& in) { return Tensors{in[0].sin()}; })};
}

TEST(InPlaceChanges, OfTheInputByTheFirstLayerGiveTorchsGradients) {
    const at::Tensor w = torch::randn({6}, torch::kFloat64).requires_grad_();
    const at::Tensor leaf = samples(5).requires_grad_();
    const at::Tensor x = (leaf * 1.5).relu();
    (x * x * w).sin().pow(2).sum().backward();
    const at::Tensor expected_w = w.grad().clone();
    const at::Tensor expected_leaf = leaf.grad().clone();
    const auto loss = [](const at::Tensor& o, const at::Tensor&) { return o.pow(2).sum(); };
    for (const Driver driver : kBothDrivers) {
        for (const auto schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1}) {
            for (const std::vector<std::int64_t>& balance : {std::vector<std::int64_t>{1, 1, 1}, {3}, {2, 1}}) {
                for (const std::int64_t chunks : {1, 3, 5}) {
                    for (const bool needs_gradient : {false, true}) {
                        if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                            continue;
                        }
                        GPipeOptions with = on_host(balance, chunks, Checkpoint::never, driver);
                        with.schedule = schedule;
                        with.reduction = Reduction::sum;
                        GPipe model(in_place_first(w), with);
                        w.mutable_grad() = at::Tensor();
                        leaf.mutable_grad() = at::Tensor();
                        const at::Tensor input = needs_gradient ? leaf * 1.5 : leaf.detach() * 1.5;
                        const auto version = input._version();
                        if (schedule == Schedule::gpipe) {
                            loss(model.forward(input), {}).backward();
                        } else {
                            model.step(input, input, loss);
                        }
                        EXPECT_TRUE(torch::allclose(w.grad(), expected_w));
                        if (needs_gradient) {
                            EXPECT_TRUE(torch::allclose(leaf.grad(), expected_leaf));
                        }
                        EXPECT_TRUE(torch::equal(input, x)) << "the caller sees the change";
                        EXPECT_GT(input._version(), version) << "and so does torch";
                    }
                }
            }
        }
    }
}

TEST(InPlaceChanges, OfTheInputAreSeenByTheGraphThatItComesFrom) {
    const at::Tensor w = torch::randn({6}, torch::kFloat64).requires_grad_();
    for (const Driver driver : kBothDrivers) {
        for (const std::int64_t chunks : {1, 3}) {
            GPipe model(in_place_first(w), on_host({1, 1, 1}, chunks, Checkpoint::never, driver));
            const at::Tensor leaf = samples(5).requires_grad_();
            model.forward(leaf.exp() - 1).sum().backward();
            EXPECT_THAT(thrown<c10::Error>([&] { model.forward(leaf.exp()).sum().backward(); }),
                        HasSubstr("modified by an inplace operation"))
                << "exp saved its result";
        }
    }
}

TEST(InPlaceChanges, OfAnInputThatAPartitionPassesOnAreRefusedToo) {
    const at::Tensor w = torch::randn({6}, torch::kFloat64).requires_grad_();
    const auto pass = [](const Tensors& in) { return Tensors{in[0].view(in[0].sizes())}; };
    const auto scale = [w](const Tensors& in) {
        at::Tensor x = in[0];
        return Tensors{x.mul_(w)};
    };
    for (const Driver driver : kBothDrivers) {
        for (const std::int64_t chunks : {1, 3}) {
            GPipe model({function_layer("pass", pass),
                         {"scale",
                          [=] {
                              return std::make_unique<FunctionLayer>(scale, NamedTensors{{"w", w}});
                          }}},
                        on_host({1, 1}, chunks, Checkpoint::never, driver));
            const at::Tensor alone = samples(5);
            model.forward(alone).sum().backward();
            const at::Tensor input = samples(5);
            const at::Tensor output = model.forward(input);
            EXPECT_THAT(thrown<EngineError>([&] { (output.sum() + input.sum()).backward(); }),
                        HasSubstr("is used elsewhere, too"));
        }
    }
}

TEST(InPlaceChanges, OfAnInputThatIsUsedElsewhereAreRefusedInBackward) {
    // Torch would take the gradient of both uses through the change, of which only the pipeline knows.
    const at::Tensor w = torch::randn({6}, torch::kFloat64).requires_grad_();
    const auto refusal = AllOf(HasSubstr("input 0 of the model was changed in place"),
                               HasSubstr("is used elsewhere, too"), HasSubstr("pass a clone"));
    for (const Driver driver : kBothDrivers) {
        for (const std::int64_t chunks : {1, 3}) {
            GPipe model(in_place_first(w), on_host({1, 1, 1}, chunks, Checkpoint::never, driver));
            const at::Tensor leaf = samples(5).requires_grad_();
            const at::Tensor input = leaf * 2;
            const at::Tensor output = model.forward(input);
            EXPECT_THAT(thrown<EngineError>([&] { (output.sum() + input.sum()).backward(); }), refusal);
            const at::Tensor whole = leaf.repeat({1, 2}) * 2;
            const at::Tensor of_a_part = model.forward(whole.narrow(1, 0, 6));
            EXPECT_THAT(thrown<EngineError>([&] { (of_a_part.sum() + whole.sum()).backward(); }), refusal)
                << "through what it is a view of";
            const at::Tensor stepped = leaf * 2;
            model.step(stepped, stepped, [](const at::Tensor& o, const at::Tensor&) { return o.sum(); });
            EXPECT_THAT(thrown<EngineError>([&] { stepped.sum().backward(); }), refusal);
            const at::Tensor p = torch::randn({6}, torch::kFloat64).requires_grad_();
            GPipe adding({{"add",
                           [p] {
                               return std::make_unique<FunctionLayer>(
                                   [p](const Tensors& in) { return Tensors{at::Tensor(in[0]).add_(p)}; },
                                   NamedTensors{{"p", p}});
                           }}},
                         on_host({1}, chunks, Checkpoint::never, driver));
            const at::Tensor data = samples(5);
            const at::Tensor sum = adding.forward(data);
            EXPECT_THAT(thrown<EngineError>([&] { (sum.sum() + data.sum()).backward(); }), refusal)
                << "data is p's sum by now";
            adding.forward(samples(5)).sum().backward();
            EXPECT_TRUE(torch::allclose(p.grad(), torch::full({6}, 5.0, torch::kFloat64)));
        }
    }
}

TEST(InPlaceChanges, OfALeafThatRequiresAGradientAreRefused) {
    const std::vector<LayerSpec> layers = {
        function_layer("double", [](const Tensors& in) { return Tensors{in[0].mul_(2)}; }), linear(6, 4)};
    for (const Driver driver : kBothDrivers) {
        for (const std::int64_t chunks : {1, 2}) {
            GPipe model(layers, on_host({1, 1}, chunks, Checkpoint::never, driver));
            const at::Tensor leaf = samples(4).requires_grad_();
            const auto refusal =
                AllOf(HasSubstr("input 0 of the model was changed in place"), HasSubstr("pass a clone"));
            EXPECT_THAT(thrown<EngineError>([&] { model.forward(leaf); }), refusal);
            EXPECT_THAT(thrown<EngineError>([&] { model.forward(leaf.view({4, 6})); }), refusal);
            EXPECT_THAT(thrown<EngineError>([&] { model.step(leaf, samples(4, 4), mean_square); }), refusal);
            EXPECT_FALSE(model.parameters()[0].grad().defined()) << "refused before anything goes backward";
            model.forward(leaf.clone()).sum().backward();
            EXPECT_TRUE(torch::allclose(leaf.grad(), model.parameters()[0].detach().sum(0).expand({4, 6}) * 2));
            const at::NoGradGuard no_grad;
            model.forward(leaf);  // as torch allows
        }
    }
}

TEST(InPlaceChanges, OfAnInputWhoseMicroBatchesShareMemoryAreRefused) {
    for (const Driver driver : kBothDrivers) {
        for (const auto mode : kModes) {
            GPipe model({function_layer("double", [](const Tensors& in) { return Tensors{in[0].mul_(2)}; })},
                        on_host({1}, 4, mode, driver));
            const at::Tensor expanded = samples(1).expand({4, 6});
            const auto refusal = AllOf(HasSubstr("micro-batches share memory"), HasSubstr("pass a clone"));
            EXPECT_THAT(thrown<EngineError>([&] { model.forward(expanded); }), refusal);
            at::Tensor columns = samples(4, 12);
            model.forward(columns.narrow(1, 3, 6));
            model.forward(columns.t().contiguous().t());
        }
    }
}

TEST(InPlaceChanges, OfAnInputThatSharesMemoryWithAnotherAreRefused) {
    const auto twice = [](const Tensors& in) {
        const at::Tensor y = in[0] * 2;
        return Tensors{y, y.view({-1, 3, 2})};
    };
    const auto change = [](const Tensors& in) {
        in[0].relu_();
        return Tensors{in[0] + in[1].view({-1, 6})};
    };
    for (const Driver driver : kBothDrivers) {
        const std::vector<LayerSpec> layers = {function_layer("twice", twice), function_layer("change", change)};
        GPipe split(layers, on_host({1, 1}, 2, Checkpoint::never, driver));
        EXPECT_THAT(thrown<LayerError>([&] { split.forward(samples(4).requires_grad_()); }),
                    AllOf(HasSubstr("partition 1 (change) changed in place an input"), HasSubstr("out-of-place")));
        GPipe whole(layers, on_host({2}, 2, Checkpoint::never, driver));
        const at::Tensor x = samples(4).requires_grad_();
        whole.forward(x).sum().backward();
        EXPECT_TRUE(torch::equal(x.grad(), x.detach().gt(0).to(torch::kFloat64) * 4)) << "autograd sees both there";
    }
}

TEST(InPlaceChanges, OfASkipOnItsWayAreRefused) {
    const auto layer = [](SkipNames names, SkipForward forward) {
        return LayerSpec{"layer", [=] { return skippable_layer(nullptr, names, forward); }};
    };
    const std::vector<LayerSpec> layers = {
        layer({.stash = {{"", "early"}}},
              [](const Tensors& in, SkipContext& skips) {
                  const at::Tensor y = in[0] * 2;
                  skips.stash("early", y);
                  return Tensors{y};
              }),
        function_layer("change", [](const Tensors& in) { return Tensors{in[0].relu_()}; }),
        layer({.pop = {{"", "early"}}},
              [](const Tensors& in, SkipContext& skips) { return Tensors{in[0] + skips.pop("early")}; })};
    for (const Driver driver : kBothDrivers) {
        GPipe split(layers, on_host({1, 1, 1}, 2, Checkpoint::never, driver));
        EXPECT_THAT(thrown<EngineError>([&] { split.forward(samples(4).requires_grad_()); }),
                    AllOf(HasSubstr("skip 'early' was changed in place"), HasSubstr("stash a clone")));
        GPipe whole(layers, on_host({3}, 2, Checkpoint::never, driver));
        const at::Tensor x = samples(4).requires_grad_();
        whole.forward(x).sum().backward();
        EXPECT_TRUE(torch::equal(x.grad(), x.detach().gt(0).to(torch::kFloat64) * 4));
    }
}
}  // namespace
}  // namespace pipescope
