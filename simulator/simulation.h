#pragma once

#include "base/ids.h"
#include "profiler/profile/profile.h"
#include "schedule/timeline.h"
#include "simulator/model_flops.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// Error of steps predicted from a real machine's profile beyond the noise in the profile itself: standard deviation
/// over mean, from validated pipelines on a quiet machine (docs/evidence/accuracy.md).
inline constexpr double kPredictionCv = 0.03;

struct SimulatedPartition {
    LayerRange layers;
    LaneId lane;
    std::string device;
    Bytes parameter_bytes = 0;
    std::optional<LaneId> mirror_lane = {};  ///< holds the partition's other copy, with a bidirectional schedule
};

struct SimulatedLane {
    Nanoseconds busy{0};
    Nanoseconds sums{0};         ///< of gradients over replicas, while the lane computes nothing
    double bubble_fraction = 0;  ///< 1 - busy / step; it contains the sums
    Bytes peak_bytes = 0;
    std::optional<Bytes> peak_reserved_bytes = {};  ///< of the caching allocator, if requested; 0 on the host
    MemoryBreakdown peak;                           ///< sums to peak_bytes
};

/// Steps under the profile's noise: that of the layers, and step_cv for the drift of the machine between profile and
/// run. If host_cores or step_cv is known, the machine was a real one, and kPredictionCv is added. Load that starts
/// between profile and run is not included.
struct StepBand {
    Nanoseconds low{0};        ///< 5 % of steps are shorter
    Nanoseconds high{0};       ///< 5 % of steps are longer
    Nanoseconds mean{0};       ///< the expected step. Above step_time, since every wait takes a maximum.
    double bubble = 0;         ///< of a step of that length, with unchanged busy time
    double mean_error_ns = 0;  ///< standard error of `mean`, without noise that the whole step shares

    friend bool operator==(const StepBand&, const StepBand&) = default;
};
/// That of steps which last longer by a constant time after the pipeline, such as Simulation::after_pipeline.
StepBand longer_by(StepBand band, Nanoseconds more);

/// One step of the pipeline on the virtual clock.
struct Simulation {
    PipelineOptions options;
    std::int64_t micro_batches = 0;  ///< the actual m
    Timeline timeline;               ///< of step 0; starts at 0. pipedream: parts of several steps, cut at the edges
    /// With staggered updates, the timeline holds three whole steps, and all figures are those of this one, step 1, as
    /// statistics_by_step() has it.
    std::int32_t step = 0;
    static constexpr std::int32_t kStaggeredStep = 1;
    std::vector<MemorySample> memory;  ///< by lane over time, ascending; steady state
    /// No order of the tasks has a shorter step. Known with schedule auto, otherwise by add_lower_bound().
    std::optional<Nanoseconds> lower_bound;
    Nanoseconds step_time{0};  ///< with replicas, up to the end of the last all_reduce
    double bubble_fraction = 0;
    double utilization = 0;
    /// Relative to one device that is as fast as the fastest lane and runs all layers of all replicas' mini-batch
    /// alone, loss included, no recompute.
    double speedup = 0;
    double samples_per_second = 0;       ///< batch / step_time; both exclude the optimizer
    std::int64_t tokens_per_sample = 0;  ///< of the profile; 0: unknown, or no language model
    std::optional<StepBand> noise;       ///< if the profile has noise, and it was simulated
    /// Work that follows the pipeline in its step, as in a layout on a cluster. simulate() does not know it: all
    /// figures here are those of the pipeline, and StepFigures those of the whole step.
    Nanoseconds after_pipeline{0};
    /// If lanes share a device: 1 - busy cores / its cores, mean of devices.
    std::optional<double> device_idle_fraction;
    bool feasible = true;  ///< every lane's peak keeps its memory limit
    /// Some layer was read outside the measured sizes. Ignores the loss, which is read at the whole batch.
    bool extrapolated = false;
    bool estimated = false;
    bool memory_unknown = false;      ///< of the profile: there are no peaks and no memory, and bytes are left 0
    std::string dtype;                ///< of the profile
    std::optional<ModelFlops> flops;  ///< empty if the profile has no operations
    std::vector<SimulatedPartition> partitions;
    std::vector<SimulatedLane> lanes;
};

/// The mean with noise, or step_time without noise; with the work that follows the pipeline.
inline Nanoseconds expected_step(const Simulation& simulation) {
    return (simulation.noise ? simulation.noise->mean : simulation.step_time) + simulation.after_pipeline;
}

/// A step's figures, as tables show them: with the work that follows its pipeline.
struct StepFigures {
    Nanoseconds step{0};
    double bubble = 0;       ///< of the pipeline, 0 to 1, mean of the lanes
    double sums = 0;         ///< the part of it in which lanes sum gradients over replicas
    double utilization = 0;  ///< 1 - bubble
    double speedup = 0;
    double samples_per_second = 0;

    /// The bubble without the sums, as tables show it.
    double waiting() const { return bubble - sums; }
};
/// Those of the expected step: the mean with noise, if the simulation has noise.
StepFigures expected_figures(const Simulation& simulation);
StepFigures figures_without_noise(const Simulation& simulation);
/// Figures of two simulations for comparison: expected steps if both have noise, otherwise steps without noise.
std::pair<StepFigures, StepFigures> comparable_figures(const Simulation& one, const Simulation& other);
/// Mean over lanes of the time in which they compute, in ns, without noise.
double mean_busy_ns(const Simulation& simulation);
/// Why two steps differ: a pipeline is as long as the lanes' mean work divided by 1 - bubble.
struct StepChange {
    double work = 1;    ///< mean work of the second over that of the first
    double bubble = 0;  ///< bubble fraction of the second minus that of the first, from comparable figures
};
StepChange step_change(const Simulation& from, const Simulation& to);
/// Samples per second of one over the other's, from comparable figures. 1 if the other has none.
double relative_throughput(const Simulation& one, const Simulation& other);
/// True if a simulation of this profile can have noise.
bool has_noise(const Profile& profile);

/// The statistics by which the simulation is judged, of its own timeline or of one like it. Takes the whole timeline as
/// one step; with staggered updates, the simulated step among several. Cost: O(slices log slices).
StepStatistics simulated_step_statistics(const Simulation& simulation, const Timeline& timeline);

/// Parts to skip if only the step time is needed, as in a search over many options.
struct SimulationDetail {
    bool noise = true;             ///< if the profile has a cv
    bool memory = true;            ///< memory, peaks and feasible
    bool memory_over_time = true;  ///< with memory: Simulation::memory, which a search does not read
    bool reserved = false;         ///< with memory: peak_reserved_bytes, which takes a few ms
};

/// Runs the options' task graph with the profile's costs. Lanes that share a device or the host's cores slow each other
/// down (contention.h). A schedule that never drains (pipedream) is shown for one period of its steady state
/// (steady_state.h): the timeline then holds parts of several steps, and the noise band is that of the period. The same
/// holds for staggered updates, where steps overlap; updates then belong to the step.
/// Searches nothing: the schedule must have an order. For schedule auto, find_and_simulate() (search/) finds it first.
/// Throws UsageError or BalanceError for options that do not fit, or do not fit the profile. Deterministic.
Simulation simulate(const CheckedProfile& profile, const PipelineOptions& options, const SimulationDetail& detail = {});

/// Throws as simulate() does, for what it refuses before it runs anything. Accepts schedule auto.
void check_simulated(const CheckedProfile& profile, const PipelineOptions& options);

/// Adds noise to a simulation of `profile` that was made without it, if the profile has noise. Costs 100 to 1000 runs
/// of the clock. Throws as simulate() does. Threading: any thread.
void add_noise(const CheckedProfile& profile, Simulation& simulation);
}  // namespace pipescope
