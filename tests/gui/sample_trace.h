#pragma once

#include "tests/analysis/sample_run.h"

#include <filesystem>
#include <string>

namespace pipescope {
/// A path below a folder of this process that is removed when it ends.
std::filesystem::path temporaryPath(const std::string& name);
}  // namespace pipescope
