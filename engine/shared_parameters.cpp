#include "engine/shared_parameters.h"

#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/tensor_state.h"
#include "engine/torch_internals.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

namespace pipescope {
/// The lane's tensor of a group on another lane than the holder's.
struct SharedParameters::Copy {
    std::size_t group = 0;
    at::Tensor tensor = {};                  // undefined in other processes
    std::vector<at::Tensor> followers = {};  // the lane's other tensors of the group
    NodePtr<> node = {};                     // to which the followers' gradients go
    std::uint32_t version = 0;               // of the parameter, when the values were sent
};

struct SharedParameters::Group {
    at::Tensor parameter = {};  // undefined in other processes
    std::vector<at::Tensor> followers = {};
    NodePtr<> node = {};
    std::vector<std::unique_ptr<Copy>> copies = {};
};

namespace {
bool has_memory_of(const at::Tensor& tensor, const at::Tensor& other) {
    return tensor.const_data_ptr() == other.const_data_ptr() && tensor.sizes() == other.sizes() &&
           tensor.strides() == other.strides() && tensor.scalar_type() == other.scalar_type() &&
           share_storage(tensor, other);
}

void set_requires_grad(const at::Tensor& tensor, bool requires_grad) {
    if (tensor.requires_grad() != requires_grad) {
        tensor.set_requires_grad(requires_grad);
    }
}

/// Gives the tensor the memory of another, and its version: an in-place change of one is a change of both.
void share_memory(at::Tensor tensor, const at::Tensor& with) {
    if (!has_memory_of(tensor, with)) {
        tensor.set_data(with.detach());
    }
    set_requires_grad(tensor, with.requires_grad());
    if (!with.is_inference()) {
        tensor.unsafeGetTensorImpl()->set_version_counter(torch::autograd::impl::version_counter(with));
    }
}

/// Gives the tensors the memory of another, whose .grad gets their gradients too, and returns its node.
NodePtr<> follow(const std::vector<at::Tensor>& followers, const at::Tensor& leader) {
    if (followers.empty()) {
        return {};
    }
    NodePtr<> node = leader.requires_grad() ? torch::autograd::impl::grad_accumulator(leader) : NodePtr<>();
    for (const at::Tensor& each : followers) {
        share_memory(each, leader);
        if (node) {
            set_accumulator(each, node);
        }
    }
    return node;
}

/// Gives the tensor a node of its own, if it has followed another: in a pipeline of the same layers with other lanes.
void stop_following(const at::Tensor& tensor) {
    const NodePtr<> node = torch::autograd::impl::try_get_grad_accumulator(tensor);
    const auto* const accumulate = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
    if (accumulate != nullptr && !accumulate->variable.is_same(tensor)) {
        set_accumulator(tensor, {});
    }
}

std::string form_of(const at::Tensor& tensor) {
    std::ostringstream text;
    text << tensor.sizes() << " of " << c10::toString(tensor.scalar_type());
    return text.str();
}

/// Position of the layer whose key begins the parameter's key; the longest one.
std::size_t layer_of(const std::string& key, const std::vector<ModelLayer>& layers) {
    std::size_t found = layers.size();
    for (std::size_t k = 0; k < layers.size(); ++k) {
        if (key.starts_with(layers[k].key + ".") &&
            (found == layers.size() || layers[k].key.size() > layers[found].key.size())) {
            found = k;
        }
    }
    return found;
}

at::Tensor parameter_of(const Layer& layer, const std::string& name) {
    for (const auto& [each, tensor] : layer.parameters()) {
        if (each == name) {
            return tensor;
        }
    }
    return {};
}
}  // namespace

SharedParameters::SharedParameters() = default;
SharedParameters::~SharedParameters() = default;
SharedParameters::SharedParameters(SharedParameters&&) noexcept = default;
SharedParameters& SharedParameters::operator=(SharedParameters&&) noexcept = default;

SharedParameters::SharedParameters(const std::vector<std::vector<std::string>>& keys,
                                   const std::vector<ModelLayer>& layers) {
    std::unordered_set<std::string> seen;
    for (const std::vector<std::string>& group : keys) {
        std::vector<Use> uses;
        for (const std::string& key : group) {
            const std::size_t layer = layer_of(key, layers);
            if (layer == layers.size()) {
                throw UsageError("shared names '" + key +
                                 "', which begins with the key of no layer; a parameter's key is as in the plain "
                                 "Sequential, such as 0.weight; correct it");
            }
            if (!seen.insert(key).second) {
                throw UsageError("shared names " + key +
                                 " twice; a parameter is in one group, once; put all that are one into one group");
            }
            uses.push_back({LayerId{layer}, key, key.substr(layers[layer].key.size() + 1)});
        }
        if (uses.size() < 2) {
            throw UsageError("shared has a group of " + std::to_string(uses.size()) + " parameter" +
                             (uses.empty() ? "s" : " (" + uses.front().key + ")") +
                             "; two or more share one; name them all, or leave the group out");
        }
        std::ranges::stable_sort(uses, {}, &Use::layer);
        SharedLayers of_group;
        for (const Use& each : uses) {
            of_group.layers.push_back(each.layer);
        }
        layers_.push_back(std::move(of_group));
        uses_.push_back(std::move(uses));
        groups_.push_back(std::make_unique<Group>());
    }
}

std::string SharedParameters::text() const {
    std::string text;
    for (const std::vector<Use>& group : uses_) {
        text += text.empty() ? "" : ", ";
        for (const Use& each : group) {
            text += (&each == &group.front() ? "" : " = ") + each.key;
        }
    }
    return text.empty() ? "none" : text;
}

void SharedParameters::list(const std::vector<Partition>& partitions, const std::vector<SharedRoute>& routes,
                            const Balance& balance, const std::vector<LaneId>& placement) {
    by_route_.assign(routes.size(), {});
    copies_.clear();
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        Group& group = *groups_[g];
        group = {};
        const LaneId holder = lane_of(placement, balance.partition_of(uses_[g].front().layer));
        std::map<LaneId, Copy*> by_lane;
        at::Tensor first;  // of those here
        for (const Use& use : uses_[g]) {
            const PartitionId partition = balance.partition_of(use.layer);
            const Partition& of = partitions[partition.index()];
            const ModelLayer& layer = of.layers()[use.layer.index() - of.range().first.index()];
            const at::Tensor tensor = parameter_of(*layer.layer, use.name);
            if (!tensor.defined() && layer.is_here) {
                throw UsageError("shared names " + use.key + ", which is no parameter of layer " +
                                 std::to_string(use.layer.value()) + " (" + layer.name +
                                 "); name one as in the plain Sequential, such as 0.weight");
            }
            if (tensor.defined() && first.defined() &&
                (tensor.sizes() != first.sizes() || tensor.scalar_type() != first.scalar_type())) {
                throw UsageError("shared names " + use.key + ", which is " + form_of(tensor) + ", in a group with " +
                                 uses_[g].front().key + ", which is " + form_of(first) +
                                 "; parameters that are one have one shape and type; make them equal");
            }
            first = first.defined() ? first : tensor;
            const LaneId lane = lane_of(placement, partition);
            if (&use == &uses_[g].front()) {
                group.parameter = tensor;
                continue;
            }
            if (tensor.defined() && !tensor.is_same(group.parameter)) {
                copies_.insert(tensor.unsafeGetTensorImpl());
            }
            if (lane == holder) {
                if (tensor.defined() && !tensor.is_same(group.parameter)) {
                    group.followers.push_back(tensor);
                }
            } else if (Copy*& copy = by_lane[lane]; copy == nullptr) {
                copy = group.copies.emplace_back(std::make_unique<Copy>(Copy{g, tensor})).get();
                by_route_[route_of(routes, layers_[g], balance, placement, lane)].push_back(copy);
            } else if (tensor.defined()) {
                copy->followers.push_back(tensor);
            }
        }
    }
    begin();
    refresh();
}

void SharedParameters::begin() {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
        Group& group = *groups_[g];
        const auto check_device = [&](const std::vector<at::Tensor>& followers, const at::Tensor& leader) {
            for (const at::Tensor& each : followers) {
                if (each.device() != leader.device()) {
                    throw UsageError("the shared parameter " + uses_[g].front().key + " is on " +
                                     leader.device().str() + " and on " + each.device().str() +
                                     ", and no lane copies it; use driver scheduled");
                }
            }
        };
        if (group.parameter.defined()) {
            check_device(group.followers, group.parameter);
            group.node = follow(group.followers, group.parameter);
        }
        for (const auto& copy : group.copies) {
            if (!copy->tensor.defined()) {
                continue;
            }
            if (group.parameter.defined() && group.parameter.device() == copy->tensor.device()) {
                share_memory(copy->tensor, group.parameter);
            } else if (group.parameter.defined()) {
                set_requires_grad(copy->tensor, group.parameter.requires_grad());
            }
            stop_following(copy->tensor);
            check_device(copy->followers, copy->tensor);
            copy->node = follow(copy->followers, copy->tensor);
        }
        const auto trains = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
        layers_[g].trains = trains(group.parameter) ||
                            std::ranges::any_of(group.copies, [&](const auto& copy) { return trains(copy->tensor); });
    }
}

std::vector<at::Tensor> SharedParameters::parameters() const {
    std::vector<at::Tensor> all;
    for (const auto& group : groups_) {
        if (group->parameter.defined()) {
            all.push_back(group->parameter);
        }
    }
    return all;
}

void SharedParameters::drop_gradients() {
    for (const auto& group : groups_) {
        for (const auto& copy : group->copies) {
            if (copy->tensor.defined()) {
                copy->tensor.mutable_grad() = at::Tensor();
            }
        }
    }
}

void SharedParameters::refresh() {
    const at::NoGradGuard no_grad;
    for (const auto& group : groups_) {
        for (const auto& copy : group->copies) {
            if (group->parameter.defined() && copy->tensor.defined() &&
                group->parameter.device() != copy->tensor.device()) {
                at::Tensor(copy->tensor).copy_(group->parameter);
            }
        }
    }
}

std::vector<bool> SharedParameters::routes_train() const {
    std::vector<bool> trains;
    for (const std::vector<Copy*>& route : by_route_) {
        trains.push_back(std::ranges::any_of(route, [&](const Copy* copy) {
            const at::Tensor& parameter = groups_[copy->group]->parameter;
            const bool is_known = parameter.defined() || copy->tensor.defined();
            return !is_known || (parameter.defined() ? parameter : copy->tensor).requires_grad();
        }));
    }
    return trains;
}

Tensors SharedParameters::weights(std::size_t route) const {
    Tensors weights;
    for (Copy* const copy : by_route_[route]) {
        const at::Tensor& parameter = groups_[copy->group]->parameter;
        const bool is_there = copy->tensor.defined() && share_storage(copy->tensor, parameter);
        weights.push_back(is_there ? at::Tensor() : parameter.detach());
    }
    return weights;
}

Tensors SharedParameters::receive(std::size_t route, const Tensors& weights) {
    Tensors before;
    for (std::size_t k = 0; k < weights.size(); ++k) {
        if (!weights[k].defined()) {
            continue;
        }
        Copy& copy = *by_route_[route].at(k);
        before.push_back(copy.tensor.detach());
        const at::Tensor& parameter = groups_[copy.group]->parameter;
        // A graph of an earlier forward that still goes backward would compute with other values than it saved.
        if (const std::uint32_t version = version_of(parameter); version != std::exchange(copy.version, version)) {
            copy.tensor.unsafeGetTensorImpl()->bump_version();
        }
        copy.tensor.set_data(weights[k]);
        for (const at::Tensor& each : copy.followers) {
            at::Tensor(each).set_data(weights[k]);
        }
    }
    return before;
}

Tensors SharedParameters::take_gradients(std::size_t route) {
    Tensors gradients;
    for (Copy* const copy : by_route_[route]) {
        gradients.push_back(copy->tensor.defined() ? std::exchange(copy->tensor.mutable_grad(), at::Tensor())
                                                   : at::Tensor());
    }
    return gradients;
}

void SharedParameters::add(std::size_t route, Tensors gradients) {
    const at::NoGradGuard no_grad;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        if (!gradients[k].defined()) {
            continue;
        }
        const at::Tensor& parameter = groups_[by_route_[route].at(k)->group]->parameter;
        at::Tensor& sum = parameter.mutable_grad();
        at::Tensor gradient = std::move(gradients[k]);
        if (!sum.defined()) {
            // As AccumulateGrad does: the gradient has the parameter's layout, and memory of its own.
            const bool fits =
                !gradient.has_storage() ||
                (!is_storage_shared(gradient) && torch::autograd::utils::obeys_layout_contract(gradient, parameter));
            sum = fits ? gradient.detach() : torch::autograd::utils::clone_obey_contract(gradient, parameter);
        } else if (sum.is_sparse() && !gradient.is_sparse()) {
            sum = gradient + sum;
        } else {
            sum.add_(gradient);
        }
    }
}
}  // namespace pipescope
