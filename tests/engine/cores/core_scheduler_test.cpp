#include "engine/cores/core_scheduler.h"

#include "engine/cores/usable_cores.h"
#include "engine/lanes/lanes.h"
#include "tests/engine/first_lanes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <latch>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

const std::function<bool()> kAlways = [] { return true; };
constexpr auto kLong = std::chrono::hours(1);  // no machine is that slow

/// The same core several times, because the machine may have only one.
std::vector<int> cores(std::size_t count) {
    return std::vector<int>(count, usable_core_numbers().front());
}

std::vector<bool> all(int lanes) {
    return std::vector<bool>(static_cast<std::size_t>(lanes), true);
}

TEST(CoreScheduler, LetsNoMoreLanesWorkAtOnceThanThereAreCores) {
    CoreScheduler turns(all(6), cores(2), kLong);
    std::atomic<int> at_work = 0;
    std::atomic<int> most = 0;
    std::atomic<int> turns_taken = 0;
    Lanes lanes(first_lanes(6), [] {});
    lanes.run([&](LaneId lane) {
        for (int turn = 0; turn < 200; ++turn) {
            turns.wait(lane, kAlways);
            const int now = ++at_work;
            for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
            }
            ++turns_taken;
            --at_work;
        }
        turns.leave(lane);
    });
    EXPECT_LE(most, 2);
    EXPECT_EQ(turns_taken, 6 * 200);
}

TEST(CoreScheduler, GivesTheCoreToWhomeverAskedFirst) {
    CoreScheduler turns(all(4), cores(1), kLong);
    std::latch all_wait(3);
    std::array<std::atomic<bool>, 4> has_work{};
    std::vector<std::int64_t> order;  // of whoever holds the only core
    Lanes lanes(first_lanes(4), [] {});
    lanes.run([&](LaneId lane) {
        if (lane == LaneId{0}) {
            turns.wait(lane, kAlways);
            all_wait.wait();
            for (const std::int64_t other : {2, 3, 1}) {
                has_work[static_cast<std::size_t>(other)] = true;
                turns.call(LaneId{other});
            }
            turns.leave(lane);
            return;
        }
        bool is_first_look = true;
        turns.wait(lane, [&] {
            if (std::exchange(is_first_look, false)) {
                all_wait.count_down();  // the lock is held until the lane waits
            }
            return has_work[lane.index()].load();
        });
        order.push_back(lane.value());
        turns.leave(lane);
    });
    EXPECT_THAT(order, ElementsAre(2, 3, 1));
}

TEST(CoreScheduler, KeepsALaneWithoutWorkAwayFromTheCores) {
    CoreScheduler turns(all(2), cores(1), kLong);
    std::atomic<bool> has_work = false;
    std::atomic<bool> ran_early = false;
    Lanes lanes(first_lanes(2), [] {});
    lanes.run([&](LaneId lane) {
        if (lane == LaneId{0}) {
            for (int turn = 0; turn < 100; ++turn) {
                turns.wait(lane, kAlways);  // the only core is always free for it: the other lane has no work
            }
            has_work = true;
            turns.call(LaneId{1});
            turns.leave(lane);
        } else {
            turns.wait(lane, [&] { return has_work.load(); });
            ran_early = !has_work;
            turns.leave(lane);
        }
    });
    EXPECT_FALSE(ran_early);
}

TEST(CoreScheduler, PinsALaneToTheCoreItIsGiven) {
    const int core = usable_core_numbers().back();
    CoreScheduler turns(all(2), {core}, kLong);
    std::array<std::vector<int>, 2> allowed;
    Lanes lanes(first_lanes(2), [] {});
    lanes.run([&](LaneId lane) {
        turns.wait(lane, kAlways);
        allowed[lane.index()] = usable_core_numbers();
        turns.leave(lane);
    });
    EXPECT_THAT(allowed, testing::Each(ElementsAre(core)));
}

TEST(CoreScheduler, GoesOnWithoutATurnWhereLanesWaitForEachOther) {
    CoreScheduler turns(all(2), cores(1), 1ms);
    std::latch both(2);
    std::atomic<int> met = 0;
    testing::internal::CaptureStderr();
    Lanes lanes(first_lanes(2), [] {});
    lanes.run([&](LaneId lane) {
        turns.wait(lane, kAlways);
        both.arrive_and_wait();  // while one of them holds the only core
        ++met;
        turns.wait(lane, kAlways);
        turns.leave(lane);
    });
    EXPECT_EQ(met, 2);
    const std::string warning = testing::internal::GetCapturedStderr();
    EXPECT_THAT(warning, HasSubstr("longer than 0.001 s for a core"));
    EXPECT_THAT(warning, HasSubstr("host_cores or --cores"));
    EXPECT_EQ(std::count(warning.begin(), warning.end(), '\n'), 1) << "once";
}

TEST(CoreScheduler, BindsNobodyToACoreFromThenOn) {
    const std::vector<int> usable = usable_core_numbers();
    CoreScheduler turns(all(2), cores(1), 1ms);
    std::latch both(2);
    std::array<std::vector<int>, 2> allowed;
    Lanes lanes(first_lanes(2), [] {});
    lanes.run([&](LaneId lane) {
        turns.wait(lane, kAlways);
        both.arrive_and_wait();
        allowed[lane.index()] = usable_core_numbers();
        turns.leave(lane);
    });
    EXPECT_THAT(allowed, testing::Each(usable));
}

TEST(CoreScheduler, LeavesLanesAloneThatTakeNoPart) {
    const CoreScheduler turns({true, false, true}, cores(1));
    EXPECT_TRUE(turns.takes_part(LaneId{0}));
    EXPECT_FALSE(turns.takes_part(LaneId{1}));
    EXPECT_TRUE(turns.takes_part(LaneId{2}));
}
}  // namespace
}  // namespace pipescope
