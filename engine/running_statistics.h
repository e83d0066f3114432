#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace pipescope {
/// True for a buffer that a forward changes, by the name torch's norms give it. Batch and instance norm change it
/// inside their kernel, which no version counter shows. Partition::recompute() copies these and puts them back.
inline bool is_running_statistic(std::string_view buffer) {
    constexpr std::array<std::string_view, 3> kNames = {"running_mean", "running_var", "num_batches_tracked"};
    return std::any_of(kNames.begin(), kNames.end(),
                       [buffer](std::string_view name) { return buffer.ends_with(name); });
}
}  // namespace pipescope
