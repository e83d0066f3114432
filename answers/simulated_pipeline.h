#pragma once

#include "answers/asked_pipeline.h"
#include "schedule/task_graph.h"

#include <optional>
#include <string>

namespace pipescope {
/// The options of one simulated pipeline, shared by simulate and advise.
struct SimulatedPipelineFlags {
    PipelineFlags pipeline;
    std::optional<int> most_in_flight;
    std::optional<BackwardOrder> backward_order;
    std::string recompute;  ///< as given; with a cluster it says what is recomputed, otherwise when
};

/// Adds all options of the pipeline: balance, batch, schedule, hardware, replicas, simulation and parameters. As
/// add_schedule_options(), with `all_schedules`, --schedule also takes `all`. `flags` must outlive the parsing.
void add_simulated_pipeline_options(OptionTable& table, SimulatedPipelineFlags& flags, bool* all_schedules = nullptr);
/// The options as given. Throws UsageError as pipeline_options() does, and for options that only the simulator has.
PipelineOptions simulated_pipeline_options(const SimulatedPipelineFlags& flags);
/// As estimated_pipeline(). With a device type, each of the lanes has a device of its own.
EstimatedPipeline simulated_pipeline(const SimulatedPipelineFlags& flags, const PipelineOptions& options,
                                     Profile profile, const std::string& file, int lanes);
}  // namespace pipescope
