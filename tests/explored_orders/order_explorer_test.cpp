#include "tests/explored_orders/order_explorer.h"

#include "tests/explored_orders/explored_threads.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace pipescope::explored {
namespace {
using ::testing::HasSubstr;

/// A bell as a gate has one. Without the lock, the waiting thread can look before the flag is set and sleep after the
/// ring.
void ring_a_sleeper(bool locks) {
    Mutex mutex;
    Condition rung;
    Atomic<bool> ready = false;
    Thread sleeper([&] {
        std::unique_lock lock(mutex);
        rung.wait(lock, [&] { return ready.load(); });
    });
    ready.store(true);
    if (locks) {
        const std::lock_guard lock(mutex);
    }
    rung.notify_one();
}

TEST(OrderExplorer, FindsALostWakeupAndReplaysIt) {
    EXPECT_EQ(explore([] { ring_a_sleeper(true); }).failure, "");

    const auto program = [] { ring_a_sleeper(false); };
    const Outcome found = explore(program);
    EXPECT_THAT(found.failure, HasSubstr("thread 1 waits for a condition")) << to_string(found);
    EXPECT_EQ(replay(program, found.choices).failure, found.failure);
    EXPECT_THAT(explore_randomly(program, 1, 1000).failure, HasSubstr("deadlock"));
}

TEST(OrderExplorer, FindsADeadlockByTheOrderOfLocks) {
    const auto program = [] {
        Mutex one;
        Mutex other;
        Thread second([&] {
            const std::lock_guard first_lock(other);
            const std::lock_guard second_lock(one);
        });
        const std::lock_guard first_lock(one);
        const std::lock_guard second_lock(other);
    };
    const Outcome found = explore(program);
    EXPECT_THAT(found.failure, HasSubstr("deadlock: thread 0 waits for a mutex; thread 1 waits for a mutex"));
    EXPECT_EQ(explore(program, {.preemptions = 0}).failure, "");
    EXPECT_EQ(replay(program, found.choices).failure, found.failure);
}

TEST(OrderExplorer, RunsEveryOrder) {
    // Two threads of two stores each beside a waiting third: without a bound, 4! / (2! 2!) orders of the stores.
    std::vector<std::string> seen;
    const Outcome all = explore(
        [&] {
            std::string order;
            Atomic<int> stored = 0;
            const auto twice = [&](char name) {
                for (int k = 0; k < 2; ++k) {
                    stored.store(k);
                    order += name;
                }
            };
            {
                const Thread a([&] { twice('a'); });
                const Thread b([&] { twice('b'); });
            }
            seen.push_back(order);
        },
        {.preemptions = 6});
    EXPECT_TRUE(all.is_complete);
    std::sort(seen.begin(), seen.end());
    seen.erase(std::unique(seen.begin(), seen.end()), seen.end());
    EXPECT_THAT(seen, ::testing::ElementsAre("aabb", "abab", "abba", "baab", "baba", "bbaa"));
}

TEST(OrderExplorer, LetsATimeLimitPassWhenNobodyCanGoOn) {
    const auto wait_alone = [] {
        Mutex mutex;
        Condition never;
        std::unique_lock lock(mutex);
        require(!never.wait_for(lock, std::chrono::seconds(1), [] { return false; }), "the time limit did not pass");
    };
    EXPECT_EQ(explore(wait_alone, {.time_limits = TimeLimits::when_nobody_can_go_on}).failure, "");
    EXPECT_THAT(explore(wait_alone).failure, HasSubstr("deadlock"));
}

TEST(OrderExplorer, FindsWhatIsDestroyedWhileAThreadWaits) {
    const Outcome found = explore([] {
        Mutex mutex;
        Latch sleeps(1);
        std::optional<Condition> never(std::in_place);
        const Thread sleeper([&] {
            std::unique_lock lock(mutex);
            sleeps.count_down();
            never->wait(lock, [] { return false; });
        });
        sleeps.wait();
        { const std::lock_guard until_it_sleeps(mutex); }
        never.reset();
    });
    EXPECT_THAT(found.failure, HasSubstr("a thread waits for a condition that is destroyed"));
}
}  // namespace
}  // namespace pipescope::explored
