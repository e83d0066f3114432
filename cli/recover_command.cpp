#include "answers/reports.h"
#include "answers/units.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "trace/store/trace_reader.h"
#include "trace/store/trace_schema.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
struct RecoverFlags {
    std::string trace;
    bool without_log = false;
    bool json = false;
};

std::string what_was_done(const Recovery& recovery) {
    std::string done =
        recovery.was_open ? "the run had not closed it; it is one plain file now" : "it was closed already";
    if (recovery.from_version != kTraceFormatVersion) {
        return done + fmt::format("; it was converted from format version {} to {}", recovery.from_version,
                                  kTraceFormatVersion);
    }
    return recovery.was_open ? done : done + " and is unchanged";
}

ExitCode recover_command(const RecoverFlags& flags) {
    const Recovery recovery =
        recover_trace(flags.trace, flags.without_log ? IncompleteLog::accept : IncompleteLog::refuse);
    const bool log_is_whole = recovery.log_trouble.empty();
    if (flags.json) {
        std::cout << dump({{"was_open", recovery.was_open},
                           {"tasks", recovery.tasks},
                           {"steps", recovery.steps},
                           {"recorded_until_ns", recovery.recorded_until_ns},
                           {"dropped", recovery.dropped},
                           {"clock_drift_ns", recovery.clock_drift_ns},
                           {"from_version", recovery.from_version},
                           {"log_trouble", log_is_whole ? nlohmann::ordered_json(nullptr)
                                                        : nlohmann::ordered_json(recovery.log_trouble)}});
        return ExitCode::success;
    }
    std::cout << fmt::format("{}: {}, {}; {}\n", printable(flags.trace), counted(recovery.tasks, "task", "tasks"),
                             counted(recovery.steps, "step", "steps"), what_was_done(recovery));
    if (!log_is_whole) {
        std::cout << fmt::format(
            "lost: everything that ended after {}, where the file ends; how much is unknown, since {}\n",
            format_duration(Nanoseconds{recovery.recorded_until_ns}), recovery.log_trouble);
    } else if (recovery.was_open) {
        std::cout << fmt::format(
            "lost: everything that ended after {}, where the file ends; at most the last two drain periods "
            "(40 ms) before the kill, if the machine kept up; for CUDA devices also records still in CUPTI, "
            "which can be more\n",
            format_duration(Nanoseconds{recovery.recorded_until_ns}));
    }
    std::cout << fmt::format("dropped while recording: {}; drift of the wall clock: {} ns\n", recovery.dropped,
                             recovery.clock_drift_ns);
    return ExitCode::success;
}
}  // namespace

void add_recover_command(Program& program) {
    const auto flags = std::make_shared<RecoverFlags>();
    CLI::App* command =
        program.add_command("recover", "Make one plain file of the trace of a killed run",
                            "Example:\n"
                            "  pipescope recover out.sqlite\n"
                            "Until then, keep the -wal file next to the trace: it holds the last part.");
    command->add_option("TRACE", flags->trace, "Trace of a killed run")->required();
    command->add_flag(
        "--without-wal", flags->without_log,
        "Close it for good although its -wal file, with the last part of the run, is missing, empty or cut off");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return recover_command(*flags); });
}
}  // namespace pipescope
