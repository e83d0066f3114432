#pragma once

#include "schedule/timeline.h"

#include <pybind11/pybind11.h>

#include <vector>

namespace pipescope {
// Each adds its functions to _core. Objects are passed as JSON text with the keys of the commands' --json; columns of
// tasks as bytes of 64-bit integers. The modules in Python make typed objects of both.
void bind_profiles(pybind11::module_& module);
void bind_answers(pybind11::module_& module);
void bind_traces(pybind11::module_& module);

/// {"source", "lanes": [(name, device)], "kind", "step", ..}: one column for each field of a slice.
pybind11::dict timeline_columns(const Timeline& timeline);
/// {"lane", "time_ns", "allocated_bytes", "peak_bytes", "reserved_bytes"}
pybind11::dict memory_columns(const std::vector<MemorySample>& samples);
}  // namespace pipescope
