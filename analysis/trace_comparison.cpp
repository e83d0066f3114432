#include "analysis/trace_comparison.h"

#include "analysis/replay.h"
#include "analysis/trace_warnings.h"
#include "balance/profile_file.h"
#include "trace/open_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

namespace pipescope {
namespace {
[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view problem) {
    throw TraceFormatError(fmt::format("{} {}", path.string(), problem));
}

/// What makes the prediction another one than of this run on this machine.
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
        lanes += device_of(options, LaneId{lane}) == "cpu" ? 1 : 0;
    }
    const int busy = options.host_cores > 0 ? std::min(lanes, options.host_cores) : lanes;
    const bool was_measured_here = profile.host_cores > 0 && profile.device == "cpu" && !profile.estimated;
    if (was_measured_here && busy > profile.co_running_lanes && busy <= profile.host_cores) {
        warnings.push_back(
            fmt::format("the profile was taken with {} lane{} busy and the run keeps {} busy, which slow each other "
                        "down; profile with --co-running {}",
                        profile.co_running_lanes, profile.co_running_lanes == 1 ? "" : "s", busy, busy));
    }
    return warnings;
}

/// Compared with what the run was, simulated, and replayed. Faults in the trace are the trace's, not the caller's
/// usage.
TraceComparison compare_run(const std::filesystem::path& path, const OpenedTrace& trace, const Measured& measured) {
    if (!trace.profile_json) {
        refuse(path, "holds no profile; comparing needs the layers' costs; record it with 'pipescope run --trace'");
    }
    const auto configuration = trace.run.find("configuration");
    if (configuration == trace.run.end()) {
        refuse(path,
               "does not say what was run; comparing needs the configuration; record it with 'pipescope run "
               "--trace'");
    }
    try {
        const Profile profile = parse_profile(*trace.profile_json);
        const PipelineOptions options = parse_pipeline_options(configuration->second);
        Simulation simulation = simulate(profile, options);
        Comparison comparison = compare(measured, simulation);
        comparison.replay = replay(measured, profile, options);
        const bool none_whole = trace.cut_off() && trace.steps.empty() && steps_of(trace.measured).size() < 2;
        TraceComparison compared{std::move(simulation), std::move(comparison), trace.drops, trace_warnings(trace),
                                 none_whole};
        compared.profile_load = profile.load;
        if (const auto load = trace.run.find("load"); load != trace.run.end()) {
            compared.run_load = parse_load(load->second);
        }
        for (std::string& warning : prediction_warnings(profile, compared.simulation)) {
            compared.warnings.push_back(std::move(warning));
        }
        for (std::string& warning : load_warnings(compared.profile_load, compared.run_load)) {
            compared.warnings.push_back(std::move(warning));
        }
        return compared;
    } catch (const Error& error) {
        const std::string loss = loss_warning(trace.drops);  // the likely reason, where there is one
        refuse(path, fmt::format("holds a run that cannot be simulated: {}{}{}", error.what(), loss.empty() ? "" : "; ",
                                 loss));
    }
}

/// A trace that other programs wrote, or a simulation's, has nothing to compare.
void require_measured_tasks(const std::filesystem::path& path, const OpenedTrace& trace) {
    if (trace.measured.slices.empty()) {
        refuse(path, fmt::format("is {} and holds no measured task; there is nothing to compare; record a run with "
                                 "'pipescope run --trace'",
                                 to_string(trace.origin)));
    }
}

struct MeasuredSteps {
    std::vector<std::int32_t> steps;
    std::vector<Nanoseconds> wall_times;  ///< of those steps, or empty
};

MeasuredSteps measured_steps(const OpenedTrace& trace) {
    if (trace.steps.empty()) {  // the loop told nothing, or was killed before its first step's end
        std::vector<std::int32_t> steps = steps_of(trace.measured);
        if (trace.cut_off() && steps.size() > 1) {
            steps.pop_back();  // it may have ended in the middle of that one
        }
        return {std::move(steps), {}};
    }
    MeasuredSteps measured;
    for (const StepRecord& record : trace.steps) {
        if (!record.warmup) {
            measured.steps.push_back(record.step);
            measured.wall_times.push_back(record.wall_end - record.wall_start);
        }
    }
    return measured;
}

/// `half`: some of the steps, in their order.
void leave_out(const std::vector<std::int32_t>& half, MeasuredSteps& measured) {
    MeasuredSteps whole;
    auto next = half.begin();
    for (std::size_t k = 0; k < measured.steps.size(); ++k) {
        if (next != half.end() && *next == measured.steps[k]) {
            ++next;
            continue;
        }
        whole.steps.push_back(measured.steps[k]);
        if (!measured.wall_times.empty()) {
            whole.wall_times.push_back(measured.wall_times[k]);
        }
    }
    measured = std::move(whole);
}
}  // namespace

bool TraceComparison::lossy() const {
    return cut_off_in_step ||
           std::any_of(drops.begin(), drops.end(), [](const DropRecord& drop) { return drop.dropped > 0; });
}

TraceComparison compare_trace(const std::filesystem::path& path) {
    const OpenedTrace trace = open_trace(path, {.tracks = false});
    require_measured_tasks(path, trace);
    MeasuredSteps steps = measured_steps(trace);
    if (steps.steps.empty()) {
        refuse(path, "holds warm-up steps only; comparing needs at least one more; run with more --steps");
    }
    const std::vector<std::int32_t> half = half_recorded(trace.measured, steps.steps);
    leave_out(half, steps);
    if (steps.steps.empty()) {
        const std::string loss = loss_warning(trace.drops);
        refuse(path, fmt::format("holds no whole step: of each the forwards or the backwards were not recorded{}{}",
                                 loss.empty() ? "; record it again" : "; ", loss));
    }
    TraceComparison compared =
        compare_run(path, trace, {trace.measured, trace.memory, std::move(steps.steps), std::move(steps.wall_times)});
    if (!half.empty()) {
        compared.warnings.push_back(
            fmt::format("not compared, since a forward or a backward phase was not recorded: step {}",
                        fmt::join(std::span(half).first(std::min<std::size_t>(half.size(), 5)), ", ")) +
            (half.size() > 5 ? fmt::format(" and {} more", half.size() - 5) : ""));
    }
    return compared;
}
}  // namespace pipescope
