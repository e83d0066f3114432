#pragma once

#include "balance/profile.h"
#include "engine/layer.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace pipescope {
struct ProfileOptions {
    std::vector<std::int64_t> samples = {1, 2, 4};  ///< micro-batch sizes, ascending
    /// Lanes busy at the same time, the measured one included: they slow each other down. Never more than the machine
    /// has cores: lanes that take turns on a core are the simulator's business.
    int co_running_lanes = 2;
    double time_limit_s = 30;  ///< for the whole profile; kept as far as one pass over the layers allows
    double target_cv = 0.02;   ///< repeats stop when the mean's relative error falls below it
    std::uint64_t seed = 0;
    /// Each layer is made, measured alone and let go before the next one is made: for models larger than memory. A
    /// layer measured alone looks a little slower than in a partition (layer_chain.h).
    bool one_layer_at_a_time = false;
    bool tapes = false;                         ///< record allocation tapes too (balance/layer_tape.h)
    std::function<void(double done)> progress;  ///< 0..1, called from the calling thread; may be empty
};

/// Measures every layer of the model on the CPU in steady state: `.grad` exists, one intra-op thread, layer 0's input
/// needs no gradient. Times by interleaved repeats (medians that sum
/// to the median of the whole model, and cv), bytes by the tracking allocator.
/// `forward_ns` is the forward of a checkpointed micro-batch, which keeps nothing for a backward; `recompute_ns` the
/// one with gradients. `launch_ns` is the engine's own cost of a task; it is not in the layers' times. Precondition:
/// TrackingAllocator is installed (profiler/memory), else the byte fields would be wrong: throws Error. Throws
/// UsageError for options that make no sense. A layer's own exception passes unchanged.
Profile profile_model(const ModelSpec& model, const ProfileOptions& options);
}  // namespace pipescope
