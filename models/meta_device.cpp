#include "models/meta_device.h"

#include "base/error.h"
#include "models/meta_kernels.h"
#include "models/zoo.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <string>

namespace pipescope {
namespace {
constexpr c10::DispatchKey kMetaDeviceKey = c10::DispatchKey::DeferredInit;

void make_on_meta(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    const std::size_t first = stack->size() - arguments.size();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].name() == "device") {
            (*stack)[first + i] = c10::Device(c10::DeviceType::Meta);
        }
    }
    const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, kMetaDeviceKey);
    op.redispatchBoxed(keys & below, stack);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&make_on_meta>());
}

Tensors of_batch(const Tensors& sample, std::int64_t batch) {
    Tensors tensors;
    tensors.reserve(sample.size());
    for (const at::Tensor& each : sample) {
        std::vector<std::int64_t> sizes = each.sizes().vec();
        if (!sizes.empty()) {
            sizes.front() = batch;
        }
        tensors.push_back(at::empty(sizes, each.options().device(at::kMeta)));
    }
    return tensors;
}
}  // namespace

MetaDevice::MetaDevice() : was_on_(c10::impl::tls_is_dispatch_key_included(kMetaDeviceKey)) {
    add_meta_kernels();
    c10::impl::tls_set_dispatch_key_included(kMetaDeviceKey, true);
}

MetaDevice::~MetaDevice() {
    c10::impl::tls_set_dispatch_key_included(kMetaDeviceKey, was_on_);
}

std::vector<std::unique_ptr<Layer>> meta_layers(const ModelSpec& model) {
    const MetaDevice meta;
    std::vector<std::unique_ptr<Layer>> layers;
    layers.reserve(model.layers.size());
    for (const LayerSpec& layer : model.layers) {
        layers.push_back(layer.make());
    }
    return layers;
}

Batch meta_batch(const ModelSpec& model, std::int64_t batch) {
    if (batch < 1) {
        throw UsageError("batch is " + std::to_string(batch) + "; it must be 1 or more; use at least one sample");
    }
    if (!model.make_batch) {
        throw UsageError("model '" + model.name + "' has no make_batch, which gives its input's shape; set it");
    }
    const Batch sample = model.make_batch(1, 0);
    return {of_batch(sample.input, batch), of_batch(sample.target, batch)};
}

ModelSize model_size(const ModelSpec& model) {
    ModelSize size;
    for (const auto& layer : meta_layers(model)) {
        ++size.layers;
        for (const auto& [name, parameter] : layer->parameters()) {
            size.parameters += parameter.numel();
        }
    }
    return size;
}
}  // namespace pipescope
