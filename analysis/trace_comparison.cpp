#include "analysis/trace_comparison.h"

#include "analysis/replay.h"
#include "analysis/task_contradictions.h"
#include "base/quantities.h"
#include "simulator/pipeline_defaults.h"
#include "trace/foreign/task_recognition.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

RunComparison compare_run(const RunTasks& measured, const Simulation* simulation) {
    const RecordedRun& run = measured.run;
    RunComparison compared;
    compared.warnings = run.warnings;
    const auto caution = [&](std::vector<std::string> texts, bool of_prediction) {
        for (std::string& text : texts) {
            compared.warnings.push_back({Severity::caution, std::move(text), of_prediction});
        }
    };
    if (simulation != nullptr) {
        caution(prediction_warnings(*run.profile, *simulation), true);
        caution(load_warnings((*run.profile)->load, run.load), true);
        caution(left_out_warnings(measured.steps), false);
    }
    for (TraceWarning& warning : idle_time_warnings(measured)) {
        compared.warnings.push_back(std::move(warning));
    }
    compared.why_none = simulation == nullptr ? run.why_not_simulated : measured.steps.why_none;
    if (!compared.why_none.empty()) {
        return compared;
    }
    compared.comparable = measured.steps.comparable;
    try {
        compared.comparison = compare(measured.measured(), *simulation);
    } catch (const Error& error) {
        compared.why_none = fmt::format("holds a run that cannot be compared: {}", error.what());
    }
    return compared;
}

std::optional<ModelError> judged_model_error(const RunComparison& compared) {
    return compared.comparison && !refuse_bubbles(compared.warnings) ? model_error(*compared.comparison) : std::nullopt;
}

std::string nothing_measured(const RecordedRun& run) {
    for (const TraceWarning& warning : run.warnings) {
        if (warning.text.find(kKernelsMissing) != std::string::npos) {
            return fmt::format("is {} whose steps are all left out, so there is nothing to compare: {}", run.source,
                               warning.text);
        }
    }
    return fmt::format(
        "is {} and holds no measured task; there is nothing to compare; record a run with 'pipescope run "
        "--trace'{}",
        run.source,
        run.of_another_program                 ? ", or name this program's tasks with --task-rules"
        : run.origin == TraceOrigin::pipescope ? ", or call 'pipescope recover' if the run was killed"
                                               : "");
}

std::vector<LaneDeviceTime> device_times(const std::map<std::string, std::string>& run) {
    const auto found = run.find(std::string(kDeviceTimeKey));
    const nlohmann::json entry =
        found == run.end() ? nlohmann::json() : nlohmann::json::parse(found->second, nullptr, false);
    std::vector<LaneDeviceTime> times;
    const nlohmann::json lanes = entry.is_object() ? entry.value("lanes", nlohmann::json()) : nlohmann::json();
    for (const nlohmann::json& lane : lanes.is_array() ? lanes : nlohmann::json::array()) {
        const auto number = [&](const char* key) {
            const auto value = lane.is_object() ? lane.find(key) : lane.end();
            return value != lane.end() && value->is_number_integer() ? value->get<std::int64_t>() : -1;
        };
        const LaneDeviceTime time{static_cast<std::size_t>(number("lane")), Nanoseconds{number("busy_ns")},
                                  Nanoseconds{number("unattributed_ns")}};
        if (number("lane") >= 0 && time.busy.count() >= 0 && time.unattributed.count() >= 0) {
            times.push_back(time);
        }
    }
    return times;
}

TraceComparison compare_trace(const std::filesystem::path& path) {
    return compare_trace(path, path.string());
}

TraceComparison compare_trace(const std::filesystem::path& path, const std::string& name) {
    const std::optional<TraceReader> reader = TraceReader::open(path);
    LoadedRun loaded = load_run(path, {.tracks = !reader});  // which another program's file is read for anyway
    const OpenedTrace& trace = loaded.trace;
    RecordedRun& run = loaded.run;
    if (trace.measured.slices.empty()) {
        refuse(name, nothing_measured(run), trace);
    }
    std::optional<Simulation> simulation = simulate_run(run);
    RunComparison compared = compare_run(loaded.tasks(), simulation ? &*simulation : nullptr);
    if (!compared.comparison) {
        refuse(name, compared.why_none, trace);
    }
    const Measured measured = loaded.tasks().measured();
    ComparedBubbles bubbles = compare_bubbles(measured, *simulation, run.graph,
                                              pipeline_graph_of(*run.profile, simulation->options), run.launches);
    bubbles.measured.roots = root_causes(measured, run);
    const std::string why_unknown = why_no_bubbles(compared.warnings);
    RunVerdict verdict = why_unknown.empty() ? verdict_of(run, bubbles.measured, measured_lanes(*compared.comparison),
                                                          judged_model_error(compared))
                                             : unknown_idle(why_unknown);
    Comparison& comparison = *compared.comparison;
    try {
        comparison.replay = replay(measured, *run.profile, options_as_recorded(run));
    } catch (const Error& error) {
        refuse(name, fmt::format("holds a run that cannot be replayed: {}", error.what()), trace);
    }
    return {.simulation = std::move(*simulation),
            .comparison = std::move(comparison),
            .drops = trace.drops,
            .warnings = std::move(compared.warnings),
            .profile_load = (*run.profile)->load,
            .run_load = run.load,
            .batch = known_batch(run),
            .profile_from_trace = run.of_another_program && (*run.profile)->from_trace,
            .processes = std::max<std::size_t>(run.processes.size(), 1),
            .clock_bound = clock_bound(run.processes),
            .bubbles = std::move(bubbles),
            .kernels = reader ? kernel_sums(*reader) : kernel_sums(trace),
            .devices = device_times(trace.run),
            .verdict = std::move(verdict)};
}
}  // namespace pipescope
