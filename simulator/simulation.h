#pragma once

#include "balance/profile.h"
#include "schedule/balance.h"
#include "schedule/checkpoint.h"
#include "schedule/task_graph.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The link between each ordered pair of lanes on different devices.
struct Link {
    double bytes_per_second = 0;  ///< 0: free
    double latency_ns = 0;

    friend bool operator==(const Link&, const Link&) = default;
};

/// What a run is asked to be: shared by simulate, run, compare and the viewer's what-if panel.
struct PipelineOptions {
    Balance balance{{1}};
    std::int64_t chunks = 1;
    std::int64_t batch = 1;
    Checkpoint checkpoint = Checkpoint::except_last;
    std::string schedule = "gpipe";
    std::vector<LaneId> placement;     ///< lane of each partition; empty: partition j on lane j
    std::vector<std::string> devices;  ///< of each lane; empty: all different ("device 0", ..)
    std::vector<double> speeds;        ///< of each lane; empty: all 1
    Link link;
    std::optional<Bytes> memory_limit;  ///< per lane
    std::string optimizer = "sgd";      ///< name, or bytes of state per byte of parameter

    friend bool operator==(const PipelineOptions&, const PipelineOptions&) = default;
};

/// JSON object of the options, as a trace keeps it under PIPESCOPE_RUN 'configuration'; keys are the fields' names.
std::string to_json(const PipelineOptions& options);
/// Throws UsageError that names the key. Unknown keys are ignored.
PipelineOptions parse_pipeline_options(const std::string& json);

/// Bytes of one lane at its peak, by what holds them; the keys are the categories' names (parameters, gradients,
/// optimizer, boundary, saved, skip, transient, copy, output).
using MemoryComposition = std::map<std::string, Bytes>;

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
    Bytes peak_reserved_bytes = 0;
    MemoryComposition peak;
};

/// One step of the pipeline on the virtual clock.
struct Simulation {
    PipelineOptions options;
    std::int64_t micro_batches = 0;  ///< the real m
    Timeline timeline;               ///< of step 0; starts at 0
    std::vector<MemorySample> memory;  ///< per lane over time, ascending; steady state
    Nanoseconds step_time{0};
    double bubble_fraction = 0;
    double utilization = 0;
    double speedup = 0;  ///< against one lane without recompute
    double samples_per_second = 0;
    std::optional<std::pair<Nanoseconds, Nanoseconds>> step_band;  ///< 5 and 95 % with the profile's noise
    std::optional<double> device_idle_fraction;  ///< where lanes share a device
    bool feasible = true;
    bool extrapolated = false;
    bool estimated = false;
    std::vector<SimulatedPartition> partitions;
    std::vector<SimulatedLane> lanes;
};

/// Runs the options' task graph with the profile's costs. Throws UsageError or BalanceError for options that do not fit
/// the profile. Deterministic.
Simulation simulate(const Profile& profile, const PipelineOptions& options);
}  // namespace pipescope
