#pragma once

#include <cstddef>
#include <functional>

namespace pipescope {
/// Calls work(i, worker) for each i below `count`, in this thread and in currently idle threads of workPool(). Returns
/// when all calls are done. Calls with the same `worker` (0 to mostWorkers() - 1) never overlap.
///
/// QtConcurrent::blockingMap would wait for a thread of the pool. The GUI thread could then not paint while a file is
/// loading, and a worker of the pool would wait for itself. The first exception is rethrown here.
void parallelFor(std::size_t count, const std::function<void(std::size_t i, std::size_t worker)>& work);
std::size_t mostWorkers();
}  // namespace pipescope
