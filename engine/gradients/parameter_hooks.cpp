#include "engine/gradients/parameter_hooks.h"

#include "engine/gradients/leaf_gradients.h"
#include "engine/torch_internals.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipescope {
namespace {
using torch::autograd::FunctionPostHook;
using torch::autograd::FunctionPreHook;
using torch::autograd::PostAccumulateGradHook;
using torch::autograd::variable_list;
using PreHooks = std::vector<std::unique_ptr<FunctionPreHook>>;
using PostHooks = std::vector<std::unique_ptr<FunctionPostHook>>;

/// Calls a parameter's hooks only if there is a gradient.
class UnlessUndefined final : public FunctionPreHook {
public:
    explicit UnlessUndefined(PreHooks hooks) : hooks_(std::move(hooks)) {}
    variable_list operator()(const variable_list& gradients) override {
        variable_list changed = gradients;
        if (changed.front().defined()) {
            for (const auto& hook : hooks_) {
                changed = (*hook)(changed);
            }
        }
        return changed;
    }

private:
    PreHooks hooks_;
};

bool calls_unless_undefined(const PreHooks& hooks) {
    return hooks.size() == 1 && dynamic_cast<const UnlessUndefined*>(hooks.front().get()) != nullptr;
}

/// Puts the taken hooks in front of any registered meanwhile.
template <class Hooks>
void put_in_front(Hooks& hooks, Hooks& taken) {
    hooks.insert(hooks.begin(), std::make_move_iterator(taken.begin()), std::make_move_iterator(taken.end()));
    taken.clear();
}
}  // namespace

bool has_hooks(const at::Tensor& parameter) {
    const auto node = torch::autograd::impl::try_get_grad_accumulator(parameter);
    return !torch::autograd::impl::hooks(parameter).empty() || torch::autograd::impl::post_acc_grad_hooks(parameter) ||
           (node && (has_pre_hooks(*node) || !node->post_hooks().empty()));
}

struct SummedForHooks::Parameter {
    std::size_t place;  // index in the list of parameters
    at::Tensor tensor;
    at::Tensor gradient_before;
    PreHooks hooks;
    std::unique_ptr<PostAccumulateGradHook> after_accumulation;
    NodePtr<> accumulator;  // null if there is none; then it has no hook either
    PreHooks before_node;
    PostHooks after_node;
};

SummedForHooks::SummedForHooks(const std::vector<at::Tensor>& parameters, bool all) : count_(parameters.size()) {
    for (std::size_t k = 0; k < count_; ++k) {
        const at::Tensor& tensor = parameters[k];
        if (!all && !has_hooks(tensor)) {
            continue;
        }
        const auto node = torch::autograd::impl::try_get_grad_accumulator(tensor);
        hooked_.push_back(
            std::make_unique<Parameter>(Parameter{k, tensor, std::exchange(tensor.mutable_grad(), {}),
                                                  std::exchange(torch::autograd::impl::hooks(tensor), {}),
                                                  std::move(torch::autograd::impl::post_acc_grad_hooks(tensor)), node,
                                                  node ? std::exchange(node->pre_hooks(), {}) : PreHooks{},
                                                  node ? std::exchange(node->post_hooks(), {}) : PostHooks{}}));
    }
}

SummedForHooks::~SummedForHooks() {
    put_back();
}

void SummedForHooks::put_back() {
    for (const auto& each : hooked_) {
        if (!each->hooks.empty() && !calls_unless_undefined(each->hooks)) {
            auto wrapped = std::make_unique<UnlessUndefined>(std::exchange(each->hooks, {}));
            each->hooks.push_back(std::move(wrapped));
        }
        put_in_front(torch::autograd::impl::hooks(each->tensor), each->hooks);
        if (each->after_accumulation) {
            torch::autograd::impl::post_acc_grad_hooks(each->tensor) = std::move(each->after_accumulation);
        }
        if (each->accumulator) {
            put_in_front(each->accumulator->pre_hooks(), each->before_node);
            put_in_front(each->accumulator->post_hooks(), each->after_node);
        }
        each->tensor.mutable_grad() = std::exchange(each->gradient_before, {});
    }
    hooked_.clear();
}

Tensors SummedForHooks::take() {
    Tensors sums(count_);
    for (const auto& each : hooked_) {
        sums[each->place] = std::exchange(each->tensor.mutable_grad(), {});
    }
    put_back();
    return sums;
}

void add_to_gradients(const std::vector<at::Tensor>& parameters, Tensors sums) {
    torch::autograd::edge_list edges;
    variable_list gradients;
    for (std::size_t k = 0; k < sums.size(); ++k) {
        if (sums[k].defined()) {
            edges.push_back(torch::autograd::impl::gradient_edge(parameters[k]));
            gradients.push_back(std::move(sums[k]));
        }
    }
    if (!edges.empty()) {
        run_engine(edges, gradients);
    }
}
}  // namespace pipescope
