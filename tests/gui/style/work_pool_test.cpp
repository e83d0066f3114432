#include "gui/style/work_pool.h"

#include "base/error.h"
#include "base/stop_check.h"
#include "tests/gui/patience.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QScopeGuard>
#include <QSemaphore>
#include <QTest>
#include <QThread>
#include <QThreadPool>

#include <functional>
#include <new>
#include <stdexcept>
#include <vector>

namespace pipescope {
namespace {
class Searcher : public QObject {
public:
    using Cancelled = std::function<bool()>;

    template <class Work>
    void start(Work work) {
        job.start(
            *this, std::move(work),
            [this](int result) {
                EXPECT_EQ(QThread::currentThread(), thread());
                taken.push_back(result);
            },
            [this](const QString& error) {
                EXPECT_EQ(QThread::currentThread(), thread());
                failures << error;
            });
    }
    bool waitForOne() {
        return QTest::qWaitFor([this] { return !taken.empty(); }, kPatience);
    }

    std::vector<int> taken;
    QStringList failures;
    LatestJob job;
};

/// What is reported of work that throws.
QString failureOf(const std::function<int()>& work) {
    Searcher searcher;
    runInPool(
        searcher, work, [&](int result) { searcher.taken.push_back(result); },
        [&](const QString& error) { searcher.failures << error; });
    EXPECT_TRUE(QTest::qWaitFor([&] { return !searcher.failures.isEmpty() || !searcher.taken.empty(); }, kPatience));
    EXPECT_TRUE(searcher.taken.empty());
    return searcher.failures.join(u'|');
}

TEST(RunInPool, ReportsWhateverTheWorkThrows) {
    EXPECT_EQ(failureOf([]() -> int { throw UsageError("the value is 3"); }), QStringLiteral("the value is 3"));
    EXPECT_EQ(failureOf([]() -> int { throw std::out_of_range("no such place"); }), QStringLiteral("no such place"));
    EXPECT_TRUE(failureOf([]() -> int { throw std::bad_alloc(); }).contains(QStringLiteral("not enough memory")));
    EXPECT_TRUE(failureOf([]() -> int { throw 7; }).contains(QStringLiteral("unknown error")));
}

TEST(RunInPool, StopsWorkThatNobodyWaitsFor) {
    QSemaphore begun;
    QSemaphore ended;
    const auto endless = [&]() -> int {
        const auto release = qScopeGuard([&] { ended.release(); });
        begun.release();
        for (;;) {
            check_stop();
        }
    };
    {
        QObject context;
        runInPool(
            context, endless, [](int) {}, [](const QString&) {});
        ASSERT_TRUE(begun.tryAcquire(1, kPatience));
    }
    EXPECT_TRUE(ended.tryAcquire(1, kPatience));
}

TEST(LatestJob, StopsADroppedRunAtItsNextCheck) {
    QSemaphore ended;
    Searcher searcher;
    searcher.start([&](const Searcher::Cancelled&) -> int {
        const auto release = qScopeGuard([&] { ended.release(); });
        for (;;) {
            check_stop();
        }
    });
    searcher.job.drop();
    EXPECT_TRUE(ended.tryAcquire(1, kPatience));
    EXPECT_TRUE(searcher.failures.isEmpty());
}

TEST(LatestJob, ReportsThatTheLastRunFailed) {
    Searcher searcher;
    searcher.start([](const Searcher::Cancelled&) -> int { throw std::runtime_error("the first"); });
    searcher.start([](const Searcher::Cancelled&) -> int { throw std::runtime_error("the last"); });
    ASSERT_TRUE(QTest::qWaitFor([&] { return !searcher.failures.isEmpty(); }, kPatience));
    ASSERT_TRUE(workPool().waitForDone(kPatience));
    QCoreApplication::processEvents();
    EXPECT_EQ(searcher.failures, QStringList{QStringLiteral("the last")});
    EXPECT_FALSE(searcher.job.isRunning());
}

/// Ends once it is cancelled.
int untilCancelled(const Searcher::Cancelled& cancelled, QSemaphore& ended) {
    while (!cancelled()) {
        QThread::yieldCurrentThread();
    }
    ended.release();
    return 1;
}

TEST(LatestJob, TakesOnlyTheResultOfTheLastRun) {
    QSemaphore ended;
    Searcher searcher;
    searcher.start([&](const Searcher::Cancelled& cancelled) { return untilCancelled(cancelled, ended); });
    searcher.start([](const Searcher::Cancelled&) { return 2; });
    ASSERT_TRUE(ended.tryAcquire(1, kPatience));
    ASSERT_TRUE(searcher.waitForOne());
    ASSERT_TRUE(workPool().waitForDone(kPatience));
    QCoreApplication::processEvents();  // the first result must not come
    EXPECT_EQ(searcher.taken, std::vector<int>{2});
    EXPECT_FALSE(searcher.job.isRunning());
}

TEST(LatestJob, TakesTheResultOfACancelledRun) {
    QSemaphore ended;
    Searcher searcher;
    searcher.start([&](const Searcher::Cancelled& cancelled) { return untilCancelled(cancelled, ended); });
    EXPECT_TRUE(searcher.job.isRunning());
    searcher.job.cancel();
    ASSERT_TRUE(searcher.waitForOne());
    EXPECT_EQ(searcher.taken, std::vector<int>{1});
}

TEST(LatestJob, EndsWithItsOwner) {
    QSemaphore ended;
    {
        Searcher searcher;
        searcher.start([&](const Searcher::Cancelled& cancelled) { return untilCancelled(cancelled, ended); });
    }
    EXPECT_TRUE(ended.tryAcquire(1, kPatience));
}
}  // namespace
}  // namespace pipescope
