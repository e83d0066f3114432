#include "profiler/layers/layer_trial.h"

#include "engine/graph_walk.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <utility>

namespace pipescope {
namespace {
/// Applies a copy to each tensor, once for one that stands there twice: a skip is often an output as well.
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
        const void* identity = tensor.storage().unsafeGetStorageImpl();
        if (std::none_of(storages.begin(), storages.end(),
                         [&](const BoundaryStorage& storage) { return storage.identity == identity; })) {
            storages.push_back({identity, static_cast<Bytes>(tensor.storage().nbytes())});
        }
    }
    return storages;
}

Activation fresh_inputs(const Activation& activation, Tensors* leaves) {
    Copies copies([&](const at::Tensor& tensor) {
        const at::Tensor leaf = tensor.detach().set_requires_grad(tensor.requires_grad());
        if (leaves != nullptr) {
            leaves->push_back(leaf);
        }
        return leaf.clone();
    });
    return copies.of(activation);
}

Activation next_activation(const Activation& outputs) {
    Copies copies(
        [](const at::Tensor& tensor) { return tensor.detach().clone().set_requires_grad(tensor.requires_grad()); });
    return copies.of(outputs);
}

Tensors popped_tensors(const Activation& before, const SkipNames& names) {
    return tensors_named(before, names.pop);
}

Tensors stashed_tensors(const Activation& after, const SkipNames& names) {
    return tensors_named(after, names.stash);
}

struct TrialGraph::Ends {
    torch::autograd::edge_list edges;
    Tensors shapes;  // on meta: no bytes
    std::vector<c10::Device> devices;
};

TrialGraph::TrialGraph(const Tensors& outputs) : ends_(std::make_unique<Ends>()) {
    for (const at::Tensor& output : outputs) {
        if (output.requires_grad()) {
            ends_->edges.push_back(torch::autograd::impl::gradient_edge(output));
            ends_->shapes.push_back(at::empty_like(output, output.options().device(at::kMeta).requires_grad(false)));
            ends_->devices.push_back(output.device());
        }
    }
}

TrialGraph::~TrialGraph() = default;

Tensors TrialGraph::output_gradients() const {
    Tensors gradients;
    for (std::size_t i = 0; i < ends_->shapes.size(); ++i) {
        const at::Tensor& shape = ends_->shapes[i];
        gradients.push_back(at::zeros_like(shape, shape.options().device(ends_->devices[i])));
    }
    return gradients;
}

void TrialGraph::backward(Tensors gradients) {
    const torch::autograd::edge_list edges = std::exchange(ends_->edges, {});
    // As a lane does, which lets go of an output's gradient as soon as the layer has used it; the engine would not.
    if (!edges.empty() && !walk_backward(edges, gradients)) {
        torch::autograd::Engine::get_default_engine().execute(edges, gradients, /*keep_graph=*/false,
                                                              /*create_graph=*/false, /*accumulate_grad=*/true);
    }
}
}  // namespace pipescope
