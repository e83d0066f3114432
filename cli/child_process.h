#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// True if this process may start the file.
bool is_executable(const std::filesystem::path& path);

/// The program of that name in the folder of this executable; empty if it does not exist.
std::optional<std::filesystem::path> program_beside(const std::string& name);

/// For messages: how to get a missing pipescope-torch.
inline constexpr std::string_view kTorchRemedy =
    "with pip, 'pip install dist/pipescope_torch-*.whl', beside a torch whose minor version is in its summary; with "
    "CMake, build with -DPIPESCOPE_TORCH=ON, or install it into this program's folder";

/// pipescope-torch: beside this executable, else the one that the environment's PIPESCOPE_TORCH_PROGRAM names, which
/// Python's package sets; empty if there is none.
std::optional<std::filesystem::path> torch_program();

/// pipescope-torch, which has the command. Throws Error if there is none, or if it cannot be loaded within this
/// process's limit of memory.
std::filesystem::path torch_program_for(const std::string& command);

/// pipescope-gui. Throws Error if it is not beside this executable, or if libraries that it needs are missing.
std::filesystem::path viewer_program();

/// argv for exec. The pointers refer to `texts`, which must outlive them.
std::vector<char*> pointers_to(std::vector<std::string>& texts);

/// Replaces this process with the program. Throws Error if it cannot be started.
[[noreturn]] void execute(const std::filesystem::path& program, const std::vector<std::string>& arguments);

struct ChildResult {
    int exit_code = 0;   ///< 128 + the signal's number if a signal ended it
    std::string output;  ///< stdout; stderr as ChildErrors says

    std::string first_line() const { return output.substr(0, output.find('\n')); }
};
enum class ChildErrors {
    show,  ///< inherited
    hide,
    take  ///< as output
};
/// Runs the program to its end; it ends too if this thread does, by SIGTERM. Adds `environment` ("NAME=value") to the
/// current one. Throws Error if it cannot be started.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {}, ChildErrors errors = ChildErrors::show);
}  // namespace pipescope
