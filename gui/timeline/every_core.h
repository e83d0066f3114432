#pragma once

#include <cstddef>
#include <functional>

class QThreadPool;

namespace pipescope {
/// The threads for work that takes longer than a frame. Qt's global pool is no place for it: Qt itself fills gradients
/// there, so that the GUI thread stands still until a thread of that pool is free.
QThreadPool& workPool();

/// Calls work(i, worker) for each i below `count`, in this thread and in the threads of workPool() that are idle
/// right now, and returns when all are done. Calls of one `worker` (0 to mostWorkers() - 1) never overlap.
///
/// QtConcurrent::blockingMap would wait for a thread of the pool: the GUI thread would not paint while a file is read,
/// and a worker of the pool would wait for itself. The first exception is rethrown here.
void onEveryCore(std::size_t count, const std::function<void(std::size_t i, std::size_t worker)>& work);
std::size_t mostWorkers();
}  // namespace pipescope
