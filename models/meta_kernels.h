#pragma once

namespace pipescope {
/// Gives torch's meta device the operators that it has only in Python: their results' shapes, forward and backward.
/// Process-wide and once, as operators are; where somebody else registered one before, theirs stays. Any thread.
void add_meta_kernels();
}  // namespace pipescope
