#pragma once

#include <mutex>

namespace pipescope {
/// Which of two locks is taken first where a thread holds both.
enum class LockRank { outer, inner };

/// Takes `mutex` around every fork of the process, so that no other thread holds it at that moment: in the child that
/// thread does not exist, and who asks for a name or a range there would wait for ever. For a mutex that lives as long
/// as the process.
void hold_across_forks(std::mutex& mutex, LockRank rank);
}  // namespace pipescope
