#include "profiler/layers/layer_bytes.h"

#include "profiler/memory/tracking_allocator.h"

#include <torch/csrc/autograd/engine.h>
#include <torch/torch.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
using tracking_allocator::kMeasuredOwner;
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

Bytes held() {
    return tracking_allocator::allocated(kMeasuredOwner);
}

class MeasuredOwner {
public:
    MeasuredOwner() : before_(tracking_allocator::set_owner(kMeasuredOwner)) {}
    ~MeasuredOwner() { tracking_allocator::set_owner(before_); }
    MeasuredOwner(const MeasuredOwner&) = delete;
    MeasuredOwner& operator=(const MeasuredOwner&) = delete;

private:
    int before_;
};

/// A storage between two layers, and whether the layer on either side keeps it.
struct Storage {
    const c10::StorageImpl* identity = nullptr;
    Bytes bytes = 0;
    bool handed_on = false;  ///< an output that is an input's storage: it counts where it was made
    bool kept = false;
};

std::vector<Storage> storages_of(const Tensors& tensors) {
    std::vector<Storage> storages;
    for (const at::Tensor& tensor : tensors) {
        const c10::StorageImpl* identity = tensor.storage().unsafeGetStorageImpl();
        const auto known = std::find_if(storages.begin(), storages.end(),
                                        [&](const Storage& storage) { return storage.identity == identity; });
        if (known == storages.end()) {
            storages.push_back({identity, static_cast<Bytes>(tensor.storage().nbytes())});
        }
    }
    return storages;
}

Bytes total(const std::vector<Storage>& storages) {
    Bytes sum = 0;
    for (const Storage& storage : storages) {
        sum += storage.bytes;
    }
    return sum;
}

std::vector<WeakStorage> weak_storages(const Tensors& tensors, const std::vector<Storage>& storages) {
    std::vector<WeakStorage> weak;
    for (const Storage& storage : storages) {
        const auto tensor = std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& each) {
            return each.storage().unsafeGetStorageImpl() == storage.identity;
        });
        weak.push_back(tensor->storage().getWeakStorageImpl());
    }
    return weak;
}

void mark_kept(std::vector<Storage>& storages, const std::vector<WeakStorage>& weak) {
    for (std::size_t i = 0; i < storages.size(); ++i) {
        storages[i].kept = !storages[i].handed_on && !weak[i].expired();
    }
}

// Applies `copy` to each tensor, once for one that stands there twice.
template <class Copy>
Tensors copied(const Tensors& tensors, Copy copy) {
    Tensors copies;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
        const auto same = std::find_if(tensors.begin(), tensors.end(),
                                       [&](const at::Tensor& each) { return each.is_same(tensors[i]); });
        const auto position = static_cast<std::size_t>(same - tensors.begin());
        copies.push_back(position < i ? at::Tensor(copies[position]) : copy(tensors[i]));
    }
    return copies;
}

// The activation before a layer, in storages that nothing but the layer can keep. Leaves would not do: autograd itself
// holds a leaf for the sake of its gradient. The copy of a leaf it does not hold.
Tensors fresh_inputs(const Tensors& activation) {
    return copied(activation, [](const at::Tensor& tensor) {
        return tensor.detach().set_requires_grad(tensor.requires_grad()).clone();
    });
}

// The activation after a layer, apart from what the layer's graph may keep.
Tensors next_activation(const Tensors& outputs) {
    return copied(outputs, [](const at::Tensor& tensor) {
        return tensor.detach().clone().set_requires_grad(tensor.requires_grad());
    });
}

// Of the inputs the layer uses; the gradient of one handed on is that of the output it became.
Bytes gradient_bytes(const Tensors& inputs, const Tensors& outputs) {
    Bytes bytes = 0;
    for (const at::Tensor& input : inputs) {
        const bool handed_on = std::any_of(outputs.begin(), outputs.end(),
                                           [&](const at::Tensor& output) { return output.is_alias_of(input); });
        bytes += input.requires_grad() && !handed_on ? static_cast<Bytes>(input.nbytes()) : 0;
    }
    return bytes;
}

// What stays of a graph when its tensors are let go: its ends.
struct Graph {
    explicit Graph(const Tensors& outputs) {
        for (const at::Tensor& output : outputs) {
            if (output.requires_grad()) {
                ends.push_back(torch::autograd::impl::gradient_edge(output));
                shapes.push_back(at::empty_like(output, output.options().device(at::kMeta).requires_grad(false)));
            }
        }
    }

    torch::autograd::variable_list output_gradients() const {
        torch::autograd::variable_list gradients;
        for (const at::Tensor& shape : shapes) {
            gradients.push_back(at::zeros_like(shape, shape.options().device(at::kCPU)));
        }
        return gradients;
    }

    void backward(const torch::autograd::variable_list& gradients) {
        if (!ends.empty()) {
            torch::autograd::Engine::get_default_engine().execute(std::exchange(ends, {}), gradients,
                                                                  /*keep_graph=*/false, /*create_graph=*/false,
                                                                  /*accumulate_grad=*/true);
        }
    }

    torch::autograd::edge_list ends;
    Tensors shapes;
};

struct Measured {
    LayerBytes bytes;
    std::vector<Storage> inputs;   // with `kept` by this layer
    std::vector<Storage> outputs;  // the same
    Tensors activation;            // for the next layer
};

Measured measure(LayerChain& chain, std::size_t layer, const Tensors& activation) {
    Measured measured;
    Tensors inputs = fresh_inputs(activation);
    measured.inputs = storages_of(inputs);
    const Bytes before = held();
    tracking_allocator::reset_peak(kMeasuredOwner);
    Tensors outputs = chain.forward(layer, inputs);
    const Bytes growth = held() - before;
    const Bytes forward_peak = tracking_allocator::peak(kMeasuredOwner) - before;
    measured.outputs = storages_of(outputs);

    Bytes made = 0;
    for (Storage& output : measured.outputs) {
        output.handed_on = std::any_of(measured.inputs.begin(), measured.inputs.end(),
                                       [&](const Storage& input) { return input.identity == output.identity; });
        made += output.handed_on ? 0 : output.bytes;
    }
    measured.bytes.output = total(measured.outputs);
    measured.bytes.saved = std::max<Bytes>(0, growth - made);
    measured.bytes.aliases_input = !inputs.empty() && !outputs.empty() && outputs[0].is_alias_of(inputs[0]);
    measured.activation = next_activation(outputs);

    const std::vector<WeakStorage> weak_inputs = weak_storages(inputs, measured.inputs);
    const std::vector<WeakStorage> weak_outputs = weak_storages(outputs, measured.outputs);
    const Bytes input_gradient = gradient_bytes(inputs, outputs);
    Graph graph(outputs);
    inputs.clear();
    outputs.clear();
    mark_kept(measured.inputs, weak_inputs);
    mark_kept(measured.outputs, weak_outputs);

    torch::autograd::variable_list gradients = graph.output_gradients();
    const Bytes with_graph = held();
    tracking_allocator::reset_peak(kMeasuredOwner);
    graph.backward(gradients);
    const Bytes backward_peak = tracking_allocator::peak(kMeasuredOwner) - with_graph - input_gradient;
    measured.bytes.transient = std::max({Bytes{0}, forward_peak - growth, backward_peak});
    return measured;
}

// Decides the boundary between a layer and the one above it, of the same storages seen from both.
void settle(Measured& below, Measured& above) {
    const std::size_t count = std::min(below.outputs.size(), above.inputs.size());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < count; ++i) {
        kept += below.outputs[i].kept || above.inputs[i].kept ? 1 : 0;
    }
    const bool partly = kept > 0 && kept < count;
    for (std::size_t i = 0; i < count; ++i) {
        if (!partly) {
            below.bytes.keeps_output |= below.outputs[i].kept;
            above.bytes.keeps_input |= above.inputs[i].kept;
        } else if (above.inputs[i].kept) {
            above.bytes.saved += above.inputs[i].bytes;
        } else if (below.outputs[i].kept) {
            below.bytes.saved += below.outputs[i].bytes;
        }
    }
}

bool any_kept(const std::vector<Storage>& storages) {
    return std::any_of(storages.begin(), storages.end(), [](const Storage& storage) { return storage.kept; });
}
Bytes loss_transient(const LayerChain& chain, const Tensors& output, const Tensors& target) {
    if (!chain.has_loss()) {
        return 0;
    }
    const Tensors leaves = as_leaves(output);
    const Bytes before = held();
    tracking_allocator::reset_peak(kMeasuredOwner);
    const at::Tensor loss = chain.loss(leaves, target);
    if (loss.requires_grad()) {
        loss.backward();
    }
    Bytes gradients = 0;
    for (const at::Tensor& leaf : leaves) {
        gradients += leaf.grad().defined() ? static_cast<Bytes>(leaf.grad().nbytes()) : 0;
    }
    return std::max<Bytes>(0, tracking_allocator::peak(kMeasuredOwner) - before - gradients);
}
}  // namespace

ModelBytes measure_bytes(LayerChain& chain, const Batch& batch) {
    const MeasuredOwner measuring;
    ModelBytes model;
    std::vector<LayerBytes>& layers = model.layers;
    std::optional<Measured> below;
    Tensors activation = as_leaves(batch.input);
    for (std::size_t layer = 0; layer < chain.size(); ++layer) {
        {
            const Tensors outputs = chain.forward(layer, fresh_inputs(activation));
            Graph graph(outputs);
            graph.backward(graph.output_gradients());
        }
        Measured here = measure(chain, layer, activation);
        activation = std::exchange(here.activation, {});
        if (below) {
            settle(*below, here);
            layers.push_back(below->bytes);
        } else {
            here.bytes.keeps_input = any_kept(here.inputs);
        }
        below = std::move(here);
    }
    if (below) {
        below->bytes.keeps_output = any_kept(below->outputs);
        layers.push_back(below->bytes);
    }
    model.loss_transient = loss_transient(chain, activation, batch.target);
    return model;
}

std::vector<std::size_t> segments_below(const std::vector<LayerBytes>& layers, Bytes limit) {
    std::vector<std::size_t> ends;
    Bytes sum = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const Bytes bytes = layers[layer].saved + layers[layer].output;
        if (layer > 0 && sum + bytes > limit) {
            ends.push_back(layer);
            sum = 0;
        }
        sum += bytes;
    }
    ends.push_back(layers.size());
    return ends;
}
}  // namespace pipescope
