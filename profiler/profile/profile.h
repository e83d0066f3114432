#pragma once

#include "base/error.h"
#include "base/ids.h"
#include "base/machine_load.h"
#include "profiler/profile/kernel_program.h"
#include "profiler/profile/layer_tape.h"
#include "profiler/profile/operators.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// An unusable profile. The message starts with the JSON path of the fault, such as layers[3].forward_ns[1].
class ProfileError : public Error {
public:
    using Error::Error;
};

/// One value per entry of Profile::samples. Doubles, because values are interpolated; the file holds whole ns and
/// bytes.
using PerSize = std::vector<double>;
/// Entry k is for k + 1 busy lanes.
using PerLane = std::vector<double>;

/// A layer's part in parameters that several layers use.
struct SharedBytes {
    Bytes parameter_bytes = 0;
    Bytes gradient_bytes = 0;  ///< 0: frozen

    friend bool operator==(const SharedBytes&, const SharedBytes&) = default;
};

/// How a host launches one pass of a layer on a device. In ns, whatever the micro-batch size.
struct LaunchTimes {
    double host_ns = 0;      ///< from the pass's first launch until the host can launch what follows
    double paced_ns = 0;     ///< time of the pass on a device that waits for each launch
    double sends_ns = 0;     ///< from the pass's first launch to that of the message with its output
    double receives_ns = 0;  ///< from the launch of the message with its input to the pass's first launch

    friend bool operator==(const LaunchTimes&, const LaunchTimes&) = default;
};

/// Costs of one layer by micro-batch size. Times in ns, sizes in bytes. docs/profile-format.md explains the fields.
struct LayerProfile {
    std::string name;
    Bytes parameter_bytes = 0;
    Bytes gradient_bytes = 0;
    Bytes buffer_bytes = 0;
    Bytes expert_gradient_bytes =
        0;                      ///< part of gradient_bytes: of experts, which other devices hold than other weights
    Bytes statistic_bytes = 0;  ///< part of buffer_bytes: running statistics, which a recompute saves and restores
    PerSize forward_ns;
    PerSize recompute_ns;      ///< empty: same as forward_ns
    PerSize graph_forward_ns;  ///< a forward that keeps its graph, as with never; empty: same as forward_ns
    PerSize backward_ns;
    PerSize backward_weight_ns;  ///< the part for the parameters' gradients; empty: half, if the layer has parameters
    double forward_cv = 0;       ///< standard deviation over mean of the repeats
    double backward_cv = 0;
    PerSize output_bytes;     ///< passed to the next layer, without skips
    PerSize saved_bytes;      ///< kept by autograd besides input and output
    PerSize transient_bytes;  ///< extra peak while the layer runs
    PerSize flops;
    std::vector<Operators> forward_operators;  ///< by size; an empty list: not counted
    std::vector<Operators> backward_operators;
    /// By size: what operators without products move if a chain of them is one kernel. Empty lists: not counted.
    std::vector<Operators> forward_chains;
    std::vector<Operators> backward_chains;
    bool keeps_input = true;
    bool keeps_output = false;
    bool aliases_input = false;
    bool passes_gradient = false;          ///< gradients of its input and popped skips are the output's gradient, or
                                           ///< views of it
    std::map<std::string, PerSize> stash;  ///< skip name to its bytes
    std::vector<std::string> pop;
    std::set<std::string> without_gradient;  ///< stashed skips of whole numbers or truth values
    /// Parameters that other layers use too, by a name that these layers have in common. The first layer holds them:
    /// its parameter_bytes and gradient_bytes include them, those of the others do not.
    std::map<std::string, SharedBytes> shared;
    /// By pass: forward, recompute, backward, backward_weight. With backward_weight, backward is the other half only.
    /// Empty: the layer's times contain what launches take.
    std::map<std::string, LaunchTimes> launches;
    std::vector<LayerTape> tape;  ///< by size; an empty entry was not recorded; an empty list: none was
    std::string unknown;          ///< JSON object of fields unknown to this version; written back unchanged

    friend bool operator==(const LayerProfile&, const LayerProfile&) = default;
};

/// Times of the loss and its gradient at sizes beyond the micro-batches', since a schedule may compute the loss once on
/// the whole mini-batch.
struct BatchLoss {
    std::vector<std::int64_t> samples;  ///< ascending; may repeat a size of Profile::samples, and then takes precedence
    PerSize ns;                         ///< one per size
    PerSize transient_bytes;            ///< like Profile::loss_transient_bytes; empty: not measured
    PerSize all_gradients_transient_bytes = {};  ///< like Profile::loss_all_gradients_transient_bytes

    friend bool operator==(const BatchLoss&, const BatchLoss&) = default;
};

/// Precedes the path of a profile in the name of a model whose layers wait as long as the profile says.
inline constexpr std::string_view kEmulatedPrefix = "emulated:";

/// The contract between profiler, balance, simulator and viewer.
/// Invariant (of a CheckedProfile): samples are ascending and positive, there is at least one layer, and each PerSize
/// is as long as samples and contains finite, non-negative numbers.
struct Profile {
    std::string model;
    std::string device = "cpu";
    std::string dtype = "float32";  ///< dtype of parameters and activations: one of dtypes()
    int threads = 1;
    int co_running_lanes = 1;     ///< lanes busy during the measurement, including the measured one
    int host_cores = 0;           ///< cores available to the measured lanes; 0: unknown
    PerLane co_running_slowdown;  ///< entry k: time of a layer with k + 1 busy lanes, relative to one busy lane
    std::vector<std::string> command_options;  ///< further words of the command that made it, such as --seed 7
    double step_cv = 0;  ///< variation of whole passes over the model, beyond the layers' own cv; 0: unknown
    double lane_cv = 0;  ///< the part of step_cv that is independent per lane; at most step_cv
    bool estimated = false;
    /// The program that times are estimated for; empty: eager PyTorch, each operator by itself.
    std::optional<KernelProgram> program = {};
    bool from_trace = false;             ///< times are those of a recorded run's tasks
    bool memory_unknown = false;         ///< no layer's bytes are known, except those of outputs
    bool token_input = false;            ///< the input is token numbers, as for a language model
    std::int64_t tokens_per_sample = 0;  ///< length of a sequence; 0: unknown, or no language model
    std::vector<std::int64_t> samples;   ///< measured micro-batch sizes
    PerSize input_bytes;
    PerSize loss_ns;
    std::vector<Operators> loss_operators;  ///< by size, of the loss and its gradient; an empty list: not counted
    std::vector<Operators> loss_chains;     ///< like LayerProfile::forward_chains
    BatchLoss loss_batch;                   ///< empty: not measured
    PerSize loss_transient_bytes;  ///< peak during the loss and its gradient, besides the output and its gradient
    /// Likewise if every output requires a gradient, as after a checkpointed forward; empty: no difference.
    PerSize loss_all_gradients_transient_bytes;
    double optimizer_ns = 0;
    double launch_ns = 0;
    std::vector<LayerProfile> layers;
    std::optional<MachineLoad> load;  ///< during the measurement
    std::string unknown;

    friend bool operator==(const Profile&, const Profile&) = default;
};

/// True if some layer has launches. Profile::launch_ns then has no effect.
bool has_launches(const Profile& profile);

/// Valid dtypes of a profile: float64, float32, tf32 (float32 tensors multiplied in TF32), float16, bfloat16.
std::vector<std::string> dtypes();
/// Bytes of one element, 4 for tf32. Throws UsageError that lists the names.
std::int64_t dtype_bytes(const std::string& dtype);

/// Maximum of each size in bytes, of layers, skips, losses and blocks of tapes.
inline constexpr Bytes kMostProfileBytes = Bytes{1} << 50;
/// A step's times in ns, and its bytes, stay below this in every sum.
inline constexpr double kMostPerStep = 4e18;

/// Throws ProfileError with the JSON path of the first fault unless the invariant holds. Also checks that the dtype is
/// known, numbers are at most 2^53, bytes at most kMostProfileBytes, and each skip is stashed once and popped by later
/// layers, once by each. Layers that share a parameter agree on its bytes. An optional array may be empty.
void check_profile(const Profile& profile);

/// A profile that check_profile() passed. It never changes, so simulations and searches take it and check no more.
/// Ownership and threading: copies share the profile; copy it freely, read it from any thread.
class CheckedProfile {
public:
    /// Both throw as check_profile() does.
    CheckedProfile(Profile&& profile);
    explicit CheckedProfile(const Profile& profile);
    // A move would leave an object without a profile.
    CheckedProfile(const CheckedProfile&) = default;
    CheckedProfile& operator=(const CheckedProfile&) = default;
    ~CheckedProfile() = default;

    operator const Profile&() const noexcept { return *profile_; }
    const Profile& operator*() const noexcept { return *profile_; }
    const Profile* operator->() const noexcept { return profile_.get(); }

    friend bool operator==(const CheckedProfile& a, const CheckedProfile& b) {
        return a.profile_ == b.profile_ || *a == *b;
    }

private:
    std::shared_ptr<const Profile> profile_;
};

/// Checks that the shares of a load lie between 0 and 1.
void check_load(const MachineLoad& load, const std::string& path);

/// A value interpolated between, or extrapolated beyond, the measured sizes.
struct Interpolated {
    double value = 0;
    bool extrapolated = false;
};

/// Interpolates linearly between measured sizes. Outside, extends the line through the two nearest, never below zero,
/// and flags the value. With one size the value is proportional to the samples, and flagged unless `at` is that size.
/// An empty `values` is 0 everywhere.
Interpolated interpolate(const std::vector<std::int64_t>& samples, const PerSize& values, double at);

/// Rounds interpolated bytes. Values extrapolated beyond any step stop at kMostPerStep, which TaskCosts refuses.
Bytes rounded_bytes(double bytes);

/// The part of a layer's backward that computes the parameters' gradients, in ns. Half of it by default, if there are
/// any.
Interpolated backward_weight_time(const Profile& profile, const LayerProfile& layer, double samples);
/// True if the second half of a split backward has something to do for the layer: that part of its time is not 0.
bool has_weight_half(const LayerProfile& layer);

/// Time in ns of the loss and its gradient for that many samples, from loss_ns and loss_batch together.
Interpolated loss_time(const Profile& profile, double samples);

/// Part of optimizer_ns for the parameters of these layers: by bytes of their gradients. 0 if no layer has any.
double optimizer_time(const Profile& profile, LayerRange layers);

/// Memory of the loss for that many samples, besides the output and its gradient. The output is one micro-batch's, as
/// the last layer leaves it, or a gathered one, which is contiguous. For a gathered one uses loss_batch, if measured.
/// `all_gradients`: every output requires a gradient (LayerTape::all_gradients).
Bytes loss_transient(const Profile& profile, std::int64_t samples, bool is_gathered, bool all_gradients = false);
}  // namespace pipescope
