#include "engine/plain_model.h"

#include "engine/current_task.h"
#include "engine/gradients/gradient_needs.h"
#include "engine/input_versions.h"
#include "engine/mini_batch.h"
#include "engine/model_layers.h"
#include "schedule/micro_batches.h"

#include <torch/nn/modules/container/sequential.h>

#include <utility>

namespace pipescope {
namespace {
Partition one_partition(std::vector<ModelLayer> layers) {
    const PartitionId id{0};
    const SkipLayout skips(declared_skips(layers), Balance({static_cast<std::int64_t>(layers.size())}));
    return {id, LayerId{0}, std::move(layers), skips.of(id)};
}
}  // namespace

PlainModel::PlainModel(std::vector<ModelLayer> layers, PlainOptions options)
    : options_(options), layers_(one_partition(std::move(layers))) {}

PlainModel::PlainModel(const std::vector<LayerSpec>& layers, PlainOptions options)
    : PlainModel(make_layers(layers), options) {}

template <std::same_as<torch::nn::Sequential> Module>
PlainModel::PlainModel(Module module, PlainOptions options) : PlainModel(layers_of(*module), options) {}
template PlainModel::PlainModel(torch::nn::Sequential module, PlainOptions options);

Tensors PlainModel::forward(const Tensors& input) {
    const OtherModelScope in_no_task_of_its_own;
    const std::int32_t step = next_step_++;
    const std::vector<TensorSplit>& how = options_.split.input;
    std::vector<Tensors> micro_batches = split(input, micro_batch_sizes(batch_size(input, how), options_.chunks), how);
    // If autograd knows that the micro-batches are views, torch itself counts their changes separately.
    InputVersions versions =
        any_requires_grad(input) ? InputVersions() : InputVersions(input, micro_batches, how, false);
    for (std::size_t i = 0; i < micro_batches.size(); ++i) {
        micro_batches[i] = layers_.forward(micro_batches[i], {options_.seed, step, MicroBatchId{i}});
    }
    versions.update_input();
    return gather(std::move(micro_batches), options_.split.output);
}

at::Tensor PlainModel::step(const Tensors& input, const Tensors& target, const LossFunction& loss) {
    const at::Tensor value = loss(forward(input), target);
    value.backward();
    return value.detach();
}

NamedTensors PlainModel::named_parameters() const {
    return layers_.named(&Layer::parameters);
}

NamedTensors PlainModel::named_buffers() const {
    return layers_.named(&Layer::buffers);
}

void PlainModel::train(bool on) {
    layers_.train(on);
}

void PlainModel::to(at::ScalarType dtype) {
    layers_.to(dtype);
}
}  // namespace pipescope
