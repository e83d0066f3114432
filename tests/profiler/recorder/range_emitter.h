#pragma once

namespace pipescope {
/// Emits the range "from a library" in the default domain; returns what NVTX returned for the push: its level while a
/// recorder lives, else NVTX_NO_PUSH_POP_TRACKING.
int emit_range_from_library();
}  // namespace pipescope
