#pragma once

#include <string>

namespace pipescope {
/// The environment of a run, for PIPESCOPE_RUN 'environment': versions, compiler, cores, threads, CPU.
std::string environment_json();
}  // namespace pipescope
