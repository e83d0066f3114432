#include "engine/engine_error.h"
#include "engine/lanes/lanes.h"
#include "tests/explored_orders/order_explorer.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// A model's lanes and their workers, in every order: the classes of the engine, with jobs that only write their names.

namespace pipescope {
namespace {
using explored::Limits;
using explored::Outcome;
using explored::require;

constexpr long kRandomOrdersOfJobs = 2000;
const std::vector<LaneId> kTwoLanes = {LaneId{0}, LaneId{1}};

/// What the lanes ran.
class Log {
public:
    /// A job that writes its name, and lets other threads go on before and after.
    std::function<void(LaneId)> job(char name) {
        return [this, name](LaneId lane) {
            explored::point();
            of_[lane] += name;
            explored::point();
        };
    }
    std::function<void(LaneId)> failing_job(char name, LaneId failing) {
        return [job = job(name), name, failing](LaneId lane) {
            job(lane);
            if (lane == failing) {
                throw std::runtime_error(std::string(1, name));
            }
        };
    }
    const std::string& of(int lane) { return of_[LaneId{lane}]; }

private:
    std::map<LaneId, std::string> of_;
};

/// What `call` throws; empty if nothing.
std::string failure_of(const std::function<void()>& call) {
    try {
        call();
    } catch (const std::exception& error) {
        return error.what();
    }
    return {};
}

void expect_good(const std::function<void()>& program, const Limits& limits) {
    const Outcome all = explored::explore(program, limits);
    EXPECT_EQ(all.failure, "") << to_string(all);
    EXPECT_TRUE(all.is_complete);
    const Outcome random = explored::explore_randomly(program, 1, kRandomOrdersOfJobs, limits.time_limits);
    EXPECT_EQ(random.failure, "") << to_string(random);
    std::printf("%ld orders\n", all.orders + random.orders);
}

TEST(LanesOrders, EachLaneRunsJobsInTheirOrder) {
    expect_good(
        [] {
            Log log;
            Lanes lanes(kTwoLanes, [] {});
            {
                Lanes::Jobs jobs(lanes);
                jobs.post(log.job('a'));
                jobs.post(log.job('b'));
                jobs.wait_for_oldest();
                require(log.of(0).starts_with("a") && log.of(1).starts_with("a"), "a lane had not run a");
                jobs.post(log.job('c'));
            }
            require(log.of(0) == "abc" && log.of(1) == "abc", "a job did not run, or ran in another order");
        },
        {.preemptions = 2});
}

TEST(LanesOrders, CallersTakeTurns) {
    expect_good(
        [] {
            Log log;
            Lanes lanes(kTwoLanes, [] {});
            {
                const Thread other([&] { lanes.run(log.job('x')); });
                Lanes::Jobs jobs(lanes);
                jobs.post(log.job('a'));
                jobs.post(log.job('b'));
                jobs.wait_for_oldest();
                jobs.wait_for_oldest();
            }
            require(log.of(0) == log.of(1), "two callers' jobs ran in different orders on the lanes");
            require(log.of(0) == "abx" || log.of(0) == "xab", "two callers' jobs ran in between each other");
        },
        {.preemptions = 2});
}

TEST(LanesOrders, AFailureReachesItsCallerAndLeavesTheLanesUsable) {
    expect_good(
        [] {
            Log log;
            Lanes lanes(kTwoLanes, [] {});
            require(failure_of([&] { lanes.run(log.failing_job('f', LaneId{1})); }) == "f", "the failure was lost");
            require(failure_of([&] { lanes.run(log.job('a')); }).empty(), "a failure came again");
            {
                Lanes::Jobs jobs(lanes);  // nobody waits for its failure
                jobs.post(log.failing_job('g', LaneId{0}));
            }
            require(failure_of([&] { lanes.run(log.job('b')); }).empty(), "a failure reached the next caller");
            require(log.of(0) == "fagb" && log.of(1) == "fagb", "a job did not run");
        },
        {.preemptions = 2});
}

TEST(LanesOrders, AllLanesMayFailAtOnce) {
    expect_good(
        [] {
            Lanes lanes(kTwoLanes, [] {});
            const auto fail = [](LaneId lane) {
                explored::point();
                throw std::runtime_error(std::to_string(lane.value()));
            };
            const std::string failure = failure_of([&] { lanes.run(fail); });
            require(failure == "0" || failure == "1", "no failure reached the caller");
        },
        {.preemptions = 3});
}

TEST(LanesOrders, ALaneCannotWaitForItself) {
    expect_good(
        [] {
            Lanes lanes(kTwoLanes, [] {});
            std::map<LaneId, std::string> failures;
            lanes.run([&](LaneId lane) { failures[lane] = failure_of([&] { lanes.run([](LaneId) {}); }); });
            for (const auto& [lane, failure] : failures) {
                require(failure.find("a lane cannot wait for itself") != std::string::npos, "a lane ran its own model");
            }
            require(failures.size() == 2, "a lane did not run");
        },
        {.preemptions = 2});
}

TEST(LanesOrders, ARenewedLaneRunsWhatComesAfter) {
    expect_good(
        [] {
            Log log;
            int started = 0;
            Lanes lanes(kTwoLanes, [&] { ++started; });
            lanes.run(log.job('a'));
            {
                const Thread other([&] { lanes.run(log.job('x')); });
                lanes.renew(LaneId{1});
            }
            lanes.run(log.job('b'));
            require(started == 3, "a new thread did not run what comes first");
            require(log.of(0) == "axb" && log.of(1) == "axb", "a job did not run");
        },
        {.preemptions = 1});
}

TEST(LanesOrders, AWorkerThatCannotStartEnds) {
    expect_good(
        [] {
            int ran = 0;
            const std::string failure = failure_of([&] {
                Lanes lanes(kTwoLanes, [&] {
                    if (++ran == 2) {
                        throw std::runtime_error("no room");
                    }
                });
            });
            require(failure == "no room", "the failure of a start was lost");
        },
        {.preemptions = 3});
}
}  // namespace
}  // namespace pipescope
