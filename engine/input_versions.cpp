#include "engine/input_versions.h"

#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/mini_batch.h"
#include "engine/torch_internals.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace pipescope {
namespace {
using torch::autograd::CreationMeta;
using torch::autograd::Node;
using torch::autograd::variable_list;

/// True if two elements may share an address. Also true for some similar layouts without overlap.
bool may_overlap(const at::Tensor& tensor) {
    std::vector<std::pair<std::int64_t, std::int64_t>> dimensions;  // stride, size
    for (std::int64_t d = 0; d < tensor.dim(); ++d) {
        if (tensor.size(d) > 1) {
            dimensions.emplace_back(tensor.stride(d), tensor.size(d));
        }
    }
    std::sort(dimensions.begin(), dimensions.end());
    std::int64_t last = 0;  // offset of the last element of the dimensions so far
    for (const auto& [stride, size] : dimensions) {
        if (stride <= last) {
            return true;
        }
        last += stride * (size - 1);
    }
    return false;
}

bool shares_storage(const Tensors& input, std::size_t k) {
    return std::count_if(input.begin(), input.end(),
                         [&](const at::Tensor& other) { return share_storage(other, input[k]); }) > 1;
}

/// Null if autograd knows no view here.
const torch::autograd::DifferentiableViewMeta* view_meta(const at::Tensor& tensor) {
    const auto* const meta = torch::autograd::impl::get_view_autograd_meta(tensor);
    return meta != nullptr && meta->has_bw_view() ? meta : nullptr;
}

/// Applies torch's rule for a change in place while gradients are on; empty if allowed.
std::string why_torch_forbids_changes(const at::Tensor& tensor) {
    if (!tensor.requires_grad()) {
        return "";
    }
    if (tensor.is_leaf()) {
        return "a leaf that requires a gradient";
    }
    const auto* const view = view_meta(tensor);
    if (view != nullptr && view->get_backward_view().base_.is_leaf()) {
        return "a view of a leaf that requires a gradient";
    }
    if (view != nullptr && view->get_creation_meta() != CreationMeta::DEFAULT) {
        return "a view that torch lets nobody change";
    }
    return "";
}

/// After a layer changed an input, replaces the function that computed that input in the caller's graph.
class ChangedInput final : public Node {
public:
    /// `before` leads to the input's original function: torch looks for it at a changed tensor's first edge.
    ChangedInput(std::size_t input, torch::autograd::Edge before) : input_(input) { add_next_edge(std::move(before)); }

    variable_list apply(variable_list&& /*gradients*/) override {
        throw EngineError("input " + std::to_string(input_) +
                          " of the model was changed in place in its forward, and is used elsewhere, too; only the "
                          "pipeline knows how it was changed, so its gradient would be wrong there; pass a clone to "
                          "the model, or use the out-of-place form");
    }
    std::string name() const override { return "PipelineChangedInput"; }

private:
    std::size_t input_;
};
}  // namespace

InputVersions::InputVersions(const Tensors& input, const std::vector<Tensors>& parts,
                             const std::vector<TensorSplit>& how, bool trains) {
    for (const at::Tensor& tensor : input) {
        if (tensor.has_storage()) {
            storages_.push_back(tensor.storage().unsafeGetStorageImpl());
        }
    }
    for (std::size_t k = 0; k < input.size(); ++k) {
        const TensorSplit rule = split_of(how, k);
        if (rule.make || input[k].is_inference() ||
            std::any_of(parts.begin(), parts.end(), [k](const Tensors& part) { return part[k].is_inference(); })) {
            continue;  // no part of the caller's memory, or torch does not count changes there
        }
        const bool is_strided = input[k].layout() == at::kStrided;
        const bool overlaps = parts.size() > 1 && (!rule.dimension || (is_strided && may_overlap(input[k])));
        Input& each = inputs_.emplace_back();
        each.place = k;
        each.counter = torch::autograd::impl::version_counter(input[k]);
        each.before = each.counter.current_version();
        each.parts_before = each.before;
        each.has_own_parts = is_strided && parts.size() > 1 && !overlaps && !shares_storage(input, k);
        each.needs_gradient = trains && input[k].requires_grad();
        each.must_stay = trains ? why_torch_forbids_changes(input[k]) : "";
        if (each.must_stay.empty() && overlaps) {
            each.must_stay = rule.dimension ? "a tensor whose micro-batches share memory, as expand() makes it"
                                            : "given whole to every micro-batch";
        }
        each.has_history.resize(parts.size(), 0);
        for (const Tensors& part : parts) {
            if (each.has_own_parts) {
                torch::autograd::impl::set_version_counter(part[k], c10::VariableVersion(each.before));
            }
            each.parts.push_back(torch::autograd::impl::version_counter(part[k]));
        }
    }
}

void InputVersions::check(MicroBatchId micro_batch) const {
    for (const Input& each : inputs_) {
        if (!each.must_stay.empty() && each.parts[micro_batch.index()].current_version() != each.parts_before) {
            throw EngineError("input " + std::to_string(each.place) +
                              " of the model was changed in place in its forward, and is " + each.must_stay +
                              "; torch allows no such change; pass a clone, or use the out-of-place form");
        }
    }
}

Tensors InputVersions::watched(PartitionId partition, const Tensors& inputs) const {
    if (partition.value() == 0) {
        return inputs;
    }
    Tensors passed_on;
    std::ranges::copy_if(inputs, std::back_inserter(passed_on), [this](const at::Tensor& each) {
        return each.defined() && each.has_storage() && !each.requires_grad() &&
               std::ranges::find(storages_, each.storage().unsafeGetStorageImpl()) != storages_.end();
    });
    return passed_on;
}

void InputVersions::note_history(MicroBatchId micro_batch, PartitionId partition, const Tensors& watched) {
    const auto requires_grad = [](const at::Tensor& each) { return each.defined() && each.requires_grad(); };
    for (Input& each : inputs_) {
        if (partition.value() == 0) {
            each.has_history[micro_batch.index()] = requires_grad(watched[each.place]);
        } else if (std::ranges::any_of(watched, requires_grad) &&
                   each.parts[micro_batch.index()].current_version() != each.parts_before) {
            each.has_history[micro_batch.index()] = 1;
        }
    }
}

void InputVersions::update_input() {
    for (Input& each : inputs_) {
        each.changed = std::any_of(each.parts.begin(), each.parts.end(), [&each](const c10::VariableVersion& part) {
            return part.current_version() != each.parts_before;
        });
        if (each.changed && each.has_own_parts) {
            each.counter.bump();
        }
        each.before = each.counter.current_version();
    }
}

void InputVersions::update_parts() const {
    for (const Input& each : inputs_) {
        if (each.has_own_parts && each.counter.current_version() != each.before) {
            for (c10::VariableVersion part : each.parts) {
                part.bump();
            }
        }
    }
}

void InputVersions::guard(const Tensors& input) const {
    for (const Input& each : inputs_) {
        const bool depends = each.needs_gradient || std::any_of(each.has_history.begin(), each.has_history.end(),
                                                                [](char has) { return has != 0; });
        const at::Tensor& tensor = input[each.place];
        const auto* const view = view_meta(tensor);
        if (each.changed && depends && (view == nullptr || view->get_creation_meta() == CreationMeta::DEFAULT)) {
            torch::autograd::Edge before_change =
                tensor.requires_grad() ? torch::autograd::impl::gradient_edge(tensor) : torch::autograd::Edge();
            const NodePtr<> node = make_node<ChangedInput>(each.place, std::move(before_change));
            node->add_input_metadata(tensor);
            torch::autograd::impl::rebase_history(tensor, {node, 0});
        }
    }
}
}  // namespace pipescope
