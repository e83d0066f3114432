#pragma once

#include "profiler/profile/profile.h"

#include <cstddef>
#include <random>

namespace pipescope {
/// Layers with a forward of 50 to 150 us, and a backward of twice that, varied by 30 %.
inline Profile random_profile(std::size_t layers) {
    std::mt19937 random(1);
    std::uniform_real_distribution<double> around(0.5, 1.5);
    std::uniform_real_distribution<double> ratio(1.4, 2.6);
    Profile profile;
    profile.samples = {1};
    profile.input_bytes = {1e6};
    for (std::size_t l = 0; l < layers; ++l) {
        LayerProfile layer;
        layer.name = "layer";
        layer.forward_ns = {around(random) * 100'000};
        layer.backward_ns = {layer.forward_ns[0] * ratio(random)};
        layer.output_bytes = {1e6};
        layer.saved_bytes = {4e6};
        layer.parameter_bytes = layer.gradient_bytes = 1'000'000;
        profile.layers.push_back(layer);
    }
    return profile;
}
}  // namespace pipescope
