#include "engine/gpipe.h"

#include "engine/autograd_bridge.h"
#include "engine/model_layers.h"
#include "engine/pipeline.h"
#include "engine/step_run.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/modules/container/sequential.h>

#include <algorithm>
#include <utility>

namespace pipescope {
struct GPipe::Impl {
    explicit Impl(std::shared_ptr<Pipeline> of) : pipeline(std::move(of)) {}

    std::shared_ptr<Pipeline> pipeline;

    /// Calls visit(layer) for every layer in order.
    template <class Visit>
    void for_each_layer(Visit visit) const {
        for (Partition& partition : pipeline->partitions()) {
            for (ModelLayer& each : partition.layers()) {
                visit(each);
            }
        }
    }
};

GPipe::GPipe(const ModelSpec& model, GPipeOptions options) : GPipe(model.layers, std::move(options)) {}

GPipe::GPipe(const std::vector<LayerSpec>& layers, GPipeOptions options)
    : impl_(std::make_unique<Impl>(std::make_shared<Pipeline>(make_layers(layers), std::move(options)))) {}

GPipe::GPipe(torch::nn::Sequential module, GPipeOptions options)
    : impl_(std::make_unique<Impl>(std::make_shared<Pipeline>(layers_of(*module), std::move(options)))) {
    impl_->pipeline->train(module->is_training());
}

GPipe::~GPipe() = default;
GPipe::GPipe(GPipe&&) noexcept = default;
GPipe& GPipe::operator=(GPipe&&) noexcept = default;

Tensors GPipe::forward(const Tensors& input) {
    const auto needs_gradient = [](const at::Tensor& tensor) { return tensor.defined() && tensor.requires_grad(); };
    const bool trains =
        at::GradMode::is_enabled() && impl_->pipeline->is_training() &&
        (impl_->pipeline->has_trainable_parameters() || std::any_of(input.begin(), input.end(), needs_gradient));
    const Schedule schedule = impl_->pipeline->options().schedule;
    if (trains && needs_loss_inside(schedule)) {
        throw UsageError("forward is called with the schedule " + to_string(schedule) +
                         ", which goes backward while it still goes forward; it needs the loss inside; call step(), "
                         "or use the schedule gpipe");
    }
    const auto run = std::make_shared<StepRun>(impl_->pipeline, input, trains);
    Tensors output = run->forward();
    return trains ? attach_to_graph(run, input, std::move(output)) : output;
}

at::Tensor GPipe::forward(const at::Tensor& input) {
    Tensors output = forward(Tensors{input});
    if (output.size() != 1) {
        throw UsageError("the model returns " + std::to_string(output.size()) +
                         " tensors; this forward returns one; pass the input as Tensors to get them all");
    }
    return std::move(output[0]);
}

at::Tensor GPipe::step(const Tensors& input, const Tensors& target, const LossFunction& loss) {
    if (!loss) {
        throw UsageError("step is given no loss function; it goes backward from a loss; pass one");
    }
    if (!at::GradMode::is_enabled() || !impl_->pipeline->is_training()) {
        throw UsageError(std::string("step is called ") +
                         (at::GradMode::is_enabled() ? "in eval mode" : "under no_grad") +
                         "; it computes gradients; use train() with gradients on, or forward()");
    }
    StepRun run(impl_->pipeline, input, true);
    return run.step(target, loss);
}

at::Tensor GPipe::step(const at::Tensor& input, const at::Tensor& target,
                       const std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>& loss) {
    return step(Tensors{input}, Tensors{target}, [&loss](const Tensors& output, const Tensors& targets) {
        if (output.size() != 1) {
            throw UsageError("the model returns " + std::to_string(output.size()) +
                             " tensors; this loss takes one; use the step() of Tensors");
        }
        return loss(output[0], targets[0]);
    });
}

std::vector<at::Tensor> GPipe::parameters() const {
    std::vector<at::Tensor> all;
    for (auto& [name, tensor] : named_parameters()) {
        all.push_back(std::move(tensor));
    }
    return all;
}

NamedTensors GPipe::named_parameters() const {
    NamedTensors all;
    impl_->for_each_layer([&](const ModelLayer& each) {
        for (const auto& [name, tensor] : each.layer->parameters()) {
            all.emplace_back(each.key + "." + name, tensor);
        }
    });
    return all;
}

NamedTensors GPipe::named_buffers() const {
    NamedTensors all;
    impl_->for_each_layer([&](const ModelLayer& each) {
        for (const auto& [name, tensor] : each.layer->buffers()) {
            all.emplace_back(each.key + "." + name, tensor);
        }
    });
    return all;
}

void GPipe::train(bool on) {
    impl_->pipeline->train(on);
}

void GPipe::to(at::ScalarType dtype) {
    impl_->for_each_layer([dtype](ModelLayer& each) { each.layer->to(dtype); });
}

void GPipe::zero_grad() {
    const at::NoGradGuard no_grad;
    for (const at::Tensor& parameter : parameters()) {
        if (parameter.grad().defined()) {
            parameter.mutable_grad().detach_();
            parameter.mutable_grad().zero_();
        }
    }
}

const Balance& GPipe::balance() const {
    return impl_->pipeline->balance();
}
const std::vector<std::string>& GPipe::devices() const {
    return impl_->pipeline->options().devices;
}
std::int64_t GPipe::chunks() const {
    return impl_->pipeline->options().chunks;
}
Checkpoint GPipe::checkpoint() const {
    return impl_->pipeline->options().checkpoint;
}
std::size_t GPipe::num_layers() const {
    return impl_->pipeline->balance().num_layers();
}
std::int32_t GPipe::next_step() const {
    return impl_->pipeline->next_step();
}
std::optional<Failure> GPipe::last_failure() const {
    return impl_->pipeline->last_failure();
}
}  // namespace pipescope
