#include "engine/module_tensors.h"

#include <torch/nn/module.h>

namespace pipescope {
namespace {
NamedTensors listed(const torch::OrderedDict<std::string, at::Tensor>& tensors) {
    NamedTensors list;
    for (const auto& item : tensors) {
        list.emplace_back(item.key(), item.value());
    }
    return list;
}
}  // namespace

NamedTensors parameters_of(const torch::nn::Module& module) {
    return listed(module.named_parameters());
}

NamedTensors buffers_of(const torch::nn::Module& module) {
    return listed(module.named_buffers());
}

void cast_floating(const torch::nn::Module& module, at::ScalarType dtype) {
    for (const NamedTensors& tensors : {parameters_of(module), buffers_of(module)}) {
        for (const auto& [name, tensor] : tensors) {
            if (tensor.defined() && tensor.is_floating_point()) {
                tensor.set_data(tensor.to(dtype));
            }
        }
    }
}
}  // namespace pipescope
