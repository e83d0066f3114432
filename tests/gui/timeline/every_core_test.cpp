#include "gui/timeline/every_core.h"

#include "gui/style/work_pool.h"

#include <gtest/gtest.h>

#include <QSemaphore>
#include <QThreadPool>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace pipescope {
namespace {
TEST(EveryCore, CallsEachOnce) {
    std::vector<std::atomic<int>> calls(1000);
    onEveryCore(calls.size(), [&](std::size_t i, std::size_t worker) {
        EXPECT_LT(worker, mostWorkers());
        ++calls[i];
    });
    for (const std::atomic<int>& each : calls) {
        EXPECT_EQ(each, 1);
    }
}

TEST(EveryCore, DoesNotWaitForABusyPool) {
    // Simulates the loading of a file, during which the GUI thread must keep painting.
    QThreadPool& pool = workPool();
    QSemaphore release;
    QSemaphore ended;
    int busy = 0;
    while (pool.tryStart([&] {
        release.acquire();
        ended.release();
    })) {
        ++busy;
    }
    std::atomic<int> calls = 0;
    onEveryCore(100, [&](std::size_t, std::size_t) { ++calls; });
    EXPECT_EQ(calls, 100);
    release.release(busy);
    ended.acquire(busy);
}

TEST(EveryCore, PassesAnExceptionOn) {
    EXPECT_THROW(onEveryCore(50,
                             [](std::size_t i, std::size_t) {
                                 if (i == 7) {
                                     throw std::runtime_error("seven");
                                 }
                             }),
                 std::runtime_error);
}
}  // namespace
}  // namespace pipescope
