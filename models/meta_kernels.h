#pragma once

namespace pipescope {
/// Registers operators for torch's meta device: those that exist only in Python, and those that would otherwise save
/// different tensors for the backward than on the CPU. They compute the shapes of results, forward and backward.
/// Process-wide and once. Existing registrations stay. Threading: any thread.
void add_meta_kernels();
}  // namespace pipescope
