#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The program of that name in the folder this executable lies in; nothing if it is not there.
std::optional<std::filesystem::path> program_beside(const std::string& name);

/// Becomes that program. Returns never; throws Error if it cannot be started.
[[noreturn]] void execute(const std::filesystem::path& program, const std::vector<std::string>& arguments);

struct ChildResult {
    int exit_code = 0;   ///< 128 + the signal's number if one ended it
    std::string output;  ///< stdout; stderr goes where ours goes unless quiet
};
enum class ChildErrors { show, hide };
/// Runs the program to its end. `environment` ("NAME=value") is added to ours. Throws Error if it cannot be started.
ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      const std::vector<std::string>& environment = {}, ChildErrors errors = ChildErrors::show);
}  // namespace pipescope
