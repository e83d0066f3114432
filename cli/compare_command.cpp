#include "analysis/slow_step.h"
#include "analysis/trace_comparison.h"
#include "analysis/two_runs.h"
#include "answers/reports.h"
#include "answers/slow_step_report.h"
#include "answers/two_runs_report.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/option_flags.h"
#include "cli/program.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
struct CompareFlags {
    std::vector<std::string> traces;
    std::vector<std::string> baseline;
    std::string rules;
    std::vector<int> ranks;
    std::optional<std::int32_t> step;
    bool json = false;
};

ExitCode compare_two(const CompareFlags& flags, const std::vector<std::string>& before,
                     const std::vector<std::string>& after) {
    const JoinedTrace old_trace(with_files_of_folders(before), flags.rules);
    const JoinedTrace new_trace(with_files_of_folders(after), flags.rules);
    const TwoRuns runs = compare_two_runs(old_trace.path(), new_trace.path());
    std::cout << (flags.json ? dump(two_runs_json(runs)) : two_runs_text(runs));
    return ExitCode::success;
}

ExitCode explain_step(const CompareFlags& flags, const JoinedTrace& trace) {
    const LoadedRun loaded = load_run(trace.path());
    if (loaded.trace.measured.slices.empty()) {
        throw TraceFormatError(trace.name() + " " + nothing_measured(loaded.run));
    }
    const SlowStep step = why_slow(loaded.tasks(), *flags.step);
    std::cout << (flags.json ? dump(slow_step_json(step, loaded.run.warnings))
                             : slow_step_report(step, loaded.run.warnings));
    return ExitCode::success;
}

ExitCode compare_command(const CompareFlags& flags) {
    if (flags.step && !flags.baseline.empty()) {
        throw UsageError("--step explains a step of one run, and --baseline compares two; leave one of them out");
    }
    if (!flags.baseline.empty()) {
        if (!flags.ranks.empty()) {
            throw UsageError(
                "--ranks is given with the files of two runs; import each run with its --ranks, and compare the two");
        }
        return compare_two(flags, flags.baseline, flags.traces);
    }
    const std::vector<std::string> files = with_files_of_folders(flags.traces);
    const std::vector<std::string> traces = without_notes(flags.traces);
    if (flags.ranks.empty() && traces.size() > 1 && !are_of_one_run(files)) {
        if (traces.size() > 2) {
            throw UsageError(
                fmt::format("compare was given {} traces that are not of one run's processes; two traces are compared "
                            "with each other; put the files of the earlier run after --baseline",
                            traces.size()));
        }
        if (flags.step) {
            throw UsageError("--step explains a step of one run, and two were given; give one of them");
        }
        return compare_two(flags, {traces.front()}, {traces.back()});
    }
    const JoinedTrace trace(files, flags.rules, flags.ranks);
    if (flags.step) {
        return explain_step(flags, trace);
    }
    const TraceComparison compared = compare_trace(trace.path(), trace.name());
    std::cout << (flags.json ? dump(comparison_json(compared)) : comparison_text(compared));
    return ExitCode::success;
}
}  // namespace

void add_compare_command(Program& program) {
    const auto flags = std::make_shared<CompareFlags>();
    CLI::App* command = program.add_command(
        "compare", "Compare a recorded run with its simulation, or two runs with each other",
        "Examples:\n"
        "  pipescope compare out.sqlite\n"
        "  pipescope compare out.rank*.sqlite\n"
        "  pipescope compare out.sqlite --step 7\n"
        "  pipescope compare before.sqlite after.sqlite\n"
        "  pipescope compare after.rank*.sqlite --baseline before.rank*.sqlite\n"
        "One run is compared with its simulation, task by task: its trace holds what was run, the profile of the\n"
        "layers and every measured task. The traces of a run in several processes are merged first.\n"
        "Two traces of different runs are compared with each other; give the earlier run first.");
    command
        ->add_option("TRACE", flags->traces,
                     "Trace of 'pipescope run --trace', the traces of all its processes, or the traces of two runs")
        ->required();
    command
        ->add_option("--baseline", flags->baseline,
                     "The trace of the earlier run, or those of all its processes; every TRACE is then of the later "
                     "run, and comes before this option")
        ->type_name("TRACE");
    command
        ->add_option("--step", flags->step,
                     "Explain why this step took longer or shorter than the step of median length")
        ->type_name("NUMBER");
    add_task_rules_option(*command, flags->rules);
    add_ranks_option(*command, flags->ranks);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return compare_command(*flags); });
}
}  // namespace pipescope
