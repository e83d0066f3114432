#include "cli/trace_comparison.h"

#include "balance/profile_file.h"
#include "cli/trace_warnings.h"
#include "simulator/replay.h"
#include "trace/open_trace.h"

#include <fmt/format.h>

#include <set>

namespace pipescope {
namespace {
[[noreturn]] void refuse(const std::filesystem::path& path, std::string_view problem) {
    throw TraceFormatError(fmt::format("{} {}", path.string(), problem));
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
        return {std::move(simulation), std::move(comparison), trace.drops, trace_warnings(trace)};
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

std::vector<std::int32_t> measured_steps(const std::vector<StepRecord>& records, const Timeline& timeline) {
    if (records.empty()) {
        return steps_of(timeline);  // a killed run, or one whose loop told nothing: all there is
    }
    std::vector<std::int32_t> steps;
    for (const StepRecord& record : records) {
        if (!record.warmup) {
            steps.push_back(record.step);
        }
    }
    return steps;
}

std::vector<Nanoseconds> wall_times(const std::vector<StepRecord>& records) {
    std::vector<Nanoseconds> times;
    for (const StepRecord& record : records) {
        if (!record.warmup) {
            times.push_back(record.wall_end - record.wall_start);
        }
    }
    return times;
}
}  // namespace

TraceComparison compare_trace(const std::filesystem::path& path) {
    const OpenedTrace trace = open_trace(path, {.tracks = false});
    require_measured_tasks(path, trace);
    const Measured measured{trace.measured, trace.memory, measured_steps(trace.steps, trace.measured),
                            wall_times(trace.steps)};
    if (measured.steps.empty()) {
        refuse(path, "holds warm-up steps only; comparing needs at least one more; run with more --steps");
    }
    return compare_run(path, trace, measured);
}
}  // namespace pipescope
