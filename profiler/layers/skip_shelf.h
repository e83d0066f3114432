#pragma once

#include "engine/layer.h"
#include "engine/skips.h"

#include <map>
#include <set>
#include <string>
#include <string_view>

namespace pipescope {
/// The state between two layers: the tensors that one passes to the next, and the skips in flight past it.
struct Activation {
    Tensors tensors;
    std::map<SkipName, at::Tensor> skips;
};

/// Serves one layer's stashes and pops from an activation. Throws as SkipContext.
class SkipShelf : public SkipContext {
public:
    /// Borrows all arguments. `stay`: skips that a later layer pops too.
    SkipShelf(const SkipNames& names, const std::set<SkipName>& stay, std::map<SkipName, at::Tensor>& skips)
        : names_(names), stay_(stay), skips_(skips) {}

    void stash(std::string_view name, at::Tensor tensor) override;
    at::Tensor pop(std::string_view name) override;

private:
    const SkipNames& names_;
    const std::set<SkipName>& stay_;
    std::map<SkipName, at::Tensor>& skips_;
};

/// The name in a profile: "name", or "space.name" outside the common space.
std::string profile_name(const SkipName& skip);
}  // namespace pipescope
