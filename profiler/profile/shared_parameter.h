#pragma once

#include "profiler/profile/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// A parameter that several layers use, each of which was measured with a tensor of its own.
struct SharedParameter {
    std::vector<std::string> keys;  ///< as in the plain Sequential, "5.weight"; the first layer's is the parameter
    std::int64_t elements = 0;
    Bytes bytes = 0;
    bool trains = true;
};

/// Counts each of them once, in its first layer, and names it in LayerProfile::shared of all.
/// Precondition: keys begin with the number of a layer of the profile.
void count_once(Profile& profile, const std::vector<SharedParameter>& shared);
}  // namespace pipescope
