#include "base/error.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/view/view_options.h"
#include "trace/open_trace.h"

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
struct ViewFlags {
    ViewOptions shown;
    std::string rules;
};

void check_not_inputs(const std::string& output, const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) {
        check_not_input(output, input);
    }
}

/// Throws the error of the first file that is not a trace. It may explain why the files are not of one run.
void require_traces(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        open_trace(file, {.tracks = false, .find_tasks = false});
    }
}

/// The path beside which a window with these files keeps its notes.
std::string notes_place(const std::vector<std::string>& files) {
    return files.size() == 1 ? files.front() : joined_path({files.begin(), files.end()}).string();
}

/// True for one folder that a window lists, or opens if it holds one run. Throws TraceError if it holds none.
bool is_folder_of_runs(const ViewFlags& flags) {
    const ViewOptions& shown = flags.shown;
    if (shown.files.size() != 1 || shown.writes_file() || !shown.baseline.empty() || !flags.rules.empty() ||
        !std::filesystem::is_directory(shown.files.front())) {
        return false;
    }
    if (runs_in(shown.files.front()).runs.empty()) {
        with_files_of_folders(shown.files);  // throws, and names a folder in it
    }
    return true;
}

ExitCode view_command(ViewFlags flags) {
    ViewOptions& shown = flags.shown;
    if (is_folder_of_runs(flags)) {
        check_view_options(shown);
        execute(viewer_program(), viewer_arguments(shown));
    }
    shown.files = with_files_of_folders(shown.files);
    shown.baseline = with_files_of_folders(shown.baseline);
    for (const auto* files : {&shown.files, &shown.baseline}) {
        for (const std::string& file : *files) {
            if (!std::filesystem::exists(file)) {
                throw Error(fmt::format(
                    "{} does not exist; view opens a trace; record one with 'pipescope run --trace'", file));
            }
        }
    }
    if (!flags.rules.empty() && shown.files.empty()) {
        throw UsageError(
            fmt::format("--task-rules is {}, but there is no file; name the FILE that it is for", flags.rules));
    }
    const bool joins = are_of_one_run(shown.files) || !flags.rules.empty();
    if (!shown.baseline.empty() && shown.files.size() != 1 && !joins) {
        throw UsageError(
            fmt::format("--baseline is compared with one run, but view was given {} files; name the trace of the later "
                        "run, or those of all its processes, before --baseline",
                        shown.files.size()));
    }
    if (shown.writes_file() && shown.files.size() != 1 && !joins) {
        require_traces(shown.files);
        if (shown.files.empty()) {
            throw UsageError("--render and --report are about one run, but no file was given; name one FILE");
        }
        throw UsageError(fmt::format(
            "view was given {} files that are not of one run's processes, but --render and --report are about one run; "
            "name one FILE",
            shown.files.size()));
    }
    check_view_options(shown);
    for (const std::string& output : {shown.render, shown.report}) {
        if (!output.empty()) {
            check_output(output, shown.force);
            check_not_inputs(output, shown.files);
            check_not_inputs(output, shown.baseline);
        }
    }
    const std::filesystem::path program = viewer_program();
    // A window joins the files itself, and follows them while they are written.
    const bool is_window = !shown.writes_file() && shown.baseline.empty() && flags.rules.empty();
    std::optional<JoinedTrace> joined;
    if (joins && !is_window) {
        shown.notes_of = notes_place(shown.files);
        shown.files = {joined.emplace(shown.files, flags.rules).path().string()};
    }
    std::optional<JoinedTrace> old_run;
    if (!shown.baseline.empty()) {
        shown.baseline = {old_run.emplace(shown.baseline, flags.rules).path().string()};
    }
    const std::vector<std::string> arguments = viewer_arguments(shown);
    if (!joined && !old_run) {
        execute(program, arguments);
    }
    const ChildResult viewed = run_child(program, arguments);  // then the joined traces are removed
    std::cout << viewed.output;
    return static_cast<ExitCode>(viewed.exit_code);
}
}  // namespace

void add_view_command(Program& program) {
    const auto flags = std::make_shared<ViewFlags>();
    CLI::App* command = program.add_command(
        "view", "Open the viewer, or write a picture or an interactive page of a trace",
        "Examples:\n"
        "  pipescope view out.sqlite\n"
        "  pipescope view one.sqlite other.sqlite\n"
        "  pipescope view experiments\n"
        "  pipescope view after.sqlite --baseline before.sqlite\n"
        "  pipescope view out.sqlite --render out.png --size 1600x900\n"
        "  pipescope view out.sqlite --render late.svg --mode difference --step 3 --range 10ms:25ms\n"
        "  pipescope view out.sqlite --report report.html\n"
        "--render and --report need no display.");
    add_view_options(*command, flags->shown);
    add_task_rules_option(*command, flags->rules);
    add_look_options(*command, flags->shown);
    program.set_action(command, [flags] { return view_command(*flags); });
}
}  // namespace pipescope
