#pragma once

#include "base/stop_check.h"

#include <QFutureWatcher>
#include <QString>
#include <QTimer>
#include <QtConcurrentRun>

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

class QThreadPool;

namespace pipescope {
/// Threads for work that takes longer than a frame. Qt uses its global pool to fill gradients, so the GUI thread would
/// block while our work occupies that pool.
QThreadPool& workPool();

/// What the exception that is being handled says, for people. Precondition: called in a catch block.
QString handledExceptionText();

/// Runs `work` in the pool. Then calls, in the GUI thread, `take` with its result, or `fail` with a text if it threw
/// anything. Calls neither if `context` is gone by then: the work then stops at its next check_stop().
template <class Work, class Take, class Fail>
void runInPool(QObject& context, Work work, Take take, Fail fail) {
    struct Outcome {
        std::optional<std::invoke_result_t<Work>> result;  // empty: see error
        QString error;
    };
    auto* watcher = new QFutureWatcher<Outcome>(&context);
    const auto unwanted = std::make_shared<std::atomic<bool>>(false);
    QObject::connect(watcher, &QObject::destroyed, [unwanted] { *unwanted = true; });
    QObject::connect(watcher, &QFutureWatcherBase::finished, &context,
                     [watcher, take = std::move(take), fail = std::move(fail)] {
                         watcher->deleteLater();
                         Outcome outcome = watcher->result();
                         if (outcome.result) {
                             take(*std::move(outcome.result));
                         } else {
                             fail(outcome.error);
                         }
                     });
    watcher->setFuture(QtConcurrent::run(&workPool(), [work = std::move(work), unwanted]() mutable -> Outcome {
        const StopCheck check([&unwanted] { return !*unwanted; });
        try {
            return {work(), {}};
        } catch (...) {
            return {std::nullopt, handledExceptionText()};
        }
    }));
}

/// Work of which only the last run counts, such as a search while somebody types. Threading: the GUI thread.
class LatestJob {
public:
    LatestJob() = default;
    ~LatestJob() { drop(); }
    LatestJob(const LatestJob&) = delete;
    LatestJob& operator=(const LatestJob&) = delete;

    bool isRunning() const { return run_ != nullptr; }
    /// Drops the previous run, and starts `work(cancelled)` in the pool; it may stop once `cancelled()` is true. Calls
    /// `take` with its result, or `fail` with a text if it threw, unless the run was dropped meanwhile. `context` owns
    /// this object.
    template <class Work, class Take, class Fail>
    void start(QObject& context, Work work, Take take, Fail fail) {
        drop();
        run_ = std::make_shared<Run>();
        runInPool(
            context,
            [work = std::move(work), run = run_] {
                const StopCheck check([&run] { return !run->dropped; });
                const std::function<bool()> cancelled = [&run] { return run->cancelled.load(); };
                return work(cancelled);
            },
            [this, own = run_, take = std::move(take)](auto result) {
                if (own == run_) {
                    run_.reset();
                    take(std::move(result));
                }
            },
            [this, own = run_, fail = std::move(fail)](const QString& error) {
                if (own == run_) {
                    run_.reset();
                    fail(error);
                }
            });
    }
    /// Asks the run to stop; its result is still taken, and its failure reported.
    void cancel() {
        if (run_) {
            run_->cancelled = true;
        }
    }
    /// Asks the run to stop, also at its next check_stop(), and drops its result.
    void drop() {
        cancel();
        if (run_) {
            run_->dropped = true;
        }
        run_.reset();
    }

private:
    struct Run {
        std::atomic<bool> cancelled = false;
        std::atomic<bool> dropped = false;
    };
    std::shared_ptr<Run> run_;  // shared with the worker; null: nothing runs
};

/// Work that starts once nothing has asked for it again for `rest` ms, such as a search while somebody types: start()
/// asks. Threading: the GUI thread.
class RestedWork : public QTimer {
    Q_OBJECT

public:
    template <class Run>
    RestedWork(int rest, QObject& owner, Run run) : QTimer(&owner) {
        setSingleShot(true);
        setInterval(rest);
        connect(this, &QTimer::timeout, &owner, std::move(run));
    }
};
/// True if work of the object or of its children waits, or any runs in the pool.
bool isWorkUnderWay(const QObject& owner);

/// Calls work(i, worker) for each i below `count`, in this thread and in currently idle threads of workPool(). Returns
/// when all calls are done. Calls with the same `worker` (0 to mostWorkers() - 1) never overlap.
///
/// QtConcurrent::blockingMap would wait for a thread of the pool. The GUI thread could then not paint while a file is
/// loading, and a worker of the pool would wait for itself. The first exception is rethrown here.
void parallelFor(std::size_t count, const std::function<void(std::size_t i, std::size_t worker)>& work);
std::size_t mostWorkers();
}  // namespace pipescope
