#pragma once

#include "schedule/ids.h"

#include <map>
#include <string>

namespace pipescope {
/// Bytes of one lane at its peak, by what holds them; the keys are the categories' names (parameters, gradients,
/// optimizer, boundary, saved, skip, transient, copy, output). What each counts: memory_model.h.
using MemoryComposition = std::map<std::string, Bytes>;
}  // namespace pipescope
