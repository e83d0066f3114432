#pragma once

#include "engine/layer.h"
#include "profiler/profile/profile.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace pipescope {
struct ProfileOptions {
    std::vector<std::int64_t> samples = {1, 2, 4};  ///< micro-batch sizes, ascending
    /// Additional mini-batch sizes at which to measure the loss, ascending; empty: a few likely ones.
    std::vector<std::int64_t> batches;
    /// By output, the dimension of the samples; 0 for further outputs.
    std::vector<std::int64_t> output_dimensions = {};
    std::string device = "cpu";  ///< or an accelerator such as "cuda:0"
    /// Number of busy lanes, the measured one included; the profile includes how much they slow each other down.
    /// Limited to the machine's cores, since the simulator models lanes that take turns on a core. Always 1 on an
    /// accelerator.
    int co_running_lanes = 2;
    /// Layers at which a lane's partition ends, ascending; the last is the number of layers. Empty: unknown. Layers
    /// then run only beside the layers of their partition, whose weights stay in the lane's caches. Not with one layer
    /// at a time.
    std::vector<std::size_t> partition_ends;
    double time_limit_s = 30;  ///< for the whole profile; exceeded only if one pass over the layers takes longer
    /// Repeats stop when the layers' means are known this well, and whole passes twice as well (size_times.h).
    double target_cv = 0.02;
    std::uint64_t seed = 0;
    /// Creates, measures and frees one layer at a time, for models larger than memory. A layer measured alone looks a
    /// little slower than in a partition (layer_chain.h). Also done if the lanes' parameters and gradients exceed
    /// `memory_limit`.
    bool one_layer_at_a_time = false;
    Bytes memory_limit = 0;  ///< 0: the device's free memory
    bool tapes = true;       ///< record allocation tapes too (profiler/profile/layer_tape.h)
    /// Called on the calling thread with 0..1; may be empty. An exception from it ends the profile after the current
    /// pass.
    std::function<void(double done)> progress;
    /// Called after each round of passes, on the measuring thread, while no lane is busy. Rounds continue while it
    /// returns true, regardless of time limit and target; the time that it takes does not count. May be empty. Lets
    /// profile and training alternate on a machine whose speed changes. Not with one layer at a time.
    std::function<bool()> between_rounds;
    /// Reports automatic choices, on the calling thread; may be empty.
    std::function<void(const std::string& sentence)> announce;
};

/// Measures every layer of the model in steady state: `.grad` exists, one intra-op thread, layer 0's input needs no
/// gradient.
///
/// Times come from interleaved repeats (means, whose sums are right for any layers, and cv), bytes from the tracking
/// allocator. On an accelerator they come from timed events and the statistics of its allocator. `forward_ns` is the
/// forward of a checkpointed micro-batch, which keeps nothing for a backward; `recompute_ns` and `graph_forward_ns` are
/// the forward with gradients. `launch_ns` is the engine's own cost per task; the layers' times exclude it.
///
/// Precondition: TrackingAllocator is installed (profiler/memory); otherwise throws Error, since bytes would be wrong.
/// Throws UsageError for invalid options, EngineError for a device that does not exist. A layer's own exception passes
/// unchanged.
Profile profile_model(const ModelSpec& model, const ProfileOptions& options);
}  // namespace pipescope
