#include "models/meta_device.h"
#include "models/zoo.h"

namespace pipescope {
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
