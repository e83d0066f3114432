#pragma once

#include <mutex>

namespace pipescope {
/// Locks `mutex` during every fork of the process, so that no other thread holds it at that moment. Such a thread would
/// not exist in the child, and the child would wait for its lock forever. For a mutex that lives as long as the
/// process, and that no thread holds together with another such mutex.
void hold_across_forks(std::mutex& mutex);
}  // namespace pipescope
