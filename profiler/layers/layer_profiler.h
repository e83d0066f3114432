#pragma once

#include "balance/profile.h"
#include "engine/layer.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pipescope {
struct ProfileOptions {
    std::vector<std::int64_t> samples = {1, 2, 4};  ///< micro-batch sizes, ascending
    /// Mini-batch sizes that the loss is measured at too, ascending; empty: a few likely ones.
    std::vector<std::int64_t> batches;
    std::string device = "cpu";  ///< or an accelerator such as "cuda:0"
    /// Lanes busy at the same time, the measured one included: they slow each other down, and by how much is measured.
    /// Never more than the machine has cores: lanes that take turns on a core are the simulator's business. On an
    /// accelerator 1, whatever is asked.
    int co_running_lanes = 2;
    double time_limit_s = 30;  ///< for the whole profile; kept as far as one pass over the layers allows
    /// Repeats stop when the layers' means are known this well, and whole passes twice as well (size_times.h).
    double target_cv = 0.02;
    std::uint64_t seed = 0;
    /// Each layer is made, measured alone and let go before the next one is made: for models larger than memory. A
    /// layer measured alone looks a little slower than in a partition (layer_chain.h). Done unasked where the lanes'
    /// parameters and gradients exceed `memory_limit`.
    bool one_layer_at_a_time = false;
    Bytes memory_limit = 0;  ///< 0: what is free on the device
    bool tapes = true;       ///< record allocation tapes too (balance/layer_tape.h)
    /// 0..1, on the calling thread; may be empty. What it throws ends the profile after the current pass.
    std::function<void(double done)> progress;
    /// Called after each round of passes, on the measuring thread, while no lane is busy. Rounds go on for as long as
    /// it returns true, whatever time limit and target say, and its own time does not count. May be empty. Lets profile
    /// and training take turns on a machine whose speed changes. Not with one layer at a time.
    std::function<bool()> between_rounds;
    std::function<void(const std::string& sentence)> announce;  ///< what is done unasked, on the same; may be empty
};

/// Measures every layer of the model in steady state: `.grad` exists, one intra-op thread, layer 0's input
/// needs no gradient. Times by interleaved repeats (means, which
/// are right for sums over any layers, and cv), bytes by the tracking allocator; on an accelerator by timed events and
/// the statistics of its allocator.
/// `forward_ns` is the forward of a checkpointed micro-batch, which keeps nothing for a backward; `recompute_ns` the
/// one with gradients. `launch_ns` is the engine's own cost of a task; it is not in the layers' times. Precondition:
/// TrackingAllocator is installed (profiler/memory), else the byte fields would be wrong: throws Error. Throws
/// UsageError for options that make no sense, EngineError for a device that is not there. A layer's own exception
/// passes unchanged.
Profile profile_model(const ModelSpec& model, const ProfileOptions& options);
}  // namespace pipescope
