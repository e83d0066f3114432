#include "engine/step/step_tensors.h"

#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/mini_batch.h"
#include "engine/tensor_state.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>

#include <iterator>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
/// Concatenates `front` and `back`.
Tensors joined(Tensors front, Tensors back) {
    if (front.empty()) {
        return back;
    }
    front.insert(front.end(), std::make_move_iterator(back.begin()), std::make_move_iterator(back.end()));
    return front;
}

void drop_front(Tensors& tensors, std::size_t count) {
    tensors.erase(tensors.begin(), tensors.begin() + static_cast<std::ptrdiff_t>(count));
}
}  // namespace

StepTensors::StepTensors(Pipeline& pipeline, std::vector<std::int64_t> sizes, bool trains)
    : pipeline_(pipeline),
      split_(pipeline.split()),
      sizes_(std::move(sizes)),
      trains_(trains),
      slots_(pipeline.partitions().size(), sizes_.size()),
      outputs_(sizes_.size()),
      input_gradients_(sizes_.size()),
      shared_weights_(pipeline.shared_routes().size()),
      shared_gradients_(pipeline.shared_routes().size()) {
    if (pipeline.skips().routes().empty()) {
        return;
    }
    skip_slots_ = {pipeline.partitions().size(), sizes_.size()};
    for (const Partition& partition : pipeline.partitions()) {
        for (std::size_t i = 0; i < sizes_.size(); ++i) {
            SkipSlot& here = skip_slots_[{MicroBatchId{i}, partition.id()}];
            here.skips.resize(partition.skips().incoming.size());
            here.stashed.resize(partition.skips().incoming.size());
            here.gradients.resize(partition.skips().outgoing.size());
        }
    }
}

// ---- The caller's input ----

InputVersions StepTensors::cut_input(const Tensors& input) {
    Tensors leaves;
    for (const at::Tensor& tensor : input) {
        leaves.push_back(tensor.detach());
    }
    std::vector<Tensors> parts = split(leaves, sizes_, split_->input);
    if (trains_) {
        refuse_made_gradients(input, split_->input);
    }
    for (Tensors& part : parts) {
        if (trains_) {
            refuse_made_gradients(part, split_->input);
        }
        for (std::size_t k = 0; k < part.size(); ++k) {
            part[k] = part[k].detach();  // otherwise a view made in no_grad mode could not become a leaf
            if (trains_ && input[k].requires_grad()) {
                part[k].set_requires_grad(true);
            }
        }
    }
    InputVersions versions(input, parts, split_->input, trains_);
    for (std::size_t i = 0; i < parts.size(); ++i) {
        inputs({MicroBatchId{i}, PartitionId{0}}) = std::move(parts[i]);
    }
    for (const at::Tensor& tensor : input) {
        input_.push_back(trains_ && tensor.requires_grad() ? tensor : at::Tensor());
    }
    return versions;
}

Tensors StepTensors::take_input_gradients() {
    const at::NoGradGuard no_grad;
    Tensors gradients =
        gather_gradients(std::exchange(input_gradients_, {}), std::exchange(input_, {}), sizes_, split_->input);
    for (at::Tensor& gradient : gradients) {
        if (is_storage_shared(gradient)) {  // if a single micro-batch's gradient was passed through
            gradient = gradient.clone();
        }
    }
    return gradients;
}

// ---- Between partitions ----

Tensors StepTensors::take_inputs(Cell at) {
    const auto& incoming = skips_of(at.j).incoming;
    Tensors inputs = std::exchange(slots_[at].inputs, {});
    if (incoming.empty()) {
        return inputs;
    }
    const SkipLayout& layout = pipeline_.skips();
    SkipSlot& here = skip_slots_[at];
    for (std::size_t k = 0; k < incoming.size(); ++k) {
        here.stashed[k].check(here.skips[k], layout.name_of(incoming[k]));
        if (const std::optional<PartitionId> next = layout.next_behind(incoming[k], at.j)) {
            const at::Tensor& skip = here.skips[k];
            at::Tensor leaf = skip.defined() ? skip.detach() : skip;
            if (needs_gradient(skip)) {
                leaf.set_requires_grad(true);
            }
            SkipSlot& behind = skip_slots_[{at.i, *next}];
            const std::size_t place = layout.place_in(incoming[k], *next);
            behind.skips[place] = std::move(leaf);
            behind.stashed[place] = std::move(here.stashed[k]);
        }
    }
    return joined(std::exchange(here.skips, {}), std::move(inputs));
}

void StepTensors::leave_outputs(Cell at, const Tensors& outputs, bool may_require_grad) {
    Tensors leaves;
    leaves.reserve(outputs.size());
    for (const at::Tensor& output : outputs) {
        at::Tensor leaf = output.defined() ? output.detach() : output;
        if (leaf.defined() && trains_ && (output.requires_grad() || (may_require_grad && can_carry_gradient(output)))) {
            leaf.set_requires_grad(true);
        }
        leaves.push_back(std::move(leaf));
    }
    const auto& outgoing = skips_of(at.j).outgoing;
    for (std::size_t k = 0; k < outgoing.size(); ++k) {
        stash(at.i, outgoing[k], std::move(leaves[k]));
    }
    drop_front(leaves, outgoing.size());
    (at.j < last_partition() ? inputs({at.i, PartitionId{at.j.value() + 1}}) : outputs_[at.i.index()]) =
        std::move(leaves);
}

Tensors StepTensors::take_output_gradients(Cell at) {
    Tensors gradients = std::exchange(slots_[at].gradients, {});
    if (skips_of(at.j).outgoing.empty()) {
        return gradients;
    }
    return joined(std::exchange(skip_slots_[at].gradients, {}), std::move(gradients));
}

void StepTensors::leave_input_gradients(Cell at, Tensors gradients) {
    const auto& incoming = skips_of(at.j).incoming;
    if (!gradients.empty()) {
        for (std::size_t k = 0; k < incoming.size(); ++k) {
            add_skip_gradient(at.i, incoming[k], std::move(gradients[k]));
        }
        drop_front(gradients, incoming.size());
    }
    (at.j.value() > 0 ? slots_[{at.i, PartitionId{at.j.value() - 1}}].gradients : input_gradients_[at.i.index()]) =
        std::move(gradients);
}

/// The place from which the route's first popping task takes the skip.
at::Tensor& StepTensors::incoming_skip(MicroBatchId i, std::size_t route) {
    const SkipLayout& skips = pipeline_.skips();
    const PartitionId first = *skips.first_behind(route);
    return skip_slots_[{i, first}].skips[skips.place_in(route, first)];
}

void StepTensors::stash(MicroBatchId i, std::size_t route, at::Tensor tensor) {
    const SkipLayout& skips = pipeline_.skips();
    const PartitionId first = *skips.first_behind(route);
    skip_slots_[{i, first}].stashed[skips.place_in(route, first)] = StashedVersion(tensor);
    incoming_skip(i, route) = std::move(tensor);
}

/// The place from which the stashing task takes the gradient that comes back by the route.
at::Tensor& StepTensors::outgoing_skip_gradient(MicroBatchId i, std::size_t route) {
    const SkipLayout& skips = pipeline_.skips();
    return skip_slots_[{i, skips.routes()[route].from}].gradients[skips.place_out(route)];
}

/// Later partitions of the route's lane have added theirs before. Like autograd, adds in place to a gradient that
/// nothing else holds.
void StepTensors::add_skip_gradient(MicroBatchId i, std::size_t route, at::Tensor gradient) {
    at::Tensor& sum = outgoing_skip_gradient(i, route);
    if (!sum.defined() || !gradient.defined()) {
        sum = sum.defined() ? std::move(sum) : std::move(gradient);
        return;
    }
    const at::NoGradGuard no_grad;
    if (sum.layout() != at::kStrided || !sum.is_non_overlapping_and_dense() || is_held_elsewhere(sum)) {
        sum = sum + gradient;
    } else {
        sum.add_(gradient);
    }
}

// ---- Shared parameters ----

void StepTensors::leave_shared(const TaskKey& copy) {
    const auto route = static_cast<std::size_t>(copy.skip);
    if (copy.kind == TaskKind::shared_forward) {
        shared_weights_[route] = pipeline_.shared().weights(route);
    } else if (copy.kind == TaskKind::shared_backward) {
        shared_gradients_[route] = pipeline_.shared().take_gradients(route);
    }
}

Tensors StepTensors::take_shared_weights(PartitionId user) {
    Tensors before;
    for (std::size_t route = 0; route < shared_weights_.size(); ++route) {
        if (pipeline_.shared_routes()[route].users.front() == user) {
            Tensors replaced = pipeline_.shared().receive(route, std::exchange(shared_weights_[route], {}));
            before = joined(std::move(before), std::move(replaced));
        }
    }
    return before;
}

void StepTensors::add_shared_gradients(std::size_t route) {
    pipeline_.shared().add(route, std::exchange(shared_gradients_[route], {}));
}

// ---- Copies ----

std::span<at::Tensor> StepTensors::moved_by(const TaskKey& copy) {
    const Cell sender = cell_of(copy);
    const auto skip = static_cast<std::size_t>(copy.skip);
    switch (copy.kind) {
        case TaskKind::copy_forward: return inputs({sender.i, PartitionId{copy.partition + 1}});
        case TaskKind::copy_backward: return slots_[sender].gradients;
        case TaskKind::skip_forward: return {&incoming_skip(sender.i, skip), 1};
        case TaskKind::skip_backward: return {&outgoing_skip_gradient(sender.i, skip), 1};
        case TaskKind::shared_forward: return shared_weights_[skip];
        case TaskKind::shared_backward: return shared_gradients_[skip];
        default: throw EngineError(to_string(copy) + " is no copy; only copies move tensors; ask for one");
    }
}

void StepTensors::put(const TaskKey& copy, Tensors tensors) {
    const Cell sender = cell_of(copy);
    const auto skip = static_cast<std::size_t>(copy.skip);
    switch (copy.kind) {
        case TaskKind::copy_forward: inputs({sender.i, PartitionId{copy.partition + 1}}) = std::move(tensors); break;
        case TaskKind::copy_backward: slots_[sender].gradients = std::move(tensors); break;
        case TaskKind::skip_forward: stash(sender.i, skip, std::move(tensors.at(0))); break;
        case TaskKind::shared_forward: shared_weights_[skip] = std::move(tensors); break;
        case TaskKind::shared_backward: shared_gradients_[skip] = std::move(tensors); break;
        default: outgoing_skip_gradient(sender.i, skip) = std::move(tensors.at(0));
    }
}

// ---- The last partition's outputs ----

Tensors StepTensors::take_outputs(MicroBatchId i) {
    return std::exchange(outputs_[i.index()], {});
}

Tensors StepTensors::gather_outputs() {
    const at::NoGradGuard no_grad;
    std::vector<bool> wants(outputs_.front().size(), false);
    output_sizes_.assign(wants.size(), {});
    for (const Tensors& outputs : outputs_) {
        for (std::size_t k = 0; k < outputs.size() && k < wants.size(); ++k) {
            wants[k] = wants[k] || outputs[k].requires_grad();
            const std::int64_t dimension = k < split_->output.size() ? split_->output[k] : 0;
            const bool has = -outputs[k].dim() <= dimension && dimension < outputs[k].dim();  // gather() refuses others
            output_sizes_[k].push_back(has ? outputs[k].size(dimension) : 0);
        }
    }
    Tensors whole = gather(std::exchange(outputs_, {}), split_->output);
    for (std::size_t k = 0; k < whole.size(); ++k) {
        whole[k] = whole[k].detach();
        whole[k].set_requires_grad(wants[k]);
    }
    return whole;
}

void StepTensors::leave_output_gradients(MicroBatchId i, Tensors gradients) {
    slots_[{i, last_partition()}].gradients = std::move(gradients);
}

void StepTensors::cut_output_gradients(const Tensors& gradients) {
    const at::NoGradGuard no_grad;
    if (num_micro_batches() == 1) {
        leave_output_gradients(MicroBatchId{0}, gradients);
        return;
    }
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        const std::vector<Tensors> parts =
            split({gradients[k]}, output_sizes_[k], {{.dimension = k < split_->output.size() ? split_->output[k] : 0}});
        for (std::size_t i = 0; i < parts.size(); ++i) {
            slots_[{MicroBatchId{i}, last_partition()}].gradients.push_back(parts[i].front());
        }
    }
}

void StepTensors::clear() {
    slots_.clear();
    skip_slots_.clear();
    outputs_.clear();
    input_gradients_.clear();
    shared_weights_.clear();
    shared_gradients_.clear();
    input_.clear();
}
}  // namespace pipescope
