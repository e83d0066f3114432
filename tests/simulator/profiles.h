#pragma once

#include "profiler/profile/profile.h"

#include <string>
#include <vector>

namespace pipescope {
/// A layer measured only at size 1, so that its costs are proportional to the samples.
inline LayerProfile layer_of(double forward, double backward, double output = 0) {
    LayerProfile layer;
    layer.name = "layer";
    layer.forward_ns = {forward};
    layer.backward_ns = {backward};
    layer.output_bytes = {output};
    return layer;
}

inline Profile profile_of(std::vector<LayerProfile> layers) {
    Profile profile;
    profile.model = "test";
    profile.samples = {1};
    profile.layers = std::move(layers);
    return profile;
}

/// n layers with a forward of 1000 ns, a backward of 2000 ns and a recompute of 1000 ns.
inline Profile uniform_profile(int n) {
    return profile_of(std::vector<LayerProfile>(static_cast<std::size_t>(n), layer_of(1000, 2000)));
}
}  // namespace pipescope
