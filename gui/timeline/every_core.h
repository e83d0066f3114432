#pragma once

#include <cstddef>
#include <functional>

namespace pipescope {
/// Calls work(i, worker) for each i below `count`, in this thread and in the threads of workPool() that are idle
/// right now, and returns when all are done. Calls of one `worker` (0 to mostWorkers() - 1) never overlap.
///
/// QtConcurrent::blockingMap would wait for a thread of the pool: the GUI thread would not paint while a file is read,
/// and a worker of the pool would wait for itself. The first exception is rethrown here.
void onEveryCore(std::size_t count, const std::function<void(std::size_t i, std::size_t worker)>& work);
std::size_t mostWorkers();
}  // namespace pipescope
