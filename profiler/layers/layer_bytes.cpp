#include "profiler/layers/layer_bytes.h"

#include "engine/gradients/gradient_needs.h"
#include "profiler/layers/measured_memory.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

Bytes total(const std::vector<BoundaryStorage>& storages) {
    Bytes sum = 0;
    for (const BoundaryStorage& storage : storages) {
        sum += storage.bytes;
    }
    return sum;
}

bool holds(const std::vector<BoundaryStorage>& storages, const BoundaryStorage& sought) {
    return std::any_of(storages.begin(), storages.end(),
                       [&](const BoundaryStorage& storage) { return storage.identity == sought.identity; });
}

std::vector<WeakStorage> weak_storages(const Tensors& tensors, const std::vector<BoundaryStorage>& storages) {
    std::vector<WeakStorage> weak;
    for (const BoundaryStorage& storage : storages) {
        const auto tensor = std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& each) {
            return each.storage().unsafeGetStorageImpl() == storage.identity;
        });
        weak.push_back(tensor->storage().getWeakStorageImpl());
    }
    return weak;
}

void mark_kept(std::vector<BoundaryStorage>& storages, const std::vector<WeakStorage>& weak) {
    for (std::size_t i = 0; i < storages.size(); ++i) {
        storages[i].kept = !storages[i].passed_through && !weak[i].expired();
    }
}

Tensors joined(Tensors tensors, const Tensors& more) {
    tensors.insert(tensors.end(), more.begin(), more.end());
    return tensors;
}

// Counts only inputs that the layer uses. If an input became an output, its gradient counts as the output's.
Bytes gradient_bytes(const Tensors& inputs, const Tensors& outputs) {
    Bytes bytes = 0;
    for (const at::Tensor& input : inputs) {
        const bool passed_through = std::any_of(outputs.begin(), outputs.end(),
                                                [&](const at::Tensor& output) { return output.is_alias_of(input); });
        bytes += input.requires_grad() && !passed_through ? static_cast<Bytes>(input.nbytes()) : 0;
    }
    return bytes;
}

// Returns true if every arriving gradient lies in the storage of an output's gradient.
bool run_once(LayerChain& chain, std::size_t layer, const Activation& activation) {
    TrialGraph graph;
    Activation running = graph.open(fresh_inputs(activation));
    int own = 0;
    int passed = 0;
    Tensors given;  // the outputs' gradients
    for (const at::Tensor& taken : joined(running.tensors, popped_tensors(running, chain.skips(layer)))) {
        if (taken.defined() && taken.requires_grad()) {
            taken.register_hook([&](const at::Tensor& gradient) {
                if (!gradient.defined()) {
                    return;  // no output with a gradient depends on it
                }
                const bool is_given = std::any_of(given.begin(), given.end(), [&](const at::Tensor& each) {
                    return each.defined() && each.is_alias_of(gradient);
                });
                ++(is_given ? passed : own);
            });
        }
    }
    chain.forward(layer, running);
    graph.close(joined(running.tensors, stashed_tensors(running, chain.skips(layer))));
    running = {};
    given = graph.output_gradients();
    graph.backward(given);
    return passed > 0 && own == 0;
}

void count_operators(LayerChain& chain, std::size_t layer, const Activation& activation, LayerBytes& bytes) {
    TrialGraph graph;
    Activation running = graph.open(fresh_inputs(activation));
    OperatorCount count;
    chain.forward(layer, running);
    bytes.forward_work = count.take();
    graph.close(joined(running.tensors, stashed_tensors(running, chain.skips(layer))));
    Tensors gradients = graph.output_gradients();
    count.keep(gradients);
    count.take();
    const Tensors passed = graph.backward(std::move(gradients));
    bytes.backward_work = count.take();
    const std::vector<Operators> chains = count.chains();
    bytes.forward_chains = chains[0];
    bytes.backward_chains = chains[2];
}

bool any_kept(const std::vector<BoundaryStorage>& storages) {
    return std::any_of(storages.begin(), storages.end(), [](const BoundaryStorage& storage) { return storage.kept; });
}
}  // namespace

LayerWalk::LayerWalk(Activation start) : activation_(as_leaves(start)) {}

void LayerWalk::next(LayerChain& chain, std::size_t index) {
    const MeasuredMemory memory(chain.device());
    const bool passes_gradient = run_once(chain, index, activation_);
    Measured here = measure(chain, index, memory);
    here.bytes.passes_gradient = passes_gradient;
    if (below_) {
        settle(*below_, here);
        layers_.push_back(std::move(below_->bytes));
    } else {
        here.bytes.keeps_input = any_kept(here.inputs);
    }
    below_ = std::move(here);
}

LayerWalk::Measured LayerWalk::measure(LayerChain& chain, std::size_t layer, const MeasuredMemory& memory) {
    Measured measured;
    LayerBytes& bytes = measured.bytes;
    count_operators(chain, layer, activation_, bytes);

    TrialGraph graph;
    Activation running = graph.open(fresh_inputs(activation_));
    Tensors inputs = running.tensors;
    Tensors popped = popped_tensors(running, chain.skips(layer));
    measured.inputs = storages_of(inputs);
    const std::vector<BoundaryStorage> popped_storages = storages_of(popped);
    const Bytes before = memory.held();
    memory.reset_peak();
    chain.forward(layer, running);
    const Bytes growth = memory.held() - before;
    const Bytes forward_peak = memory.peak() - before;

    Tensors outputs = running.tensors;
    Tensors stashed = stashed_tensors(running, chain.skips(layer));
    measured.outputs = storages_of(outputs);
    Bytes made = 0;
    for (BoundaryStorage& output : measured.outputs) {
        output.passed_through = holds(measured.inputs, output) || holds(popped_storages, output);
        made += output.passed_through ? 0 : output.bytes;
    }
    for (const BoundaryStorage& skip : storages_of(stashed)) {
        const bool counted =
            holds(measured.inputs, skip) || holds(popped_storages, skip) || holds(measured.outputs, skip);
        made += counted ? 0 : skip.bytes;
    }
    bytes.output = total(measured.outputs);
    bytes.saved = std::max<Bytes>(0, growth - made);
    bytes.aliases_input = !inputs.empty() && !outputs.empty() && outputs[0].is_alias_of(inputs[0]);
    for (const SkipName& name : chain.skips(layer).stash) {
        const auto skip = running.skips.find(name);
        const bool is_there = skip != running.skips.end() && skip->second.defined();
        bytes.stash[profile_name(name)] = is_there ? static_cast<Bytes>(skip->second.nbytes()) : 0;
        if (is_there && !can_carry_gradient(skip->second)) {
            bytes.without_gradient.insert(profile_name(name));
        }
    }
    for (const SkipName& name : chain.skips(layer).pop) {
        bytes.pop.push_back(profile_name(name));
    }
    activation_ = fresh_inputs(running);

    const std::vector<WeakStorage> weak_inputs = weak_storages(inputs, measured.inputs);
    const std::vector<WeakStorage> weak_outputs = weak_storages(outputs, measured.outputs);
    const Bytes input_gradient = gradient_bytes(joined(inputs, popped), joined(outputs, stashed));
    graph.close(joined(outputs, stashed));
    for (Tensors* tensors : {&inputs, &popped, &outputs, &stashed}) {
        tensors->clear();
    }
    running = {};
    mark_kept(measured.inputs, weak_inputs);
    mark_kept(measured.outputs, weak_outputs);

    Tensors gradients = graph.output_gradients();
    const Bytes with_graph = memory.held();
    memory.reset_peak();
    graph.backward(std::move(gradients));
    const Bytes backward_peak = memory.peak() - with_graph - input_gradient;
    bytes.transient = std::max({Bytes{0}, forward_peak - growth, backward_peak});
    return measured;
}

// Decides which layer keeps the storages at the boundary of two layers, from what both saw.
void LayerWalk::settle(Measured& below, Measured& above) {
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

void LayerWalk::loss(const LayerChain& chain, const Tensors& target) {
    if (!chain.has_loss()) {
        return;
    }
    {
        const Tensors leaves = as_leaves(activation_.tensors);
        OperatorCount count;
        const at::Tensor loss = chain.loss(leaves, target);
        if (loss.requires_grad()) {
            loss.backward();
        }
        loss_.loss_work = count.take();
        loss_.loss_chains = count.chains().front();
    }
    loss_.loss_transient = loss_transient_of(chain, activation_.tensors, target);
    if (lacks_a_gradient(activation_)) {
        loss_.all_gradients_loss_transient = loss_transient_of(chain, requiring_gradients(activation_).tensors, target);
    }
}

Bytes loss_transient_of(const LayerChain& chain, const Tensors& output, const Tensors& target) {
    const MeasuredMemory memory(chain.device());
    const Tensors leaves = as_leaves(output);
    const Bytes before = memory.held();
    memory.reset_peak();
    const Tensors gradients = loss_gradients(chain, leaves, target);
    return std::max<Bytes>(0, memory.peak() - before - total(storages_of(gradients)));
}

ModelBytes LayerWalk::bytes() const {
    ModelBytes model = loss_;
    model.layers = layers_;
    if (below_) {
        model.layers.push_back(below_->bytes);
        model.layers.back().keeps_output = any_kept(below_->outputs);
    }
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
