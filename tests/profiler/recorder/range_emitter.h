#pragma once

namespace pipescope {
/// Emits the range "from a library" in the default domain. Returns the result of NVTX's push: its level while a
/// recorder exists, otherwise NVTX_NO_PUSH_POP_TRACKING.
int emit_range_from_library();
}  // namespace pipescope
