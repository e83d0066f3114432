#include "cli/recorded_program.h"

#include "cli/child_process.h"
#include "schedule/error.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string_view>

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
    // The terminal sends the first two to the program as well; only we receive the others.
    static constexpr std::array kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    static constexpr std::size_t kIgnored = 2;

    std::array<struct sigaction, kSignals.size()> before_{};
    sigset_t to_default_{};
};

bool executable(const fs::path& path) {
    std::error_code ignored;
    return fs::is_regular_file(path, ignored) && access(path.c_str(), X_OK) == 0;
}

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
}  // namespace

fs::path find_program(const std::string& name) {
    std::error_code ignored;
    if (name.empty()) {
        throw UsageError("the program's name is empty; record runs a program; name one after --");
    }
    if (name.find('/') != std::string::npos) {
        if (!fs::exists(name, ignored)) {
            throw Error(fmt::format("{} does not exist; record runs a program; check its name", name));
        }
        if (!executable(name)) {
            throw Error(
                fmt::format("{} is not executable; record runs a program; give one, or make it executable", name));
        }
        return name;
    }
    const char* folders = std::getenv("PATH");
    std::istringstream list(folders == nullptr ? "/usr/bin:/bin" : folders);
    for (std::string folder; std::getline(list, folder, ':');) {
        const fs::path program = fs::path(folder.empty() ? "." : folder) / name;
        if (executable(program)) {
            return program;
        }
    }
    throw Error(
        fmt::format("{} is in no folder of PATH; record runs a program; check its name, or write ./{} for one in "
                    "this folder",
                    name, name));
}

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

void pass_on(const ProgramEnd& end) {
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
}  // namespace pipescope
