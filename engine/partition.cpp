#include "engine/partition.h"

#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/random.h"
#include "engine/skips/skip_slots.h"
#include "engine/tensor_state.h"

#include <ATen/SequenceNumber.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

namespace pipescope {
namespace {
std::string describe(const ModelLayer& layer, LayerId id) {
    return "layer " + std::to_string(id.value()) + " (" + layer.name + "): ";
}

/// Sum of the version counters, which in-place changes only ever raise.
std::uint64_t versions(const Tensors& tensors) {
    std::uint64_t sum = 0;
    for (const at::Tensor& tensor : tensors) {
        sum += version_of(tensor);
    }
    return sum;
}

std::uint64_t sum_of(const std::vector<c10::VariableVersion>& counters) {
    std::uint64_t sum = 0;
    for (const c10::VariableVersion& each : counters) {
        sum += each.current_version();
    }
    return sum;
}

/// Changes if the parameter's gradient changes or comes to be.
std::uint64_t gradient_state(const at::Tensor& parameter) {
    if (!parameter.defined() || !parameter.requires_grad() || !parameter.grad().defined()) {
        return 0;
    }
    const at::Tensor& gradient = parameter.grad();
    // Views of one buffer share its version, which other lanes raise too.
    const bool is_part = gradient.has_storage() && gradient.storage().nbytes() > gradient.nbytes();
    return 1 + (is_part ? 0 : std::uint64_t{version_of(gradient)});
}

bool does_train(const at::Tensor& parameter) {
    return parameter.defined() && parameter.requires_grad();
}

std::vector<bool> which_train(const std::vector<at::Tensor>& parameters) {
    std::vector<bool> trains(parameters.size());
    std::transform(parameters.begin(), parameters.end(), trains.begin(), does_train);
    return trains;
}

/// While it lives, those parameters require gradients that did then.
class TrainsAs {
public:
    TrainsAs(const std::vector<at::Tensor>& parameters, const std::vector<bool>& then) : now_(which_train(parameters)) {
        if (then.size() == now_.size() && then != now_) {
            parameters_ = &parameters;
            set(then);
        }
    }
    ~TrainsAs() {
        if (parameters_ != nullptr) {
            set(now_);
        }
    }
    TrainsAs(const TrainsAs&) = delete;
    TrainsAs& operator=(const TrainsAs&) = delete;

private:
    void set(const std::vector<bool>& trains) const {
        for (std::size_t k = 0; k < trains.size(); ++k) {
            if (does_train((*parameters_)[k]) != trains[k]) {
                (*parameters_)[k].set_requires_grad(trains[k]);
            }
        }
    }

    const std::vector<at::Tensor>* parameters_ = nullptr;  // null if nothing is to be changed
    const std::vector<bool> now_;
};

/// Tensors that appear twice or share a storage as views.
Tensors tensors_sharing_storage(const Tensors& tensors) {
    if (tensors.size() < 2) {
        return {};
    }
    const auto storage_of = [](const at::Tensor& tensor) -> const void* {
        return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl() : nullptr;
    };
    Tensors those;
    for (const at::Tensor& tensor : tensors) {
        const void* const storage = storage_of(tensor);
        const auto shares = [&](const at::Tensor& other) { return storage_of(other) == storage; };
        if (storage != nullptr && std::count_if(tensors.begin(), tensors.end(), shares) > 1) {
            those.push_back(tensor);
        }
    }
    return those;
}

void check_outputs(const Tensors& outputs) {
    if (outputs.empty()) {
        throw LayerError("forward returned no tensor; a layer returns at least one; return what the next layer needs");
    }
    for (std::size_t k = 0; k < outputs.size(); ++k) {
        if (!outputs[k].defined()) {
            throw LayerError(
                "output " + std::to_string(k) +
                " of forward is an undefined tensor; a layer returns tensors; return a value or leave it out");
        }
    }
}

std::vector<CheckpointedForward::Form> forms_of(const Tensors& tensors) {
    std::vector<CheckpointedForward::Form> forms;
    for (const at::Tensor& tensor : tensors) {
        forms.push_back(tensor.defined() ? CheckpointedForward::Form{true, tensor.scalar_type(), tensor.sizes().vec()}
                                         : CheckpointedForward::Form{false, at::kFloat, {}});
    }
    return forms;
}

/// "Float [2, 4] and Long [2]"
std::string described(const std::vector<CheckpointedForward::Form>& forms) {
    std::string text;
    for (const auto& form : forms) {
        text += text.empty() ? "" : " and ";
        if (!form.is_defined) {
            text += "nothing";
            continue;
        }
        text += std::string(c10::toString(form.dtype)) + " [";
        for (std::size_t k = 0; k < form.sizes.size(); ++k) {
            text += (k == 0 ? "" : ", ") + std::to_string(form.sizes[k]);
        }
        text += "]";
    }
    return text;
}
}  // namespace

Partition::Partition(PartitionId id, LayerId first, std::vector<ModelLayer> layers, PartitionSkips skips)
    : id_(id), first_(first), layers_(std::move(layers)), skips_(std::move(skips)) {
    list_tensors();
}

void Partition::list_tensors() {
    parameters_.clear();
    std::unordered_set<const c10::TensorImpl*> listed;  // a layer may list one under two names
    for (const ModelLayer& each : layers_) {
        for (const auto& [name, tensor] : each.layer->parameters()) {
            if (listed.insert(tensor.unsafeGetTensorImpl()).second) {
                parameters_.push_back(tensor);
            }
        }
    }
    expects_gradient_.assign(parameters_.size(), false);
    list_buffers();
    if (deferred_) {
        defer_batch_norm();
    }
}

bool Partition::trains_as_listed() const {
    return std::ranges::equal(parameters_, trains_, {}, does_train);
}

void Partition::list_buffers() {
    NamedTensors frozen = named(&Layer::parameters);
    std::erase_if(frozen, [](const auto& each) { return !each.second.defined() || each.second.requires_grad(); });
    buffers_.list(named(&Layer::buffers), frozen);
    trains_ = which_train(parameters_);
}

std::vector<HeldBuffers> Partition::hold_buffers() {
    std::vector<HeldBuffers> held;
    for (ModelLayer& each : layers_) {
        held.push_back(each.layer->hold_buffers());
    }
    if (held != held_) {
        list_buffers();
        held_ = held;
    }
    return held;
}

at::Tensor Partition::keeper_of(const at::Tensor& output) const {
    for (const ModelLayer& each : layers_) {
        if (at::Tensor keeper = each.layer->keeper_of(output); keeper.defined()) {
            return keeper;
        }
    }
    const auto found =
        std::ranges::find_if(parameters_, [&](const at::Tensor& each) { return share_storage(each, output); });
    return found == parameters_.end() ? buffers_.sharing_memory_with(output) : *found;
}

std::string Partition::title() const {
    return "partition " + std::to_string(id_.value()) + " (" + name() + ")";
}

std::string Partition::name() const {
    return layers_.size() == 1 ? layers_.front().name : layers_.front().name + ".." + layers_.back().name;
}

bool Partition::trains() const {
    return std::any_of(parameters_.begin(), parameters_.end(),
                       [](const at::Tensor& parameter) { return parameter.requires_grad(); });
}

bool Partition::goes_backward(const Tensors& inputs) const {
    return trains() || any_requires_grad(inputs);
}

std::vector<at::Tensor> Partition::trained_parameters() const {
    std::vector<at::Tensor> trained;
    std::copy_if(parameters_.begin(), parameters_.end(), std::back_inserter(trained),
                 [this](const at::Tensor& parameter) { return parameter.requires_grad() && is_own(parameter); });
    return trained;
}

NamedTensors Partition::own_parameters() const {
    NamedTensors own;
    std::unordered_set<const c10::TensorImpl*> held = foreign_;  // by others, or by earlier layers
    for (const ModelLayer& each : layers_) {
        std::unordered_set<const c10::TensorImpl*> here;
        for (auto& [name, tensor] : each.layer->parameters()) {
            const c10::TensorImpl* const identity = tensor.unsafeGetTensorImpl();
            if (!tensor.defined() || !held.contains(identity)) {
                here.insert(identity);
                own.emplace_back(each.key + "." + name, std::move(tensor));
            }
        }
        held.merge(here);
    }
    return own;
}

NamedTensors Partition::named(NamedTensors (Layer::*tensors)() const) const {
    NamedTensors all;
    for (const ModelLayer& each : layers_) {
        for (auto& [name, tensor] : ((*each.layer).*tensors)()) {
            all.emplace_back(each.key + "." + name, std::move(tensor));
        }
    }
    return all;
}

void Partition::train(bool on) {
    for (ModelLayer& each : layers_) {
        each.layer->train(on);
    }
    buffers_.learn_again();
}

void Partition::to(at::ScalarType dtype) {
    for (ModelLayer& each : layers_) {
        each.layer->to(dtype);
    }
}

Tensors Partition::run(Tensors values, const RandomPlace& place, LayerMarks* marks) {
    SkipSlots slots(skips_, values);
    for (std::size_t k = 0; k < layers_.size(); ++k) {
        const LayerId running{first_.index() + k};
        set_current_layer(running);
        if (marks != nullptr) {
            marks->push_back(at::sequence_number::peek());
        }
        const SeededRandom random(random_seed(place.seed, place.step, place.micro_batch, running));
        try {
            values = slots.forward(*layers_[k].layer, k, values);
            check_outputs(values);
        } catch (const LayerError& error) {
            throw LayerError(describe(layers_[k], running) + error.what());
        }
    }
    return slots.with_outgoing(std::move(values));
}

void Partition::defer_batch_norm() {
    deferred_.emplace(named(&Layer::buffers));
}

void Partition::begin_mini_batch() {
    if (!trains_as_listed()) {
        list_buffers();  // a frozen parameter counts as a buffer
    }
    expects_gradient_.assign(parameters_.size(), false);
    if (deferred_) {
        deferred_->begin_mini_batch();
    }
}

void Partition::end_mini_batch() {
    if (deferred_) {
        deferred_->end_mini_batch();
    }
}

void Partition::expect_gradients(const std::unordered_set<const c10::TensorImpl*>& leaves) {
    const std::lock_guard lock(*expects_mutex_);
    for (std::size_t k = 0; k < parameters_.size() && !leaves.empty(); ++k) {
        if (leaves.contains(parameters_[k].unsafeGetTensorImpl())) {
            expects_gradient_[k] = true;
        }
    }
}

void Partition::note_gradients() {
    const std::lock_guard lock(*expects_mutex_);
    noted_gradients_.assign(parameters_.size(), 0);
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
        if (!expects_gradient_[k]) {
            noted_gradients_[k] = gradient_state(parameters_[k]);
        }
    }
}

bool Partition::have_gradients_changed() const {
    const std::lock_guard lock(*expects_mutex_);
    for (std::size_t k = 0; k < parameters_.size(); ++k) {
        if (!expects_gradient_[k] && gradient_state(parameters_[k]) != noted_gradients_[k]) {
            return true;
        }
    }
    return false;
}

Tensors Partition::forward(Tensors inputs, const RandomPlace& place, LayerMarks* marks, CheckpointedForward* kept) {
    if (!deferred_) {
        return forward_and_keep(std::move(inputs), place, marks, kept);
    }
    DeferredBatchNorm::Collecting collecting(*deferred_);
    Tensors outputs = forward_and_keep(std::move(inputs), place, marks, kept);
    collecting.finish();
    return outputs;
}

Tensors Partition::forward_and_keep(Tensors inputs, const RandomPlace& place, LayerMarks* marks,
                                    CheckpointedForward* kept) {
    if (kept == nullptr) {
        return forward_checked(std::move(inputs), place, marks);
    }
    kept->held = hold_buffers();
    kept->trains = which_train(parameters_);
    kept->buffers = buffers_.before();
    note_gradients();
    Tensors outputs = forward_checked(std::move(inputs), place, marks);
    if (have_gradients_changed()) {
        set_current_layer(first_);
        throw EngineError(title() +
                          " changed the gradient of a parameter in its forward, as a backward() within it does; its "
                          "recompute would do that again; use autograd::grad() there, or checkpoint never");
    }
    buffers_.after(kept->buffers);
    kept->outputs = forms_of(outputs);
    return outputs;
}

/// The version counters of incoming skips that later partitions pop too. A counter keeps no tensor's memory.
std::vector<c10::VariableVersion> Partition::versions_popped_later(const Tensors& inputs) const {
    std::vector<c10::VariableVersion> counters;
    for (std::size_t k = 0; k < skips_.is_popped_later.size(); ++k) {
        if (skips_.is_popped_later[k] != 0 && inputs[k].defined() && !inputs[k].is_inference()) {
            counters.push_back(inputs[k].unsafeGetTensorImpl()->version_counter());
        }
    }
    return counters;
}

Tensors Partition::forward_checked(Tensors inputs, const RandomPlace& place, LayerMarks* marks) {
    Tensors unchangeable;
    if (is_checkpointing()) {
        unchangeable = inputs;
    } else if (at::GradMode::is_enabled()) {
        unchangeable = tensors_sharing_storage(inputs);
    }
    const std::uint64_t before = versions(unchangeable);
    const std::vector<c10::VariableVersion> of_skips = versions_popped_later(inputs);
    const std::uint64_t before_of_skips = sum_of(of_skips);
    Tensors outputs = run(std::move(inputs), place, marks);
    if (sum_of(of_skips) != before_of_skips) {
        set_current_layer(first_);
        throw LayerError(title() +
                         " changed in place a skip that a later partition pops too, and which may not see the change "
                         "there; use the out-of-place form, or clone the skip first");
    }
    if (versions(unchangeable) != before) {
        set_current_layer(first_);
        throw LayerError(title() +
                         (is_checkpointing()
                              ? " changed its input in place; a checkpointed partition computes again from its input; "
                              : " changed in place an input that shares memory with another of its inputs; autograd "
                                "no longer knows here that they do, and would get their gradients wrong; ") +
                         "use the out-of-place form, or move the cut");
    }
    return outputs;
}

Tensors Partition::recompute(Tensors inputs, const RandomPlace& place, CheckpointedForward& kept, LayerMarks* marks) {
    set_current_layer(first_);
    const TrainsAs as_then(parameters_, kept.trains);
    const bool is_expected = goes_backward(inputs);
    kept.buffers.check("micro-batch " + std::to_string(place.micro_batch.value()) + " on " + title());
    const BufferCopies statistics = kept.buffers.statistics();
    const BufferCopies::Exchange unchanged(statistics);
    Tensors outputs;
    std::vector<at::Tensor> in_graph;
    {
        const BufferCopies::Exchange as_in_forward(kept.buffers.copies());
        for (std::size_t k = 0; k < layers_.size(); ++k) {  // null, too: an earlier recompute may have failed midway
            layers_[k].layer->recompute_with(std::exchange(kept.held[k], nullptr));
        }
        outputs = run(std::move(inputs), place, marks);
        in_graph = as_in_forward.newly_used();
    }
    kept.buffers.keep_only(in_graph);
    check_forms(kept, outputs, place.micro_batch);
    if (!is_expected) {
        refuse_unlisted(outputs);
    }
    return outputs;
}

Tensors Partition::forward_without_backward(Tensors inputs, const RandomPlace& place) {
    const at::AutoGradMode grad_mode(true);
    Tensors outputs = forward(std::move(inputs), place);
    refuse_unlisted(outputs);
    return outputs;
}

void Partition::refuse_unlisted(const Tensors& outputs) const {
    if (any_requires_grad(outputs)) {
        set_current_layer(first_);
        throw LayerError(title() +
                         " computes with a tensor that requires a gradient and is none of its parameters; with "
                         "checkpoints, a partition without parameters that train, and whose inputs need no gradient, "
                         "is left out of the backward; name the tensor among a layer's parameters, or use checkpoint "
                         "never");
    }
}

void Partition::check_forms(const CheckpointedForward& kept, const Tensors& outputs, MicroBatchId micro_batch) {
    const std::vector<CheckpointedForward::Form> again = forms_of(outputs);
    if (again != kept.outputs) {
        set_current_layer(first_);
        throw EngineError(
            title() + " returned " + described(kept.outputs) + " for micro-batch " +
            std::to_string(micro_batch.value()) + " in forward, and " + described(again) +
            " when that was recomputed for the backward; a recompute returns what its forward did; remove "
            "what the layers choose by their own count or state, or use checkpoint never");
    }
}
}  // namespace pipescope
