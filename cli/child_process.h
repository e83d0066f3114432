#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// True if this process may execute the file.
bool is_executable(const std::filesystem::path& path);

/// The program of that name in the folder of this executable; empty if it does not exist.
std::optional<std::filesystem::path> program_beside(const std::string& name);

/// How to get a missing pipescope-torch, for messages.
inline constexpr std::string_view kTorchRemedy =
    "with pip, 'pip install dist/pipescope_torch-*.whl', beside a torch whose minor version is in its summary; with "
    "CMake, build with -DPIPESCOPE_TORCH=ON, or install it into this program's folder";

/// pipescope-torch: beside this executable, otherwise the program that the variable PIPESCOPE_TORCH_PROGRAM names,
/// which the Python package sets. Empty if there is none.
std::optional<std::filesystem::path> torch_program();

/// pipescope-torch, which has the command. Throws Error if there is none, or if this process's memory limit is too low
/// to load it.
std::filesystem::path torch_program_for(const std::string& command);

/// pipescope-gui. Throws Error if it is not beside this executable, or if a library that it needs is missing.
std::filesystem::path viewer_program();

/// argv for exec. The pointers refer to `texts`, which must outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// Replaces this process with the program. Throws Error if it cannot be started.
[[noreturn]] void execute(const std::filesystem::path& program, const std::vector<std::string>& arguments);

struct ChildResult {
    int exit_code = 0;   ///< 128 + the signal's number if a signal ended it
    std::string output;  ///< stdout; also stderr if ChildErrors::take

    std::string first_line() const { return output.substr(0, output.find('\n')); }
};
enum class ChildErrors {
    show,  ///< inherited
    hide,
    take  ///< as output
};
/// Runs the program to its end. If this thread ends first, SIGTERM ends the program too. A stop that StopSignals noted
/// is passed on to the program; after Ctrl-C in a terminal, which reaches both, that is the program's second signal.
/// Adds `environment`
/// ("NAME=value") to the current environment. Throws Error if the program cannot be started.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {}, ChildErrors errors = ChildErrors::show);
}  // namespace pipescope
