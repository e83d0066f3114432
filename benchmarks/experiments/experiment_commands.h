#pragma once

namespace pipescope {
class Program;

// One file each: <name>_command.cpp.
void add_validate_command(Program& program);
void add_ablation_command(Program& program);
}  // namespace pipescope
