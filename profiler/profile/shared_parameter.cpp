#include "profiler/profile/shared_parameter.h"

#include <algorithm>
#include <cstddef>

namespace pipescope {
void count_once(Profile& profile, const std::vector<SharedParameter>& shared) {
    for (const SharedParameter& each : shared) {
        const SharedBytes bytes{each.bytes, each.trains ? each.bytes : 0};
        const std::string name = each.keys.front().substr(each.keys.front().find('.') + 1);
        const auto layer_of = [&](const std::string& key) -> LayerProfile& {
            return profile.layers.at(std::stoul(key.substr(0, key.find('.'))));
        };
        LayerProfile& holder = layer_of(each.keys.front());
        for (const std::string& key : each.keys) {
            LayerProfile& layer = layer_of(key);
            layer.shared[name] = bytes;
            if (&layer != &holder) {
                layer.parameter_bytes = std::max<Bytes>(0, layer.parameter_bytes - bytes.parameter_bytes);
                layer.gradient_bytes = std::max<Bytes>(0, layer.gradient_bytes - bytes.gradient_bytes);
            }
        }
    }
}
}  // namespace pipescope
