#pragma once

namespace pipescope {
class Pipeline;

/// Throws UsageError if the gradients of parameters on two lanes share memory, since lanes add to their gradients at
/// the same time. Parts of one buffer that do not overlap are fine. Call while no lane runs.
void refuse_shared_gradients(const Pipeline& pipeline);
/// Throws UsageError if parameters on two lanes share memory, or the version of one buffer, which an update of one
/// raises for both. The version is taken as shared by parts of one buffer if somebody holds a detach() of one. For
/// staggered updates, where a lane updates its parameters while others compute. Call while no lane runs.
void refuse_shared_weights(const Pipeline& pipeline);
}  // namespace pipescope
