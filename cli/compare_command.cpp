#include "analysis/trace_comparison.h"
#include "cli/commands.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/reports.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
struct CompareFlags {
    std::string trace;
    bool json = false;
};

ExitCode compare_command(const CompareFlags& flags) {
    const TraceComparison compared = compare_trace(flags.trace);
    std::cout << (flags.json ? dump(comparison_json(compared)) : comparison_text(compared));
    return ExitCode::success;
}
}  // namespace

void add_compare_command(Program& program) {
    const auto flags = std::make_shared<CompareFlags>();
    CLI::App* command = program.add_command(
        "compare", "Compare a recorded run with its simulation, task by task",
        "Example:\n"
        "  pipescope compare out.sqlite\n"
        "The trace holds everything needed: what was run, the profile of the layers and every measured task.");
    command->add_option("TRACE", flags->trace, "Trace of 'pipescope run --trace'")->required();
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return compare_command(*flags); });
}
}  // namespace pipescope
