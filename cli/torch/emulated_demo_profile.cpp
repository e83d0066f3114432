#include "cli/torch/emulated_demo_profile.h"

#include <fmt/format.h>

namespace pipescope {
namespace {
constexpr int kLayers = 16;
constexpr double kMs = 1e6;
constexpr double kKiB = 1024;
constexpr double kMiB = 1024 * kKiB;
}  // namespace

Profile emulated_demo_profile() {
    Profile profile;
    profile.model = "emulated";
    profile.samples = {1};
    profile.input_bytes = {256 * kKiB};
    profile.loss_ns = {1 * kMs};
    for (int i = 0; i < kLayers; ++i) {
        LayerProfile layer;
        layer.name = fmt::format("layer.{}", i);
        // 5 to 8 ms, in an order that no cut balances evenly.
        const double forward = (5 + (i * 7) % 4 + 0.25 * (i % 3)) * kMs;
        layer.parameter_bytes = static_cast<Bytes>((1 + i % 4) * kMiB);
        layer.gradient_bytes = layer.parameter_bytes;
        layer.forward_ns = {forward};
        layer.recompute_ns = {forward};
        layer.backward_ns = {2 * forward};
        layer.output_bytes = {256 * kKiB};
        layer.saved_bytes = {(1 + i % 3) * kMiB};
        layer.transient_bytes = {0.5 * kMiB};
        profile.layers.push_back(layer);
    }
    return profile;
}
}  // namespace pipescope
