#pragma once

#include "trace/store/trace_records.h"

#include <optional>

namespace pipescope {
/// Lets the NVTX of shared libraries find this program's handler; the linker connects only the program's own ranges.
/// While a recorder exists, a library's ranges are then recorded from its first NVTX call on.
///
/// A library that made that call earlier, without a tool, is never recorded. So if a program loads libraries before it
/// creates its Recorder (which calls this too), it must call this at its start. Idempotent. Returns false without
/// effect if NVTX_INJECTION64_PATH names another tool, or if the program does not export the handler.
///
/// Threading: sets an environment variable, so no other thread may read the environment meanwhile.
bool attach_shared_libraries();

/// Calls attach_shared_libraries(). Describes which ranges a recording that starts now would miss, with a remedy; empty
/// if none.
std::optional<DiagnosticRecord> missed_ranges_diagnostic();
}  // namespace pipescope
