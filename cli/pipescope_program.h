#pragma once

namespace pipescope {
/// The `pipescope` command: what needs no torch runs here, the rest becomes `pipescope-torch` beside it.
int run_pipescope(int argc, const char* const* argv);
}  // namespace pipescope
