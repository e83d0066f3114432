#pragma once

#include "trace/trace_records.h"

#include <optional>

namespace pipescope {
/// Lets the NVTX of shared libraries find this program's handler, where the linker only gives it the program's own
/// ranges: from then on a library's ranges are heard from its first NVTX call on, while a recorder lives. A library
/// that made that call before, without any tool, stays silent for good, so a program that loads libraries before it
/// makes its Recorder (which calls this too) calls it at its start. Idempotent. Returns false, and changes nothing,
/// where another tool is named in NVTX_INJECTION64_PATH, or where the program does not export the handler. Threading:
/// sets an environment variable, so no other thread may look into the environment meanwhile.
bool hear_shared_libraries();

/// Calls it, and says whose ranges a recording that begins now will miss, and what to do; nothing where it hears all.
std::optional<DiagnosticRecord> ranges_not_heard();
}  // namespace pipescope
