#include "analysis/run_list.h"
#include "answers/reports.h"
#include "answers/run_list_report.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/progress_bar.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace pipescope {
namespace {
struct RunsFlags {
    std::string folder = ".";
    bool json = false;
};

ExitCode runs_command(const RunsFlags& flags) {
    RunList list;
    {
        ProgressBar bar("reading runs");
        list = list_runs(flags.folder, [&bar](double done) { bar.show(done); });
    }
    std::cout << (flags.json ? dump(run_list_json(list)) : run_list_text(list));
    return list.runs.empty() ? ExitCode::failure : ExitCode::success;
}
}  // namespace

void add_runs_command(Program& program) {
    const auto flags = std::make_shared<RunsFlags>();
    CLI::App* command = program.add_command(
        "runs", "List the runs in a folder, each with its change against the one before",
        "Example:\n"
        "  pipescope runs experiments\n"
        "Subfolders count too; the traces of a run's processes are one run. Damaged and other files are named and "
        "left\n"
        "out. 'pipescope view experiments' shows the same list in the viewer, and opens or compares any of them.");
    command->add_option("FOLDER", flags->folder, "Folder with the traces of runs; default: this folder");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return runs_command(*flags); });
}
}  // namespace pipescope
