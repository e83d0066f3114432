#pragma once

#include <string>
#include <utility>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace pipescope {
using ScriptChildren = std::vector<std::pair<std::string, torch::jit::Module>>;

/// The children of a TorchScript module whose forward passes its input through one child after the other: a Sequential,
/// whatever its class name. The order is the order of the calls in forward's graph. `path` is for messages. Throws
/// UserModelError if forward does anything else, or skips a child with parameters.
ScriptChildren script_chain(const torch::jit::Module& module, const std::string& path);
}  // namespace pipescope
