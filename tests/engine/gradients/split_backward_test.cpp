#include "engine/current_task.h"
#include "engine/gradients/micro_batch_graph.h"
#include "tests/engine/engine_fixtures.h"
#include "tests/thrown.h"

#include <ATen/SequenceNumber.h>
#include <gmock/gmock.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using LayerForward = std::function<at::Tensor(const at::Tensor&)>;

at::Tensor split_weight(at::IntArrayRef sizes) {
    return torch::randn(sizes, torch::kFloat64).requires_grad_();
}

/// y = x · w, of a user.
struct UsersProduct : torch::autograd::Function<UsersProduct> {
    static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
        context->save_for_backward({x, w});
        return x.mm(w);
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        const auto saved = context->get_saved_variables();
        return {gradients[0].mm(saved[1].t()), saved[0].t().mm(gradients[0])};
    }
};

/// Two outputs, of a user: x · w by element, and the sums of the rows.
struct UsersPair : torch::autograd::Function<UsersPair> {
    static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                                                  const at::Tensor& w) {
        context->save_for_backward({x, w});
        context->set_materialize_grads(false);
        return {x * w, x.sum(1, true)};
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                   torch::autograd::variable_list gradients) {
        const auto saved = context->get_saved_variables();
        const at::Tensor& product = gradients[0];
        const at::Tensor& sum = gradients[1];
        at::Tensor of_x = product.defined() ? product * saved[1] : at::Tensor();
        if (sum.defined()) {
            of_x = of_x.defined() ? of_x + sum : sum.expand_as(saved[0]);
        }
        return {of_x, product.defined() ? (product * saved[0]).sum(0) : at::Tensor()};
    }
};

/// Passes its input on, and no gradient back, of a user.
struct UsersEnd : torch::autograd::Function<UsersEnd> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 1; }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*, torch::autograd::variable_list) {
        return {at::Tensor()};
    }
};

/// Layers as a lane runs them, in one partition.
class SplitChain {
public:
    explicit SplitChain(std::vector<LayerForward> layers, std::vector<at::Tensor> weights)
        : layers_(std::move(layers)), weights_(std::move(weights)) {}

    /// `needs`: the input requires a gradient.
    void forward(const at::Tensor& input, bool needs = true) {
        at::Tensor x = graph_.open({input.detach().set_requires_grad(needs)})[0];
        for (const LayerForward& layer : layers_) {
            marks_.push_back(at::sequence_number::peek());
            x = layer(x);
        }
        graph_.close({x});
        output_ = x.detach();
    }
    Tensors first_half() {
        notes_.resize(layers_.size());
        return graph_.backward_inputs({gradient()}, marks_, notes_);
    }
    void second_half() { graph_.backward_weights(); }
    Tensors whole() { return graph_.backward({gradient()}); }

    Tensors take_gradients() {
        Tensors gradients;
        for (const at::Tensor& each : weights_) {
            gradients.push_back(each.grad());
            each.mutable_grad() = at::Tensor();
        }
        return gradients;
    }
    int num_ready() const {
        return static_cast<int>(
            std::count_if(weights_.begin(), weights_.end(), [](const auto& each) { return each.grad().defined(); }));
    }
    const SplitNotes& notes() const { return notes_; }

private:
    at::Tensor gradient() const { return torch::sin(torch::arange(output_.numel(), torch::kFloat64)).view_as(output_); }

    std::vector<LayerForward> layers_;
    std::vector<at::Tensor> weights_;
    MicroBatchGraph graph_;
    LayerMarks marks_;
    SplitNotes notes_;
    at::Tensor output_;
};

void expect_same_bits(const Tensors& actual, const Tensors& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t k = 0; k < actual.size(); ++k) {
        ASSERT_EQ(actual[k].defined(), expected[k].defined()) << k;
        EXPECT_TRUE(!actual[k].defined() || torch::equal(actual[k], expected[k])) << k;
    }
}

/// Expects what the whole backward gives, bit for bit. `later`: how many weights wait for the second half.
SplitNotes expect_split(const std::vector<LayerForward>& layers, const std::vector<at::Tensor>& weights,
                        const at::Tensor& input, int later, bool needs = true) {
    SplitChain plain(layers, weights);
    plain.forward(input, needs);
    const Tensors inputs = plain.whole();
    const Tensors expected = plain.take_gradients();

    SplitChain split(layers, weights);
    split.forward(input, needs);
    expect_same_bits(split.first_half(), inputs);
    EXPECT_EQ(split.num_ready(), static_cast<int>(weights.size()) - later);
    split.second_half();
    expect_same_bits(split.take_gradients(), expected);
    return split.notes();
}

LayerForward linear_by(const at::Tensor& w, const at::Tensor& b) {
    return [w, b](const at::Tensor& x) { return torch::linear(x, w, b); };
}

const LayerForward kReluLayer = [](const at::Tensor& x) { return torch::relu(x); };

TEST(SplitBackward, LeavesWeightsOfLinearLayersToTheSecondHalf) {
    const at::Tensor w1 = split_weight({5, 4});
    const at::Tensor b1 = split_weight({5});
    const at::Tensor w2 = split_weight({3, 5});
    const at::Tensor b2 = split_weight({3});
    const SplitNotes notes = expect_split({linear_by(w1, b1), kReluLayer, linear_by(w2, b2)}, {w1, b1, w2, b2},
                                          torch::randn({6, 4}, torch::kFloat64), 4);
    EXPECT_TRUE(notes[0].has_weights_later);
    EXPECT_FALSE(notes[1].has_weights_later);
    EXPECT_THAT(notes[0].whole, IsEmpty());
    // Three dimensions: a view, addmm and a view; without a bias: mm.
    expect_split({linear_by(w1, b1), linear_by(w2, {})}, {w1, b1, w2}, torch::randn({2, 3, 4}, torch::kFloat64), 3);
}

TEST(SplitBackward, LeavesWeightsOfConvolutionsToTheSecondHalf) {
    const at::Tensor w = split_weight({4, 3, 3, 3});
    const at::Tensor b = split_weight({4});
    const at::Tensor up = split_weight({4, 2, 2, 2});
    expect_split({[=](const at::Tensor& x) { return torch::conv2d(x, w, b, 1, 1); }, kReluLayer,
                  [=](const at::Tensor& x) { return torch::conv_transpose2d(x, up); }},
                 {w, b, up}, torch::randn({2, 3, 6, 6}, torch::kFloat64), 3);
}

TEST(SplitBackward, RunsFusedNodesWholeAndSaysSo) {
    const at::Tensor w = split_weight({4, 4});
    const at::Tensor scale = split_weight({4});
    const at::Tensor shift = split_weight({4});
    const SplitNotes notes = expect_split(
        {[=](const at::Tensor& x) { return torch::layer_norm(x, {4}, scale, shift); }, linear_by(w, {}),
         [=](const at::Tensor& x) { return torch::batch_norm(x, scale, shift, {}, {}, true, 0.1, 1e-5, false); }},
        {w, scale, shift}, torch::randn({6, 4}, torch::kFloat64), 1);
    EXPECT_THAT(notes[0].whole, ElementsAre("NativeLayerNormBackward0"));
    EXPECT_FALSE(notes[0].has_weights_later);
    EXPECT_TRUE(notes[1].has_weights_later);
    EXPECT_THAT(notes[2].whole, ElementsAre("NativeBatchNormBackward0"));
}

TEST(SplitBackward, RunsUsersNodesWholeAndSaysSo) {
    const at::Tensor w = split_weight({4, 4});
    const at::Tensor own = split_weight({4, 4});
    const SplitNotes notes = expect_split(
        {linear_by(w, {}), [=](const at::Tensor& x) { return UsersProduct::apply(x, own); }, linear_by(w, {})},
        {w, own}, torch::randn({6, 4}, torch::kFloat64), 1);
    EXPECT_THAT(notes[1].whole, ElementsAre(HasSubstr("UsersProduct")));
    EXPECT_FALSE(notes[1].has_weights_later);
    EXPECT_TRUE(notes[0].has_weights_later);
}

TEST(SplitBackward, RunsUsersNodesOfWhichNotEachOutputHasAGradient) {
    const at::Tensor w = split_weight({4, 4});
    const at::Tensor own = split_weight({4});
    const at::Tensor input = torch::randn({6, 4}, torch::kFloat64);
    const auto pair = [=](const at::Tensor& x) { return UsersPair::apply(x, own); };
    expect_split({linear_by(w, {}), [=](const at::Tensor& x) { return pair(x)[0]; }, linear_by(w, {})}, {w, own}, input,
                 1);
    expect_split({linear_by(w, {}), [=](const at::Tensor& x) { return pair(x)[1] + x; }, linear_by(w, {})}, {w}, input,
                 1);
    expect_split({linear_by(w, {}), [=](const at::Tensor& x) { return UsersEnd::apply(pair(x)[0]) + x; }}, {w}, input,
                 1);
}

TEST(SplitBackward, CallsHooksOnceAndLeavesTheirNodesWhole) {
    const at::Tensor w = split_weight({4, 4});
    int calls = 0;
    const SplitNotes notes = expect_split({linear_by(w, {}),
                                           [&](const at::Tensor& x) {
                                               const at::Tensor y = torch::mm(x, w);
                                               y.register_hook([&](const at::Tensor& gradient) {
                                                   ++calls;
                                                   return gradient * 2;
                                               });
                                               return torch::tanh(y);
                                           }},
                                          {w}, torch::randn({6, 4}, torch::kFloat64), 1);
    EXPECT_EQ(calls, 2) << "in the whole backward and in the split one";
    EXPECT_THAT(notes[1].whole, ElementsAre("MmBackward0"));
}

// The first partition: nobody needs the gradient of its input, and still its later layers' weights can wait.
TEST(SplitBackward, SplitsAtLayersWhereTheInputNeedsNoGradient) {
    const at::Tensor w1 = split_weight({4, 4});
    const at::Tensor w2 = split_weight({4, 4});
    SplitChain chain({linear_by(w1, {}), kReluLayer, linear_by(w2, {})}, {w1, w2});
    chain.forward(torch::randn({6, 4}, torch::kFloat64), false);
    chain.first_half();
    EXPECT_TRUE(chain.notes()[0].has_weights_later);
    EXPECT_TRUE(chain.notes()[2].has_weights_later);
    EXPECT_EQ(chain.num_ready(), 0);
    const at::Tensor table = split_weight({5, 4});
    expect_split({[=](const at::Tensor& x) { return torch::embedding(table, x.to(torch::kLong).abs() % 5).sum(1); },
                  linear_by(w1, {})},
                 {table, w1}, torch::arange(12, torch::kFloat64).view({3, 4}), 2, false);
}

TEST(SplitBackward, AddsUpWeightsThatAreUsedTwice) {
    const at::Tensor w = split_weight({4, 4});
    const at::Tensor scale = split_weight({4});
    // By two products; by a product and a fused node; and behind a computation of its own.
    expect_split({linear_by(w, {}), kReluLayer, linear_by(w, {})}, {w}, torch::randn({6, 4}, torch::kFloat64), 1);
    expect_split({linear_by(w, scale), [=](const at::Tensor& x) { return torch::layer_norm(x, {4}, scale); }},
                 {w, scale}, torch::randn({6, 4}, torch::kFloat64), 2);
    const at::Tensor length = split_weight({4, 1});
    expect_split({[=](const at::Tensor& x) { return torch::mm(x, length * w / w.norm()); }, kReluLayer}, {w, length},
                 torch::randn({6, 4}, torch::kFloat64), 2);
}

TEST(SplitBackward, LeavesFrozenWeightsAlone) {
    const at::Tensor frozen = split_weight({4, 4}).set_requires_grad(false);
    const at::Tensor w = split_weight({4, 4});
    const SplitNotes notes = expect_split({linear_by(frozen, {}), linear_by(w, {}), linear_by(frozen, {})}, {w},
                                          torch::randn({6, 4}, torch::kFloat64), 1);
    EXPECT_FALSE(notes[0].has_weights_later);
    EXPECT_FALSE(notes[2].has_weights_later);
}

TEST(SplitBackward, KeepsOnlyWhatTheWeightsNeed) {
    const at::Tensor w = split_weight({4, 4});
    using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;
    std::optional<WeakStorage> of_tanh;
    std::optional<WeakStorage> of_product;
    SplitChain chain({[&](const at::Tensor& x) {
                          const at::Tensor y = torch::tanh(x) * 1;  // tanh keeps its output, the product its input
                          of_product.emplace(y.storage().getWeakStorageImpl());
                          return torch::mm(y, w);
                      },
                      [&](const at::Tensor& x) {
                          const at::Tensor y = torch::tanh(x);
                          of_tanh.emplace(y.storage().getWeakStorageImpl());
                          return y * 1;
                      }},
                     {w});
    chain.forward(torch::randn({6, 4}, torch::kFloat64));
    EXPECT_FALSE(of_tanh->expired());
    chain.first_half();
    EXPECT_TRUE(of_tanh->expired());
    EXPECT_FALSE(of_product->expired());
    chain.second_half();
    EXPECT_TRUE(of_product->expired());
}

TEST(SplitBackward, ReportsWithAnomalyDetectionWhichNodeMadeNoNumber) {
    const torch::autograd::DetectAnomalyGuard anomaly;
    const at::Tensor w = split_weight({4, 4});
    SplitChain chain({[=](const at::Tensor& x) { return torch::sqrt(torch::mm(x, w) * 0); }}, {w});
    chain.forward(torch::randn({6, 4}, torch::kFloat64));
    EXPECT_THAT(thrown<std::exception>([&] { chain.first_half(); }), HasSubstr("nan"));
}

// ---- Steps ----

struct HalfDefect : std::runtime_error {
    HalfDefect() : std::runtime_error("defect") {}
};

/// y = w; backward throws in the task of the given kind.
struct FailsInHalf : torch::autograd::Function<FailsInHalf> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& w) { return w.clone(); }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list gradients) {
        if (armed() && current_task()->key.micro_batch == 1) {
            throw HalfDefect();
        }
        return gradients;
    }
    static bool& armed() {
        static bool on = true;
        return on;
    }
};

LayerSpec weighted_layer(std::string name, const at::Tensor& w, const FunctionLayer::Function& function) {
    return {std::move(name), [=] { return std::make_unique<FunctionLayer>(function, NamedTensors{{"w", w}}); }};
}

TEST(SplitBackward, PassesExceptionsOfEitherHalfToTheCaller) {
    for (const TaskKind kind : {TaskKind::backward, TaskKind::backward_weight}) {
        FailsInHalf::armed() = true;
        const at::Tensor w = split_weight({6, 6});
        const LayerSpec failing = weighted_layer("failing", w, [=](const Tensors& in) {
            return kind == TaskKind::backward ? Tensors{FailsInHalf::apply(torch::mm(in[0], w))}
                                              : Tensors{torch::mm(in[0], FailsInHalf::apply(w))};
        });
        GPipe model({linear(6, 6), failing, linear(6, 4)},
                    {.balance = {1, 1, 1}, .devices = cpus(3), .chunks = 3, .schedule = Schedule::zero_bubble_h1});
        EXPECT_THROW(model.step(samples(6), samples(6, 4), mean_square), HalfDefect);
        EXPECT_EQ(model.last_failure()->task, (TaskKey{0, kind, 1, 1, -1}));
        EXPECT_EQ(model.last_failure()->layer_name, "failing");
        FailsInHalf::armed() = false;
        model.zero_grad();
        EXPECT_TRUE(std::isfinite(model.step(samples(6), samples(6, 4), mean_square).item<double>()));
    }
}

// Torch's engine runs a node with a hook. That of a changed view holds another node with edges of its own.
TEST(SplitBackward, RunsChangesOfViewsThatHaveHooks) {
    const auto gradient = [](Schedule schedule) {
        torch::manual_seed(4);
        const at::Tensor w = split_weight({6, 6});
        const LayerSpec changing = weighted_layer("changing", w, [w](const Tensors& in) {
            const at::Tensor y = in[0].mm(w);
            y.select(1, 0).add_(in[0].select(1, 1));
            y.register_hook([](const at::Tensor& of_y) { return of_y * 2; });
            return Tensors{y};
        });
        GPipe model({linear(6, 6), changing}, {.balance = {1, 1},
                                               .devices = cpus(2),
                                               .chunks = 2,
                                               .checkpoint = Checkpoint::never,
                                               .schedule = schedule});
        model.step(samples(6), samples(6), mean_square);
        return w.grad();
    };
    EXPECT_TRUE(at::equal(gradient(Schedule::zero_bubble_h1), gradient(Schedule::one_f_one_b)));
}

/// y = x; the backward adds noise, and keeps it by kind of task.
struct AddsNoise : torch::autograd::Function<AddsNoise> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.clone(); }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list gradients) {
        const at::Tensor noise = at::randn_like(gradients[0]);
        drawn()[current_task()->key.kind] = noise;
        return {gradients[0] + noise};
    }
    static std::map<TaskKind, at::Tensor>& drawn() {
        static std::map<TaskKind, at::Tensor> by_kind;
        return by_kind;
    }
};

TEST(SplitBackward, DrawsNoNumberTwice) {
    const auto draw = [](Schedule schedule, bool in_first, bool in_second) {
        AddsNoise::drawn().clear();
        const at::Tensor w = split_weight({6, 6});
        const LayerSpec noisy = weighted_layer("noisy", w, [=](const Tensors& in) {
            const at::Tensor product = in[0].mm(in_second ? AddsNoise::apply(w) : w);
            return Tensors{in_first ? AddsNoise::apply(product) : product};
        });
        GPipe model({linear(6, 6), noisy},
                    {.balance = {1, 1}, .devices = cpus(2), .chunks = 1, .schedule = schedule, .seed = 5});
        model.step(samples(6), samples(6), mean_square);
        return AddsNoise::drawn();
    };
    auto both = draw(Schedule::zero_bubble_h1, true, true);
    EXPECT_FALSE(at::equal(both.at(TaskKind::backward), both.at(TaskKind::backward_weight)));
    const at::Tensor whole = draw(Schedule::one_f_one_b, true, false).at(TaskKind::backward);
    EXPECT_TRUE(at::equal(draw(Schedule::zero_bubble_h1, true, false).at(TaskKind::backward), whole));
    EXPECT_TRUE(at::equal(draw(Schedule::zero_bubble_h1, false, true).at(TaskKind::backward_weight),
                          draw(Schedule::one_f_one_b, false, true).at(TaskKind::backward)));
}

TEST(SplitBackward, GivesTheGradientsOfOneForwardOneBackwardBitForBit) {
    const auto gradients = [](Schedule schedule, Checkpoint mode) {
        torch::manual_seed(1);
        GPipe model(tuple_model(), {.balance = {2, 2, 1},
                                    .devices = cpus(3),
                                    .chunks = 5,
                                    .checkpoint = mode,
                                    .schedule = schedule,
                                    .seed = 4});
        torch::manual_seed(2);
        const at::Tensor input = samples(8);
        model.step(input, samples(8, 4), mean_square);
        return gradients_of(model.named_parameters());
    };
    for (const Checkpoint mode : {Checkpoint::always, Checkpoint::except_last, Checkpoint::never}) {
        const NamedTensors expected = gradients(Schedule::one_f_one_b, mode);
        const NamedTensors actual = gradients(Schedule::zero_bubble_h1, mode);
        ASSERT_EQ(actual.size(), expected.size());
        for (std::size_t k = 0; k < actual.size(); ++k) {
            EXPECT_TRUE(torch::equal(actual[k].second, expected[k].second)) << actual[k].first;
        }
    }
}
}  // namespace
}  // namespace pipescope
