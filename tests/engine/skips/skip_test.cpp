#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/plain_model.h"
#include "engine/skippable.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/engine/modes.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <atomic>
#include <mutex>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// y = tanh(Wx), stashing Wx.
LayerSpec stashing(const std::string& name, std::int64_t in, std::int64_t out) {
    return {"stash " + name, [=] {
                auto linear = std::make_shared<torch::nn::LinearImpl>(in, out);
                linear->to(torch::kFloat64);
                return skippable_layer(linear, {.stash = {{"", name}}}, [=](const Tensors& x, SkipContext& skips) {
                    const at::Tensor wx = linear->forward(x[0]);
                    skips.stash(name, wx);
                    return Tensors{torch::tanh(wx)};
                });
            }};
}
/// y = x + popped
LayerSpec adding(const std::string& name) {
    return {"pop " + name, [=] {
                return skippable_layer(nullptr, {.pop = {{"", name}}}, [=](const Tensors& x, SkipContext& skips) {
                    return Tensors{x[0] + skips.pop(name)};
                });
            }};
}
LayerSpec skips_layer(std::string name, SkipNames names, SkipForward forward) {
    return {std::move(name), [=] { return skippable_layer(nullptr, names, forward); }};
}
SkipNames stash(const std::string& name) {
    return {.stash = {{"", name}}};
}
SkipNames pop(const std::string& name) {
    return {.pop = {{"", name}}};
}

/// Two nested skips, and one of the same name in its own namespace; with dropout. Eight layers.
std::vector<LayerSpec> skip_model() {
    return {stashing("outer", 6, 4),
            dropout(0.2),
            stashing("inner", 4, 4),
            isolate(stashing("inner", 4, 4), "deep"),
            linear(4, 4),
            isolate(adding("inner"), "deep"),
            adding("inner"),
            adding("outer")};
}

TEST(Skips, HaveThePlainModelsGradientsWhateverTheBalanceAndMode) {
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7, 4);
    torch::manual_seed(1);
    PlainModel plain(skip_model(), {.chunks = 3, .seed = 5});
    const at::Tensor plain_input = input.clone().requires_grad_();
    const double expected = plain.step({plain_input}, {target}, kLoss).item<double>();
    for (const auto& balance :
         std::vector<std::vector<std::int64_t>>{{8}, {1, 7}, {3, 5}, {7, 1}, {3, 2, 3}, {1, 1, 1, 1, 1, 1, 1, 1}}) {
        for (const auto mode : kModes) {
            const ::testing::ScopedTrace trace(__FILE__, __LINE__, to_string(Balance(balance)) + to_string(mode));
            const auto make = [&] {
                torch::manual_seed(1);
                return GPipe(
                    skip_model(),
                    {.balance = balance, .devices = cpus(balance.size()), .chunks = 3, .checkpoint = mode, .seed = 5});
            };
            GPipe stepped = make();
            EXPECT_DOUBLE_EQ(stepped.step({input}, {target}, kLoss).item<double>(), expected);
            expect_equal_norm_wise(gradients_of(stepped.named_parameters()), gradients_of(plain.named_parameters()));
            GPipe wrapped = make();
            const at::Tensor own_input = input.clone().requires_grad_();
            mean_square(wrapped.forward(own_input), target).backward();
            expect_equal_norm_wise(gradients_of(wrapped.named_parameters()), gradients_of(plain.named_parameters()));
            expect_equal_norm_wise({{"input", own_input.grad()}}, {{"input", plain_input.grad()}});
        }
    }
}

// Live tensors. A layer that keeps nothing stashes a new tensor. Checks where it exists when it should be gone.

class WatchedSkip {
public:
    LayerSpec stashing_layer() {
        return skips_layer("stash", stash("watched"), [this](const Tensors& in, SkipContext& skips) {
            at::Tensor fresh = in[0] + 1;
            {
                const std::lock_guard lock(mutex_);
                storages_.emplace_back(fresh.storage().getWeakStorageImpl());
            }
            skips.stash("watched", std::move(fresh));
            return Tensors{in[0] + 2};
        });
    }
    static LayerSpec popping_layer() {
        return skips_layer("pop", pop("watched"), [](const Tensors& in, SkipContext& skips) {
            return Tensors{in[0] + skips.pop("watched")};  // an addition saves nothing
        });
    }
    /// Calls see(number of live skips) in every forward and recompute of the layer.
    LayerSpec counting_layer(const std::string& name, std::function<void(int)> see) {
        return function_layer(name, [this, see](const Tensors& in) {
            see(live());
            return Tensors{in[0] + 1};
        });
    }
    bool first_lives() {
        const std::lock_guard lock(mutex_);
        return !storages_.empty() && !storages_.front().expired();
    }
    int live() {
        const std::lock_guard lock(mutex_);
        return static_cast<int>(
            std::count_if(storages_.begin(), storages_.end(), [](const WeakStorage& each) { return !each.expired(); }));
    }

private:
    using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
    std::mutex mutex_;
    std::vector<WeakStorage> storages_;
};

TEST(Skips, LiveFromStashToPopAndNoLonger) {
    // One micro-batch at a time, so that counts are exact. Nothing remains after the pop, except under checkpointing,
    // which keeps every input of a checkpointed partition.
    for (const std::vector<std::int64_t>& balance :
         std::vector<std::vector<std::int64_t>>{{5}, {1, 1, 1, 1, 1}, {2, 3}}) {
        for (const auto mode : kModes) {
            WatchedSkip watched;
            std::vector<int> between;
            std::vector<int> behind;
            bool first_lives_behind = false;
            const auto note = [](std::vector<int>& into) { return [&into](int live) { into.push_back(live); }; };
            GPipe model({linear(2, 2), watched.stashing_layer(), watched.counting_layer("between", note(between)),
                         WatchedSkip::popping_layer(),
                         watched.counting_layer("behind",
                                                [&](int live) {
                                                    behind.push_back(live);
                                                    first_lives_behind = watched.first_lives();
                                                })},
                        {.balance = balance, .devices = cpus(balance.size()), .chunks = 1, .checkpoint = mode});
            const at::Tensor output = model.forward(samples(2, 2).requires_grad_());
            const bool crosses = balance.size() > 1;
            const bool checkpointed = mode == Checkpoint::always;
            EXPECT_THAT(between, testing::ElementsAre(1));
            EXPECT_THAT(behind, testing::ElementsAre(crosses && checkpointed ? 1 : 0));
            EXPECT_EQ(watched.live(), crosses && checkpointed ? 1 : 0) << "between forward and backward";
            output.sum().backward();
            EXPECT_EQ(watched.live(), 0) << to_string(mode);
            if (checkpointed && balance.size() < 5) {  // else another lane recomputes it, perhaps before the pop's
                EXPECT_FALSE(first_lives_behind) << "the recomputed pop lets go of it too";
            }
            if (checkpointed && !crosses) {  // else the stashing lane recomputes too, perhaps at this moment
                EXPECT_EQ(behind.back(), 0) << "the recomputed pop lets go of the recomputed one";
            }
        }
    }
}

TEST(Skips, AreFreedWhenTheStepFails) {
    WatchedSkip watched;
    GPipe model({linear(2, 2), watched.stashing_layer(),
                 function_layer("fail", [](const Tensors&) -> Tensors { throw std::runtime_error("defect"); }),
                 WatchedSkip::popping_layer()},
                {.balance = {1, 1, 1, 1}, .devices = cpus(4), .chunks = 3});
    EXPECT_THROW(model.forward(samples(6, 2)), std::runtime_error);
    EXPECT_EQ(watched.live(), 0);
}

TEST(Skips, MayBeUndefined) {
    for (const auto mode : kModes) {
        const auto none = skips_layer("none", stash("maybe"), [](const Tensors& in, SkipContext& skips) {
            skips.stash("maybe", at::Tensor());
            return Tensors{in[0] * 2};
        });
        const auto ask = skips_layer("ask", pop("maybe"), [](const Tensors& in, SkipContext& skips) {
            EXPECT_FALSE(skips.pop("maybe").defined());
            return Tensors{in[0] * 1};
        });
        GPipe model({none, ask}, {.balance = {1, 1}, .devices = cpus(2), .chunks = 5, .checkpoint = mode});
        const at::Tensor input = samples(5).requires_grad_();
        model.forward(input).sum().backward();
        EXPECT_TRUE(torch::equal(input.grad(), torch::full_like(input, 2)));
    }
}

// In torchgpipe, the portal of such a skip never runs backward, and a later use of it fails.
TEST(Skips, MayBePoppedAndLeftUnused) {
    for (const auto mode : kModes) {
        const auto ignore = skips_layer("ignore", pop("unused"), [](const Tensors& in, SkipContext& skips) {
            skips.pop("unused");
            return Tensors{in[0] * 3};
        });
        GPipe model({stashing("unused", 6, 6), linear(6, 6), ignore},
                    {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 2, .checkpoint = mode});
        for (int step = 0; step < 2; ++step) {
            model.zero_grad();
            const at::Tensor input = samples(4).requires_grad_();
            model.forward(input).sum().backward();
            EXPECT_GT(input.grad().abs().sum().item<double>(), 0);
        }
    }
}

TEST(Skips, CarryTensorsWithoutGradient) {
    for (const auto mode : kModes) {
        const auto mask = skips_layer("mask", stash("mask"), [](const Tensors& in, SkipContext& skips) {
            skips.stash("mask", in[0] > 0);
            return Tensors{in[0] * 2};
        });
        const auto apply = skips_layer("apply", pop("mask"), [](const Tensors& in, SkipContext& skips) {
            return Tensors{in[0] * skips.pop("mask")};
        });
        GPipe model({mask, linear(6, 6), apply},
                    {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 2, .checkpoint = mode});
        const at::Tensor input = samples(4).requires_grad_();
        model.forward(input).sum().backward();
        EXPECT_TRUE(input.grad().defined());
    }
}

TEST(Skips, MayBeTheLayersInputOrOutputItself) {
    for (const auto mode : kModes) {
        const auto both =
            skips_layer("both", {.stash = {{"", "in"}, {"", "out"}}}, [](const Tensors& in, SkipContext& skips) {
                const at::Tensor out = in[0] * 2;
                skips.stash("in", in[0]);
                skips.stash("out", out);
                return Tensors{out};
            });
        const auto sum =
            skips_layer("sum", {.pop = {{"", "in"}, {"", "out"}}}, [](const Tensors& in, SkipContext& skips) {
                return Tensors{in[0] + 10 * skips.pop("in") + 100 * skips.pop("out")};
            });
        GPipe model({both, function_layer("pass", [](const Tensors& in) { return in; }), sum},
                    {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 2, .checkpoint = mode});
        const at::Tensor input = samples(4).requires_grad_();
        model.forward(input).sum().backward();
        EXPECT_TRUE(torch::equal(input.grad(), torch::full_like(input, 2 + 10 + 200)));
    }
}

// Two skips of the default and another namespace between the same partitions crash torchgpipe's constructor.
TEST(Skips, OfSeveralSpacesMayShareTheirWay) {
    const auto stash_as = [](double factor) {
        return skips_layer("stash", stash("a"), [factor](const Tensors& in, SkipContext& skips) {
            skips.stash("a", in[0] * factor);
            return in;
        });
    };
    GPipe model({stash_as(2), isolate(stash_as(30), "other"), isolate(adding("a"), "other"), adding("a")},
                {.balance = {2, 2}, .devices = cpus(2), .chunks = 2});
    const at::Tensor input = samples(4);
    EXPECT_TRUE(torch::allclose(model.forward(input), 33 * input));
}

TEST(Skips, MoveIntoASpaceByName) {
    const auto two = skips_layer("two", {.stash = {{"", "a"}, {"", "b"}}}, [](const Tensors& in, SkipContext& skips) {
        skips.stash("a", in[0]);
        skips.stash("b", in[0]);
        return in;
    });
    const auto layer = isolate(two, "space", {"b"}).make();
    EXPECT_EQ(layer->skips().stash, (std::vector<SkipName>{{"", "a"}, {"space", "b"}}));
    EXPECT_EQ(isolate(isolate(two, "one"), "two").make()->skips().stash[0], (SkipName{"two", "a"}));
}

TEST(Skips, OfAnIsolatedLayerKeepItsParametersAndKeys) {
    const GPipe model({linear(6, 6), isolate(stashing("a", 6, 6), "s"), isolate(adding("a"), "s")},
                      {.balance = {3}, .devices = cpus(1)});
    std::vector<std::string> keys;
    for (const auto& [key, tensor] : model.named_parameters()) {
        keys.push_back(key);
    }
    EXPECT_THAT(keys, testing::ElementsAre("0.weight", "0.bias", "1.weight", "1.bias"));
}

// Layers that violate their declarations.

void expect_layer_error(SkipNames names, const SkipForward& forward, const std::string& what, const std::string& way) {
    // The declarations in the model match. Only the forward violates them.
    std::vector<LayerSpec> layers = {stashing("given", 6, 6), skips_layer("wrong", names, forward)};
    if (!names.stash.empty()) {
        layers.push_back(adding(names.stash[0].name));
    }
    if (names.pop.empty()) {
        layers.push_back(adding("given"));
    }
    GPipe model(layers, {.balance = {static_cast<std::int64_t>(layers.size())}, .devices = cpus(1)});
    EXPECT_THAT(thrown<LayerError>([&] { model.forward(samples(2)); }),
                AllOf(HasSubstr("layer 1 (wrong): forward " + what), HasSubstr(way)));
    EXPECT_EQ(model.last_failure()->layer_name, "wrong");
}

TEST(SkipsRefuse, AStashThatWasNotDeclared) {
    expect_layer_error(
        {},
        [](const Tensors& in, SkipContext& skips) {
            skips.stash("x", in[0]);
            return in;
        },
        "stashes 'x'", "declare it");
}
TEST(SkipsRefuse, APopThatWasNotDeclared) {
    expect_layer_error(
        {}, [](const Tensors&, SkipContext& skips) { return Tensors{skips.pop("given")}; }, "pops 'given'",
        "declare it");
}
TEST(SkipsRefuse, AStashLeftOut) {
    expect_layer_error(
        stash("x"), [](const Tensors& in, SkipContext&) { return in; }, "left out 'x'", "undefined tensor");
}
TEST(SkipsRefuse, APopLeftOut) {
    expect_layer_error(
        pop("given"), [](const Tensors& in, SkipContext&) { return in; }, "left out 'given'", "once");
}
TEST(SkipsRefuse, AStashASecondTime) {
    expect_layer_error(
        stash("x"),
        [](const Tensors& in, SkipContext& skips) {
            skips.stash("x", in[0]);
            skips.stash("x", in[0]);
            return in;
        },
        "stashes 'x' a second time", "another name");
}
TEST(SkipsRefuse, APopASecondTime) {
    expect_layer_error(
        pop("given"),
        [](const Tensors&, SkipContext& skips) {
            skips.pop("given");
            return Tensors{skips.pop("given")};
        },
        "pops 'given' a second time", "another name");
}
TEST(SkipsRefuse, LayersThatDoNotMatch) {
    EXPECT_THAT(thrown<SkipError>(([] {
                    GPipe({stashing("a", 6, 6), adding("b")}, {.balance = {1, 1}, .devices = cpus(2)});
                })),
                AllOf(HasSubstr("'a', which no layer pops"), HasSubstr("'b', which no layer stashes")));
    EXPECT_THROW(PlainModel({adding("b")}, {}), SkipError);
}
TEST(SkipsRefuse, ALayerWithoutAFunctionAndACallOutsideAModel) {
    EXPECT_THROW(skippable_layer(nullptr, {}, nullptr), UsageError);
    EXPECT_THROW(adding("a").make()->forward({samples(2)}), UsageError);
}
}  // namespace
}  // namespace pipescope
