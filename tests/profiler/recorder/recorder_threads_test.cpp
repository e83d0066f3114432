#include "recorded_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <map>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
std::int64_t own_global_tid() {
    return std::int64_t{getpid()} << 24 | gettid();
}

std::map<std::int64_t, std::int64_t> rows_per_thread(const RecordedTrace& trace, const std::string& condition = "1") {
    std::map<std::int64_t, std::int64_t> rows;
    SQLite::Database db(trace.path());
    SQLite::Statement query(db, "SELECT globalTid, count(*) FROM NVTX_EVENTS WHERE eventType IN (34, 59, 60) AND " +
                                    condition + " GROUP BY globalTid");
    while (query.executeStep()) {
        rows[query.getColumn(0).getInt64()] = query.getColumn(1).getInt64();
    }
    return rows;
}

DropRecord counts_of(const RecordedTrace& trace, std::int64_t thread) {
    for (const DropRecord& drop : trace.reader().drops()) {
        if (drop.thread == thread) {
            return drop;
        }
    }
    ADD_FAILURE() << "no counts of thread " << thread;
    return {};
}

std::vector<std::int64_t> run_threads(int count, const std::function<void(int)>& body) {
    std::vector<std::int64_t> ids(static_cast<std::size_t>(count));
    std::vector<std::thread> threads;
    threads.reserve(static_cast<std::size_t>(count));
    for (int k = 0; k < count; ++k) {
        threads.emplace_back([&, k] {
            ids[static_cast<std::size_t>(k)] = own_global_tid();
            body(k);
        });
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    return ids;
}

TEST(RecorderThreads, LoseNothingAndCountEverything) {
    constexpr int kThreads = 6;
    constexpr int kPairs = 5000;  // each an outer and an inner range, and a mark: far below a ring's 32,768 entries
    std::vector<std::int64_t> ids;
    const RecordedTrace trace([&](Recorder&) {
        ids = run_threads(kThreads, [](int) {
            for (int k = 0; k < kPairs; ++k) {
                nvtxRangePushA("outer");
                nvtxRangePushA("inner");
                nvtxMarkA("mark");
                nvtxRangePop();
                nvtxRangePop();
            }
        });
    });
    const auto rows = rows_per_thread(trace);
    for (const std::int64_t id : ids) {
        EXPECT_EQ(rows.at(id), 3 * kPairs);
        const DropRecord counts = counts_of(trace, id);
        EXPECT_EQ(counts.recorded, 3 * kPairs);
        EXPECT_EQ(counts.dropped, 0);
        EXPECT_EQ(counts.open_at_exit, 0);
    }
    // Every inner range lies within an outer one of its thread; the k-th ones of each belong together.
    EXPECT_EQ(
        trace.number("SELECT count(*) FROM "
                     "(SELECT globalTid, start, end, row_number() OVER (PARTITION BY globalTid ORDER BY start) AS k "
                     "FROM NVTX_EVENTS WHERE text = 'inner') AS i JOIN "
                     "(SELECT globalTid, start, end, row_number() OVER (PARTITION BY globalTid ORDER BY start) AS k "
                     "FROM NVTX_EVENTS WHERE text = 'outer') AS o "
                     "ON i.globalTid = o.globalTid AND i.k = o.k AND o.start <= i.start AND i.end <= o.end"),
        kThreads * kPairs);
}

TEST(RecorderThreads, CountExactlyWhatAFullRingLoses) {
    constexpr int kRanges = 50'000;
    RecorderOptions options;
    options.ring_entries = 64;
    std::vector<std::int64_t> ids;
    const RecordedTrace trace(
        [&](Recorder&) {
            ids = run_threads(2, [](int) {
                for (int k = 0; k < kRanges; ++k) {
                    nvtxRangePushA("r");
                    nvtxRangePop();
                }
            });
        },
        options);
    const auto rows = rows_per_thread(trace);
    for (const std::int64_t id : ids) {
        const DropRecord counts = counts_of(trace, id);
        EXPECT_GT(counts.dropped, 0);
        EXPECT_EQ(counts.recorded, rows.at(id));
        EXPECT_EQ(counts.recorded + counts.dropped, kRanges);
    }
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND end IS NULL"), 0);
    const auto diagnostics = trace.reader().diagnostics();
    ASSERT_EQ(diagnostics.size(), 2u);  // one for each thread
    EXPECT_EQ(diagnostics[0].severity, "warning");
    const std::string both = diagnostics[0].text + diagnostics[1].text;  // in the order their threads were first seen
    for (const std::int64_t id : ids) {
        EXPECT_THAT(both, testing::HasSubstr("lost " + std::to_string(counts_of(trace, id).dropped)));
    }
}

/// Checks that each range of that thread lies within the one around it: smaller depth, and at least as long. The names
/// of the ranges are their depths.
void expect_valid_nesting(const RecordedTrace& trace, std::int64_t thread) {
    struct Range {
        std::int64_t depth = 0;
        std::int64_t end = 0;
    };
    SQLite::Database db(trace.path());
    SQLite::Statement query(db,
                            "SELECT CAST(text AS INTEGER), start, coalesce(end, 9223372036854775807) FROM NVTX_EVENTS "
                            "WHERE eventType = 59 AND globalTid = ? ORDER BY start, CAST(text AS INTEGER)");
    query.bind(1, thread);
    std::vector<Range> around;
    std::int64_t wrong = 0;
    while (query.executeStep()) {
        const Range range{query.getColumn(0).getInt64(), query.getColumn(2).getInt64()};
        const std::int64_t start = query.getColumn(1).getInt64();
        while (!around.empty() && (around.back().end <= start || around.back().depth >= range.depth)) {
            wrong += around.back().end > start ? 1 : 0;
            around.pop_back();
        }
        wrong += range.end < start || (!around.empty() && range.end > around.back().end) ? 1 : 0;
        around.push_back(range);
    }
    EXPECT_EQ(wrong, 0) << "of thread " << thread;
}

TEST(RecorderThreads, KeepNestingValidAndTheSumExactWhereARingIsFull) {
    constexpr int kRounds = 20'000;
    constexpr int kDepth = 3;
    RecorderOptions options;
    options.ring_entries = 64;
    options.drain_period = std::chrono::milliseconds{1};
    std::vector<std::int64_t> ids;
    const RecordedTrace trace(
        [&](Recorder&) {
            ids = run_threads(2, [](int) {
                nvtxRangePushA("0");  // stays open
                for (int k = 0; k < kRounds; ++k) {
                    nvtxRangePushA("1");
                    nvtxRangePushA("2");
                    nvtxRangePop();
                    nvtxRangePushA("3");  // beside it
                    nvtxRangePop();
                    nvtxRangePop();
                }
            });
        },
        options);
    const auto rows = rows_per_thread(trace);
    for (const std::int64_t id : ids) {
        const DropRecord counts = counts_of(trace, id);
        EXPECT_GT(counts.dropped, 0);
        EXPECT_GT(counts.recorded, 0);
        EXPECT_EQ(counts.open_at_exit, 1);
        EXPECT_EQ(rows.at(id), counts.recorded + counts.open_at_exit);
        EXPECT_EQ(rows.at(id) + counts.dropped, kRounds * kDepth + 1) << "rows, dropped and open are what was emitted";
        expect_valid_nesting(trace, id);
    }
}

TEST(RecorderThreads, CountWhatTheyNestTooDeeply) {
    constexpr int kDepth = 300;
    const RecordedTrace trace([](Recorder&) {
        for (int k = 0; k < kDepth; ++k) {
            EXPECT_GE(nvtxRangePushA("deep"), 0);
        }
        for (int k = 0; k < kDepth; ++k) {
            EXPECT_GE(nvtxRangePop(), 0);
        }
        EXPECT_LT(nvtxRangePop(), 0);
    });
    const DropRecord counts = counts_of(trace, own_global_tid());
    EXPECT_GT(counts.dropped, 0);
    EXPECT_EQ(counts.recorded + counts.dropped, kDepth);
    EXPECT_EQ(rows_per_thread(trace).at(own_global_tid()), counts.recorded);
}

TEST(RecorderThreads, MayEndARangeThatAnotherStarted) {
    std::int64_t starter = 0;
    std::int64_t ender = 0;
    const RecordedTrace trace([&](Recorder&) {
        nvtxRangeId_t range = 0;
        std::thread([&] {
            starter = own_global_tid();
            range = nvtxRangeStartA("travels");
        }).join();
        std::thread([&] {
            ender = own_global_tid();
            nvtxRangeEnd(range);
            nvtxRangeEnd(range);       // a second time: nothing to end
            nvtxRangeEnd(range + 77);  // never started
        }).join();
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 60"), 1);
    EXPECT_EQ(trace.number("SELECT globalTid FROM NVTX_EVENTS WHERE eventType = 60"), starter);
    EXPECT_EQ(trace.number("SELECT endGlobalTid FROM NVTX_EVENTS WHERE eventType = 60"), ender);
    EXPECT_GT(trace.number("SELECT rangeId FROM NVTX_EVENTS WHERE eventType = 60"), 0);
    EXPECT_EQ(counts_of(trace, ender).recorded, 1);
}

TEST(RecorderThreads, LeaveOpenRangesInTheTraceWithoutAnEnd) {
    std::int64_t gone = 0;
    std::int64_t alive = 0;
    std::barrier pushed(2);
    std::barrier stopped(2);
    std::thread living;
    {
        const RecordedTrace trace([&](Recorder& recorder) {
            std::thread([&] {
                gone = own_global_tid();
                nvtxRangePushA("left by a thread that ended");
            }).join();
            recorder.flush();
            living = std::thread([&] {
                alive = own_global_tid();
                nvtxRangePushA("outer, still open");
                nvtxRangePushA("inner, still open");
                nvtxRangeStartA("started, still open");
                pushed.arrive_and_wait();
                stopped.arrive_and_wait();
                nvtxRangePop();
                nvtxRangePop();
            });
            pushed.arrive_and_wait();
        });
        EXPECT_EQ(
            trace.text("SELECT group_concat(text, '; ') FROM (SELECT text FROM NVTX_EVENTS WHERE eventType IN (59, 60) "
                       "AND end IS NULL ORDER BY start)"),
            "left by a thread that ended; outer, still open; inner, still open; started, still open");
        EXPECT_EQ(counts_of(trace, gone).open_at_exit, 1);
        EXPECT_EQ(counts_of(trace, alive).open_at_exit, 3);
        EXPECT_EQ(counts_of(trace, alive).recorded, 0);
    }
    stopped.arrive_and_wait();
    living.join();
}

TEST(RecorderThreads, MayComeAndGoAllTheTime) {
    constexpr int kRounds = 200;
    const RecordedTrace trace([](Recorder&) {
        for (int round = 0; round < kRounds; ++round) {
            run_threads(2, [](int) {
                nvtxRangePushA("short");
                nvtxRangePop();
            });
        }
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'short'"), 2 * kRounds);
    std::int64_t recorded = 0;
    for (const DropRecord& drop : trace.reader().drops()) {
        recorded += drop.recorded;
    }
    EXPECT_EQ(recorded, 2 * kRounds);
}

TEST(RecorderThreads, MayEmitWhileRecordersStartAndStop) {
    std::atomic<bool> done{false};
    std::vector<std::thread> threads;
    threads.reserve(3);
    for (int k = 0; k < 3; ++k) {
        threads.emplace_back([&] {
            while (!done.load()) {
                nvtxRangePushA("outer");
                const nvtxRangeId_t id = nvtxRangeStartA("between");
                nvtxMarkA("mark");
                nvtxRangeEnd(id);
                nvtxRangePop();
            }
        });
    }
    RecorderOptions options;
    options.ring_entries = 256;  // few rows: it is the beginnings and the ends that matter here
    for (int round = 0; round < 10; ++round) {
        const RecordedTrace trace([](Recorder& recorder) { recorder.flush(); }, options);
        const auto rows = rows_per_thread(trace);
        for (const DropRecord& drop : trace.reader().drops()) {
            const std::int64_t found = rows.contains(drop.thread) ? rows.at(drop.thread) : 0;
            EXPECT_EQ(drop.recorded + drop.open_at_exit, found);
            EXPECT_LE(drop.open_at_exit, 2);
        }
    }
    done = true;
    for (std::thread& thread : threads) {
        thread.join();
    }
}

TEST(RecorderThreads, MayEmitFromTheDestructorsOfTheirLocals) {
    struct EmitsLate {
        ~EmitsLate() {
            nvtxRangePushA("late");
            nvtxRangePop();
        }
    };
    const RecordedTrace trace([](Recorder&) {
        std::thread([] {
            thread_local EmitsLate late;  // constructed before the thread's log, so destroyed after it
            static_cast<void>(&late);
            nvtxMarkA("on time");
        }).join();
    });
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'on time'"), 1);
}
// No system has enough memory for such a ring.
TEST(RecorderThreads, TakeASmallerRingWhereTheMemoryHasNoRoom) {
    RecorderOptions options;
    options.ring_entries = std::size_t{1} << 50;
    const RecordedTrace trace([](Recorder&) { nvtxMarkA("kept"); }, options);
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'kept'"), 1);
}

}  // namespace
}  // namespace pipescope
