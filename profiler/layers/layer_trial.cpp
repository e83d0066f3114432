#include "profiler/layers/layer_trial.h"

#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/micro_batch_graph.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>
#include <utility>

namespace pipescope {
namespace {
/// Copies each tensor only once, since a skip is often an output too.
template <class Copy>
class Copies {
public:
    explicit Copies(Copy copy) : copy_(std::move(copy)) {}

    at::Tensor of(const at::Tensor& tensor) {
        if (!tensor.defined()) {
            return tensor;
        }
        at::Tensor& copy = made_[tensor.unsafeGetTensorImpl()];
        if (!copy.defined()) {
            copy = copy_(tensor);
        }
        return copy;
    }
    Activation of(const Activation& activation) {
        Activation copies;
        for (const at::Tensor& tensor : activation.tensors) {
            copies.tensors.push_back(of(tensor));
        }
        for (const auto& [name, tensor] : activation.skips) {
            copies.skips[name] = of(tensor);
        }
        return copies;
    }

private:
    Copy copy_;
    std::map<const void*, at::Tensor> made_;
};

/// Creates a full copy of each distinct storage.
class StorageCopies {
public:
    at::Tensor of(const at::Tensor& tensor) {
        const at::NoGradGuard no_grad;
        if (tensor.is_sparse() || !tensor.has_storage()) {
            return tensor.detach().clone();
        }
        const auto elements = static_cast<std::int64_t>(tensor.storage().nbytes() / tensor.element_size());
        const std::pair key(tensor.storage().unsafeGetStorageImpl(), tensor.scalar_type());
        at::Tensor& whole = made_[key];
        if (!whole.defined()) {
            whole = tensor.detach().as_strided({elements}, {1}, 0).clone();
        }
        // Not a view in autograd's sense, since a layer may change it in place.
        return whole.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset()).detach();
    }

private:
    std::map<std::pair<const void*, at::ScalarType>, at::Tensor> made_;
};

Tensors tensors_named(const Activation& activation, const std::vector<SkipName>& names) {
    Tensors tensors;
    for (const SkipName& name : names) {
        const auto found = activation.skips.find(name);
        if (found != activation.skips.end() && found->second.defined()) {
            tensors.push_back(found->second);
        }
    }
    return tensors;
}
}  // namespace

std::vector<BoundaryStorage> storages_of(const Tensors& tensors) {
    std::vector<BoundaryStorage> storages;
    for (const at::Tensor& tensor : tensors) {
        if (!tensor.defined()) {
            continue;
        }
        const void* identity = tensor.storage().unsafeGetStorageImpl();
        if (std::none_of(storages.begin(), storages.end(),
                         [&](const BoundaryStorage& storage) { return storage.identity == identity; })) {
            storages.push_back({identity, static_cast<Bytes>(tensor.storage().nbytes())});
        }
    }
    return storages;
}

Activation fresh_inputs(const Activation& activation) {
    StorageCopies storages;
    Copies copies(
        [&](const at::Tensor& tensor) { return storages.of(tensor).set_requires_grad(tensor.requires_grad()); });
    return copies.of(activation);
}

bool lacks_a_gradient(const Activation& activation) {
    const auto lacks = [](const at::Tensor& tensor) { return can_carry_gradient(tensor) && !tensor.requires_grad(); };
    return std::any_of(activation.tensors.begin(), activation.tensors.end(), lacks) ||
           std::any_of(activation.skips.begin(), activation.skips.end(),
                       [&](const auto& each) { return lacks(each.second); });
}

Activation requiring_gradients(const Activation& activation) {
    Copies copies([](const at::Tensor& tensor) {
        return can_carry_gradient(tensor) ? tensor.detach().set_requires_grad(true) : tensor;
    });
    return copies.of(activation);
}

Tensors popped_tensors(const Activation& before, const SkipNames& names) {
    return tensors_named(before, names.pop);
}

Tensors stashed_tensors(const Activation& after, const SkipNames& names) {
    return tensors_named(after, names.stash);
}

Tensors loss_gradients(const LayerChain& chain, const Tensors& outputs, const Tensors& target) {
    MicroBatchGraph graph;
    at::Tensor loss = chain.loss(graph.open(outputs), target);
    graph.close({loss});
    if (!loss.requires_grad()) {
        return {};
    }
    const at::Tensor one = at::ones_like(loss);
    loss = at::Tensor();
    Tensors gradients = graph.backward({one});
    for (at::Tensor& gradient : gradients) {
        if (gradient.defined() && gradient.storage().nbytes() < gradient.nbytes()) {
            gradient = gradient.clone(at::MemoryFormat::Contiguous);
        }
    }
    return gradients;
}

struct TrialGraph::State {
    MicroBatchGraph graph;
    Tensors shapes;  // of outputs that require a gradient, on the meta device, without bytes; undefined for the others
    std::vector<c10::Device> devices;
};

TrialGraph::TrialGraph() : state_(std::make_unique<State>()) {}
TrialGraph::~TrialGraph() = default;

Activation TrialGraph::open(const Activation& inputs) {
    Tensors all = inputs.tensors;
    for (const auto& [name, skip] : inputs.skips) {
        const bool is_there_already = std::any_of(all.begin(), all.end(), [&skip = skip](const at::Tensor& tensor) {
            return tensor.defined() && tensor.is_same(skip);
        });
        all.push_back(is_there_already ? at::Tensor() : skip);
    }
    const Tensors opened = state_->graph.open(all);
    std::map<const void*, at::Tensor> opened_of;
    for (std::size_t k = 0; k < all.size(); ++k) {
        if (all[k].defined()) {
            opened_of.emplace(all[k].unsafeGetTensorImpl(), opened[k]);
        }
    }
    Copies copies([&](const at::Tensor& tensor) { return opened_of.at(tensor.unsafeGetTensorImpl()); });
    return copies.of(inputs);
}

void TrialGraph::close(const Tensors& outputs) {
    state_->graph.close(outputs);
    for (const at::Tensor& output : outputs) {
        const bool wants = output.defined() && output.requires_grad();
        state_->shapes.push_back(wants ? at::empty_like(output, output.options().device(at::kMeta).requires_grad(false))
                                       : at::Tensor());
        state_->devices.push_back(output.defined() ? output.device() : at::kCPU);
    }
}

Tensors TrialGraph::output_gradients() const {
    Tensors gradients;
    for (std::size_t k = 0; k < state_->shapes.size(); ++k) {
        const at::Tensor& shape = state_->shapes[k];
        gradients.push_back(shape.defined() ? at::zeros_like(shape, shape.options().device(state_->devices[k]))
                                            : at::Tensor());
    }
    return gradients;
}

Tensors TrialGraph::backward(Tensors gradients) {
    return state_->graph.backward(std::move(gradients));
}

Tensors TrialGraph::backward_inputs(Tensors gradients, const LayerMarks& marks, SplitNotes* notes) {
    SplitNotes unread;
    SplitNotes& noted = notes != nullptr ? *notes : unread;
    noted.resize(marks.size());
    return state_->graph.backward_inputs(std::move(gradients), marks, noted);
}

const Tensors& TrialGraph::weight_gradients() const {
    return state_->graph.weight_gradients();
}

void TrialGraph::backward_weights(std::uint64_t from) {
    state_->graph.backward_weights(from);
}
}  // namespace pipescope
