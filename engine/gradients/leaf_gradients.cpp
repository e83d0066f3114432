#include "engine/gradients/leaf_gradients.h"

#include "engine/torch_internals.h"
#include "engine/tsan_annotations.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <memory>
#include <typeinfo>
#include <unordered_set>
#include <vector>

namespace pipescope {
namespace {
using torch::autograd::AccumulateGrad;
using torch::autograd::Edge;
using torch::autograd::Node;

class OwnLeafGradient final : public torch::autograd::FunctionPreHook {
public:
    explicit OwnLeafGradient(AccumulateGrad& leaf) : leaf_(leaf) { tsan_release(this); }
    ~OwnLeafGradient() override { tsan_acquire(this); }

    torch::autograd::variable_list operator()(const torch::autograd::variable_list& gradients) override {
        tsan_acquire(this);
        torch::autograd::variable_list own = gradients;
        own_leaf_gradient(leaf_, own);
        tsan_release(this);
        return own;
    }

private:
    AccumulateGrad& leaf_;  // owns the hook
};

bool owns_leaf_gradient(const std::unique_ptr<torch::autograd::FunctionPreHook>& hook) {
    return dynamic_cast<const OwnLeafGradient*>(hook.get()) != nullptr;
}

void add_hook(AccumulateGrad& leaf) {
    if (std::none_of(leaf.pre_hooks().begin(), leaf.pre_hooks().end(), owns_leaf_gradient)) {
        leaf.add_pre_hook(std::make_unique<OwnLeafGradient>(leaf));
    }
}

/// Calls `visit` for each leaf behind `ends`, no further than `boundary`, which may be null.
template <class Visit>
void for_each_leaf(const std::vector<Edge>& ends, const Node* boundary, const Visit& visit) {
    std::unordered_set<const Node*> seen{boundary, nullptr};
    std::vector<Node*> found;
    const auto find = [&](const Edge& edge) {
        if (seen.insert(edge.function.get()).second) {
            found.push_back(edge.function.get());
        }
    };
    std::for_each(ends.begin(), ends.end(), find);
    while (!found.empty()) {
        Node* const node = found.back();
        found.pop_back();
        if (auto* const leaf = node->num_outputs() == 0 ? dynamic_cast<AccumulateGrad*>(node) : nullptr) {
            visit(*leaf);
        }
        std::for_each(node->next_edges().begin(), node->next_edges().end(), find);
    }
}
}  // namespace

bool is_storage_shared(const at::Tensor& tensor) {
    return tensor.defined() && tensor.has_storage() && tensor.storage().use_count() > 1;
}

bool share_storage(const at::Tensor& a, const at::Tensor& b) {
    return a.defined() && b.defined() && a.has_storage() && b.has_storage() && a.is_alias_of(b);
}

void own_leaf_gradient(Node& node, Tensors& gradients) {
    if (node.num_outputs() != 0 || at::GradMode::is_enabled() || !is_storage_shared(gradients[0])) {
        return;
    }
    if (typeid(node) != typeid(AccumulateGrad)) {
        return;
    }
    const at::Tensor& variable = static_cast<AccumulateGrad&>(node).variable;
    if (!variable.grad().defined()) {
        gradients[0] = torch::autograd::utils::clone_obey_contract(gradients[0], variable);
    }
}

void own_leaf_gradients(const std::vector<Edge>& ends, const Node* boundary) {
    for_each_leaf(ends, boundary, add_hook);
}

std::unordered_set<const c10::TensorImpl*> leaves_behind(const at::Tensor& tensor) {
    std::unordered_set<const c10::TensorImpl*> leaves;
    if (tensor.requires_grad()) {
        for_each_leaf({torch::autograd::impl::gradient_edge(tensor)}, nullptr,
                      [&](const AccumulateGrad& leaf) { leaves.insert(leaf.variable.unsafeGetTensorImpl()); });
    }
    return leaves;
}

bool has_pre_hooks(Node& node) {
    return !std::all_of(node.pre_hooks().begin(), node.pre_hooks().end(), owns_leaf_gradient);
}
}  // namespace pipescope
