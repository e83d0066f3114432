#include "analysis/load_run.h"
#include "analysis/task_contradictions.h"
#include "analysis/trace_comparison.h"
#include "analysis/trace_warnings.h"
#include "analysis/two_runs.h"
#include "answers/kernel_report.h"
#include "answers/reports.h"
#include "answers/two_runs_report.h"
#include "cli/joined_trace.h"
#include "cli/profile_from_trace.h"
#include "profiler/profile/profile_file.h"
#include "python/src/core/core_module.h"
#include "python/src/core/python_function.h"
#include "python/src/json_text.h"
#include "simulator/option_texts.h"

#include <Python.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;
using Paths = std::vector<std::string>;

/// Joining traces uses a temporary file that signals remove, and there is one such file at a time.
std::mutex joining;

/// The keyword arguments of simulate() for this pipeline. A schedule that is not named also has its table, as
/// schedule_csv. Measured times of links are in files that the options do not know.
Json arguments_json(const PipelineOptions& options) {
    constexpr std::array kNumbers{"chunks", "batch", "cores", "processes", "replicas", "in_flight", "pair_overlap"};
    constexpr std::array kLists{"balance", "placement", "speed"};
    Json object;
    for (const OptionText& each : option_texts(options)) {
        std::string name = each.option;
        std::ranges::replace(name, '-', '_');
        Json& value = object[name];
        if (each.option == "devices") {
            value = options.hardware.devices;
        } else if (each.value == "true") {
            value = true;
        } else if (std::ranges::find(kNumbers, name) != kNumbers.end()) {
            value = Json::parse(each.value);
        } else if (std::ranges::find(kLists, name) != kLists.end()) {
            value = Json::parse("[" + each.value + "]");
        } else {
            value = each.value;
        }
    }
    if (const Schedule::File* file = options.schedule.file()) {
        object["schedule_csv"] = to_csv(file->table);
    }
    return object;
}

/// Withholds what `compare` withholds.
Json steps_json(const LoadedRun& loaded) {
    const Timeline& measured = loaded.trace.measured;
    std::vector<TraceWarning> warnings = loaded.run.warnings;
    for (TraceWarning& warning : idle_time_warnings(loaded.tasks())) {
        warnings.push_back(std::move(warning));
    }
    const bool has_bubbles = !refuse_bubbles(warnings);
    const bool has_times = why_no_step_times(warnings).empty();
    Json steps = Json::array();
    std::map<std::int32_t, StepStatistics> of_steps = statistics_by_step(measured, Update::synchronous);
    for (const std::int32_t number : steps_of(measured)) {
        if (number < 0) {
            continue;  // forwards outside of training
        }
        const StepStatistics& statistics = of_steps[number];
        Json step{{"step", number},
                  {"start_ns", statistics.start.count()},
                  {"end_ns", statistics.end.count()},
                  {"bubble_fraction", has_bubbles ? Json(statistics.bubble_fraction) : Json(nullptr)},
                  {"timed", has_times},
                  {"whole", !loaded.check.faults.contains(number)}};
        if (const StepRecord* record = loaded.run.record_of(number)) {
            step["wall_step_ns"] = (record->wall_end - record->wall_start).count();
            step["training_loss"] = record->training_loss;
            step["warmup"] = record->warmup;
            if (record->load) {
                step["load_others"] = record->load->shares.others;
                step["load_stolen"] = record->load->shares.stolen;
                step["load_over_ns"] = record->load->over.count();
            }
        }
        steps.push_back(std::move(step));
    }
    return steps;
}

/// The facts of a trace as JSON, its files, whose names need not be UTF-8, its profile's JSON or None, and columns of
/// measured and simulated tasks and of memory.
using ReadTrace = std::tuple<std::string, std::vector<PythonBytes>, std::optional<std::string>, TaskColumns,
                             TaskColumns, MemoryColumns>;

ReadTrace read_trace(const Paths& paths, const std::string& rules) {
    LoadedRun loaded;
    Json facts;
    const Paths files = with_files_of_folders(paths);
    {
        const std::lock_guard lock(joining);
        const JoinedTrace joined(files, rules);
        loaded = load_run(joined.path());
        facts["name"] = joined.name();
    }
    const RecordedRun& run = loaded.run;
    OpenedTrace& trace = loaded.trace;
    facts["origin"] = run.source;
    facts["model"] = run.model;
    facts["steps"] = steps_json(loaded);
    const bool are_recorded = run.options && !run.of_another_program;
    facts["options"] = are_recorded ? arguments_json(*run.options) : Json(nullptr);
    facts["warnings"] = texts_of(about_run(run.warnings));
    facts["dropped"] = trace.dropped();
    std::vector<PythonBytes> names;
    for (const std::string& file : files) {
        names.push_back({file});
    }
    return {json_text(facts),
            std::move(names),
            std::move(trace.profile_json),
            TaskColumns{std::move(trace.measured)},
            TaskColumns{std::move(trace.simulated)},
            MemoryColumns{std::move(trace.memory)}};
}

std::string compare_with_simulation(const Paths& files, const std::string& rules) {
    const std::lock_guard lock(joining);
    const JoinedTrace trace(files, rules);
    return json_text(comparison_json(compare_trace(trace.path(), trace.name())));
}

std::string compare_two(const Paths& before, const Paths& after, const std::string& rules) {
    const std::lock_guard lock(joining);
    const JoinedTrace old_trace(before, rules);
    const JoinedTrace new_trace(after, rules);
    return json_text(two_runs_json(compare_two_runs(old_trace.path(), new_trace.path())));
}

std::string kernels_of(const Paths& files, const std::string& rules) {
    const std::lock_guard lock(joining);
    const JoinedTrace trace(files, rules);
    return json_text(kernels_json(kernel_sums(trace.path())));
}

/// The profile's JSON, the arguments of simulate() for the pipeline that ran, and notes.
std::tuple<std::string, std::string> profile_of_run(const Paths& files, const std::string& rules,
                                                    const std::string& steps, std::optional<std::int64_t> size) {
    const std::lock_guard lock(joining);
    TraceProfileFlags flags;
    flags.traces = files;
    flags.rules = rules;
    flags.steps = steps;
    flags.micro_batch_size = size;
    const TraceProfile made = measured_profile(flags);
    return {to_json(made.profile), json_text(Json{{"options", arguments_json(made.options)}, {"notes", made.notes}})};
}

std::vector<std::string> task_kinds() {
    std::vector<std::string> names;
    for (int kind = 0; kind < kNumTaskKinds; ++kind) {
        names.emplace_back(to_string(static_cast<TaskKind>(kind)));
    }
    return names;
}
}  // namespace

std::span<PyMethodDef> trace_functions() {
    static std::array functions{
        python_function<&read_trace>("open_trace"),
        python_function<&compare_with_simulation>("compare_with_simulation"),
        python_function<&compare_two>("compare_two"),
        python_function<&kernels_of>("kernels_of"),
        python_function<&profile_of_run>("profile_of_run"),
        python_function<&task_kinds>("task_kinds"),
        PyMethodDef{},
    };
    return functions;
}
}  // namespace pipescope
