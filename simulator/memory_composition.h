#pragma once

#include "schedule/ids.h"

#include <map>
#include <string>

namespace pipescope {
/// Bytes of one lane at its peak by category. The keys are the categories' names (parameters, gradients, optimizer,
/// boundary, saved, skip, transient, copy, output); memory_model.h defines them.
using MemoryComposition = std::map<std::string, Bytes>;
}  // namespace pipescope
