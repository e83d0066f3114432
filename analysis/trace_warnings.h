#pragma once

#include "schedule/machine_load.h"
#include "trace/opened_trace.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// What whoever reads figures of this trace must know, one sentence each: ranges that the recorder lost, a recording
/// that was cut off, and what the trace itself warns of. Empty for a trace that can be trusted.
std::vector<std::string> trace_warnings(const OpenedTrace& trace);
/// What the recording itself warned of, "source: text" each.
std::vector<std::string> diagnostic_warnings(const std::vector<DiagnosticRecord>& diagnostics);
/// Only about what was lost, a sentence for each source; empty where nothing was.
std::vector<std::string> loss_warnings(const std::vector<DropRecord>& drops);
/// The same in one line.
std::string loss_warning(const std::vector<DropRecord>& drops);
/// A sentence where a notable share of the cores was taken while `what` ("the profile was taken"); else nothing.
std::vector<std::string> load_warnings(const std::optional<MachineLoad>& load, std::string_view what);
/// The same of a run and the profile it is predicted from, and a sentence where the two differ notably.
std::vector<std::string> load_warnings(const std::optional<MachineLoad>& profile,
                                       const std::optional<MachineLoad>& run);
}  // namespace pipescope
