#include "engine/step_loss.h"

#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/gradients/micro_batch_graph.h"
#include "engine/mini_batch.h"
#include "schedule/quantities.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <c10/core/DispatchKeySet.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

namespace pipescope {
namespace {
void check_target(const Tensors& target, std::int64_t batch) {
    for (std::size_t k = 0; k < target.size(); ++k) {
        if (target[k].defined() && (target[k].dim() == 0 || target[k].size(0) != batch)) {
            throw EngineError(
                "target " + std::to_string(k) + " holds " +
                (target[k].dim() == 0 ? "no dimension" : counted(target[k].size(0), "sample", "samples")) +
                " and the input " + std::to_string(batch) +
                "; a loss for each micro-batch cuts the target as it cuts the input; make their first "
                "dimensions equal, or use the schedule gpipe");
        }
    }
}

void check_loss(const at::Tensor& loss) {
    if (!loss.defined() || loss.numel() != 1) {
        throw EngineError("the loss function returned " +
                          (loss.defined() ? std::to_string(loss.numel()) + " values" : std::string("no tensor")) +
                          "; a step goes backward from one value; reduce it by mean or sum");
    }
    if (loss.is_complex()) {
        throw EngineError(
            "the loss function returned a complex value; a step goes backward from a real one; take its real part or "
            "its "
            "absolute value");
    }
    if (!loss.requires_grad()) {
        throw EngineError(
            "the loss does not depend on the model's output; a step goes backward from it; "
            "compute it from the output, with gradients on");
    }
}
}  // namespace

StepLoss::StepLoss(Pipeline& pipeline, const Tensors& input, const Tensors& target, const GPipe::LossFunction& function,
                   LossScope scope, const std::vector<std::int64_t>& sizes)
    : function_(function) {
    std::ranges::copy_if(input, std::back_inserter(input_), needs_gradient);
    for (std::size_t k = 0; k < target.size(); ++k) {
        if (std::ranges::any_of(input_, [&](const at::Tensor& each) { return each.is_same(target[k]); })) {
            inputs_among_targets_.push_back(k);
        }
    }
    const c10::Device device = pipeline.devices().of(pipeline.lane_of(pipeline.partitions().back().id())).device();
    for (const at::Tensor& tensor : target) {
        target_.push_back(tensor.defined() ? tensor.to(device) : tensor);
    }
    if (scope == LossScope::mini_batch) {
        return;
    }
    if (pipeline.options().checkpoint != Checkpoint::never) {
        for (Partition& each : pipeline.partitions()) {
            if (pipeline.lane_of(each.id()) != pipeline.lane_of(pipeline.partitions().back().id())) {
                others_.push_back(&each);
            }
        }
    }
    const std::int64_t batch = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    check_target(target_, batch);
    targets_ = split(target_, sizes);
    for (const std::int64_t size : sizes) {
        // A mini-batch's mean is the mean of the micro-batches' means, weighted by their samples.
        weights_.push_back(pipeline.options().reduction == Reduction::mean
                               ? static_cast<double>(size) / static_cast<double>(batch)
                               : 1.0);
    }
}

/// Looks for parameters of other lanes, to which the backward of the loss adds.
void StepLoss::look_at_leaves(const at::Tensor& loss) {
    if (refused_.empty() && others_.empty()) {
        return;
    }
    const auto leaves = leaves_behind(loss);
    if (std::ranges::any_of(refused_,
                            [&](const at::Tensor& each) { return leaves.contains(each.unsafeGetTensorImpl()); })) {
        throw EngineError(
            "the loss depends on a parameter of another lane, which may update it meanwhile; use step(), which updates "
            "after all lanes are done, or put the parameter's term into the optimizer, as weight_decay does");
    }
    for (Partition* const each : others_) {
        each->expect_gradients(leaves);
    }
}

/// Edges to the input, and to the targets that are its parts.
std::vector<torch::autograd::Edge> StepLoss::behind_outputs(const Tensors& targets) const {
    std::vector<torch::autograd::Edge> edges;
    std::ranges::transform(input_, std::back_inserter(edges), torch::autograd::impl::gradient_edge);
    std::ranges::transform(inputs_among_targets_, std::back_inserter(edges),
                           [&](std::size_t place) { return torch::autograd::impl::gradient_edge(targets[place]); });
    return edges;
}

Tensors StepLoss::run(std::optional<MicroBatchId> micro_batch, const Tensors& outputs) {
    const at::AutoGradMode grad_mode(true);
    MicroBatchGraph graph;
    const Tensors& targets = micro_batch ? targets_[micro_batch->index()] : target_;
    at::Tensor loss = function_(graph.open(outputs, InputsFrom::earlier_partition, behind_outputs(targets)), targets);
    check_loss(loss);
    if (micro_batch && weights_[micro_batch->index()] != 1.0) {
        loss = loss * weights_[micro_batch->index()];
    }
    graph.close({loss});
    look_at_leaves(loss);
    // A loss that was reduced in place keeps the storage of all its values; a clone is one number.
    value_ = value_.defined() ? value_ + loss.detach() : loss.detach().clone();
    const at::Tensor one = at::ones_like(loss);
    loss = at::Tensor();
    // As in the layers' backward: autocast has already chosen in the forward.
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    return graph.backward({one});
}
}  // namespace pipescope
