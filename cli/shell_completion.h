#pragma once

#include "cli/command_definition.h"

#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The completion script of `pipescope` for bash, zsh or fish. Throws UsageError for another shell.
std::string completion_script(std::string_view shell, const std::vector<CommandDefinition>& commands);
}  // namespace pipescope
