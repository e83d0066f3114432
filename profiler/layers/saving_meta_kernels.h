#pragma once

namespace pipescope {
/// Registers meta kernels for operators that would otherwise save different tensors for the backward on torch's meta
/// device than on the CPU: normalisations that it decomposes, attention, and operators that it lacks. Call after
/// MetaDevice's own registration. Kernels that somebody registered before stay. Process-wide and once. Any thread.
void add_saving_meta_kernels();
}  // namespace pipescope
