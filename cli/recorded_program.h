#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// The file a shell would start for that name. Throws Error if there is none, or it is not executable.
std::filesystem::path find_program(const std::string& name);

/// How a program ended.
struct ProgramEnd {
    int status = 0;         ///< as waitpid gives it
    bool recorded = false;  ///< the file PIPESCOPE_TRACE named is there
};

/// Runs it in the foreground: it has our terminal, our input and our outputs. Ctrl-C and Ctrl-\ reach it, not us;
/// SIGTERM and SIGHUP sent to us are handed on. `environment` ("NAME=value") goes in front of ours. Throws Error if it
/// cannot be started.
ProgramEnd run_recorded(const std::filesystem::path& program, const std::vector<std::string>& command,
                        const std::vector<std::string>& environment);

/// Ends this process as that program ended: with its exit code, or by its signal.
[[noreturn]] void pass_on(const ProgramEnd& end);
}  // namespace pipescope
