// Layers that compute with buffers which their own forward changes: a recompute sees what its forward saw.

#include "engine/kept_buffers.h"

#include "engine/plain_model.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Calls a function with its buffer "c", and its frozen parameter "p".
struct StatefulImpl final : torch::nn::Module {
    using Function = std::function<at::Tensor(StatefulImpl& self, const at::Tensor& x)>;
    explicit StatefulImpl(Function of) : function(std::move(of)) {}
    at::Tensor forward(const at::Tensor& x) { return function(*this, x); }

    Function function;
    at::Tensor c = register_buffer("c", torch::ones({6}, torch::kFloat64));
    at::Tensor p = register_parameter("p", torch::ones({6}, torch::kFloat64), false);
    int calls = 0;
};

LayerSpec stateful(StatefulImpl::Function function) {
    return {"stateful",
            [function] { return module_layer(torch::nn::AnyModule(std::make_shared<StatefulImpl>(function))); }};
}

/// A step of power iteration, as spectral norm takes it.
LayerSpec iterating() {
    return stateful([](StatefulImpl& self, const at::Tensor& x) {
        {
            const at::NoGradGuard no_grad;
            self.c.mul_(0.7).add_(x.detach().mean(0)).div_(self.c.norm() + 1);
        }
        return x * self.c.clone() + x.tanh();
    });
}

LayerSpec counting() {
    return stateful([](StatefulImpl& self, const at::Tensor& x) {
        self.c.variable_data().add_(0.25);  // raises no version
        return (x * self.c.clone()).sin();
    });
}

LayerSpec batch_norm() {
    return {"norm", [] {
                auto layer = module_layer(torch::nn::AnyModule(torch::nn::BatchNorm1d(6)));
                layer->to(at::kDouble);
                return layer;
            }};
}

const std::vector<LayerSpec>& model_layers() {
    static const std::vector<LayerSpec> layers = {linear(6, 6), iterating(),  dropout(0.3), counting(),
                                                  linear(6, 6), batch_norm(), iterating(),  linear(6, 4)};
    return layers;
}

void expect_equal_buffers(const GPipe& model, const PlainModel& plain) {
    const NamedTensors actual = model.named_buffers();
    const NamedTensors expected = plain.named_buffers();
    for (std::size_t k = 0; k < expected.size(); ++k) {
        EXPECT_TRUE(torch::allclose(actual[k].second, expected[k].second, 1e-12, 1e-12)) << expected[k].first;
    }
}

TEST(KeptBuffers, MakeRecomputesExactInEveryModeDriverAndSchedule) {
    const at::Tensor input = samples(9);
    const at::Tensor target = samples(9, 4);
    torch::manual_seed(1);
    PlainModel plain(model_layers(), {.chunks = 4, .seed = 9});
    for (int step = 0; step < 2; ++step) {
        plain.step({input}, {target}, kLoss);
    }
    const NamedTensors expected = gradients_of(plain.named_parameters());
    for (const Driver driver : kBothDrivers) {
        for (const Schedule schedule :
             {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zero_bubble_h1, Schedule::interleaved_1f1b}) {
            if (driver == Driver::autograd && schedule != Schedule::gpipe) {
                continue;
            }
            for (const Checkpoint mode : kModes) {
                SCOPED_TRACE(to_string(mode) + ", " + to_string(schedule));
                const auto make = [&] {
                    torch::manual_seed(1);
                    GPipeOptions options = on_host({2, 2, 2, 2}, 4, mode, driver);
                    if (driver == Driver::scheduled) {
                        options.devices = cpus(2);
                        options.placement = {0, 1, 0, 1};
                    }
                    if (schedule != Schedule::interleaved_1f1b && schedule != Schedule::gpipe) {
                        options.balance = {4, 4};
                        options.placement = {};
                    }
                    options.schedule = schedule;
                    options.seed = 9;
                    return GPipe(model_layers(), options);
                };
                GPipe stepped = make();
                stepped.step({input}, {target}, kLoss);
                stepped.step({input}, {target}, kLoss);
                expect_equal_norm_wise(gradients_of(stepped.named_parameters()), expected);
                expect_equal_buffers(stepped, plain);
                if (schedule == Schedule::gpipe) {
                    GPipe wrapped = make();
                    mean_square(wrapped.forward(input), target).backward();
                    mean_square(wrapped.forward(input), target).backward();
                    expect_equal_norm_wise(gradients_of(wrapped.named_parameters()), expected);
                    expect_equal_buffers(wrapped, plain);
                }
            }
        }
    }
}

TEST(KeptBuffers, HoldWhereTheGraphRefersToTheBufferItself) {
    const std::vector<LayerSpec> layers = {linear(6, 6), stateful([](StatefulImpl& self, const at::Tensor& x) {
                                               self.c.add_(1);
                                               return x * self.c;
                                           }),
                                           linear(6, 4)};
    const at::Tensor input = samples(6);
    torch::manual_seed(1);
    PlainModel plain(layers, {});
    for (const at::Tensor& part : input.split(2)) {  // backward before the next forward, or torch refuses the change
        plain.forward({part})[0].sum().backward();
    }
    for (const Driver driver : kBothDrivers) {
        torch::manual_seed(1);
        GPipe model(layers, on_host({2, 1}, 3, Checkpoint::always, driver));
        model.forward(input).sum().backward();
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
    }
}

TEST(KeptBuffers, AreExactInEvalModeAndAfterIt) {
    const at::Tensor input = samples(6);
    torch::manual_seed(1);
    PlainModel plain(model_layers(), {.chunks = 3});
    torch::manual_seed(1);
    GPipe model(model_layers(), on_host({4, 4}, 3, Checkpoint::always));
    for (const bool trains : {false, true, false, true}) {
        plain.train(trains);
        model.train(trains);
        plain.set_next_step(model.next_step());
        plain.forward({input})[0].pow(2).sum().backward();
        model.forward(input).pow(2).sum().backward();
        expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
    }
    expect_equal_buffers(model, plain);
}

TEST(KeptBuffers, AreRefusedWhereNoCopyWasMade) {
    const auto run = [](const StatefulImpl::Function& function, int steps) {
        GPipe model({linear(6, 6), stateful(function)}, on_host({1, 1}, 3, Checkpoint::always));
        for (int step = 0; step < steps; ++step) {
            model.step(samples(6), samples(6), mean_square);
        }
    };
    const auto at_times = [](StatefulImpl& self, const at::Tensor& x) {
        if (++self.calls % 2 == 0) {
            self.c.add_(1);
        }
        return x * self.c.clone();
    };
    EXPECT_THAT(thrown<EngineError>([&] { run(at_times, 1); }),
                AllOf(HasSubstr("buffer 1.c was changed"), HasSubstr("on partition 1"), HasSubstr("checkpoint never")));
    const auto of_data = [](StatefulImpl& self, const at::Tensor& x) {
        self.c.set_data(self.c + 1);
        return x * self.c.clone();
    };
    EXPECT_THAT(thrown<EngineError>([&] { run(of_data, 1); }),
                AllOf(HasSubstr("buffer 1.c was given other memory"), HasSubstr("copy_()")));
    const auto of_parameter = [](StatefulImpl& self, const at::Tensor& x) {
        self.p.add_(1);
        return x * self.p.clone();
    };
    EXPECT_THAT(thrown<EngineError>([&] { run(of_parameter, 1); }), HasSubstr("parameter 1.p was changed"));
}

TEST(KeptBuffers, ThatKeepAnOutputAreRefusedWhereItChanges) {
    const auto keeping = [](StatefulImpl& self, const at::Tensor& x) {
        const at::Tensor y = x * self.c.mean();
        self.c.set_data(y.detach());
        return y;
    };
    const auto halving = [](StatefulImpl& self, const at::Tensor& x) {
        const at::Tensor y = x * self.c.mean();
        if (self.calls++ == 0) {
            self.c.set_data(y.detach());
        } else {
            self.c.variable_data().mul_(0.5);  // raises no version
            self.c.mul_(0.5);
        }
        return y;
    };
    const auto relu = [](const Tensors& in) {
        at::Tensor x = in[0];
        return Tensors{x.relu_()};
    };
    for (const Driver driver : kBothDrivers) {
        const auto run = [&](const StatefulImpl::Function& function, const LayerSpec& next, bool trains) {
            const at::AutoGradMode grad_mode(trains);
            GPipe model({linear(6, 6), stateful(function), next, linear(6, 6)},
                        on_host({2, 2}, 3, Checkpoint::never, driver));
            if (trains) {
                model.step(samples(6), samples(6), mean_square);
            } else {
                model.forward(samples(6));
            }
        };
        for (const bool trains : {false, true}) {
            const auto refused = AllOf(HasSubstr("partition 0"), HasSubstr("buffer 1.c keeps"), HasSubstr("clone()"));
            EXPECT_THAT(thrown<LayerError>([&] { run(keeping, function_layer("relu", relu), trains); }), refused);
            EXPECT_THAT(thrown<LayerError>([&] { run(halving, tanh_layer(), trains); }), refused);
            EXPECT_NO_THROW(run(keeping, tanh_layer(), trains));
        }
    }
}

TEST(KeptBuffers, AreKeptOfTheTensorThatReplacesAChangedOne) {
    const at::Tensor first = torch::zeros({2});
    const at::Tensor second = torch::zeros({2});
    BufferWatch watch;
    const auto list = [&](const at::Tensor& c) { watch.list({{"c", c}}, {}); };
    list(first);
    KeptBuffers learning = watch.before();
    watch.after(learning);
    const KeptBuffers kept = watch.before();
    first.add_(1);
    list(second);
    EXPECT_THAT(thrown<EngineError>([&] { kept.check("micro-batch 0"); }), HasSubstr("run the step again"));
    watch.list({}, {});  // such as one that is None for a time
    list(second);
    EXPECT_TRUE(watch.before().copies().holds(second)) << "the advised run has a copy";
}

TEST(KeptBuffers, AreRefusedWhereAForwardChangesTheirShape) {
    const auto growing = [](StatefulImpl& self, const at::Tensor& x) {
        const at::NoGradGuard no_grad;
        self.c.resize_({self.c.size(0) + 6});
        return x * 2;
    };
    const auto turning = [](StatefulImpl& self, const at::Tensor& x) {
        const at::NoGradGuard no_grad;
        self.c.as_strided_({2, 3}, {1, 2});
        return x * 2;
    };
    for (const StatefulImpl::Function& function : {StatefulImpl::Function(growing), StatefulImpl::Function(turning)}) {
        GPipe model({stateful(function)},
                    {.balance = {1}, .devices = cpus(1), .chunks = 2, .checkpoint = Checkpoint::always});
        EXPECT_THAT(thrown<EngineError>([&] {
                        model.forward(torch::randn({4, 6}, torch::kFloat64).requires_grad_());
                    }),
                    AllOf(HasSubstr("buffer 0.c"), HasSubstr("another shape")));
    }
}

TEST(KeptBuffers, AreThereWhenTheStepRunsAgain) {
    const std::vector<LayerSpec> layers = {linear(6, 6), stateful([](StatefulImpl& self, const at::Tensor& x) {
                                               self.p.add_(1);
                                               return x * self.p.clone();
                                           })};
    GPipe model(layers, on_host({1, 1}, 3, Checkpoint::always));
    EXPECT_THROW(model.step(samples(6), samples(6), mean_square), EngineError);
    for (at::Tensor& parameter : model.parameters()) {
        parameter.mutable_grad() = at::Tensor();
    }
    PlainModel plain(layers, {.chunks = 3});
    const NamedTensors now = model.named_parameters();
    const NamedTensors copies = plain.named_parameters();
    for (std::size_t k = 0; k < now.size(); ++k) {
        copies[k].second.variable_data().copy_(now[k].second);
    }
    const at::Tensor input = samples(6);
    model.step(input, input, mean_square);
    plain.step({input}, {input}, kLoss);
    expect_equal_norm_wise(gradients_of(model.named_parameters()), gradients_of(plain.named_parameters()));
}

TEST(KeptBuffers, HoldParametersThatAreFrozenLater) {
    const StatefulImpl::Function function = [](StatefulImpl& self, const at::Tensor& x) {
        if (!self.p.requires_grad()) {
            self.p.add_(1);
        }
        return x * self.p.clone();
    };
    GPipe model({linear(6, 6), stateful(function)}, on_host({1, 1}, 3, Checkpoint::always));
    for (const at::Tensor& parameter : model.parameters()) {
        parameter.set_requires_grad(true);
    }
    model.step(samples(6), samples(6), mean_square);
    for (const auto& [name, parameter] : model.named_parameters()) {
        parameter.set_requires_grad(name != "1.p");
    }
    EXPECT_THAT(thrown<EngineError>([&] { model.step(samples(6), samples(6), mean_square); }),
                HasSubstr("parameter 1.p was changed"));
}

TEST(KeptBuffers, AreOnlyThoseThatAForwardChanges) {
    const at::Tensor mask = torch::ones({64});
    const at::Tensor counter = torch::zeros({2});
    const at::Tensor view = counter.narrow(0, 1, 1);
    const at::Tensor unversioned = torch::zeros({2});
    const at::Tensor mean = torch::zeros({2});
    const at::Tensor own_mean = torch::zeros({2});
    const at::Tensor own_count = torch::zeros({});
    BufferWatch watch;
    watch.list({{"mask", mask},
                {"counter", counter},
                {"view", view},
                {"unversioned", unversioned},
                {"norm.running_mean", mean},
                {"own.running_mean", own_mean},
                {"own.num_batches_tracked", own_count}},
               {});
    const auto forward = [&] {
        KeptBuffers kept = watch.before();
        counter.add_(1);
        unversioned.variable_data().add_(1);
        mean.variable_data().add_(1);
        own_mean.add_(1);
        own_count.add_(1);
        watch.after(kept);
        return kept;
    };
    for (int run = 0; run < 2; ++run) {
        const KeptBuffers kept = forward();
        EXPECT_FALSE(kept.copies().holds(mask));
        EXPECT_FALSE(kept.copies().holds(mean)) << "batch norm does not compute with it";
        for (const at::Tensor& each : {counter, view, unversioned, own_mean, own_count}) {
            EXPECT_TRUE(kept.copies().holds(each));
        }
        {
            const BufferCopies::Exchange as_in_forward(kept.copies());
            EXPECT_EQ(counter[0].item<float>(), static_cast<float>(run));
            EXPECT_EQ(view[0].item<float>(), static_cast<float>(run)) << "an alias sees it too";
        }
        EXPECT_EQ(counter[0].item<float>(), static_cast<float>(run + 1));
    }
}

// A local loss, whose gradient the recompute would add once more.
TEST(KeptBuffers, ABackwardWithinAForwardIsRefusedWhereItWouldRunTwice) {
    const at::Tensor w = torch::ones({6}, torch::kFloat64).requires_grad_();
    const LayerSpec local = {"local", [w] {
                                 return std::make_unique<FunctionLayer>(
                                     [w](const Tensors& in) {
                                         const at::AutoGradMode grad_mode(true);
                                         (in[0].detach() * w).pow(2).mean().backward();
                                         return Tensors{in[0] * 2};
                                     },
                                     NamedTensors{{"w", w}});
                             }};
    for (const Driver driver : kBothDrivers) {
        for (const Checkpoint mode : kModes) {
            w.mutable_grad() = at::Tensor();
            GPipe model({linear(6, 6), local, linear(6, 4)}, on_host({1, 2}, 3, mode, driver));
            const auto step = [&] { model.step(samples(6), samples(6, 4), mean_square); };
            if (mode == Checkpoint::never) {
                step();
                continue;
            }
            EXPECT_THAT(thrown<EngineError>(step),
                        AllOf(HasSubstr("partition 1"), HasSubstr("backward() within"), HasSubstr("checkpoint never")));
        }
    }
}

// Other lanes raise the version of the one buffer meanwhile.
TEST(KeptBuffers, GradientsInOneBufferAreAdded) {
    const std::vector<LayerSpec> layers = {linear(6, 6), linear(6, 6), linear(6, 6)};
    GPipeOptions options = on_host({1, 1, 1}, 6, Checkpoint::always);
    options.schedule = Schedule::one_f_one_b;
    GPipe model(layers, options);
    std::int64_t size = 0;
    for (const at::Tensor& parameter : model.parameters()) {
        size += parameter.numel();
    }
    const at::Tensor flat = torch::zeros({size}, model.parameters()[0].options());
    std::int64_t first = 0;
    for (at::Tensor parameter : model.parameters()) {
        parameter.mutable_grad() = flat.narrow(0, first, parameter.numel()).view_as(parameter);
        first += parameter.numel();
    }
    for (int step = 0; step < 30; ++step) {
        model.step(samples(12), samples(12), mean_square);
    }
    EXPECT_GT(flat.abs().sum().item<double>(), 0);

    model.parameters().back().mutable_grad() = flat.narrow(0, 0, 6);
    EXPECT_THAT(
        thrown<UsageError>([&] { model.step(samples(12), samples(12), mean_square); }),
        AllOf(HasSubstr("0.weight on lane 0 and 2.bias on lane 2 share memory"), HasSubstr("a .grad of its own")))
        << "two lanes would add to it at the same time";

    GPipe in_two_calls(layers, on_host({1, 1, 1}, 6, Checkpoint::never));
    const at::Tensor output = in_two_calls.forward(samples(12));
    for (const at::Tensor& parameter : {in_two_calls.parameters().front(), in_two_calls.parameters()[2]}) {
        parameter.mutable_grad() = flat.narrow(0, 0, 36).view_as(parameter);
    }
    EXPECT_THAT(thrown<UsageError>([&] { output.sum().backward(); }), HasSubstr("share memory"));
}

TEST(KeptBuffers, ARecomputeOfAnotherFormIsRefused) {
    const auto run = [](const std::function<Tensors(const at::Tensor&, bool)>& function, Driver driver) {
        const auto calls = std::make_shared<int>(0);
        const auto once = [function, calls](const Tensors& in) { return function(in[0], ++*calls > 3); };
        GPipe model({linear(6, 6), function_layer("odd", once)}, on_host({1, 1}, 3, Checkpoint::always, driver));
        model.step(samples(6), samples(6), mean_square);
    };
    for (const Driver driver : kBothDrivers) {
        EXPECT_THAT(thrown<EngineError>([&] {
                        run([](const at::Tensor& x, bool again) { return Tensors{again ? x.narrow(0, 0, 1) : x}; },
                            driver);
                    }),
                    AllOf(HasSubstr("partition 1 (odd) returned Double [2, 6] for micro-batch"),
                          HasSubstr("and Double [1, 6] when that was recomputed"), HasSubstr("checkpoint never")));
        EXPECT_THAT(thrown<EngineError>([&] {
                        run([](const at::Tensor& x, bool again) { return Tensors{again ? x.to(at::kFloat) : x}; },
                            driver);
                    }),
                    HasSubstr("and Float [2, 6] when"));
        EXPECT_THAT(thrown<EngineError>([&] {
                        run([](const at::Tensor& x, bool again) { return again ? Tensors{x, x} : Tensors{x}; }, driver);
                    }),
                    HasSubstr("and Double [2, 6] and Double [2, 6] when"));
    }
}
}  // namespace
}  // namespace pipescope
