#pragma once

namespace pipescope {
/// Registers for torch's meta device the operators that exist only in Python, and those that would otherwise save
/// different tensors for the backward than on the CPU: shapes of their results, forward and backward. Process-wide and
/// once. Existing registrations stay. Threading: any thread.
void add_meta_kernels();
}  // namespace pipescope
