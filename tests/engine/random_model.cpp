#include "tests/engine/random_model.h"

#include "engine/skippable.h"
#include "tests/engine/engine_fixtures.h"

#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

namespace pipescope::testing_support {
namespace {
/// What a layer of one model has for itself.
struct LayerState {
    bool training = true;
    NamedTensors buffers;
};
/// Changes a layer's values.
using Operation = std::function<void(Tensors& values, SkipContext& skips, LayerState& state)>;
using OnMatrix = std::function<at::Tensor(const at::Tensor&)>;

class OperationLayer final : public Layer {
public:
    OperationLayer(std::vector<Operation> operations, SkipNames skips, NamedTensors parameters, int norms)
        : operations_(std::move(operations)), skips_(std::move(skips)), parameters_(std::move(parameters)) {
        for (int k = 0; k < norms; ++k) {
            const std::string norm = "norm" + std::to_string(k) + ".";
            state_.buffers.emplace_back(norm + "running_mean", torch::zeros({3}, torch::kFloat64));
            state_.buffers.emplace_back(norm + "running_var", torch::ones({3}, torch::kFloat64));
        }
    }

    Tensors forward(const Tensors&) override { throw std::logic_error("a skip-aware layer is called without skips"); }
    SkipNames skips() const override { return skips_; }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override {
        Tensors values = inputs;
        for (const Operation& operation : operations_) {
            operation(values, skips, state_);
        }
        return values;
    }
    NamedTensors parameters() const override { return parameters_; }
    NamedTensors buffers() const override { return state_.buffers; }
    void train(bool on) override { state_.training = on; }
    void to(at::ScalarType) override {}

private:
    std::vector<Operation> operations_;
    SkipNames skips_;
    NamedTensors parameters_;
    LayerState state_;
};

/// (x) -> (x + p, tanh(x) q)
class OneToTwoImpl final : public torch::nn::Module {
public:
    OneToTwoImpl(at::Tensor p, at::Tensor q)
        : p_(register_parameter("p", p, p.requires_grad())), q_(register_parameter("q", q, q.requires_grad())) {}
    std::tuple<at::Tensor, at::Tensor> forward(const at::Tensor& x) { return {x + p_, torch::tanh(x) * q_}; }

private:
    at::Tensor p_;
    at::Tensor q_;
};

/// (x, y) -> (y, x p + q, y transposed)
class TwoToThreeImpl final : public torch::nn::Module {
public:
    TwoToThreeImpl(at::Tensor p, at::Tensor q)
        : p_(register_parameter("p", p, p.requires_grad())), q_(register_parameter("q", q, q.requires_grad())) {}
    std::tuple<at::Tensor, at::Tensor, at::Tensor> forward(const at::Tensor& x, const at::Tensor& y) {
        return {y, x.matmul(p_) + q_, y.transpose(1, 2)};
    }

private:
    at::Tensor p_;
    at::Tensor q_;
};

/// x + p for each sample, in a node that is not LibTorch's: with one sample the parameter's gradient is a view.
struct AddToEach : torch::autograd::Function<AddToEach> {
    static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x, const at::Tensor& p) {
        return x + p;
    }
    static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                   torch::autograd::variable_list gradients) {
        const at::Tensor& all = gradients[0];
        return {all, all.size(0) == 1 ? all.select(0, 0) : all.sum(0)};
    }
};

class Builder {
public:
    explicit Builder(Choice& choice) : choice_(choice) {}

    RandomModel build() {
        model_.inputs = {choice_.once_in(8) ? Kind::index : Kind::matrix};
        if (choice_.once_in(4)) {
            model_.inputs.push_back(choice_.once_in(3) ? Kind::index : Kind::matrix);
        }
        kinds_ = model_.inputs;
        const int count = choice_.between(1, 8);
        for (int layer = 0; layer < count; ++layer) {
            add_layer(layer == count - 1);
        }
        model_.outputs = kinds_;
        return std::move(model_);
    }

private:
    void add_layer(bool is_last) {
        operations_.clear();
        skips_ = {};
        parameters_.clear();
        is_last_ = is_last;
        norms_ = 0;
        if (count(Kind::matrix) == 0) {
            add_look_up();
        }
        if (!is_last && choice_.once_in(8) && add_module()) {
            return;
        }
        if (is_last) {
            while (!under_way_.empty()) {
                add_pop();
            }
        }
        for (int k = choice_.below(4); k > 0; --k) {
            add_operation();
        }
        if (is_last) {
            add_outputs();
        }
        model_.layers.push_back(
            {"layer", [operations = operations_, skips = skips_, parameters = parameters_, norms = norms_] {
                 return std::make_unique<OperationLayer>(operations, skips, parameters, norms);
             }});
        under_way_.insert(under_way_.end(), stashed_here_.begin(), stashed_here_.end());
        stashed_here_.clear();
    }

    /// A module that returns a tuple; false where no module takes the values as they are.
    bool add_module() {
        const bool is_one = kinds_ == std::vector<Kind>{Kind::matrix};
        const bool are_two = kinds_ == std::vector<Kind>{Kind::matrix, Kind::matrix};
        if (!operations_.empty() || (!is_one && !are_two)) {
            return false;
        }
        const at::Tensor p = parameter({3, 3});
        const at::Tensor q = parameter({3});
        model_.layers.push_back({"module", [p, q, is_one] {
                                     return module_layer(
                                         is_one ? torch::nn::AnyModule(std::make_shared<OneToTwoImpl>(p, q))
                                                : torch::nn::AnyModule(std::make_shared<TwoToThreeImpl>(p, q)));
                                 }});
        kinds_.assign(is_one ? 2 : 3, Kind::matrix);
        return true;
    }

    /// Of numbers alone: a matrix for each.
    void add_look_up() {
        const at::Tensor table = parameter({2, 9}, Hooks::none);
        const bool stays = choice_.once_in(2);
        operations_.push_back([=](Tensors& values, SkipContext&, LayerState&) {
            values.insert(values.begin(), torch::embedding(table, values[0]).view({-1, 3, 3}));
            if (!stays) {
                values.erase(values.begin() + 1);
            }
        });
        kinds_.insert(kinds_.begin(), Kind::matrix);
        if (!stays) {
            kinds_.erase(kinds_.begin() + 1);
        }
    }

    enum class Hooks { none, allowed };
    at::Tensor parameter(at::IntArrayRef shape, Hooks hooks = Hooks::allowed) {
        if (choice_.once_in(6)) {
            for (const auto& [name, own] : parameters_) {
                if (own.sizes() == shape) {
                    return own;  // used twice in this layer
                }
            }
        }
        at::Tensor made = torch::randn(shape, torch::kFloat64) * 0.5;
        if (made.dim() == 2 && made.size(0) == made.size(1) && choice_.once_in(4)) {
            made = made.t();  // a leaf that is not contiguous
        }
        made.set_requires_grad(!choice_.once_in(5));
        if (hooks == Hooks::allowed && made.requires_grad() && choice_.once_in(16)) {
            // Not linear, so that it must see the sum over micro-batches. The driver autograd may call it without any.
            made.register_hook([](const at::Tensor& gradient) {
                return gradient.defined() ? gradient * gradient.abs() * 0.1 : gradient;
            });
        }
        parameters_.emplace_back("p" + std::to_string(model_.parameters.size()), made);
        model_.parameters.push_back(made);
        return made;
    }
    std::size_t some(Kind kind) {
        std::vector<std::size_t> those;
        for (std::size_t k = 0; k < kinds_.size(); ++k) {
            if (kinds_[k] == kind) {
                those.push_back(k);
            }
        }
        return those[static_cast<std::size_t>(choice_.below(static_cast<int>(those.size())))];
    }
    int count(Kind kind) const { return static_cast<int>(std::count(kinds_.begin(), kinds_.end(), kind)); }

    void on(std::size_t place, OnMatrix function) {
        operations_.push_back([place, function = std::move(function)](Tensors& values, SkipContext&, LayerState&) {
            values[place] = function(values[place]);
        });
    }
    void push(std::size_t from, Kind kind, OnMatrix function) {
        operations_.push_back([from, function = std::move(function)](Tensors& values, SkipContext&, LayerState&) {
            values.push_back(function(values[from]));
        });
        kinds_.push_back(kind);
    }

    void add_operation() {
        switch (choice_.below(15)) {
            case 0:
            case 1:
            case 2: add_parameter(); break;
            case 14: add_norm(); break;
            case 3: add_shape(); break;
            case 4: add_elementwise(); break;
            case 5: add_in_place(); break;
            case 6: add_branch(); break;
            case 7: add_merge(); break;
            case 8: add_rearranged_values(); break;
            case 9: add_expand(); break;
            case 10: add_odd_node(); break;
            case 11: add_index(); break;
            case 12: add_stash(); break;
            case 13: add_pop(); break;
        }
    }

    void add_parameter() {
        const std::size_t at = some(Kind::matrix);
        switch (choice_.below(16)) {
            case 0:
            case 1: return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return x + p.unsqueeze(0); });
            case 2: return on(at, [p = parameter({1, 3, 3})](const at::Tensor& x) { return x - p.expand_as(x); });
            case 3: return on(at, [p = parameter({3})](const at::Tensor& x) { return x + p; });
            case 4: return on(at, [p = parameter({})](const at::Tensor& x) { return x + p; });
            case 5: return on(at, [p = parameter({1, 1, 1})](const at::Tensor& x) { return p + x; });
            case 6: return on(at, [p = parameter({9})](const at::Tensor& x) { return x + p.view({1, 3, 3}); });
            case 7: return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return x + p.t().unsqueeze(0); });
            case 8: return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return x.matmul(p); });
            case 9:
                return on(at, [p = parameter({3, 3}), b = parameter({3})](const at::Tensor& x) {
                    return torch::linear(x, p, b);
                });
            case 10: return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return x + p + p.t(); });
            case 11:
                return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return x.matmul(p).matmul(p) * 0.1; });
            case 12: parameter({3}); return;  // used by nobody
            case 13:
                return on(at, [w = parameter({3, 3}), b = parameter({3, 3})](const at::Tensor& x) {
                    return torch::layer_norm(x, {3, 3}, w, b);
                });
            case 14:
                return on(at, [p = parameter({1, 3})](const at::Tensor& x) {
                    return torch::cat({p.expand({x.size(0), 1, 3}), x.narrow(1, 1, 2)}, 1);
                });
            case 15:
                return on(at, [p = parameter({2, 3, 3})](const at::Tensor& x) {
                    return x + p.select(0, 0).unsqueeze(0) + p.narrow(0, 1, 1);
                });
        }
    }

    void add_shape() {
        const std::size_t at = some(Kind::matrix);
        switch (choice_.below(9)) {
            case 0: return on(at, [](const at::Tensor& x) { return x.transpose(1, 2); });
            case 1: return on(at, [](const at::Tensor& x) { return x.reshape({x.size(0), 9}).view({-1, 3, 3}); });
            case 2: return on(at, [](const at::Tensor& x) { return x.contiguous(); });
            case 3: return on(at, [](const at::Tensor& x) { return torch::stack(x.unbind(1), 2); });
            case 4:
                return on(at, [](const at::Tensor& x) {
                    const Tensors parts = x.chunk(3, 1);
                    return torch::cat({parts[2], parts[0], parts[1]}, 1);
                });
            case 5: return on(at, [](const at::Tensor& x) { return x.flip({1}); });
            case 6: return on(at, [](const at::Tensor& x) { return x.squeeze(0).view(x.sizes()); });
            case 7: return on(at, [](const at::Tensor& x) { return x.view_as(x); });
            case 8:
                return on(at, [](const at::Tensor& x) { return x.permute({1, 2, 0}).contiguous().permute({2, 0, 1}); });
        }
    }

    void add_elementwise() {
        const std::size_t at = some(Kind::matrix);
        switch (choice_.below(6)) {
            case 0: return on(at, [](const at::Tensor& x) { return torch::tanh(x); });
            case 1: return on(at, [](const at::Tensor& x) { return torch::relu(x) + x * 0.1; });
            case 2: return on(at, [](const at::Tensor& x) { return x * 1.5; });
            case 3: return on(at, [](const at::Tensor& x) { return torch::sin(x); });
            case 4: return on(at, [](const at::Tensor& x) { return x.softmax(1); });
            case 5:
                model_.draws = true;
                operations_.push_back([at](Tensors& values, SkipContext&, LayerState& state) {
                    values[at] = torch::dropout(values[at], 0.4, state.training);
                });
                return;
        }
    }

    void add_norm() {
        const std::size_t at = some(Kind::matrix);
        const auto buffer = static_cast<std::size_t>(2 * norms_++);
        model_.normalises = true;
        operations_.push_back(
            [=, w = parameter({3}), b = parameter({3})](Tensors& values, SkipContext&, LayerState& state) {
                values[at] = torch::batch_norm(values[at], w, b, state.buffers[buffer].second,
                                               state.buffers[buffer + 1].second, state.training, 0.2, 1e-3, false);
            });
    }

    void add_in_place() {
        const std::size_t at = some(Kind::matrix);
        if (!shows_parameters_ && choice_.once_in(8)) {
            model_.changes_inputs = true;
            switch (choice_.below(3)) {
                case 0: return on(at, [](at::Tensor x) { return x.mul_(1.2); });
                case 1: return on(at, [p = parameter({3, 3})](at::Tensor x) { return x.add_(p.unsqueeze(0)); });
                case 2: return on(at, [](at::Tensor x) { return torch::tanh_(x); });
            }
        }
        switch (choice_.below(4)) {
            case 0: return on(at, [](const at::Tensor& x) { return (x * 1.5).tanh_(); });
            case 1:
                return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return (x + 1).mul_(p.unsqueeze(0)); });
            case 2:
                return on(at, [p = parameter({3})](const at::Tensor& x) {
                    at::Tensor y = x.clone();
                    y.select(1, 0).add_(p);
                    return y;
                });
            case 3:
                return on(at, [p = parameter({3, 3})](const at::Tensor& x) {
                    at::Tensor y = torch::zeros_like(x);
                    y.copy_(p.unsqueeze(0).expand_as(x));
                    return y.add_(x);
                });
        }
    }

    void add_branch() {
        if (kinds_.size() > 3) {
            return;
        }
        const std::size_t at = some(Kind::matrix);
        switch (choice_.below(7)) {
            case 0:
            case 1: return push(at, Kind::matrix, [](const at::Tensor& x) { return x; });
            case 2: return push(at, Kind::matrix, [](const at::Tensor& x) { return x.transpose(1, 2); });
            case 3: return push(at, Kind::matrix, [](const at::Tensor& x) { return x.view_as(x); });
            case 4: return push(at, Kind::matrix, [](const at::Tensor& x) { return x.detach(); });
            case 5:
                if (model_.changes_inputs) {
                    return;  // it could change the parameter
                }
                shows_parameters_ = true;
                return push(at, Kind::matrix, [p = parameter({3, 3})](const at::Tensor& x) {
                    return p.unsqueeze(0).expand({x.size(0), 3, 3});
                });
            case 6: return push(at, Kind::matrix, [p = parameter({3, 3})](const at::Tensor& x) { return x * p; });
        }
    }

    void add_merge() {
        if (count(Kind::matrix) < 2) {
            return;
        }
        const std::size_t gone = some(Kind::matrix);
        const Kind kind = kinds_[gone];
        kinds_[gone] = Kind::summary;  // not to be chosen
        const std::size_t into = some(Kind::matrix);
        kinds_[gone] = kind;
        const int how = choice_.below(6);
        const bool stays = choice_.once_in(3);
        operations_.push_back([=](Tensors& values, SkipContext&, LayerState&) {
            const at::Tensor& x = values[into];
            const at::Tensor& y = values[gone];
            const auto merged = [&] {
                switch (how) {
                    case 0: return x + y;
                    case 1: return x - y;
                    case 2: return x * torch::tanh(y);
                    case 3: return torch::cat({x.narrow(1, 0, 1), y.narrow(1, 1, 2)}, 1);
                    case 4: return torch::where(x.gt(0), x, y);
                    default: return x.matmul(y) * 0.3;
                }
            };
            values[into] = merged();
            if (!stays) {
                values.erase(values.begin() + static_cast<std::ptrdiff_t>(gone));
            }
        });
        if (!stays) {
            kinds_.erase(kinds_.begin() + static_cast<std::ptrdiff_t>(gone));
        }
    }

    void add_rearranged_values() {
        if (kinds_.size() < 2) {
            return;
        }
        const auto place = static_cast<std::size_t>(choice_.between(1, static_cast<int>(kinds_.size()) - 1));
        if (kinds_[place] == Kind::matrix && choice_.once_in(2)) {
            std::swap(kinds_[0], kinds_[place]);
            operations_.push_back(
                [place](Tensors& values, SkipContext&, LayerState&) { std::swap(values[0], values[place]); });
        } else if (kinds_[place] != Kind::matrix || count(Kind::matrix) > 1) {
            kinds_.erase(kinds_.begin() + static_cast<std::ptrdiff_t>(place));
            operations_.push_back([place](Tensors& values, SkipContext&, LayerState&) {
                values.erase(values.begin() + static_cast<std::ptrdiff_t>(place));
            });
        }
    }

    void add_expand() {
        const std::size_t at = some(Kind::matrix);
        switch (choice_.below(4)) {
            case 0: return on(at, [](const at::Tensor& x) { return x.mean(1, true).expand_as(x); });
            case 1: return on(at, [](const at::Tensor& x) { return x.sum(0, true).expand_as(x) * 0.2; });
            case 2: return on(at, [](const at::Tensor& x) { return x + x.select(1, 1).unsqueeze(1).expand_as(x); });
            case 3: return on(at, [](const at::Tensor& x) { return x.sum(0, true).expand_as(x); });
        }
    }

    /// What torch's engine must run: hooks, and nodes that are not LibTorch's.
    void add_odd_node() {
        const std::size_t at = some(Kind::matrix);
        switch (choice_.below(3)) {
            case 0: return on(at, [p = parameter({3, 3})](const at::Tensor& x) { return AddToEach::apply(x, p); });
            case 1:
                return on(at, [](const at::Tensor& x) {
                    const at::Tensor y = x * 0.9;
                    if (y.requires_grad()) {
                        y.register_hook([](const at::Tensor& gradient) { return gradient; });
                    }
                    return y;
                });
            case 2:
                return on(at, [](const at::Tensor& x) {
                    const at::Tensor y = x * 0.9;
                    if (y.requires_grad()) {
                        y.retain_grad();
                    }
                    return y;
                });
        }
    }

    void add_index() {
        const std::size_t at = some(Kind::matrix);
        if (count(Kind::index) == 0) {
            if (kinds_.size() < 4) {
                push(at, Kind::index,
                     [](const at::Tensor& x) { return x.detach().select(1, 0).select(1, 0).gt(0).to(torch::kLong); });
            }
            return;
        }
        const std::size_t index = some(Kind::index);
        const bool sparse = choice_.once_in(3);
        const at::Tensor table = parameter({2, 3}, Hooks::none);
        operations_.push_back([=](Tensors& values, SkipContext&, LayerState&) {
            values[at] = values[at] +
                         torch::embedding(table.contiguous(), values[index], -1, false, sparse && table.is_contiguous())
                             .unsqueeze(1);
        });
    }

    void add_stash() {
        const std::string name = "s" + std::to_string(next_skip_);
        if (is_last_ || under_way_.size() > 2) {
            return;
        }
        ++next_skip_;
        skips_.stash.push_back({"", name});
        stashed_here_.push_back(name);
        const std::size_t at = some(Kind::matrix);
        const int how = choice_.below(5);
        operations_.push_back([=](Tensors& values, SkipContext& skips, LayerState&) {
            const at::Tensor& x = values[at];
            switch (how) {
                case 0: return skips.stash(name, x.transpose(1, 2));
                case 1: return skips.stash(name, x * 2);
                case 2: return skips.stash(name, x.size(0) % 2 == 0 ? x : at::Tensor());
                default: return skips.stash(name, x);
            }
        });
    }

    void add_pop() {
        if (under_way_.empty()) {
            return;
        }
        const auto which = choice_.below(static_cast<int>(under_way_.size()));
        const std::string name = under_way_[static_cast<std::size_t>(which)];
        if (std::ranges::any_of(skips_.pop, [&](const SkipName& each) { return each.name == name; })) {
            return;
        }
        if (is_last_ || !choice_.once_in(3)) {  // else a later layer pops it too
            under_way_.erase(under_way_.begin() + which);
        }
        skips_.pop.push_back({"", name});
        const std::size_t at = some(Kind::matrix);
        const int how = kinds_.size() > 3 ? 0 : choice_.below(3);
        operations_.push_back([=](Tensors& values, SkipContext& skips, LayerState&) {
            const at::Tensor skip = skips.pop(name);
            if (how == 0 && skip.defined()) {
                values[at] = values[at] + skip;
            } else if (how == 1) {
                values.push_back(skip.defined() ? skip : values[at] * 3);
            }  // else popped for nothing
        });
        if (how == 1) {
            kinds_.push_back(Kind::matrix);
        }
    }

    void add_outputs() {
        if (choice_.once_in(6)) {
            push(some(Kind::matrix), Kind::auxiliary, [](const at::Tensor& x) { return x.mean().reshape({1}); });
        }
        if (choice_.once_in(10)) {
            push(some(Kind::matrix), Kind::auxiliary, [p = parameter({2})](const at::Tensor&) { return p; });
        }
        if (choice_.once_in(8)) {
            push(some(Kind::matrix), Kind::summary, [](const at::Tensor& x) { return x.sum({1, 2}); });
        }
    }

    Choice& choice_;
    RandomModel model_;
    std::vector<Kind> kinds_;
    std::vector<std::string> under_way_;     // stashed by earlier layers
    std::vector<std::string> stashed_here_;  // by the layer being made
    int next_skip_ = 0;
    bool shows_parameters_ = false;  // as values between layers
    bool is_last_ = false;           // of the layer being made
    int norms_ = 0;                  // of the layer being made
    std::vector<Operation> operations_;
    SkipNames skips_;
    NamedTensors parameters_;
};
}  // namespace

RandomModel random_model(Choice& choice) {
    return Builder(choice).build();
}
}  // namespace pipescope::testing_support
