#include "engine/step_tensors.h"

#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/mini_batch.h"

#include <ATen/core/grad_mode.h>

#include <iterator>
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

/// Removes and returns the first `count` tensors.
Tensors take_front(Tensors& tensors, std::size_t count) {
    const auto end = tensors.begin() + static_cast<std::ptrdiff_t>(count);
    Tensors front(std::make_move_iterator(tensors.begin()), std::make_move_iterator(end));
    tensors.erase(tensors.begin(), end);
    return front;
}
}  // namespace

StepTensors::StepTensors(const SkipLayout& skips, int num_partitions, std::vector<std::int64_t> sizes)
    : skips_(skips),
      last_partition_(num_partitions - 1),
      sizes_(std::move(sizes)),
      cells_(static_cast<std::size_t>(num_partitions) * sizes_.size()),
      outputs_(sizes_.size()),
      input_gradients_(sizes_.size()) {
    for (int j = 0; j < num_partitions; ++j) {
        for (int i = 0; i < num_micro_batches(); ++i) {
            cell(i, j).skips.resize(skips_of(j).incoming.size());
            cell(i, j).stashed.resize(skips_of(j).incoming.size());
            cell(i, j).skip_gradients.resize(skips_of(j).outgoing.size());
        }
    }
}

void StepTensors::set_input(const Tensors& input, bool trains) {
    Tensors leaves;
    for (const at::Tensor& tensor : input) {
        leaves.push_back(tensor.detach());
    }
    std::vector<Tensors> parts = split(leaves, sizes_);
    for (int i = 0; i < num_micro_batches(); ++i) {
        Tensors& part = parts[static_cast<std::size_t>(i)];
        for (std::size_t k = 0; k < part.size(); ++k) {
            part[k] = part[k].detach();  // otherwise a view made in no_grad mode could not become a leaf
            if (trains && input[k].requires_grad()) {
                part[k].set_requires_grad(true);
            }
        }
    }
    input_versions_ = InputVersions(input, parts, trains);
    for (int i = 0; i < num_micro_batches(); ++i) {
        cell(i, 0).inputs = std::move(parts[static_cast<std::size_t>(i)]);
    }
    for (std::size_t k = 0; k < input.size(); ++k) {
        input_.push_back(trains && input[k].requires_grad() ? std::move(leaves[k]) : at::Tensor());
    }
}

Tensors StepTensors::take_inputs(int micro_batch, int partition) {
    Cell& here = cell(micro_batch, partition);
    for (std::size_t k = 0; k < here.skips.size(); ++k) {
        here.stashed[k].check(here.skips[k], skips_.skips()[skips_of(partition).incoming[k]].name);
    }
    return joined(std::exchange(here.skips, {}), std::exchange(here.inputs, {}));
}

void StepTensors::put_outputs(int micro_batch, int partition, Tensors outputs) {
    const auto& outgoing = skips_of(partition).outgoing;
    for (std::size_t k = 0; k < outgoing.size(); ++k) {
        Cell& there = cell(micro_batch, skips_.routes()[outgoing[k]].to.value());
        const std::size_t place = skips_.place_in(outgoing[k]);
        there.stashed[place] = StashedVersion(outputs[k]);
        there.skips[place] = std::move(outputs[k]);
    }
    take_front(outputs, outgoing.size());
    if (partition < last_partition_) {
        cell(micro_batch, partition + 1).inputs = std::move(outputs);
    } else {
        outputs_[static_cast<std::size_t>(micro_batch)] = std::move(outputs);
    }
}

Tensors StepTensors::take_gradients(int micro_batch, int partition) {
    Cell& here = cell(micro_batch, partition);
    return joined(std::exchange(here.skip_gradients, {}), std::exchange(here.gradients, {}));
}

void StepTensors::put_input_gradients(int micro_batch, int partition, Tensors gradients) {
    const auto& incoming = skips_of(partition).incoming;
    for (std::size_t k = 0; k < incoming.size() && k < gradients.size(); ++k) {
        const int from = skips_.routes()[incoming[k]].from.value();
        cell(micro_batch, from).skip_gradients[skips_.place_out(incoming[k])] = std::move(gradients[k]);
    }
    if (!gradients.empty()) {
        take_front(gradients, incoming.size());
    }
    if (partition > 0) {
        cell(micro_batch, partition - 1).gradients = std::move(gradients);
    } else {
        input_gradients_[static_cast<std::size_t>(micro_batch)] = std::move(gradients);
    }
}

std::span<at::Tensor> StepTensors::moved_by(const TaskKey& copy) {
    switch (copy.kind) {
        case TaskKind::copy_forward: return cell(copy.micro_batch, copy.partition + 1).inputs;
        case TaskKind::copy_backward: return cell(copy.micro_batch, copy.partition).gradients;
        case TaskKind::skip_forward: {
            const auto skip = static_cast<std::size_t>(copy.skip);
            Tensors& there = cell(copy.micro_batch, skips_.routes()[skip].to.value()).skips;
            return std::span(there).subspan(skips_.place_in(skip), 1);
        }
        case TaskKind::skip_backward: {
            const auto skip = static_cast<std::size_t>(copy.skip);
            Tensors& there = cell(copy.micro_batch, skips_.routes()[skip].from.value()).skip_gradients;
            return std::span(there).subspan(skips_.place_out(skip), 1);
        }
        default: throw EngineError(to_string(copy) + " is no copy; only copies move tensors; ask for one");
    }
}

Tensors StepTensors::take_outputs(int micro_batch) {
    return std::exchange(outputs_[static_cast<std::size_t>(micro_batch)], {});
}

Tensors StepTensors::gather_outputs() {
    const at::NoGradGuard no_grad;
    std::vector<bool> wants(outputs_.front().size(), false);
    output_sizes_.assign(wants.size(), {});
    for (const Tensors& outputs : outputs_) {
        for (std::size_t k = 0; k < outputs.size() && k < wants.size(); ++k) {
            wants[k] = wants[k] || outputs[k].requires_grad();
            output_sizes_[k].push_back(outputs[k].dim() > 0 ? outputs[k].size(0) : 0);
        }
    }
    Tensors whole = gather(std::exchange(outputs_, {}));
    for (std::size_t k = 0; k < whole.size(); ++k) {
        whole[k] = whole[k].detach();
        whole[k].set_requires_grad(wants[k]);
    }
    return whole;
}

void StepTensors::set_output_gradients(int micro_batch, Tensors gradients) {
    cell(micro_batch, last_partition_).gradients = std::move(gradients);
}

void StepTensors::set_output_gradients(const Tensors& gradients) {
    const at::NoGradGuard no_grad;
    if (num_micro_batches() == 1) {
        set_output_gradients(0, gradients);
        return;
    }
    std::vector<Tensors> parts(sizes_.size());
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        const std::vector<Tensors> of_output = split({gradients[k]}, output_sizes_[k]);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            parts[i].push_back(of_output[i].front());
        }
    }
    for (int i = 0; i < num_micro_batches(); ++i) {
        set_output_gradients(i, std::move(parts[static_cast<std::size_t>(i)]));
    }
}

Tensors StepTensors::gather_input_gradients() {
    const at::NoGradGuard no_grad;
    Tensors gathered = gather_gradients(std::exchange(input_gradients_, {}), std::exchange(input_, {}), sizes_);
    for (at::Tensor& gradient : gathered) {
        if (is_storage_shared(gradient)) {  // if a single micro-batch's gradient was passed through
            gradient = gradient.clone();
        }
    }
    return gathered;
}

void StepTensors::clear() {
    cells_.clear();
    outputs_.clear();
    input_gradients_.clear();
    input_.clear();
}
}  // namespace pipescope
