#include "gui/style/work_pool.h"

#include <QSemaphore>
#include <QThread>
#include <QThreadPool>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>

namespace pipescope {
QThreadPool& workPool() {
    static QThreadPool pool;
    return pool;
}

bool isWorkUnderWay(const QObject& owner) {
    const QList<RestedWork*> resting = owner.findChildren<RestedWork*>();
    return workPool().activeThreadCount() > 0 || std::ranges::any_of(resting, &QTimer::isActive);
}

std::size_t mostWorkers() {
    return static_cast<std::size_t>(std::max(1, QThread::idealThreadCount()));
}

QString handledExceptionText() {
    try {
        throw;
    } catch (const std::bad_alloc&) {
        return QStringLiteral("there is not enough memory for this; close other files or programs, and try again");
    } catch (const std::exception& error) {
        return QString::fromUtf8(error.what());
    } catch (...) {
        return QStringLiteral("an unknown error stopped this; try again");
    }
}

void parallelFor(std::size_t count, const std::function<void(std::size_t, std::size_t)>& work) {
    std::atomic<std::size_t> next = 0;
    std::mutex failing;
    std::exception_ptr failure;
    const auto run = [&](std::size_t worker) {
        try {
            for (std::size_t i = next++; i < count; i = next++) {
                work(i, worker);
            }
        } catch (...) {
            const std::lock_guard lock(failing);
            failure = failure ? failure : std::current_exception();
            next = count;
        }
    };
    QSemaphore done;
    int helpers = 0;
    for (std::size_t worker = 1; worker < std::min(count, mostWorkers()); ++worker) {
        const bool started = workPool().tryStart([&run, &done, worker] {
            run(worker);
            done.release();
        });
        helpers += started ? 1 : 0;
    }
    run(0);
    done.acquire(helpers);
    if (failure) {
        std::rethrow_exception(failure);
    }
}
}  // namespace pipescope
