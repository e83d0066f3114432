#include "answers/simulated_pipeline.h"

#include "base/error.h"

#include <fmt/format.h>

#include <utility>

namespace pipescope {
namespace {
/// Adds options that only the simulator has.
void add_simulation_options(OptionTable& table, SimulatedPipelineFlags& flags, bool knows_clusters) {
    table
        .add_flag("--expandable-segments", flags.pipeline.options.hardware.expandable_segments,
                  "Compute reserved memory as with PyTorch's setting of that name", "Hardware")
        .use = OptionUse::lanes;
    table
        .add_number("--in-flight", flags.most_in_flight,
                    "Maximum number of micro-batches between first forward and last backward; default: no limit", "N",
                    "Pipeline")
        .use = OptionUse::lanes;
    table
        .add("--backward", flags.backward_order, parse_backward_order,
             "Order of gpipe's backwards: last-first (default) or first-first", "ORDER", "Pipeline")
        .use = OptionUse::lanes;
    table.add_text("--recompute", flags.recompute,
                   std::string("When to recompute: early (default), while the gradient is on its way, or ordinary, "
                               "once it has arrived") +
                       (knows_clusters ? "; with --cluster what: none (default), selective or full" : ""),
                   "WHEN", "Pipeline");
}
}  // namespace

void add_simulated_pipeline_options(OptionTable& table, SimulatedPipelineFlags& flags, bool* all_schedules) {
    add_balance_option(table, flags.pipeline);
    add_batch_options(table, flags.pipeline);
    add_schedule_options(table, flags.pipeline,
                         runnable_schedule_names(", ") +
                             " (default gpipe); only simulated: " + compared_schedule_names() +
                             "; or a file that ends in .csv, as 'pipescope schedule' writes it; or auto, "
                             "which finds the order with the shortest step" +
                             (all_schedules == nullptr ? "" : "; or all, which compares them in a table"),
                         all_schedules);
    add_update_option(table, flags.pipeline);
    add_hardware_options(table, flags.pipeline);
    add_device_type_options(table, flags.pipeline, "Type of all devices, such as A100");
    add_replicas_option(table, flags.pipeline);
    add_simulation_options(table, flags, all_schedules != nullptr);
    add_parameter_options(table, flags.pipeline);
}

PipelineOptions simulated_pipeline_options(const SimulatedPipelineFlags& flags) {
    PipelineOptions options = pipeline_options(flags.pipeline);
    if (flags.most_in_flight && *flags.most_in_flight < 1) {
        throw UsageError(fmt::format("{} is {}; at least one micro-batch must be in flight; leave it out for no limit",
                                     option_name("in-flight"), *flags.most_in_flight));
    }
    options.most_in_flight = flags.most_in_flight.value_or(0);
    if (options.most_in_flight > 0 && options.schedule.file()) {
        throw UsageError(
            fmt::format("{} is {} with schedule {}, a file that gives the order of all tasks; leave it out",
                        option_name("in-flight"), options.most_in_flight, to_string(options.schedule)));
    }
    if (flags.backward_order && options.schedule != Schedule::gpipe) {
        throw UsageError(
            fmt::format("{} is {} with schedule {}, which fixes the order of its backwards; leave it out, or use gpipe",
                        option_name("backward"), to_string(*flags.backward_order), to_string(options.schedule)));
    }
    options.backward_order = flags.backward_order.value_or(options.backward_order);
    if (!flags.recompute.empty()) {
        options.recompute_start = parse_recompute_start(flags.recompute);
    }
    place(options);
    return options;
}

EstimatedPipeline simulated_pipeline(const SimulatedPipelineFlags& flags, const PipelineOptions& options,
                                     Profile profile, const std::string& file, int lanes) {
    EstimatedPipeline pipeline = estimated_pipeline(flags.pipeline, options, std::move(profile), file, lanes);
    for (int lane = 0; lane < lanes && !flags.pipeline.device_types.empty(); ++lane) {
        pipeline.options.hardware.devices.push_back(pipeline.profile.device + " " + std::to_string(lane));
    }
    return pipeline;
}
}  // namespace pipescope
