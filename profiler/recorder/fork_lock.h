#pragma once

#include <mutex>

namespace pipescope {
/// Lock order for a thread that holds both.
enum class LockRank { outer, inner };

/// Locks `mutex` during every fork of the process, so that no other thread holds it at that moment. Such a thread would
/// not exist in the child, and the child would wait for its lock forever. For a mutex that lives as long as the
/// process.
void hold_across_forks(std::mutex& mutex, LockRank rank);
}  // namespace pipescope
