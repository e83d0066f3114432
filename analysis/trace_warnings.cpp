#include "analysis/trace_warnings.h"

#include "base/quantities.h"
#include "simulator/pipeline_options.h"
#include "trace/foreign/task_recognition.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <utility>

namespace pipescope {
namespace {
std::string percent(double fraction) {
    return fmt::format("{:.2f} %", 100 * fraction);
}

/// Counts threads that have their own rings. Each other source has one row and loses other records.
std::string range_warning(const std::vector<DropRecord>& drops, std::int64_t lost) {
    std::int64_t all = 0;
    std::size_t threads = 0;
    std::size_t losing = 0;
    for (const DropRecord& drop : drops) {
        if (drop.source != "cupti" && drop.source != "trace") {
            all += drop.recorded + drop.dropped + drop.open_at_exit;
            ++threads;
            losing += drop.dropped > 0 ? 1 : 0;
        }
    }
    return fmt::format(
        "the recorder lost {} of {}, on {} of {}: idle time and bubble fractions are not known and not shown; record "
        "again with fewer steps, or with larger rings by PIPESCOPE_RING_ENTRIES",
        lost, counted(all, "range", "ranges"), losing, counted(threads, "thread", "threads"));
}

constexpr const char* kNoTimesOfTasks = "the tasks' times are not known";

/// Lanes on accelerators in a run that PipeScope recorded.
std::vector<std::size_t> launching_lanes(const OpenedTrace& trace) {
    std::vector<std::size_t> launching;
    const bool is_own_run = trace.run.contains("format") && !trace.run.contains("source") && !trace.steps.empty();
    for (std::size_t lane = 0; is_own_run && lane < trace.measured.lanes.size(); ++lane) {
        const std::string& device = trace.measured.lanes[lane].device;
        const bool is_of_torch =
            !device.empty() && device.find(' ') == std::string::npos;  // else "device 0", simulated
        if (is_of_torch && device != kHost) {
            launching.push_back(lane);
        }
    }
    return launching;
}

std::optional<PipelineOptions> options_in(const OpenedTrace& trace) {
    const auto configuration = trace.run.find("configuration");
    try {
        return configuration == trace.run.end() ? std::nullopt
                                                : std::optional(parse_pipeline_options(configuration->second));
    } catch (const Error&) {
        return std::nullopt;
    }
}

/// The process that recorded the trace, if it ran only some of the lanes. With replicas, it may have run a whole
/// pipeline.
std::optional<ProcessFacts> one_of_several(const OpenedTrace& trace) {
    const std::optional<ProcessFacts> process = recording_process(trace.run);
    if (!process || process->size < 2) {
        return std::nullopt;
    }
    const std::optional<PipelineOptions> options = options_in(trace);
    return options && process->lanes.size() >= static_cast<std::size_t>(num_lanes(*options)) ? std::nullopt : process;
}

TraceWarning warning_of_one_rank(const OpenedTrace& trace, const ProcessFacts& process) {
    const std::optional<PipelineOptions> options = options_in(trace);
    const bool knows_steps = options && first_lane_tells_step(*options) &&
                             std::ranges::find(process.lanes, LaneId{0}) != process.lanes.end();
    TraceWarning warning = refusal(
        "this is the trace of one rank alone",
        fmt::format("this is the trace of rank {} of {} alone, and the other lanes' tasks are missing, so bubble "
                    "fractions{} are not known and not shown{}; give the traces of all ranks, or join them with "
                    "'pipescope merge'",
                    process.rank, process.size, knows_steps ? "" : ", step times and rates",
                    is_of_another_program(trace)
                        ? "; a task whose input comes from another rank may include the wait for it"
                        : ""));
    warning.of_steps = !knows_steps;
    return warning;
}
}  // namespace

std::optional<TraceWarning> one_rank_warning(const OpenedTrace& trace) {
    const std::optional<ProcessFacts> process = one_of_several(trace);
    return process ? std::optional(warning_of_one_rank(trace, *process)) : std::nullopt;
}

bool is_of_another_program(const OpenedTrace& trace) {
    return trace.run.contains("source") || is_of_another_program(trace.origin);
}

std::optional<MissingRanks> missing_ranks(const OpenedTrace& trace) {
    std::optional<MissingRanks> noted = missing_ranks_entry(trace.run);
    if (noted) {
        return noted;
    }
    const std::optional<ProcessFacts> process = one_of_several(trace);
    return process ? std::optional(other_ranks(*process)) : std::nullopt;
}

TraceWarning refusal(std::string brief, std::string text) {
    return {Severity::refusal, std::move(text), false, std::move(brief), false};
}

std::vector<std::string> texts_of(std::span<const TraceWarning> warnings) {
    std::vector<std::string> texts;
    std::transform(warnings.begin(), warnings.end(), std::back_inserter(texts),
                   [](const TraceWarning& warning) { return warning.text; });
    return texts;
}

std::vector<TraceWarning> about_run(std::span<const TraceWarning> warnings) {
    std::vector<TraceWarning> own;
    std::ranges::copy_if(warnings, std::back_inserter(own), std::not_fn(&TraceWarning::of_prediction));
    return own;
}

namespace {
bool is_refusal(const TraceWarning& warning) {
    return warning.severity == Severity::refusal;
}
}  // namespace

bool refuse_bubbles(std::span<const TraceWarning> warnings) {
    return std::ranges::any_of(warnings, is_refusal);
}

std::string why_no_bubbles(std::span<const TraceWarning> warnings) {
    const auto found = std::ranges::find_if(warnings, is_refusal);
    return found != warnings.end() ? found->brief : std::string();
}

std::string why_no_step_times(std::span<const TraceWarning> warnings) {
    const auto found = std::ranges::find_if(warnings, &TraceWarning::of_steps);
    return found != warnings.end() ? found->brief : std::string();
}

std::string why_no_times_across_lanes(std::span<const TraceWarning> warnings) {
    const auto found = std::ranges::find_if(warnings, &TraceWarning::of_clocks);
    return found != warnings.end() ? found->brief : std::string();
}

bool first_lane_tells_step(const PipelineOptions& options) {
    return is_synchronous(options.schedule) && !splits_backward(options.schedule) && !options.schedule.file() &&
           options.update == Update::synchronous &&
           options.balance.num_partitions() == static_cast<std::size_t>(num_lanes(options)) &&
           (options.placement.empty() || options.placement.front() == LaneId{0});
}

std::vector<TraceWarning> loss_warnings(const std::vector<DropRecord>& drops) {
    std::vector<TraceWarning> warnings;
    const LostRecords lost = lost_records(drops);
    if (lost.ranges > 0) {
        warnings.push_back(refusal("ranges were lost", range_warning(drops, lost.ranges)));
    }
    if (lost.device_records > 0) {
        warnings.push_back(refusal(
            "records were lost",
            fmt::format(
                "CUPTI lost {} of device work: kernels, copies and calls are missing, device times of tasks are "
                "too small, and bubble fractions are not shown; record again while nothing else uses the machine",
                counted(lost.device_records, "record", "records"))));
    }
    if (lost.rows > 0) {
        warnings.push_back(refusal(
            "records were lost",
            fmt::format("{} could not be written: tasks, ranges or samples are missing, so bubble fractions are not "
                        "known and not shown; make room for the trace and record again",
                        counted(lost.rows, "row", "rows"))));
    }
    return warnings;
}

std::string loss_warning(const std::vector<DropRecord>& drops) {
    return fmt::format("{}", fmt::join(texts_of(loss_warnings(drops)), "; "));
}

std::vector<std::string> diagnostic_warnings(const std::vector<DiagnosticRecord>& diagnostics) {
    std::vector<std::string> warnings;
    for (const DiagnosticRecord& diagnostic : diagnostics) {
        if (diagnostic.severity == "warning" || diagnostic.severity == "error") {
            warnings.push_back(diagnostic.source + ": " + diagnostic.text);
        }
    }
    return warnings;
}

std::vector<TraceWarning> trace_warnings(const OpenedTrace& trace) {
    std::vector<TraceWarning> warnings = loss_warnings(trace.drops);
    if (trace.run.contains("format") && !trace.run.contains("closed")) {
        warnings.push_back({Severity::caution, std::string(kNotClosed)});
        warnings.back().of_closing = true;
    }
    if (auto alone = one_rank_warning(trace)) {
        warnings.push_back(*std::move(alone));
    } else if (std::string warning = missing_ranks_warning(trace.run); !warning.empty()) {
        warnings.push_back(refusal("ranks of the pipeline are missing", std::move(warning)));
        warnings.back().of_steps = true;
    }
    if (std::string warning = unknown_times_warning(trace.run); !warning.empty()) {
        warnings.push_back(refusal(kNoTimesOfTasks, std::move(warning)));
        warnings.back().of_steps = true;
    }
    if (const std::vector<std::size_t> lanes = launching_lanes(trace); !lanes.empty()) {
        warnings.push_back(refusal(
            kNoTimesOfTasks,
            fmt::format(
                "{} {} {} on an accelerator, where a task's range ends once its work is launched: times of tasks "
                "are those of the host, so idle time and bubble fractions are not known and not shown; "
                "PIPESCOPE_TASK_DEVICE has the times of the tasks' kernels",
                lanes.size() == 1 ? "lane" : "lanes", fmt::join(lanes, ", "), lanes.size() == 1 ? "is" : "are")));
    }
    for (std::string& warning : diagnostic_warnings(trace.diagnostics)) {
        const bool of_closing = warning.find(kCutOff) != std::string::npos;
        warnings.push_back({Severity::caution, std::move(warning)});
        warnings.back().of_closing = of_closing;
    }
    return warnings;
}

std::vector<std::string> load_warnings(const std::optional<MachineLoad>& load, std::string_view what) {
    if (!load || !is_notable(*load)) {
        return {};
    }
    std::string who;
    if (load->others > kNotableLoad) {
        who = fmt::format("other processes took {}", percent(load->others));
    }
    if (load->stolen > kNotableLoad) {
        who += fmt::format("{}the host of this virtual machine took {}", who.empty() ? "" : " and ",
                           percent(load->stolen));
    }
    return {fmt::format("{} of the cores' time while {}: its times include that load; repeat it on a quiet machine",
                        who, what)};
}

std::vector<std::string> load_warnings(const std::optional<MachineLoad>& profile,
                                       const std::optional<MachineLoad>& run) {
    std::vector<std::string> warnings = load_warnings(profile, "the profile was taken");
    for (std::string& warning : load_warnings(run, "the run was recorded")) {
        warnings.push_back(std::move(warning));
    }
    const auto taken = [](const MachineLoad& load) { return load.others + load.stolen; };
    if (profile && run && std::abs(taken(*profile) - taken(*run)) > kNotableLoad) {
        warnings.push_back(fmt::format(
            "other load took {} of the cores' time {} during the run than while the profile was measured: a part of "
            "the step error is that difference",
            percent(std::abs(taken(*run) - taken(*profile))), taken(*run) > taken(*profile) ? "more" : "less"));
    }
    return warnings;
}
}  // namespace pipescope
