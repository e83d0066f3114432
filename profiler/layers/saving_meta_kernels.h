#pragma once

namespace pipescope {
/// Gives torch's meta device the operators that would otherwise save something else for the backward there than on the
/// CPU: normalisations that it takes apart into others, attention, and those that it lacks. Goes after MetaDevice's
/// own; where somebody registered one before, theirs stays. Process-wide and once. Any thread.
void add_saving_meta_kernels();
}  // namespace pipescope
