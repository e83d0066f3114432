#pragma once

#include "balance/layer_tape.h"
#include "schedule/error.h"
#include "schedule/ids.h"
#include "schedule/machine_load.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// A profile that cannot be used: the message starts with the JSON path of the fault, such as layers[3].forward_ns[1].
class ProfileError : public Error {
public:
    using Error::Error;
};

/// One value per entry of Profile::samples. Doubles, although the file holds whole ns and bytes: they are interpolated.
using PerSize = std::vector<double>;
/// Entry k belongs to k + 1 lanes at work.
using PerLane = std::vector<double>;

/// What one layer costs, by micro-batch size. Times in ns, sizes in bytes. Fields as in docs/profile-format.md.
struct LayerProfile {
    std::string name;
    Bytes parameter_bytes = 0;
    Bytes gradient_bytes = 0;
    Bytes buffer_bytes = 0;
    Bytes statistic_bytes = 0;  ///< of buffer_bytes: running statistics, which a recompute copies and puts back
    PerSize forward_ns;
    PerSize recompute_ns;  ///< empty: as forward_ns
    PerSize backward_ns;
    PerSize backward_weight_ns;  ///< the part of it that makes the parameters' gradients; empty: half, if there are any
    double forward_cv = 0;       ///< standard deviation over mean of the repeats
    double backward_cv = 0;
    PerSize output_bytes;     ///< what goes to the next layer, skips apart
    PerSize saved_bytes;      ///< what autograd keeps besides input and output
    PerSize transient_bytes;  ///< extra peak while the layer runs
    PerSize flops;
    bool keeps_input = true;
    bool keeps_output = false;
    bool aliases_input = false;
    bool passes_gradient = false;          ///< gradients of its input and popped skips are the output's, or views of it
    std::map<std::string, PerSize> stash;  ///< skip name to its bytes
    std::vector<std::string> pop;
    std::vector<LayerTape> tape;  ///< by size; an empty one was not recorded; empty: none was
    std::string unknown;          ///< JSON object of fields this version does not know; written back as they came

    friend bool operator==(const LayerProfile&, const LayerProfile&) = default;
};

/// What the loss and its gradient take at sizes beyond the micro-batches', since a schedule may compute it once, on the
/// whole mini-batch.
struct BatchLoss {
    std::vector<std::int64_t> samples;  ///< ascending; may hold a size of Profile::samples, and then counts there
    PerSize ns;                         ///< one for each
    PerSize transient_bytes;            ///< the same as Profile::loss_transient_bytes; empty: not measured

    friend bool operator==(const BatchLoss&, const BatchLoss&) = default;
};

/// The contract between profiler, balance, simulator and viewer.
/// Invariant (checked on loading): samples ascending and positive, at least one layer, every PerSize as long as samples
/// and made of finite, non-negative numbers.
struct Profile {
    std::string model;
    std::string device = "cpu";
    std::string dtype = "float32";  ///< of parameters and activations: one of dtypes()
    int threads = 1;
    int co_running_lanes = 1;     ///< lanes busy while one was measured, that one included
    int host_cores = 0;           ///< cores the measured lanes had; 0: unknown
    PerLane co_running_slowdown;  ///< entry k: how many times as long a layer takes with k + 1 lanes busy as with one
    double step_cv = 0;  ///< how much whole passes over the model vary together, beyond the layers' own cv; 0: unknown
    double lane_cv = 0;  ///< the part of step_cv that a lane has for itself, from pass to pass; at most step_cv
    bool estimated = false;
    bool token_input = false;           ///< the input is token numbers, as a language model's
    std::vector<std::int64_t> samples;  ///< micro-batch sizes measured
    PerSize input_bytes;
    PerSize loss_ns;
    BatchLoss loss_batch;          ///< empty: not measured
    PerSize loss_transient_bytes;  ///< peak while the loss and its gradient run, besides the output and its gradient
    double optimizer_ns = 0;
    double launch_ns = 0;
    std::vector<LayerProfile> layers;
    std::optional<MachineLoad> load;  ///< while it was measured
    std::string unknown;

    friend bool operator==(const Profile&, const Profile&) = default;
};

/// The dtypes a profile may name: float64, float32, tf32 (float32 tensors whose products run in TF32), float16,
/// bfloat16.
std::vector<std::string> dtypes();
/// Bytes of one element, 4 for tf32. Throws UsageError that lists the names.
std::int64_t dtype_bytes(const std::string& dtype);

/// Throws ProfileError, with the JSON path of the first fault, unless the invariant holds. Beyond it: the dtype is
/// known, numbers are at most 2^53, skips are stashed once and popped once by a later layer. An optional array may be
/// empty.
void check_profile(const Profile& profile);

/// Checks a load by itself: its shares lie between 0 and 1.
void check_load(const MachineLoad& load, const std::string& path);

/// A value read off between, or outside, the measured sizes.
struct Interpolated {
    double value = 0;
    bool extrapolated = false;
};

/// Between two measured sizes linear; outside, the line through the two nearest, never below zero, flagged; with one
/// size proportional to the samples (flagged unless it is that size). An empty `values` is 0 everywhere.
Interpolated interpolate(const std::vector<std::int64_t>& samples, const PerSize& values, double at);

/// The loss and its gradient in ns, for that many samples: read off loss_ns and loss_batch together.
Interpolated loss_time(const Profile& profile, double samples);

/// What the loss needs besides the output and its gradient, for that many samples: of one micro-batch's output, as the
/// last layer leaves it, or of a gathered one, which lies in one piece. Read off loss_batch for that, if it says so.
Bytes loss_transient(const Profile& profile, std::int64_t samples, bool is_gathered);
}  // namespace pipescope
