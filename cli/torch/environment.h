#pragma once

#include <string>

namespace pipescope {
/// What a run ran on, as a trace keeps it under PIPESCOPE_RUN 'environment': versions, compiler, cores, threads, CPU.
std::string environment_json();
}  // namespace pipescope
