#include "engine/step_loss.h"

#include "base/quantities.h"
#include "engine/engine_error.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/gradients/micro_batch_graph.h"
#include "engine/mini_batch.h"
#include "engine/torch_internals.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/DispatchKeySet.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// A tensor without dimensions holds no samples: each micro-batch gets it whole. Throws EngineError if another one does
/// not have as many samples as the input.
std::vector<TensorSplit> target_split(const Tensors& target, std::vector<TensorSplit> how, std::int64_t batch) {
    how.resize(std::max(how.size(), target.size()));
    for (std::size_t k = 0; k < target.size(); ++k) {
        std::optional<std::int64_t>& dimension = how[k].dimension;
        if (target[k].defined() && target[k].dim() == 0) {
            dimension = std::nullopt;
        }
        if (!target[k].defined() || !dimension || how[k].make) {
            continue;
        }
        const bool has = -target[k].dim() <= *dimension && *dimension < target[k].dim();
        if (!has || target[k].size(*dimension) != batch) {
            throw EngineError("target " + std::to_string(k) + " holds " +
                              (has ? counted(target[k].size(*dimension), "sample", "samples")
                                   : "no dimension " + std::to_string(*dimension)) +
                              " and the input " + std::to_string(batch) +
                              "; a loss for each micro-batch cuts the target as it cuts the input; make their first "
                              "dimensions equal, say in split how the target is cut, or use the schedule gpipe");
        }
    }
    return how;
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

StepLoss::StepLoss(Pipeline& pipeline, const Tensors& input, const Tensors& target, const LossFunction& function,
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
        if (pipeline.options().weight) {
            weigh(pipeline, {target});
        }
        return;
    }
    if (pipeline.options().checkpoint != Checkpoint::never) {
        for (Partition& each : pipeline.partitions()) {
            if (pipeline.lane_of(each.id()) != pipeline.lane_of(pipeline.partitions().back().id())) {
                others_.push_back(&each);
            }
        }
    }
    const std::vector<TensorSplit> how =
        target_split(target_, pipeline.split()->target, std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    targets_ = split(target_, sizes, how);
    if (pipeline.options().weight) {
        weigh(pipeline, split(target, sizes, how));  // the caller's tensors, which need not be waited for on a device
    } else if (pipeline.options().reduction == Reduction::mean) {
        weigh_samples(sizes);
    }
}

/// A mini-batch's mean is the mean of the micro-batches' means, weighted by their samples.
void StepLoss::weigh_samples(const std::vector<std::int64_t>& sizes) {
    const auto batch = static_cast<double>(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}));
    for (const std::int64_t size : sizes) {
        shares_.push_back(static_cast<double>(size) / batch);
    }
}

/// The mean over what the weight counts, in the micro-batches of all replicas.
void StepLoss::weigh(Pipeline& pipeline, const std::vector<Tensors>& targets) {
    const at::NoGradGuard no_grad;
    std::vector<double> weights;
    for (std::size_t i = 0; i < targets.size(); ++i) {
        weights.push_back(pipeline.options().weight(targets[i]));
        if (!std::isfinite(weights.back()) || weights.back() < 0) {
            throw EngineError("the weight of micro-batch " + std::to_string(i) + " is " +
                              std::to_string(weights.back()) +
                              "; it says how much of the target the mean counts; return a number from 0 up");
        }
    }
    double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (pipeline.options().replicas > 1) {
        Tensors total = {at::scalar_tensor(all, at::kDouble)};
        pipeline.channels()->reduce(std::nullopt, total, total);
        all = total[0].item<double>();
    }
    is_empty_ = all == 0;
    for (const double weight : weights) {
        shares_.push_back(is_empty_ ? 0 : weight / all);
    }
}

/// In the place of run(), where the loss would be a mean of nothing.
Tensors StepLoss::without_loss(const Tensors& outputs) {
    Tensors gradients;
    for (const at::Tensor& output : outputs) {
        gradients.push_back(needs_gradient(output) ? at::zeros_like(output) : at::Tensor());
    }
    if (++num_without_ == shares_.size()) {
        const bool has_type = !outputs.empty() && can_carry_gradient(outputs.front());
        value_ = at::scalar_tensor(is_empty_ ? std::nan("") : 0.0,
                                   has_type ? outputs.front().options().requires_grad(false) : at::kFloat);
    }
    return gradients;
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
    const double share = shares_.empty() ? 1.0 : shares_[micro_batch ? micro_batch->index() : 0];
    if (share == 0) {
        return without_loss(outputs);
    }
    const at::AutoGradMode grad_mode(true);
    MicroBatchGraph graph;
    const Tensors& targets = micro_batch ? targets_[micro_batch->index()] : target_;
    at::Tensor loss = function_(graph.open(outputs, InputsFrom::earlier_partition, behind_outputs(targets)), targets);
    check_loss(loss);
    if (share != 1.0) {
        loss = loss * share;
        if (loss.is_cpu()) {  // a device would have to be waited for
            means_.resize(shares_.size());
            means_[micro_batch ? micro_batch->index() : 0] = loss.item<double>();
        }
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

std::optional<MicroBatchId> StepLoss::only_nan() const {
    if (means_.size() < 2) {
        return std::nullopt;
    }
    const auto is_nan = [](double mean) { return std::isnan(mean); };
    const auto first = std::ranges::find_if(means_, is_nan);
    if (first == means_.end() || std::ranges::all_of(means_, is_nan)) {
        return std::nullopt;
    }
    return MicroBatchId{first - means_.begin()};
}
}  // namespace pipescope
