#pragma once

namespace pipescope {
/// The `pipescope` command. Runs commands without torch here; for the others it becomes `pipescope-torch`.
int run_pipescope(int argc, const char* const* argv);
}  // namespace pipescope
