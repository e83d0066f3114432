#pragma once

namespace pipescope {
class Pipeline;

/// Throws UsageError if the gradients of parameters on two lanes share memory, since lanes add to their gradients at
/// the same time. Parts of one buffer that do not overlap are fine. Call while no lane runs.
void refuse_shared_gradients(const Pipeline& pipeline);
/// Throws UsageError if parameters on two lanes share memory, or a version that an update of one raises for both. For
/// staggered updates, where a lane updates its parameters while others compute. Call while no lane runs.
void refuse_shared_weights(const Pipeline& pipeline);
}  // namespace pipescope
