#include "cli/commands.h"
#include "cli/inject_library.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/recorded_program.h"
#include "schedule/error.h"
#include "schedule/quantities.h"
#include "trace/trace_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

struct RecordFlags {
    std::string output;
    bool force = false;
    std::vector<std::string> command;
};

/// Moves an existing trace aside while a new one is written, and restores it if none was.
class OldTrace {
public:
    explicit OldTrace(fs::path path) : path_(std::move(path)) { move("", kAside); }
    OldTrace(const OldTrace&) = delete;
    OldTrace& operator=(const OldTrace&) = delete;
    ~OldTrace() {
        if (!fs::exists(path_)) {
            move(kAside, "");
            return;
        }
        std::error_code ignored;
        for (const char* part : kParts) {
            fs::remove(path_.string() + kAside + part, ignored);
        }
    }

private:
    static constexpr const char* kAside = ".replaced";
    static constexpr std::array kParts = {"", "-wal", "-shm", "-journal"};  // names used by SQLite

    void move(const std::string& from, const std::string& to) const {
        std::error_code ignored;  // most of the parts do not exist
        for (const char* part : kParts) {
            fs::rename(path_.string() + from + part, path_.string() + to + part, ignored);
        }
    }
    const fs::path path_;
};

/// Traces of the program's other processes: "out-123.sqlite" beside "out.sqlite", and "out-123-2.sqlite" for the second
/// program executed by that process.
std::set<fs::path> further_traces(const fs::path& trace) {
    std::set<fs::path> found;
    const std::string begin = trace.stem().string() + "-";
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(trace.has_parent_path() ? trace.parent_path() : ".", error)) {
        const std::string stem = entry.path().stem().string();
        const std::string process = stem.substr(std::min(begin.size(), stem.size()));
        if (entry.path().extension() == trace.extension() && stem.starts_with(begin) && !process.empty() &&
            std::ranges::all_of(process, [](char c) { return (c >= '0' && c <= '9') || c == '-'; })) {
            found.insert(entry.path());
        }
    }
    return found;
}

/// Turns the recording into one plain file, and reports its contents on stderr.
void report(const fs::path& trace) {
    try {
        const Recovery recovery = recover_trace(trace);  // leaves a closed trace unchanged
        std::int64_t ranges = 0;
        std::int64_t lost = 0;
        for (const DropRecord& drop : TraceReader(trace).drops()) {
            ranges += drop.source == "nvtx" ? drop.recorded + drop.open_at_exit : 0;
            lost += drop.dropped;
        }
        const std::string count = recovery.was_open ? "its recording was cut off" : counted(ranges, "range", "ranges");
        std::cerr << fmt::format("pipescope: {}: {}, {}; clock drift {} ns{}\n", trace.string(), count,
                                 counted(recovery.tasks, "task", "tasks"), recovery.clock_drift_ns,
                                 lost == 0 ? "" : "; " + counted(lost, "record was lost", "records were lost"));
    } catch (const std::exception& error) {
        std::cerr << error_line(error.what()) << std::endl;
    }
}

void check_no_other_tool() {
    const char* other = std::getenv("NVTX_INJECTION64_PATH");
    if (other != nullptr && *other != '\0') {
        throw Error(
            fmt::format("NVTX_INJECTION64_PATH is {}; a program's ranges go to one tool only; unset it to record "
                        "them here",
                        other));
    }
}

ExitCode record_command(const RecordFlags& flags) {
    const fs::path program = find_program(flags.command.front());
    // Absolute, because the program may change its working directory.
    const fs::path trace = fs::absolute(flags.output.empty() ? program.filename().string() + ".sqlite" : flags.output);
    check_output(trace, flags.force);
    check_not_input(trace, program);
    check_no_other_tool();
    const fs::path library = require_inject_library();
    const std::set<fs::path> before = further_traces(trace);
    ProgramEnd end;
    {
        const OldTrace old(trace);
        end = run_recorded(program, flags.command,
                           {"NVTX_INJECTION64_PATH=" + library.string(), "PIPESCOPE_TRACE=" + trace.string(),
                            "PIPESCOPE_TRACE_FURTHER=1"});
    }
    std::set<fs::path> made = further_traces(trace);
    for (const fs::path& each : before) {
        made.erase(each);
    }
    if (end.recorded) {
        report(trace);
    } else {
        std::cerr << fmt::format("pipescope: {} wrote no trace; it has no NVTX ranges, or ended before the first one\n",
                                 flags.command.front());
    }
    for (const fs::path& each : made) {
        report(each);
    }
    pass_on(end);
}
}  // namespace

void add_record_command(Program& program) {
    const auto flags = std::make_shared<RecordFlags>();
    CLI::App* command = program.add_command(
        "record", "Run any program that has NVTX ranges and record them into a trace",
        "Examples:\n"
        "  pipescope record -- ./train --epochs 3\n"
        "  pipescope record -o out.sqlite -- python train.py\n"
        "The program is not rebuilt. Its exit code, or the signal that ends it, is passed on. Other processes that\n"
        "it starts get a trace each: out-<process>.sqlite. With CUPTI, work on CUDA devices is recorded too.");
    command->add_option("PROGRAM", flags->command, "Program and its arguments, after --")->required();
    add_option(*command, "-o,--output", flags->output, "Trace to write; default PROGRAM.sqlite", "FILE");
    add_force_flag(*command, flags->force);
    program.set_action(command, [flags] { return record_command(*flags); });
}
}  // namespace pipescope
