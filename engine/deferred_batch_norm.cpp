#include "engine/deferred_batch_norm.h"

#include "engine/layer_dispatch_key.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

#include <algorithm>
#include <exception>
#include <utility>

namespace pipescope {
namespace {
thread_local DeferredBatchNorm* collecting = nullptr;

// Arguments of aten::batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps,
// cudnn_enabled).
enum Argument : std::size_t {
    input = 0,
    running_mean = 3,
    running_variance = 4,
    training = 5,
    momentum = 6,
    count = 9
};

void collect_moments(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kLayerDispatchKey);
    const auto argument = [stack](Argument which) -> c10::IValue& { return (*stack)[stack->size() - count + which]; };
    if (collecting == nullptr || !argument(training).toBool() || !argument(running_mean).isTensor() ||
        !collecting->tracks(argument(running_mean).toTensor())) {
        op.redispatchBoxed(rest, stack);
        return;
    }
    const at::Tensor samples = argument(input).toTensor();
    const at::Tensor mean_before = argument(running_mean).toTensor();
    const at::Tensor variance_before = argument(running_variance).toTensor();
    const double asked_momentum = argument(momentum).toDouble();
    const at::Tensor mean = at::zeros_like(mean_before);
    const at::Tensor variance = at::zeros_like(variance_before);
    argument(running_mean) = mean;
    argument(running_variance) = variance;
    argument(momentum) = 1.0;
    op.redispatchBoxed(rest, stack);
    collecting->add(mean_before, variance_before, asked_momentum, {samples.numel() / samples.size(1), mean, variance});
}

/// Process-wide, as operators are.
struct BatchNormKernel {
    BatchNormKernel() : aten(torch::Library::IMPL, "aten", kLayerDispatchKey, __FILE__, __LINE__) {
        aten.impl("batch_norm", torch::CppFunction::makeFromBoxedFunction<&collect_moments>());
    }
    torch::Library aten;
};

/// Moments of all micro-batches together. Sums squares about the means in double, so that nothing cancels.
DeferredBatchNorm::Moments combine(const std::vector<DeferredBatchNorm::Moments>& parts) {
    std::int64_t count = 0;
    at::Tensor mean = at::zeros_like(parts[0].mean, at::kDouble);
    for (const auto& part : parts) {
        count += part.count;
        mean += part.mean.to(at::kDouble) * static_cast<double>(part.count);
    }
    mean /= static_cast<double>(count);
    at::Tensor squares = at::zeros_like(mean);
    for (const auto& part : parts) {
        squares += part.variance.to(at::kDouble) * static_cast<double>(part.count - 1);
        squares += (part.mean.to(at::kDouble) - mean).square() * static_cast<double>(part.count);
    }
    return {count, mean, squares / static_cast<double>(count - 1)};
}

/// Uses variable_data, which has its own version counter: batch norm's kernel raises none either.
void move_towards(const at::Tensor& running, const at::Tensor& value, double momentum) {
    running.variable_data().copy_(running.variable_data().to(at::kDouble) * (1 - momentum) + value * momentum);
}
}  // namespace

DeferredBatchNorm::DeferredBatchNorm(const NamedTensors& buffers) {
    static const NoDestructor<BatchNormKernel> kernel;
    for (const auto& [name, tensor] : buffers) {
        if (tensor.defined() && name.ends_with("running_mean")) {
            running_means_.push_back(tensor);
        } else if (tensor.defined() && name.ends_with("num_batches_tracked")) {
            counters_.push_back({tensor, {}, {}});
        }
    }
}

void DeferredBatchNorm::begin_mini_batch() {
    norms_.clear();
    micro_batches_ = 0;
    for (Counter& counter : counters_) {
        counter.moved = at::zeros_like(counter.tensor);
    }
}

void DeferredBatchNorm::end_mini_batch() {
    const at::NoGradGuard no_grad;
    for (const Norm& norm : norms_) {
        for (const Call& call : norm.calls) {
            const Moments whole = combine(call.micro_batches);
            move_towards(norm.running_mean, whole.mean, call.momentum);
            move_towards(norm.running_variance, whole.variance, call.momentum);
        }
    }
    norms_.clear();
    // A mini-batch counts as one. Rounds up, since micro-batches may differ in calls. A frozen norm's did not move.
    for (const Counter& counter : counters_) {
        counter.tensor.variable_data().add_(counter.moved.add(micro_batches_ - 1).floor_divide(micro_batches_));
    }
}

void DeferredBatchNorm::begin_micro_batch() {
    ++micro_batches_;
    for (Norm& norm : norms_) {
        norm.next_call = 0;
    }
    for (Counter& counter : counters_) {
        counter.before = counter.tensor.detach().clone();
    }
}

/// On the tensors' device, without waiting for it.
void DeferredBatchNorm::end_micro_batch() {
    const at::NoGradGuard no_grad;
    for (Counter& counter : counters_) {
        counter.moved.add_(counter.tensor.detach()).sub_(counter.before);
        counter.tensor.variable_data().copy_(counter.before);
    }
}

bool DeferredBatchNorm::tracks(const at::Tensor& running_mean_buffer) const {
    return std::any_of(running_means_.begin(), running_means_.end(),
                       [&](const at::Tensor& each) { return each.is_same(running_mean_buffer); });
}

void DeferredBatchNorm::add(const at::Tensor& mean_buffer, const at::Tensor& variance_buffer, double asked_momentum,
                            Moments moments) {
    auto norm = std::find_if(norms_.begin(), norms_.end(),
                             [&](const Norm& each) { return each.running_mean.is_same(mean_buffer); });
    if (norm == norms_.end()) {
        norm = norms_.insert(norms_.end(), {mean_buffer, variance_buffer, {}});
    }
    if (norm->next_call == norm->calls.size()) {
        // The first micro-batch's momentum counts: without a momentum, batch norm requests 1 / (batches so far).
        norm->calls.push_back({asked_momentum, {}});
    }
    norm->calls[norm->next_call++].micro_batches.push_back(std::move(moments));
}

DeferredBatchNorm::Collecting::Collecting(DeferredBatchNorm& to) {
    to.begin_micro_batch();
    collecting = &to;
}

void DeferredBatchNorm::Collecting::finish() {
    std::exchange(collecting, nullptr)->end_micro_batch();
}

DeferredBatchNorm::Collecting::~Collecting() {
    try {
        if (collecting != nullptr) {
            finish();
        }
    } catch (const std::exception&) {  // the forward's own exception is on its way
    }
}
}  // namespace pipescope
