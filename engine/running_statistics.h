#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace pipescope {
/// True for a buffer that a forward changes, judged by the name in torch's norms. Batch and instance norm change it
/// inside their kernel, without raising the version counter. Partition::recompute() saves and restores these.
inline bool is_running_statistic(std::string_view buffer) {
    constexpr std::array<std::string_view, 3> kNames = {"running_mean", "running_var", "num_batches_tracked"};
    return std::any_of(kNames.begin(), kNames.end(),
                       [buffer](std::string_view name) { return buffer.ends_with(name); });
}
}  // namespace pipescope
