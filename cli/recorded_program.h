#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// The file that a shell would start for that name. Throws Error if there is none, or it is not executable.
std::filesystem::path find_program(const std::string& name);

struct ProgramEnd {
    int status = 0;         ///< as returned by waitpid
    bool recorded = false;  ///< the file named by PIPESCOPE_TRACE exists
};

/// Runs the program in the foreground, with our terminal, input and outputs. Ctrl-C and Ctrl-\ reach it, not us;
/// SIGTERM and SIGHUP sent to us are forwarded. `environment` ("NAME=value") overrides ours. Throws Error if it cannot
/// be started.
ProgramEnd run_recorded(const std::filesystem::path& program, const std::vector<std::string>& command,
                        const std::vector<std::string>& environment);

/// Ends this process like the program: with its exit code, or by its signal.
[[noreturn]] void pass_on(const ProgramEnd& end);
}  // namespace pipescope
