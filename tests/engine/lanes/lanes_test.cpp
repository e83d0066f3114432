#include "engine/lanes/lanes.h"

#include "engine/engine_error.h"
#include "engine/lanes/task_ranges.h"
#include "tests/engine/first_lanes.h"

#include <gmock/gmock.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
TEST(Worker, RunsItsJobsInTheOrderTheyWerePosted) {
    std::vector<int> ran;
    {
        Worker worker("worker", [] {});
        for (int job = 0; job < 100; ++job) {
            worker.post([&ran, job] { ran.push_back(job); });
        }
    }
    ASSERT_EQ(ran.size(), 100u);
    EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(Worker, FinishesWhatIsQueuedBeforeItEnds) {
    std::atomic<int> ran = 0;
    {
        std::vector<std::unique_ptr<Worker>> workers;
        for (int k = 0; k < 10; ++k) {
            workers.push_back(std::make_unique<Worker>("worker", [] {}));
            workers.back()->post([&ran] { ++ran; });
        }
    }
    EXPECT_EQ(ran, 10);
}

TEST(Worker, ThrowsWhatItsStartThrows) {
    EXPECT_THROW(Worker("worker", [] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST(Worker, EndsTheProcessWithAMessageIfAJobThrows) {
    const auto fails = [] {
        Worker worker("worker", [] {});
        worker.post([] { throw std::bad_alloc(); });
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(fails(), ::testing::ExitedWithCode(1), "a thread of the engine cannot go on .*bad_alloc");
}

TEST(Lanes, ThrowWhatTheirStartOrAJobThrows) {
    const std::vector<LaneId> ids = first_lanes(3);
    std::atomic<int> starts = 0;
    const auto start = [&] {
        if (++starts == 2) {
            throw std::bad_alloc();
        }
    };
    EXPECT_THROW(Lanes(ids, start), std::bad_alloc);
    Lanes lanes(ids, [] {});
    std::atomic<int> others = 0;
    const auto job = [&](LaneId lane) {
        if (lane == LaneId{1}) {
            throw std::bad_alloc();
        }
        ++others;
    };
    EXPECT_THROW(lanes.run(job), std::bad_alloc);
    EXPECT_EQ(others, 2);
    lanes.run([&](LaneId) { ++others; });
    EXPECT_EQ(others, 5);
}

// In a process of its own, since threads are kept from then on.
TEST(Worker, LeavesItsThreadToTheNextIfThreadsAreKept) {
    const auto thread_of = [](Worker& worker) {
        std::latch told(1);
        pid_t id = 0;
        worker.post([&] {
            id = ::gettid();
            told.count_down();
        });
        told.wait();
        return id;
    };
    const auto uses_threads_again = [&] {
        Worker::keep_threads();
        auto first = std::make_unique<Worker>("first", [] {});
        Worker other("other", [] {});
        const pid_t thread = thread_of(*first);
        std::atomic<bool> ran = false;
        first->post([&ran] { ran = true; });
        first.reset();
        const bool drained = ran;
        auto second = std::make_unique<Worker>("second", [] {});
        const bool is_same = thread_of(*second) == thread && thread_of(other) != thread;
        second->end_thread();
        second.reset();
        Worker third("third", [] {});
        ::_exit(drained && is_same && thread_of(third) != thread ? 7 : 8);
    };
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(uses_threads_again(), ::testing::ExitedWithCode(7), "");
}

// It asks the caller again and again, but the jobs go on.
TEST(Lanes, CallWhileWaitingUntilTheJobsHaveEnded) {
    Lanes lanes(first_lanes(2), [] {});
    std::latch asked(3);
    std::atomic<int> calls = 0;
    lanes.run([&asked](LaneId) { asked.wait(); },
              [&] {
                  if (++calls <= 3) {
                      asked.count_down();
                  }
              });
    EXPECT_GE(calls, 3);
}

TEST(TaskRange, IsOffWhereNoToolListens) {
    prepare_task_ranges();
    EXPECT_FALSE(task_ranges_enabled);
    const TaskRange range(TaskKey{0, TaskKind::forward, 0, 0, -1});  // does nothing
}

// Lane 0 ends the first job only once lane 1 has begun the second.
TEST(Lanes, QueueJobsOnEachLaneWithoutWaitingForTheOthers) {
    Lanes lanes(first_lanes(2), [] {});
    std::latch second_begun(1);
    std::array<std::vector<int>, 2> ran;
    Lanes::Jobs jobs(lanes);
    jobs.post([&](LaneId lane) {
        if (lane == LaneId{0}) {
            second_begun.wait();
        }
        ran[lane.index()].push_back(1);
    });
    jobs.post([&](LaneId lane) {
        if (lane == LaneId{1}) {
            second_begun.count_down();
        }
        ran[lane.index()].push_back(2);
    });
    jobs.wait_for_oldest();
    jobs.wait_for_oldest();
    EXPECT_EQ(ran[0], (std::vector<int>{1, 2}));
    EXPECT_EQ(ran[1], (std::vector<int>{1, 2}));
}

TEST(Lanes, RunEachJobOnAThreadOfItsOwnNamedAfterTheLane) {
    Lanes lanes(first_lanes(3), [] {});
    std::array<std::thread::id, 3> threads;
    std::array<std::string, 3> names;
    lanes.run([&](LaneId lane) {
        threads[lane.index()] = std::this_thread::get_id();
        std::array<char, 16> name{};
        pthread_getname_np(pthread_self(), name.data(), name.size());
        names[lane.index()] = name.data();
    });
    EXPECT_EQ(std::set<std::thread::id>(threads.begin(), threads.end()).size(), 3u);
    EXPECT_THAT(names, testing::ElementsAre("lane 0", "lane 1", "lane 2"));
}

TEST(Lanes, RunSideBySide) {
    Lanes lanes(first_lanes(2), [] {});
    std::latch both(2);
    lanes.run([&](LaneId) { both.arrive_and_wait(); });  // would never return one after the other
}

TEST(Lanes, KeepTheirThreadsFromCallToCall) {
    Lanes lanes(first_lanes(1), [] {});
    std::vector<std::thread::id> threads;
    for (int call = 0; call < 2; ++call) {
        lanes.run([&](LaneId) { threads.push_back(std::this_thread::get_id()); });
    }
    EXPECT_EQ(threads[0], threads[1]);
}

TEST(Lanes, LetCallersTakeTurns) {
    Lanes lanes(first_lanes(2), [] {});
    std::atomic<int> inside = 0;
    std::atomic<int> most = 0;
    const auto call = [&] {
        for (int k = 0; k < 50; ++k) {
            std::latch both(2);
            lanes.run([&](LaneId) {
                const int now = ++inside;
                int seen = most;
                while (seen < now && !most.compare_exchange_weak(seen, now)) {
                }
                both.arrive_and_wait();  // interleaved callers would wait here for each other
                --inside;
            });
        }
    };
    std::thread other(call);
    call();
    other.join();
    EXPECT_LE(most, 2);
}

/// Runs `body` in a forked process. False if it fails, or after a timeout that only a hang can reach.
bool holds_in_a_fork(const std::function<bool()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
        ::alarm(20);
        ::_exit(body() ? 0 : 1);
    }
    int status = 0;
    return ::waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Lanes, EndInAForkedProcessWithoutTheirThreads) {
    auto lanes = std::make_unique<Lanes>(first_lanes(3), [] {});
    lanes->run([](LaneId) {});
    EXPECT_TRUE(holds_in_a_fork([&] {
        lanes.reset();
        return true;
    }));
    std::atomic<int> ran = 0;
    lanes->run([&](LaneId) { ++ran; });
    EXPECT_EQ(ran, 3) << "and live on where they were made";
}

TEST(Lanes, AreRefusedInAForkedProcess) {
    Lanes lanes(first_lanes(2), [] {});
    EXPECT_TRUE(holds_in_a_fork([&] {
        try {
            lanes.run([](LaneId) {});
        } catch (const EngineError& error) {
            return std::string(error.what()).find("after the fork") != std::string::npos;
        }
        return false;
    }));
}

TEST(Lanes, GetANewThreadWhereOneIsRenewed) {
    int started = 0;
    Lanes lanes(first_lanes(2), [&started] {
        static std::mutex one_at_a_time;
        const std::lock_guard lock(one_at_a_time);
        ++started;
    });
    std::array<std::thread::id, 2> before, after;
    lanes.run([&](LaneId lane) { before[lane.index()] = std::this_thread::get_id(); });
    lanes.renew(LaneId{1});
    lanes.run([&](LaneId lane) { after[lane.index()] = std::this_thread::get_id(); });
    EXPECT_EQ(started, 3);
    EXPECT_EQ(before[0], after[0]);
}

TEST(Lanes, RefuseToWaitForThemselves) {
    Lanes lanes(first_lanes(1), [] {});
    lanes.run([&](LaneId) { EXPECT_THROW(lanes.run([](LaneId) {}), EngineError); });
}

TEST(Lanes, LetALaneRunAnotherModelsLanes) {
    Lanes outer(first_lanes(1), [] {});
    Lanes inner(first_lanes(1), [] {});
    bool ran = false;
    outer.run([&](LaneId) { inner.run([&](LaneId) { ran = true; }); });
    EXPECT_TRUE(ran);
}
}  // namespace
}  // namespace pipescope
