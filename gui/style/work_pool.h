#pragma once

#include <QFutureWatcher>
#include <QtConcurrentRun>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

class QThreadPool;

namespace pipescope {
/// Threads for work that takes longer than a frame. Qt uses its global pool to fill gradients, so the GUI thread would
/// block while our work occupies that pool.
QThreadPool& workPool();

/// Runs `work` in the pool, then `take` with its result in the GUI thread, unless `context` is gone by then.
template <class Work, class Take>
void runInPool(QObject& context, Work work, Take take) {
    using Result = std::invoke_result_t<Work>;
    auto* watcher = new QFutureWatcher<Result>(&context);
    QObject::connect(watcher, &QFutureWatcherBase::finished, &context, [watcher, take = std::move(take)] {
        watcher->deleteLater();
        take(watcher->result());
    });
    watcher->setFuture(QtConcurrent::run(&workPool(), std::move(work)));
}

/// Work of which only the last run counts, such as a search while somebody types. Threading: the GUI thread.
class LatestJob {
public:
    LatestJob() = default;
    ~LatestJob() { drop(); }
    LatestJob(const LatestJob&) = delete;
    LatestJob& operator=(const LatestJob&) = delete;

    bool isRunning() const { return cancelled_ != nullptr; }
    /// Drops the previous run, and starts `work(cancelled)` in the pool; it may stop once `cancelled()` is true. Calls
    /// `take` with its result, unless the run was dropped meanwhile. `context` owns this object.
    template <class Work, class Take>
    void start(QObject& context, Work work, Take take) {
        drop();
        cancelled_ = std::make_shared<std::atomic<bool>>(false);
        const std::function<bool()> cancelled = [flag = cancelled_] { return flag->load(); };
        runInPool(
            context, [work = std::move(work), cancelled] { return work(cancelled); },
            [this, own = cancelled_, take = std::move(take)](auto result) {
                if (own == cancelled_) {
                    cancelled_.reset();
                    take(std::move(result));
                }
            });
    }
    /// Asks the run to stop; its result is still taken.
    void cancel() {
        if (cancelled_) {
            cancelled_->store(true);
        }
    }
    /// Asks the run to stop, and drops its result.
    void drop() {
        cancel();
        cancelled_.reset();
    }

private:
    std::shared_ptr<std::atomic<bool>> cancelled_;  // shared with the worker; null: nothing runs
};

/// Calls work(i, worker) for each i below `count`, in this thread and in currently idle threads of workPool(). Returns
/// when all calls are done. Calls with the same `worker` (0 to mostWorkers() - 1) never overlap.
///
/// QtConcurrent::blockingMap would wait for a thread of the pool. The GUI thread could then not paint while a file is
/// loading, and a worker of the pool would wait for itself. The first exception is rethrown here.
void parallelFor(std::size_t count, const std::function<void(std::size_t i, std::size_t worker)>& work);
std::size_t mostWorkers();
}  // namespace pipescope
