#pragma once

#include "cli/command_definition.h"

#include <string>
#include <vector>

namespace pipescope {
/// The manual page pipescope(1), in roff's man macros.
std::string man_page(const std::vector<CommandDefinition>& commands, const std::string& version);
}  // namespace pipescope
