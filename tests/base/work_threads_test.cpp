#include "base/work_threads.h"

#include "base/error.h"
#include "base/stop_check.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace pipescope {
namespace {
TEST(WorkThreads, EndTheOtherPiecesWhenOneFails) {
    WorkThreads threads("a test", 2, {});
    const auto work = [](std::size_t k) {
        if (k == 1) {
            throw UsageError("the second");
        }
        for (;;) {
            check_stop();
        }
    };
    EXPECT_THAT(thrown<UsageError>([&] { threads.run(2, work); }), "the second");
    EXPECT_TRUE(threads.is_stopped());
    EXPECT_FALSE(threads.is_cancelled());
}

TEST(WorkThreads, EndAllPiecesWhenProgressWantsNoMoreOrThrows) {
    const auto work = [](std::size_t) {
        for (;;) {
            check_stop();
        }
    };
    WorkThreads cancelled("a test", 2, [](double) { return false; });
    cancelled.run(3, work);
    EXPECT_TRUE(cancelled.is_cancelled());
    WorkThreads failed("a test", 2, [](double) -> bool { throw UsageError("enough"); });
    EXPECT_THAT(thrown<UsageError>([&] { failed.run(3, work); }), "enough");
}

TEST(WorkThreads, RunEveryPieceOnceAndTellOfTheSharesOfSeveralRuns) {
    std::vector<double> told;
    WorkThreads threads("a test", 3, [&](double done) {
        told.push_back(done);
        return true;
    });
    std::vector<int> ran(100);
    threads.run(
        ran.size(), [&](std::size_t k) { ++ran[k]; }, 0.25, [] { return 0.5; });
    threads.run(
        0, [](std::size_t) {}, 0.75);
    EXPECT_THAT(ran, testing::Each(1));
    EXPECT_THAT(told, testing::Each(testing::AnyOf(0.125, 0.25, 1.0)));
    EXPECT_EQ(told.back(), 1);
}
}  // namespace
}  // namespace pipescope
