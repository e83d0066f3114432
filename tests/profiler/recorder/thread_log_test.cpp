#include "profiler/recorder/thread_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
RangeEvent range(std::int64_t start, std::uint32_t domain = 0) {
    RangeEvent event;
    event.start = start;
    event.domain = domain;
    return event;
}

std::vector<std::int64_t> drained(ThreadLog& log) {
    std::vector<std::int64_t> starts;
    log.drain(log.head(), [&](const RangeEvent& each) { starts.push_back(each.start); });
    return starts;
}

TEST(ThreadLog, RecordsARangeWhenItEnds) {
    ThreadLog log(1, "t", 8);
    log.push(range(5));
    EXPECT_TRUE(drained(log).empty());
    EXPECT_EQ(log.pop(0, 9), 0);
    EXPECT_EQ(drained(log), std::vector<std::int64_t>{5});
}

TEST(ThreadLog, TakesMoreOnceItWasDrained) {
    ThreadLog log(1, "t", 4);
    std::vector<std::int64_t> all;
    for (int round = 0; round < 5; ++round) {
        for (int k = 0; k < 4; ++k) {
            log.add_mark(range(std::int64_t{4} * round + k));
        }
        for (const std::int64_t start : drained(log)) {
            all.push_back(start);
        }
    }
    EXPECT_EQ(all.size(), 20u);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end()));
    EXPECT_EQ(log.dropped(), 0u);
}

TEST(ThreadLog, DropsTheNewestOfAFullRingAndRemembersWhen) {
    ThreadLog log(1, "t", 4);
    for (int k = 0; k < 7; ++k) {
        log.push(range(std::int64_t{10} * k));
        log.pop(0, std::int64_t{10} * k + 5);
    }
    const ThreadLog::Snapshot snapshot = log.snapshot();
    EXPECT_EQ(snapshot.dropped, 3u);
    EXPECT_EQ(snapshot.first_drop, 40);
    EXPECT_EQ(snapshot.last_drop, 65);
    EXPECT_EQ(drained(log), (std::vector<std::int64_t>{0, 10, 20, 30}));
}

TEST(ThreadLog, EndsARangeOfAnotherDomainWhileSomeAreNestedTooDeeply) {
    ThreadLog log(1, "t", 1024);
    constexpr int kFits = 128;
    log.push(range(0, /*domain=*/7));
    for (int k = 1; k < kFits + 2; ++k) {  // the last two do not fit
        EXPECT_EQ(log.push(range(k)), k - 1);
    }
    EXPECT_EQ(log.pop(7, 500), 0);
    EXPECT_EQ(drained(log), std::vector<std::int64_t>{0});
    // There is room again, but the domain's innermost ranges are those that did not fit.
    EXPECT_EQ(log.push(range(600)), kFits + 1);
    EXPECT_EQ(log.snapshot().dropped, 3u);
    for (int level = kFits + 1; level >= kFits - 1; --level) {
        EXPECT_EQ(log.pop(0, 700), level);
    }
    EXPECT_EQ(log.snapshot().dropped, 3u);
    EXPECT_TRUE(drained(log).empty());
    EXPECT_EQ(log.pop(0, 800), kFits - 2);
    EXPECT_EQ(drained(log), std::vector<std::int64_t>{kFits - 1});
}

TEST(ThreadLog, RemembersTextsWithoutAskingTwice) {
    ThreadLog log(1, "t", 4);
    static int asked = 0;  // the function takes no context
    asked = 0;
    const auto intern = [](std::string_view text) {
        ++asked;
        return static_cast<std::uint32_t>(text.size());
    };
    EXPECT_EQ(log.text_number("abc", intern), 3u);
    EXPECT_EQ(log.text_number("abc", intern), 3u);
    EXPECT_EQ(asked, 1);
    for (int k = 0; k < 20'000; ++k) {  // a program that makes up texts for ever still gets right numbers
        EXPECT_EQ(log.text_number(std::to_string(100'000 + k), intern), 6u);
    }
}

TEST(ThreadLog, DoesNotWaitForAThreadThatStaysWithinAChange) {
    ThreadLog log(1, "t", 8);
    log.add_mark(range(1));
    log.push(range(2));
    // Simulates a signal handler that interrupts the thread here and ends the process.
    log.add_ended([&] {
        const ThreadLog::Snapshot snapshot = log.snapshot(std::chrono::milliseconds{1});
        EXPECT_TRUE(snapshot.is_stuck);
        EXPECT_EQ(snapshot.head, 1u);
        EXPECT_TRUE(snapshot.open.empty());
        return std::optional<RangeEvent>();
    });
    EXPECT_FALSE(log.snapshot().is_stuck);
    EXPECT_EQ(log.snapshot().open.size(), 1u);
}

TEST(ThreadLog, GivesSnapshotsThatLieBetweenChanges) {
    // A snapshot of half a change would contain a torn range, or one that is neither open nor ended, or both.
    ThreadLog log(1, "t", 1 << 10);
    std::atomic<bool> done{false};
    std::thread thread([&] {
        for (std::int64_t k = 1; !done.load(std::memory_order_relaxed); ++k) {
            RangeEvent event = range(k, 1);
            event.payload = static_cast<std::uint64_t>(k);
            event.range_id = static_cast<std::uint64_t>(k);
            log.push(event);
            log.pop(1, k);
        }
    });
    for (int round = 0; round < 2000; ++round) {
        const ThreadLog::Snapshot snapshot = log.snapshot();
        ASSERT_LE(snapshot.open.size(), 1u);
        const std::uint64_t ended = snapshot.head + snapshot.dropped;
        if (!snapshot.open.empty()) {
            const RangeEvent& open = snapshot.open[0];
            ASSERT_EQ(open.payload, static_cast<std::uint64_t>(open.start));
            ASSERT_EQ(open.range_id, open.payload);
            ASSERT_EQ(open.payload, ended + 1);  // the k-th range is open when k - 1 have ended
        }
        log.drain(snapshot.head, [](const RangeEvent&) {});
    }
    done = true;
    thread.join();
}
}  // namespace
}  // namespace pipescope
