#include "gui/style/work_pool.h"

#include <gtest/gtest.h>

#include <QSemaphore>
#include <QThreadPool>

#include <atomic>
#include <stdexcept>
#include <vector>

namespace pipescope {
namespace {
TEST(ParallelFor, CallsEachOnce) {
    std::vector<std::atomic<int>> calls(1000);
    parallelFor(calls.size(), [&](std::size_t i, std::size_t worker) {
        EXPECT_LT(worker, mostWorkers());
        ++calls[i];
    });
    for (const std::atomic<int>& each : calls) {
        EXPECT_EQ(each, 1);
    }
}

TEST(ParallelFor, DoesNotWaitForABusyPool) {
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
    parallelFor(100, [&](std::size_t, std::size_t) { ++calls; });
    EXPECT_EQ(calls, 100);
    release.release(busy);
    ended.acquire(busy);
}

TEST(ParallelFor, PassesAnExceptionOn) {
    EXPECT_THROW(parallelFor(50,
                             [](std::size_t i, std::size_t) {
                                 if (i == 7) {
                                     throw std::runtime_error("seven");
                                 }
                             }),
                 std::runtime_error);
}
}  // namespace
}  // namespace pipescope
