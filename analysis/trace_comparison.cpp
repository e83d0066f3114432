#include "analysis/trace_comparison.h"

#include "analysis/replay.h"
#include "analysis/task_contradictions.h"
#include "analysis/trace_profile.h"
#include "base/quantities.h"
#include "simulator/pipeline_defaults.h"
#include "trace/open_trace.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <utility>

namespace pipescope {
namespace {
/// Warnings that the prediction is for another run or another machine.
std::vector<std::string> prediction_warnings(const Profile& profile, const Simulation& simulation) {
    std::vector<std::string> warnings;
    if (profile.estimated) {
        warnings.emplace_back(
            "the profile's times are estimated, not measured: the step error is the estimate's; profile without "
            "--device meta to measure them");
    }
    if (simulation.extrapolated) {
        warnings.emplace_back(
            "a micro-batch of the run is smaller or larger than every size in the profile, so that its costs are "
            "extrapolated; profile the sizes that run");
    }
    const PipelineOptions& options = simulation.options;
    int lanes = 0;
    for (int lane = 0; lane < num_lanes(options); ++lane) {
        lanes += runs_on_host(options.hardware, LaneId{lane}) ? 1 : 0;
    }
    const int busy = options.hardware.host_cores > 0 ? std::min(lanes, options.hardware.host_cores) : lanes;
    if (measured_on_host(profile) && busy > profile.co_running_lanes && busy <= profile.host_cores) {
        warnings.push_back(
            fmt::format("the profile was taken with {} busy and the run keeps {} busy, which slow each other "
                        "down; profile with --co-running {}",
                        counted(profile.co_running_lanes, "lane", "lanes"), busy, busy));
    }
    return warnings;
}

[[noreturn]] void refuse(const std::string& name, const std::string& why, const OpenedTrace& trace) {
    const std::string loss = loss_warning(trace.drops);  // the likely reason, if any
    throw TraceFormatError(fmt::format("{} {}{}{}", name, why, loss.empty() ? "" : "; ", loss));
}
}  // namespace

RunComparison compare_run(const RecordedRun& run, const Simulation* simulation, MeasuredSteps steps,
                          const Timeline& measured, const std::vector<MemorySample>& memory, const RunCheck& check) {
    RunComparison compared;
    compared.warnings = run.warnings;
    const auto caution = [&](std::vector<std::string> texts, bool of_prediction) {
        for (std::string& text : texts) {
            compared.warnings.push_back({Severity::caution, std::move(text), of_prediction});
        }
    };
    leave_out_broken(check, measured, steps);
    if (simulation != nullptr) {
        caution(prediction_warnings(*run.profile, *simulation), true);
        caution(load_warnings(run.profile->load, run.load), true);
        caution(left_out_warnings(steps), false);
    }
    for (TraceWarning& warning : idle_time_warnings(run, measured, check, steps)) {
        compared.warnings.push_back(std::move(warning));
    }
    compared.why_none = simulation == nullptr ? run.why_not_simulated : steps.why_none;
    if (!compared.why_none.empty()) {
        return compared;
    }
    compared.comparable = steps.comparable;
    try {
        compared.comparison =
            compare({measured, memory, steps.numbers(), steps.wall_times(), update_of(run)}, *simulation);
    } catch (const Error& error) {
        compared.why_none = fmt::format("holds a run that cannot be compared: {}", error.what());
    }
    return compared;
}

std::optional<ModelError> judged_model_error(const RunComparison& compared) {
    return compared.comparison && !refuse_bubbles(compared.warnings) ? model_error(*compared.comparison) : std::nullopt;
}

std::string nothing_measured(const RecordedRun& run) {
    return fmt::format(
        "is {} and holds no measured task; there is nothing to compare; record a run with 'pipescope run "
        "--trace'{}",
        run.source,
        run.of_another_program                 ? ", or name this program's tasks with --task-rules"
        : run.origin == TraceOrigin::pipescope ? ", or call 'pipescope recover' if the run was killed"
                                               : "");
}

TraceComparison compare_trace(const std::filesystem::path& path) {
    return compare_trace(path, path.string());
}

TraceComparison compare_trace(const std::filesystem::path& path, const std::string& name) {
    const OpenedTrace trace = open_trace(path, {.tracks = false});
    if (trace.measured.slices.empty()) {
        refuse(name, nothing_measured(recorded_run(trace)), trace);
    }
    RecordedRun run = recorded_run_to_simulate(trace);
    std::int32_t highest = -1;
    for (const Slice& slice : trace.measured.slices) {
        highest = std::max(highest, slice.key.partition);
    }
    warn_of_partition(run, highest);
    std::optional<Simulation> simulation = simulate_run(run);
    const RunCheck check = check_run(run, trace.measured);
    RunComparison compared =
        compare_run(run, simulation ? &*simulation : nullptr,
                    steps_to_compare(run, check, steps_in_time(trace.measured)), trace.measured, trace.memory, check);
    if (!compared.comparison) {
        refuse(name, compared.why_none, trace);
    }
    Comparison& comparison = *compared.comparison;
    const Measured measured{trace.measured, trace.memory, comparison.steps, {}, update_of(run)};
    ComparedBubbles bubbles =
        compare_bubbles(measured, *simulation, run.graph, pipeline_graph_of(*run.profile, simulation->options));
    try {
        comparison.replay = replay(measured, *run.profile, options_as_recorded(run));
    } catch (const Error& error) {
        refuse(name, fmt::format("holds a run that cannot be replayed: {}", error.what()), trace);
    }
    return {.simulation = std::move(*simulation),
            .comparison = std::move(comparison),
            .drops = trace.drops,
            .warnings = std::move(compared.warnings),
            .profile_load = run.profile->load,
            .run_load = run.load,
            .batch = known_batch(run),
            .profile_from_trace = run.of_another_program && run.profile->from_trace,
            .processes = std::max<std::size_t>(run.processes.size(), 1),
            .clock_bound = clock_bound(run.processes),
            .bubbles = std::move(bubbles)};
}
}  // namespace pipescope
