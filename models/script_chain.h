#pragma once

#include <string>
#include <utility>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace pipescope {
using ScriptChildren = std::vector<std::pair<std::string, torch::jit::Module>>;

/// The children of a TorchScript module whose forward is "call each child with what the one before it returned", in
/// that order: a Sequential, whatever its class is called. Read from the forward's graph, so that children are never
/// called in another order than the module calls them. `path` is what messages name.
/// Throws UserModelError where forward does anything else, or leaves a child with parameters out.
ScriptChildren script_chain(const torch::jit::Module& module, const std::string& path);
}  // namespace pipescope
