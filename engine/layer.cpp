#include "engine/layer.h"

#include "engine/engine_error.h"
#include "engine/skippable.h"

#include <torch/nn/modules/container/any.h>

#include <tuple>
#include <utility>

namespace pipescope {
namespace {
constexpr std::size_t kMostTensors = 8;

template <std::size_t>
using TensorAt = at::Tensor;

template <std::size_t... k>
torch::nn::AnyValue call(torch::nn::AnyModule& module, const Tensors& inputs, std::index_sequence<k...>) {
    return module.any_forward(inputs[k]...);
}

/// Calls forward with as many arguments as there are inputs.
template <std::size_t count = 1>
torch::nn::AnyValue call(torch::nn::AnyModule& module, const Tensors& inputs) {
    if (inputs.size() == count) {
        return call(module, inputs, std::make_index_sequence<count>{});
    }
    if constexpr (count < kMostTensors) {
        return call<count + 1>(module, inputs);
    }
    throw LayerError("forward is given " + std::to_string(inputs.size()) + " tensors; a module takes from 1 to " +
                     std::to_string(kMostTensors) + "; implement Layer for more");
}

template <std::size_t... k>
bool unpack_tuple(torch::nn::AnyValue& value, Tensors& outputs, std::index_sequence<k...>) {
    using Tuple = std::tuple<TensorAt<k>...>;
    if (auto* const tuple = value.try_get<Tuple>()) {
        outputs = {std::get<k>(*tuple)...};
        return true;
    }
    return false;
}

template <std::size_t count = 1>
bool unpack_any_tuple(torch::nn::AnyValue& value, Tensors& outputs) {
    if (unpack_tuple(value, outputs, std::make_index_sequence<count>{})) {
        return true;
    }
    if constexpr (count < kMostTensors) {
        return unpack_any_tuple<count + 1>(value, outputs);
    }
    return false;
}

Tensors unpack(torch::nn::AnyValue value) {
    if (auto* const tensor = value.try_get<at::Tensor>()) {
        return {*tensor};
    }
    if (auto* const tensors = value.try_get<Tensors>()) {
        return *tensors;
    }
    Tensors outputs;
    if (!unpack_any_tuple(value, outputs)) {
        throw LayerError("forward returned " + c10::demangle(value.type_info().name()) +
                         "; a layer returns a tensor, a tuple of 1 to " + std::to_string(kMostTensors) +
                         " tensors or a vector of tensors; wrap the module in one that does");
    }
    return outputs;
}

}  // namespace

std::unique_ptr<Layer> module_layer(torch::nn::AnyModule module) {
    if (module.is_empty()) {
        throw UsageError("module_layer is given an empty AnyModule; a layer needs a module; construct one first");
    }
    const std::shared_ptr<torch::nn::Module> owner = module.ptr();
    return skippable_layer(owner, {}, [module = std::move(module)](const Tensors& inputs, SkipContext&) mutable {
        return unpack(call(module, inputs));
    });
}
}  // namespace pipescope
