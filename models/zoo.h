#pragma once

#include "engine/layer.h"
#include "profiler/profile/profile.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
struct ZooEntry {
    std::string name;
    std::string description;
    /// Option names with default and meaning, in the order of --help.
    std::vector<std::pair<std::string, std::string>> options;
};
/// All models of the zoo, in a fixed order.
std::vector<ZooEntry> zoo();

/// Creates the MODEL of the command line: a zoo name with options ("unet:B=5,C=64", "transformer:layers=12,width=512",
/// "mlp"), "emulated:profile.json", a shared library ("./libmine.so:width=64") or a TorchScript file
/// ("net.pt:input=3x32x32"). The name in the spec is the given text, so a profile records how to create its model
/// again.
///
/// Throws UsageError that lists the names or options, ProfileError for an unusable profile, and UserModelError
/// (models/user_model.h) for a file that provides no model.
ModelSpec make_model(const std::string& model);

/// Layers that wait as long and hold as many bytes as the profile says. A pipeline of any size thus runs realistically
/// on a small machine. Each partition chains one absolute deadline through its layers, so overshoot does not add up.
ModelSpec emulated_model(const Profile& profile);

struct ModelSize {
    std::size_t layers = 0;
    std::int64_t parameters = 0;  ///< elements, not bytes
};
/// Creates every layer on the meta device, which takes neither memory nor time at any size. It fails for a factory that
/// reads values of its tensors: the factory's exception passes unchanged.
ModelSize model_size(const ModelSpec& model);
}  // namespace pipescope
