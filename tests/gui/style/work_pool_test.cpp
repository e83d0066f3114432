#include "gui/style/work_pool.h"

#include "tests/gui/patience.h"

#include <gtest/gtest.h>

#include <QCoreApplication>
#include <QSemaphore>
#include <QTest>
#include <QThread>
#include <QThreadPool>

#include <vector>

namespace pipescope {
namespace {
class Searcher : public QObject {
public:
    using Cancelled = std::function<bool()>;

    template <class Work>
    void start(Work work) {
        job.start(*this, std::move(work), [this](int result) {
            EXPECT_EQ(QThread::currentThread(), thread());
            taken.push_back(result);
        });
    }
    bool waitForOne() {
        return QTest::qWaitFor([this] { return !taken.empty(); }, kPatience);
    }

    std::vector<int> taken;
    LatestJob job;
};

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
