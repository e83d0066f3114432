#pragma once

#include "balance/profile.h"
#include "schedule/ids.h"
#include "schedule/timeline.h"
#include "simulator/memory_composition.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
/// How far steps predicted from a profile of a real machine are off beyond what the profile itself knows of its noise:
/// standard deviation over mean, as validated pipelines on a quiet machine were (docs/accuracy.md).
inline constexpr double kPredictionCv = 0.03;

struct SimulatedPartition {
    LayerRange layers;
    LaneId lane;
    std::string device;
    Bytes parameter_bytes = 0;
};

struct SimulatedLane {
    Nanoseconds busy{0};
    double bubble_fraction = 0;
    Bytes peak_bytes = 0;
    std::optional<Bytes> peak_reserved_bytes = {};  ///< of the caching allocator, if asked for; 0 on the host
    MemoryComposition peak;                         ///< sums to peak_bytes
    Nanoseconds peak_time{0};  ///< start of the layer at whose peak it was, or of what changed meanwhile
};

/// One step of the pipeline on the virtual clock.
struct Simulation {
    PipelineOptions options;
    std::int64_t micro_batches = 0;    ///< the real m
    Timeline timeline;                 ///< of step 0; starts at 0. pipedream: of several steps, cut at the edges
    std::vector<MemorySample> memory;  ///< per lane over time, ascending; steady state
    Nanoseconds step_time{0};          ///< with replicas, to the end of the last all_reduce
    double bubble_fraction = 0;
    double utilization = 0;
    /// Against one device that is as fast as the fastest lane and does all layers of the mini-batch alone, of all
    /// replicas: loss inside, no recompute.
    double speedup = 0;
    double samples_per_second = 0;  ///< batch / step_time: the optimizer is outside, as in step_time
    /// Between these 5 and 95 % lies a step of a run: with the layers' noise, and what the profile's step_cv says of
    /// the machine, which changes from profile to run. Where host_cores or step_cv is known, the
    /// machine was a real one, and kPredictionCv comes on top. A load that comes between profile and run is not in it.
    std::optional<std::pair<Nanoseconds, Nanoseconds>> step_band;
    /// With the profile's noise, the step to expect: above step_time, since every wait takes a maximum.
    std::optional<Nanoseconds> step_mean;
    std::optional<double> bubble_mean;  ///< of a step that takes step_mean, whose lanes work no longer
    std::optional<double>
        device_idle_fraction;  ///< where lanes share a device: 1 - busy cores / its cores, mean of devices
    bool feasible = true;      ///< every lane's peak keeps its memory limit
    bool extrapolated =
        false;  ///< a layer was read off outside the sizes measured (the loss, of the whole batch, apart)
    bool estimated = false;
    std::string dtype;  ///< of the profile
    std::vector<SimulatedPartition> partitions;
    std::vector<SimulatedLane> lanes;
};

/// What a step takes, by all that is known: step_mean, or step_time where nothing is known of noise.
inline Nanoseconds expected_step(const Simulation& simulation) {
    return simulation.step_mean.value_or(simulation.step_time);
}

/// The figures of a step that tables show: those of the expected step.
struct StepFigures {
    Nanoseconds step{0};
    double bubble = 0;       ///< 0 to 1, mean of the lanes
    double utilization = 0;  ///< 1 - bubble
    double speedup = 0;
    double samples_per_second = 0;
};
StepFigures expected_figures(const Simulation& simulation);
/// The figures of two simulations, to compare: of the expected steps if both know their noise, otherwise of the steps
/// without noise.
std::pair<StepFigures, StepFigures> comparable_figures(const Simulation& one, const Simulation& other);
/// Samples per second of one over those of the other, of comparable figures. 1 if the other has none.
double relative_throughput(const Simulation& one, const Simulation& other);
/// Whether a simulation with noise has a band and a mean.
bool has_noise(const Profile& profile);

/// What to leave out where only the step time is wanted, as in a search over many options.
struct SimulationDetail {
    bool noise = true;      ///< step_band and step_mean, if the profile has a cv
    bool memory = true;     ///< memory, peaks and feasible
    bool reserved = false;  ///< with memory: peak_reserved_bytes, which takes some ms
};

/// Runs the options' task graph with the profile's costs. Lanes that share a device or the host's cores slow each other
/// down as contention.h says. A schedule that never drains (pipedream) is shown for one period of its steady state, as
/// steady_state.h says: then the timeline holds parts of several steps, and the noise band is that of the period.
/// Throws ProfileError, UsageError or BalanceError for a profile or options that do not fit. Deterministic.
Simulation simulate(const Profile& profile, const PipelineOptions& options, const SimulationDetail& detail = {});

/// Adds step_band, step_mean and bubble_mean to a simulation of `profile` that was made without noise, if the profile
/// knows its noise. Costs 100 to 1000 runs of the clock. Throws as simulate() does. Threading: any thread.
void add_noise(const Profile& profile, Simulation& simulation);
}  // namespace pipescope
