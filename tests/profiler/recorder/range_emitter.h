#pragma once

namespace pipescope {
/// Emits a range "from a static library" in the default domain; returns what NVTX returned for the push: -2 while the
/// handler is idle, 0 while it records, and -3 or so where no handler was linked in.
int emit_range_from_static_library();
}  // namespace pipescope
