#include "base/error.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/inject_library.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "trace/store/trace_parts.h"
#include "trace/store/trace_reader.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

extern char** environ;

namespace pipescope {
namespace {
namespace fs = std::filesystem;

// Accessible in a signal handler.
volatile sig_atomic_t child_pid = 0;

void forward_signal(int signal_number) {
    if (child_pid != 0) {
        kill(child_pid, signal_number);
    }
}

/// Redirects signals while the program runs, and restores them.
class SignalsOfTheProgram {
public:
    SignalsOfTheProgram() {
        sigemptyset(&to_default_);
        sigaddset(&to_default_, SIGXFSZ);  // only Program::run() ignores it
        for (std::size_t k = 0; k < kSignals.size(); ++k) {
            struct sigaction action {};
            action.sa_handler = k < kIgnored ? SIG_IGN : forward_signal;
            sigaction(kSignals[k], &action, &before_[k]);
            if (before_[k].sa_handler == SIG_DFL) {
                sigaddset(&to_default_, kSignals[k]);  // the program keeps ignoring SIGHUP under nohup
            } else {
                sigaction(kSignals[k], &before_[k], nullptr);
            }
        }
    }
    ~SignalsOfTheProgram() {
        for (std::size_t k = 0; k < kSignals.size(); ++k) {
            sigaction(kSignals[k], &before_[k], nullptr);
        }
    }
    SignalsOfTheProgram(const SignalsOfTheProgram&) = delete;
    SignalsOfTheProgram& operator=(const SignalsOfTheProgram&) = delete;

    const sigset_t& to_default() const { return to_default_; }

private:
    // The terminal also sends the first two to the program; only we receive the others.
    static constexpr std::array kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    static constexpr std::size_t kIgnored = 2;

    std::array<struct sigaction, kSignals.size()> before_{};
    sigset_t to_default_{};
};

pid_t start(const fs::path& program, std::vector<std::string> words, std::vector<std::string> variables,
            const sigset_t& to_default) {
    for (char** variable = environ; *variable != nullptr; ++variable) {
        variables.emplace_back(*variable);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &to_default);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t child = 0;
    const int error = posix_spawn(&child, program.c_str(), nullptr, &attributes, pointers_to(words).data(),
                                  pointers_to(variables).data());
    posix_spawnattr_destroy(&attributes);
    if (error != 0) {
        throw Error(fmt::format("{} cannot be started ({}); a script needs a first line such as #!/bin/sh",
                                program.string(), std::strerror(error)));
    }
    return child;
}

/// The file that a shell would start for that name. Throws Error if it does not exist or is not executable.
fs::path find_program(const std::string& name) {
    std::error_code ignored;
    if (name.empty()) {
        throw UsageError("the program's name is empty; record runs a program; name one after --");
    }
    if (name.find('/') != std::string::npos) {
        if (!fs::exists(name, ignored)) {
            throw Error(fmt::format("{} does not exist; record runs a program; check its name", name));
        }
        if (!is_executable(name)) {
            throw Error(
                fmt::format("{} is not executable; record runs a program; give one, or make it executable", name));
        }
        return name;
    }
    const char* folders = std::getenv("PATH");
    std::istringstream list(folders == nullptr ? "/usr/bin:/bin" : folders);
    for (std::string folder; std::getline(list, folder, ':');) {
        const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
        if (is_executable(program)) {
            return program;
        }
    }
    throw Error(
        fmt::format("{} is in no folder of PATH; record runs a program; check its name, or write ./{} for one in "
                    "this folder",
                    name, name));
}

struct ProgramEnd {
    int status = 0;         ///< as returned by waitpid
    bool recorded = false;  ///< the file named by PIPESCOPE_TRACE exists
};

/// Runs the program in the foreground, with our terminal, input and outputs. Ctrl-C and Ctrl-\ reach the program, not
/// us. Forwards SIGTERM and SIGHUP. `environment` ("NAME=value") overrides ours. Throws Error if the program cannot be
/// started.
ProgramEnd run_recorded(const fs::path& program, const std::vector<std::string>& command,
                        const std::vector<std::string>& environment) {
    const SignalsOfTheProgram signals;
    child_pid = start(program, command, environment, signals.to_default());
    ProgramEnd end;
    while (waitpid(child_pid, &end.status, 0) < 0) {
        if (errno != EINTR) {
            throw Error(fmt::format("cannot wait for {} ({}); try again", program.string(), std::strerror(errno)));
        }
    }
    child_pid = 0;
    constexpr std::string_view kTrace = "PIPESCOPE_TRACE=";
    for (const std::string& variable : environment) {
        end.recorded |= variable.starts_with(kTrace) && fs::exists(variable.substr(kTrace.size()));
    }
    return end;
}

/// Ends this process as the program ended: with its exit code, or by its signal.
[[noreturn]] void pass_on(const ProgramEnd& end) {
    std::cout.flush();
    std::cerr.flush();
    if (WIFSIGNALED(end.status)) {
        const rlimit no_core{0, 0};  // the program's own core dump is more useful than ours
        setrlimit(RLIMIT_CORE, &no_core);
        signal(WTERMSIG(end.status), SIG_DFL);
        kill(getpid(), WTERMSIG(end.status));
    }
    _exit(WIFEXITED(end.status) ? WEXITSTATUS(end.status) : 128 + WTERMSIG(end.status));
}

struct RecordFlags {
    std::string output;
    bool force = false;
    std::vector<std::string> command;
};

/// Moves an existing trace aside while a new one is written, and restores it if none was written.
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
        fs::remove(beside(path_, kAside), ignored);
        remove_database_parts(beside(path_, kAside));
    }

private:
    static constexpr const char* kAside = ".replaced";

    void move(const std::string& from, const std::string& to) const {
        std::error_code ignored;  // most of the parts do not exist
        fs::rename(beside(path_, from), beside(path_, to), ignored);
        for (const std::string_view part : kDatabaseParts) {
            fs::rename(beside(beside(path_, from), part), beside(beside(path_, to), part), ignored);
        }
    }
    const fs::path path_;
};

/// Traces of the program's other processes: "out-123.sqlite" beside "out.sqlite", and "out-123-2.sqlite" for the second
/// program that process 123 executed.
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
        std::cerr << fmt::format("pipescope: {}: {}, {}; clock drift {} ns{}\n", printable(trace.string()), count,
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
    check_trace_output(trace, flags.force);
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
                                 printable(flags.command.front()));
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
    add_option(*command, "-o,--output", flags->output, "Trace to write; default PROGRAM.sqlite", "FILE", "Output");
    add_force_flag(*command, flags->force);
    program.set_action(command, [flags] { return record_command(*flags); });
}
}  // namespace pipescope
