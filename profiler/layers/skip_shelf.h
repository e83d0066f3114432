#pragma once

#include "engine/layer.h"
#include "engine/skips.h"

#include <map>
#include <string>
#include <string_view>

namespace pipescope {
/// What stands between two layers: the tensors one hands to the next, and the skips on their way past it.
struct Activation {
    Tensors tensors;
    std::map<SkipName, at::Tensor> skips;
};

/// Serves one layer's stashes and pops from an activation. The errors are those of SkipContext.
class SkipShelf : public SkipContext {
public:
    /// Both are borrowed.
    SkipShelf(const SkipNames& names, std::map<SkipName, at::Tensor>& skips) : names_(names), skips_(skips) {}

    void stash(std::string_view name, at::Tensor tensor) override;
    at::Tensor pop(std::string_view name) override;

private:
    const SkipNames& names_;
    std::map<SkipName, at::Tensor>& skips_;
};

/// As in a profile: "name", or "space.name" in a space of its own.
std::string profile_name(const SkipName& skip);
}  // namespace pipescope
