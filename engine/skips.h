#pragma once

#include <ATen/core/Tensor.h>

#include <compare>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A skip connection's name. Equal names in different spaces are different skips; "" is the space of all that were
/// not isolated.
struct SkipName {
    std::string space;
    std::string name;

    friend auto operator<=>(const SkipName&, const SkipName&) = default;
};
/// "space/name", or "name" in the space of all: as messages and profiles show it.
std::string to_string(const SkipName& name);

/// What a layer promises to stash, and to pop, in every forward.
struct SkipNames {
    std::vector<SkipName> stash = {};
    std::vector<SkipName> pop = {};

    bool empty() const noexcept { return stash.empty() && pop.empty(); }
};

/// Through this a layer's forward hands a tensor to a later layer, past all between, and takes one. The layer uses its
/// names as it declared them; which space they are in is settled where the model is put together.
/// Threading: valid for one forward of one micro-batch, on its thread. Errors: LayerError for a name that the layer
/// did not declare, for one stashed twice in a forward, and for a pop of what was not stashed; and, behind the forward,
/// for a declared name that it left out.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3.
class SkipContext {
public:
    virtual ~SkipContext() = default;

    /// An undefined tensor stands for "nothing this time": the pop gives it back so.
    virtual void stash(std::string_view name, at::Tensor tensor) = 0;
    virtual at::Tensor pop(std::string_view name) = 0;
};
}  // namespace pipescope
