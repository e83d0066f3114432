// Counts a model without building it: C++ has no default device and no module->to(meta), so every factory call that
// names a device is turned to the meta device on its way through the dispatcher. The key is one torch keeps for
// deferred initialisation and does not use itself; it is switched on for this thread only.

#include "models/zoo.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

namespace pipescope {
namespace {
void make_on_meta(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto& arguments = op.schema().arguments();
    const std::size_t first = stack->size() - arguments.size();
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        if (arguments[i].name() == "device") {
            (*stack)[first + i] = c10::Device(c10::DeviceType::Meta);
        }
    }
    const c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::DeferredInit);
    op.redispatchBoxed(keys & below, stack);
}

TORCH_LIBRARY_IMPL(_, DeferredInit, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&make_on_meta>());
}
}  // namespace

ModelSize model_size(const ModelSpec& model) {
    const c10::impl::IncludeDispatchKeyGuard on_meta(c10::DispatchKey::DeferredInit);
    ModelSize size;
    for (const LayerSpec& layer : model.layers) {
        ++size.layers;
        for (const auto& [name, parameter] : layer.make()->parameters()) {
            size.parameters += parameter.numel();
        }
    }
    return size;
}
}  // namespace pipescope
