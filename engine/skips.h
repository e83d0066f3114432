#pragma once

#include <ATen/core/Tensor.h>

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A skip connection's name. Equal names in different spaces are different skips; "" is the space of layers that were
/// not isolated.
struct SkipName {
    std::string space;
    std::string name;

    friend auto operator<=>(const SkipName&, const SkipName&) = default;
};
/// "space/name", or "name" in the common space, as in messages and profiles.
std::string to_string(const SkipName& name);

/// Names that a layer promises to stash and pop in every forward.
struct SkipNames {
    std::vector<SkipName> stash = {};
    std::vector<SkipName> pop = {};

    bool empty() const noexcept { return stash.empty() && pop.empty(); }
};

/// Lets a layer's forward pass a tensor to later layers, past all layers between, and receive one. The layer uses its
/// names as it declared them; their space is fixed when the model is assembled.
/// Threading: valid for one forward of one micro-batch, on its thread. Errors: LayerError for a name that the layer did
/// not declare, for one stashed twice in a forward, for a pop of what was not stashed and, after the forward, for a
/// declared name that it did not use.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3.
class SkipContext {
public:
    virtual ~SkipContext() = default;

    /// An undefined tensor means "nothing this time"; the pop returns it as such.
    virtual void stash(std::string_view name, at::Tensor tensor) = 0;
    virtual at::Tensor pop(std::string_view name) = 0;
};
}  // namespace pipescope
