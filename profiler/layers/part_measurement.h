#pragma once

#include "balance/profile.h"
#include "engine/layer.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/layers/skip_shelf.h"

#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace pipescope {
/// Consecutive layers of a model, as a model of their own, and what stands before them at each micro-batch size.
struct ModelPart {
    ModelSpec model;  ///< its loss is the whole model's if the part is its end, none otherwise
    std::vector<Activation> starts;
    std::vector<Tensors> targets;
};

struct PartOptions {
    c10::Device device = c10::Device(c10::kCPU);  ///< where the starts and targets are, and the layers go
    int lanes = 1;                                ///< busy at the same time, the measured one included
    /// Mini-batch sizes that the loss is measured at too, ascending; empty: a few that steps are likely to have.
    std::vector<std::int64_t> batches;
    double time_limit_s = 30;  ///< kept as far as one pass over the part allows
    double target_error = 0.02;
    std::uint64_t seed = 0;
    bool tapes = false;
    std::function<void(double done)> progress;  ///< 0..1 of this part; may be empty
    std::function<bool()> between_rounds;       ///< as in ProfileOptions; may be empty
};

struct MeasuredPart {
    std::vector<LayerProfile> layers;
    DtypeBytes dtypes;  ///< of its parameters
    PerSize loss_ns;
    std::vector<Operators> loss_operators;
    PerSize loss_transient_bytes;
    PerSize loss_all_gradients_transient_bytes;
    BatchLoss loss_batch;
    PerLane co_running_slowdown;  ///< as in Profile
    double pass_ns = 0;           ///< of all its layers once, at the largest size: its weight among parts
    double optimizer_ns = 0;
    double step_cv = 0;            ///< of whole passes over the part, beyond the layers' own
    double lane_cv = 0;            ///< the part of it that is not shared with the other lanes
    std::vector<Activation> ends;  ///< what stands behind the part, by size
};

/// Makes the part's layers, measures their bytes and then their times by interleaved repeats, and lets the layers go
/// before it returns. Runs on the calling thread, as a lane does.
MeasuredPart measure_part(const ModelPart& part, const PartOptions& options);
}  // namespace pipescope
