#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "schedule/error.h"
#include "trace/open_trace.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
struct ViewFlags {
    std::vector<std::string> files;
    std::vector<std::string> baseline;
    std::string render;
    std::string report;
    std::string size;
    std::string range;
    std::string mode;
    std::string align;
    std::string step;
    std::string theme;
    std::string rules;
    bool all = false;
    bool critical_path = false;
    bool force = false;
};

/// Options that pipescope-gui has under the same names and checks itself; empty: not given.
std::vector<std::pair<std::string, std::string>> picture_options(const ViewFlags& flags) {
    return {{"--size", flags.size},
            {"--range", flags.range},
            {"--mode", flags.mode},
            {"--align", flags.align},
            {"--step", flags.step}};
}

void check_not_inputs(const std::string& output, const std::vector<std::string>& inputs) {
    for (const std::string& input : inputs) {
        check_not_input(output, input);
    }
}

bool has_display() {
    for (const char* variable : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) {
        const char* value = std::getenv(variable);
        if (value != nullptr && *value != '\0') {
            return true;
        }
    }
    return false;
}

/// Throws the error of the first file that is no trace. It may be why the files are not of one run.
void require_traces(const std::vector<std::string>& files) {
    for (const std::string& file : files) {
        open_trace(file, {.tracks = false, .find_tasks = false});
    }
}

ExitCode view_command(ViewFlags flags) {
    flags.files = with_files_of_folders(flags.files);
    flags.baseline = with_files_of_folders(flags.baseline);
    for (const auto* files : {&flags.files, &flags.baseline}) {
        for (const std::string& file : *files) {
            if (!std::filesystem::exists(file)) {
                throw Error(fmt::format(
                    "{} does not exist; view opens a trace; record one with 'pipescope run --trace'", file));
            }
        }
    }
    if (!flags.rules.empty() && flags.files.empty()) {
        throw UsageError(
            fmt::format("--task-rules is {}, but there is no file; name the FILE that it is for", flags.rules));
    }
    const bool joins = are_of_one_run(flags.files) || !flags.rules.empty();
    if (!flags.baseline.empty() && flags.files.size() != 1 && !joins) {
        throw UsageError(
            fmt::format("--baseline is compared with one run, but view was given {} files; name the trace of the later "
                        "run, or those of all its processes, before --baseline",
                        flags.files.size()));
    }
    if ((!flags.render.empty() || !flags.report.empty()) && flags.files.size() != 1 && !joins) {
        require_traces(flags.files);
        if (flags.files.empty()) {
            throw UsageError("--render and --report are about one run, but no file was given; name one FILE");
        }
        throw UsageError(fmt::format(
            "view was given {} files that are not of one run's processes, but --render and --report are about one run; "
            "name one FILE",
            flags.files.size()));
    }
    for (const auto& [name, value] : picture_options(flags)) {
        if (flags.render.empty() && flags.report.empty() && !value.empty()) {
            throw UsageError(fmt::format("{} is {}; it is about a picture; add --render out.png", name, value));
        }
    }
    if (flags.render.empty() && flags.report.empty() && (flags.all || flags.critical_path)) {
        throw UsageError(fmt::format("{} about a picture; add --render out.png",
                                     !flags.all             ? "--critical-path is"
                                     : !flags.critical_path ? "--all is"
                                                            : "--all and --critical-path are"));
    }
    if (flags.render.empty() && flags.report.empty() && !has_display()) {
        throw Error(
            "there is no display to open a window on; set DISPLAY or WAYLAND_DISPLAY, or write a picture with "
            "--render out.png");
    }
    check_apart("--render", flags.render, "--report", flags.report);
    if (!flags.render.empty()) {
        check_output(flags.render, flags.force);
        check_not_inputs(flags.render, flags.files);
        check_not_inputs(flags.render, flags.baseline);
    }
    if (!flags.report.empty()) {
        check_output(flags.report, flags.force);
        check_not_inputs(flags.report, flags.files);
        check_not_inputs(flags.report, flags.baseline);
    }
    const auto program = program_beside("pipescope-gui");
    if (!program) {
        throw Error(
            "view needs pipescope-gui, which is not in this program's folder; build with -DPIPESCOPE_GUI=ON, or "
            "install it into the same folder");
    }
    std::optional<JoinedTrace> joined;
    std::vector<std::string> arguments = flags.files;
    // A window joins the files itself, and follows them while they are written.
    const bool is_window =
        flags.render.empty() && flags.report.empty() && flags.baseline.empty() && flags.rules.empty();
    if (joins && !is_window) {
        arguments = {joined.emplace(flags.files, flags.rules).path().string()};
    }
    std::optional<JoinedTrace> old_run;
    if (!flags.baseline.empty()) {
        arguments.insert(arguments.end(), {"--baseline", old_run.emplace(flags.baseline, flags.rules).path().string()});
    }
    if (!flags.render.empty()) {
        arguments.insert(arguments.end(), {"--render", flags.render});
    }
    if (!flags.report.empty()) {
        arguments.insert(arguments.end(), {"--report", flags.report});
    }
    for (const auto& [name, value] : picture_options(flags)) {
        if (!value.empty()) {
            arguments.push_back(name + "=" + value);  // one argument, since a range may start with a minus
        }
    }
    if (!flags.theme.empty()) {
        arguments.insert(arguments.end(), {"--theme", flags.theme});
    }
    if (flags.all) {
        arguments.emplace_back("--all");
    }
    if (flags.critical_path) {
        arguments.emplace_back("--critical-path");
    }
    if (flags.force) {
        arguments.emplace_back("--force");
    }
    if (!joined && !old_run) {
        execute(*program, arguments);
    }
    const ChildResult viewed = run_child(*program, arguments);  // then the joined traces are removed
    std::cout << viewed.output;
    return static_cast<ExitCode>(viewed.exit_code);
}
}  // namespace

void add_view_command(Program& program) {
    const auto flags = std::make_shared<ViewFlags>();
    CLI::App* command = program.add_command(
        "view", "Open the viewer, or write a picture, an interactive page or a report of a trace",
        "Examples:\n  pipescope view out.sqlite\n  pipescope view one.sqlite other.sqlite\n"
        "  pipescope view after.sqlite --baseline before.sqlite\n  pipescope view "
        "out.sqlite --render out.png --size 1600x900\n"
        "  pipescope view out.sqlite --render late.svg --mode difference --step 3 --range 10ms:25ms\n"
        "  pipescope view out.sqlite --render share.html\n"
        "  pipescope view out.sqlite --report report.html\n"
        "--render and --report need no display.");
    command->add_option(
        "FILE", flags->files,
        "Trace of 'run --trace' or 'simulate --trace', an export of nsys, JSON of PyTorch's profiler, any Chrome "
        "trace, or a profile. Several files open in tabs, or as one timeline if they are the traces of one run's "
        "processes; without a file, those open last time");
    command
        ->add_option("--baseline", flags->baseline,
                     "Trace of an earlier run, or those of all its processes: shown below instead of the simulation. "
                     "Put it after FILE")
        ->type_name("FILE");
    add_option(*command, "--render", flags->render,
               "Write the window's content here and exit: a picture (.png, .svg, .pdf) or an interactive page (.html)",
               "FILE", "Output");
    add_option(*command, "--report", flags->report, "Write a report about the run here (.html or .pdf) and exit",
               "FILE", "Output");
    add_option(*command, "--size", flags->size, "Size of the picture in pixels; a page fills the browser's window",
               "WxH", "Output");
    command->add_option("--mode", flags->mode, "side-by-side, overlay or difference")->group("Output");
    command
        ->add_option("--align", flags->align,
                     "Where to place the simulated step: first-task (its first task at the measured one's) or step "
                     "(its start at that of the training loop's step)")
        ->group("Output");
    command->add_option("--step", flags->step, "Measured step to show; default: the one of median duration")
        ->group("Output");
    add_option(*command, "--range", flags->range,
               "Part of the step to show, such as 12ms:30ms since its start; plain numbers are ns", "FROM:TO",
               "Output");
    command->add_flag("--all", flags->all, "Show the whole recording, not one step")->group("Output");
    command->add_flag("--critical-path", flags->critical_path, "Mark the critical path")->group("Output");
    add_task_rules_option(*command, flags->rules);
    command->add_option("--theme", flags->theme, "system, light or dark");
    add_force_flag(*command, flags->force);
    program.set_action(command, [flags] { return view_command(*flags); });
}
}  // namespace pipescope
