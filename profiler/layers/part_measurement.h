#pragma once

#include "engine/layer.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/layers/skip_shelf.h"
#include "profiler/profile/profile.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace pipescope {
/// Consecutive layers of a model, as a separate model, with its input at each micro-batch size.
struct ModelPart {
    ModelSpec model;  ///< with the whole model's loss if the part is its end, otherwise without
    std::vector<Activation> starts;
    std::vector<Tensors> targets;
};

struct PartOptions {
    c10::Device device = c10::Device(c10::kCPU);  ///< of starts and targets; the layers are moved to it
    int lanes = 1;                                ///< number of busy lanes, the measured one included
    /// Additional mini-batch sizes at which to measure the loss, ascending; empty: a few that steps are likely to have.
    std::vector<std::int64_t> batches;
    std::vector<std::int64_t> output_dimensions;  ///< as in ProfileOptions, like the next member
    std::vector<std::size_t> partition_ends;
    double time_limit_s = 30;  ///< exceeded only if one pass over the part takes longer
    double target_error = 0.02;
    std::uint64_t seed = 0;
    bool tapes = false;
    std::function<void(double done)> progress;  ///< 0..1 for this part; may be empty
    std::function<bool()> between_rounds;       ///< as in ProfileOptions; may be empty
};

struct MeasuredPart {
    std::vector<LayerProfile> layers;
    DtypeBytes dtypes;  ///< of its parameters
    PerSize loss_ns;
    std::vector<Operators> loss_operators;
    std::vector<Operators> loss_chains;
    PerSize loss_transient_bytes;
    PerSize loss_all_gradients_transient_bytes;
    BatchLoss loss_batch;
    PerLane co_running_slowdown;  ///< as in Profile
    double pass_ns = 0;           ///< all its layers once, at the largest size: its weight among parts
    double optimizer_ns = 0;
    double step_cv = 0;            ///< of whole passes over the part, beyond the layers' own noise
    double lane_cv = 0;            ///< the share of step_cv that differs between lanes
    std::vector<Activation> ends;  ///< the part's output, by size
};

/// Creates the part's layers, measures their bytes and then their times by interleaved repeats, and frees the layers
/// before it returns. Runs on the calling thread, as a lane does.
MeasuredPart measure_part(const ModelPart& part, const PartOptions& options);
}  // namespace pipescope
