#include "profiler/layers/skip_shelf.h"

#include "engine/engine_error.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
const SkipName& declared(const std::vector<SkipName>& names, std::string_view name, const char* verb) {
    const auto found =
        std::find_if(names.begin(), names.end(), [&](const SkipName& each) { return each.name == name; });
    if (found == names.end()) {
        throw LayerError("skip '" + std::string(name) + "' is not among those the layer says it " + verb +
                         "; a layer declares its skips; name it in skips()");
    }
    return *found;
}
}  // namespace

void SkipShelf::stash(std::string_view name, at::Tensor tensor) {
    const SkipName& skip = declared(names_.stash, name, "stashes");
    if (!skips_.emplace(skip, std::move(tensor)).second) {
        throw LayerError("skip '" + skip.name + "' is stashed twice; it is one tensor a forward; stash it once");
    }
}

at::Tensor SkipShelf::pop(std::string_view name) {
    const SkipName& skip = declared(names_.pop, name, "pops");
    const auto found = skips_.find(skip);
    if (found == skips_.end()) {
        throw LayerError("skip '" + skip.name +
                         "' is popped and no earlier layer stashed it; a pop takes what was stashed; stash it first");
    }
    if (stay_.contains(skip)) {
        return found->second;
    }
    at::Tensor tensor = std::move(found->second);
    skips_.erase(found);
    return tensor;
}

std::string profile_name(const SkipName& skip) {
    return skip.space.empty() ? skip.name : skip.space + "." + skip.name;
}
}  // namespace pipescope
