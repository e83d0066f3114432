#pragma once

#include "balance/profile.h"
#include "engine/layer.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
struct ZooEntry {
    std::string name;
    std::string description;
    /// Option name to its default and meaning, in the order of --help.
    std::vector<std::pair<std::string, std::string>> options;
};
/// Every model of the zoo, in a fixed order.
std::vector<ZooEntry> zoo();

/// MODEL of the command line: a zoo name with options ("unet:B=5,C=64", "transformer:layers=12,width=512", "mlp"),
/// "emulated:profile.json", a shared library ("./libmine.so:width=64") or a TorchScript file ("net.pt:input=3x32x32").
/// The spec's name is the text given, so that a profile tells how to make its model again.
/// Throws UsageError that lists the names or options there are, ProfileError for a profile that cannot be used,
/// UserModelError (models/user_model.h) for a file that gives no model.
ModelSpec make_model(const std::string& model);

/// Layers that wait as long, and hold as many bytes, as the profile says: a pipeline of any size runs honestly on a
/// small machine. Each partition chains one absolute deadline through its layers, so that the overshoot of one wait
/// does not add up.
ModelSpec emulated_model(const Profile& profile);

struct ModelSize {
    std::size_t layers = 0;
    std::int64_t parameters = 0;  ///< elements, not bytes
};
/// Makes every layer on the meta device, so that no size needs memory or time. A factory that reads values of its
/// tensors cannot be counted that way; what it throws passes unchanged.
ModelSize model_size(const ModelSpec& model);
}  // namespace pipescope
