#include "analysis/trace_comparison.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/reports.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace pipescope {
namespace {
struct CompareFlags {
    std::vector<std::string> traces;
    std::string rules;
    bool json = false;
};

ExitCode compare_command(const CompareFlags& flags) {
    const JoinedTrace trace(with_files_of_folders(flags.traces), flags.rules);
    const TraceComparison compared = compare_trace(trace.path(), trace.name());
    std::cout << (flags.json ? dump(comparison_json(compared)) : comparison_text(compared));
    return ExitCode::success;
}
}  // namespace

void add_compare_command(Program& program) {
    const auto flags = std::make_shared<CompareFlags>();
    CLI::App* command = program.add_command("compare", "Compare a recorded run with its simulation, task by task",
                                            "Examples:\n"
                                            "  pipescope compare out.sqlite\n"
                                            "  pipescope compare out.rank*.sqlite\n"
                                            "The trace holds everything needed: what was run, the profile of the "
                                            "layers and every measured task. The traces\n"
                                            "of a run in several processes are merged first.");
    command->add_option("TRACE", flags->traces, "Trace of 'pipescope run --trace', or the traces of all its processes")
        ->required();
    add_task_rules_option(*command, flags->rules);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return compare_command(*flags); });
}
}  // namespace pipescope
