#pragma once

#include <mutex>

namespace pipescope {
/// Locks `mutex` during every fork of the process, so that no other thread holds it at that moment. In the child, such
/// a thread would not exist, and the lock would never be released. The mutex must live as long as the process, and no
/// thread may hold it together with another such mutex.
void hold_across_forks(std::mutex& mutex);
}  // namespace pipescope
