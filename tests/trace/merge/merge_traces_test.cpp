#include "trace/merge/merge_traces.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "tests/trace/device_sample.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <functional>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
namespace fs = std::filesystem;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::int64_t kSecond = 1'000'000'000;

/// The clock of rank 1: rank 0's time is own * (1 + drift) + offset.
struct OtherClock {
    std::int64_t offset = 0;
    double drift = 0;

    std::int64_t own(std::int64_t rank_0) const {
        return std::llround(static_cast<double>(rank_0 - offset) / (1 + drift));
    }
};

struct CopyTimes {
    std::int64_t sent = 0;  ///< rank 0's time
    std::int64_t posted = 0;
    std::int64_t came = 0;
    std::int64_t arrived = 0;
};

/// A run of two lanes in two processes, one second after the other's start: in each step one forward on each lane, a
/// copy forward, one backward on each lane, a copy back.
class MergeTraces : public testing::Test {
protected:
    static constexpr int kSteps = 3;

    ProcessFacts facts(int rank) const {
        ProcessFacts process{
            2 * replica + rank, 2 * replicas, rank == 0 ? "a" : "b", 40, "run-7", {}, {}, {LaneId{rank}}, {}};
        if (process.rank > 0) {
            for (const std::int64_t at : {0 * kSecond, 100 * kSecond}) {
                process.clock.push_back(
                    {own(rank, at), Nanoseconds{at} - own(rank, at) + Nanoseconds{clock_error}, Nanoseconds{30'000}});
            }
        } else {
            process.clock = {{Nanoseconds{1}, Nanoseconds{0}, Nanoseconds{0}}};
        }
        return process;
    }

    /// The process's own time at this time of rank 0.
    Nanoseconds own(int rank, std::int64_t rank_0) const {
        return Nanoseconds{rank == 0 ? first_clock.own(rank_0) : clock.own(rank_0)};
    }

    CopyTimes copy(int step, TaskKind kind) const {
        const std::int64_t start = (10 + step) * kSecond + (kind == TaskKind::copy_forward ? 100'000 : 500'000);
        return {start, start + 4'000, start + travel, start + travel + 9'000};
    }

    void write(
        int rank, const std::function<void(TraceWriter&)>& more = [](TraceWriter&) {}) const {
        TraceWriter writer(path(rank), IfExists::refuse);
        fill(rank, writer);
        more(writer);
        writer.close();
    }

    void fill(int rank, TraceWriter& writer) const {
        const auto own = [&](std::int64_t time) { return this->own(rank, time); };
        writer.set_run("process", to_json(facts(rank)));
        writer.set_run("model", R"("mlp")");
        const std::string shared = replicas == 1 ? "" : R"("replicas":)" + std::to_string(replicas) + ",";
        writer.set_run("configuration",
                       R"({"balance":[1,1],)" + shared + (rank == 0 ? R"("host_cores":2})" : R"("host_cores":64})"));
        writer.set_start(1'700'000'000'000'000'000 + rank * kSecond);
        writer.set_lanes({{"lane 0", "cpu"}, {"lane 1", "cpu"}});
        if (rank == 0) {
            writer.set_profile(R"({"model": "mlp"})");
        }
        const std::int64_t thread = std::int64_t{40} << 24 | (50 + rank);  // the same process id on both hosts
        writer.add_process(std::int64_t{40} << 24, 40, "pipescope-torch");
        writer.add_thread_name(thread, "lane");
        NvtxRecord domain;
        domain.event_type = 75;
        domain.domain_id = 1;
        domain.text = rank == 0 ? "first" : "second";
        writer.add_range(domain);
        const auto task = [&](const TaskKey& key, std::int64_t start, std::int64_t end, int lane, Bytes bytes = 0) {
            NvtxRecord range;
            range.start = own(start).count();
            range.end = own(end).count();
            range.text = to_string(key);
            range.global_tid = thread;
            range.domain_id = 1;
            const std::int64_t row = writer.add_range(range);
            writer.add_task({key, LaneId{lane}, own(start), own(end), bytes}, Source::measured, row);
        };
        for (int step = 0; step < kSteps; ++step) {
            const std::int64_t base = (10 + step) * kSecond;
            task({step, TaskKind::forward, rank, 0, -1}, base + 200'000 * rank, base + 200'000 * rank + 90'000, rank);
            task({step, TaskKind::backward, rank, 0, -1}, base + 400'000 + 200'000 * (1 - rank),
                 base + 490'000 + 200'000 * (1 - rank), rank);
            for (const TaskKind kind : {TaskKind::copy_forward, TaskKind::copy_backward}) {
                const int sender = kind == TaskKind::copy_forward ? 0 : 1;
                const CopyTimes times = copy(step, kind);
                task({step, kind, 0, 0, -1}, rank == sender ? times.sent : times.came,
                     rank == sender ? times.posted : times.arrived, sender, rank == sender ? 64 : 0);
            }
            writer.add_step({step, own(base + 200'000 * rank), own(base + 690'000 - 200'000 * rank), own(base - 1000),
                             own(base + 900'000), 0.5, step == 0});
            writer.add_memory({LaneId{rank}, own(base), 10, 20, 0, -1});
        }
        writer.add_drop({"nvtx", thread, 15, 0, 0, 0});
        writer.add_drop({"trace", 0, 0, rank, 0, 0});
        writer.add_clock({1, 2, 3, 4});
        writer.add_overhead({"drain thread", "rows", 5});
        writer.add_diagnostic({"info", "cupti", "off"});
        if (rank == 1) {
            writer.add_diagnostic({"warning", "nvtx", "only here"});
        }
    }

    fs::path path(int rank) const { return folder / ("out.rank" + std::to_string(2 * replica + rank) + ".sqlite"); }
    MergedTrace merge() const { return merge_traces({path(1), path(0)}, output, IfExists::refuse); }
    std::vector<std::string> query(const std::string& sql) const {
        SQLite::Database db(output);
        SQLite::Statement statement(db, sql);
        std::vector<std::string> rows;
        while (statement.executeStep()) {
            std::string row;
            for (int k = 0; k < statement.getColumnCount(); ++k) {
                row += (k == 0 ? "" : "|") + statement.getColumn(k).getString();
            }
            rows.push_back(row);
        }
        return rows;
    }

    TemporaryFolder folder;
    fs::path output = folder / "out.sqlite";
    OtherClock first_clock;  ///< of the process with lane 0, which is rank 0 of the run in replica 0
    OtherClock clock{-1000 * kSecond, 50e-6};
    int replicas = 1;
    int replica = 0;
    std::int64_t clock_error = 0;
    std::int64_t travel = 20'000;
};

TEST_F(MergeTraces, PutsAllTasksOnTheTimelineOfRank0) {
    write(0);
    write(1);
    const MergedTrace merged = merge();
    EXPECT_EQ(merged.tasks, 6 * kSteps);
    EXPECT_EQ(merged.copies, 2U * kSteps);
    EXPECT_THAT(merged.warnings, ElementsAre());
    const OpenedTrace trace = open_trace(output);
    EXPECT_THAT(trace.measured.lanes,
                ElementsAre(LaneInfo{"lane 0 (rank 0, host a)", "cpu"}, LaneInfo{"lane 1 (rank 1, host b)", "cpu"}));
    for (const Slice& slice : trace.measured.slices) {
        const std::int64_t base = (10 + slice.key.step) * kSecond;
        const int rank = slice.lane.value();
        std::int64_t start = base + 200'000 * rank;
        std::int64_t end = start + 90'000;
        if (slice.key.kind == TaskKind::backward) {
            start = base + 400'000 + 200'000 * (1 - rank);
            end = start + 90'000;
        } else if (is_copy(slice.key.kind)) {
            start = copy(slice.key.step, slice.key.kind).sent;
            end = copy(slice.key.step, slice.key.kind).arrived;
            EXPECT_EQ(slice.bytes, 64);
        }
        EXPECT_NEAR(static_cast<double>(slice.start.count() - start), 0, 2) << to_string(slice.key);
        EXPECT_NEAR(static_cast<double>(slice.end.count() - end), 0, 2) << to_string(slice.key);
    }
    // From the first forward on rank 0 to the last backward on rank 0; the wall times are those of rank 0.
    ASSERT_EQ(trace.steps.size(), 3U);
    EXPECT_EQ(trace.steps[1],
              (StepRecord{1, Nanoseconds{11 * kSecond}, Nanoseconds{11 * kSecond + 690'000},
                          Nanoseconds{11 * kSecond - 1000}, Nanoseconds{11 * kSecond + 900'000}, 0.5, false}));
    EXPECT_EQ(trace.memory.size(), 2U * kSteps);
    EXPECT_EQ(trace.profile_json, R"({"model": "mlp"})");
    EXPECT_EQ(trace.run.at("configuration"), R"({"balance":[1,1],"host_cores":2})");
    EXPECT_FALSE(trace.run.contains("process"));
    EXPECT_EQ(trace.utc_epoch_ns, 1'700'000'000'000'000'000);
    EXPECT_FALSE(trace.cut_off());
}

TEST_F(MergeTraces, ShowsOneReplica) {
    replicas = 2;
    std::vector<fs::path> all;
    for (replica = 0; replica < 2; ++replica) {
        first_clock = replica == 0 ? OtherClock() : OtherClock{7 * kSecond, 0};
        for (const int rank : {0, 1}) {
            write(rank);
            all.push_back(path(rank));
        }
    }
    const MergedTrace first = merge_traces(all, folder / "first.sqlite", IfExists::refuse);
    EXPECT_THAT(first.warnings, ElementsAre("only replica 0 of 2 is shown, of ranks 0 to 1; give only the traces of "
                                            "another one to see that"));
    ASSERT_EQ(first.processes.size(), 2U);
    EXPECT_EQ(first.tasks, 6 * kSteps);

    const MergedTrace second = merge_traces({all[3], all[2]}, output, IfExists::refuse);
    EXPECT_THAT(second.warnings, ElementsAre());
    ASSERT_EQ(second.processes.size(), 2U);
    EXPECT_EQ(second.processes[0].rank, 2);
    EXPECT_EQ(second.processes[0].clock.size(), 2U);
    EXPECT_EQ(second.copies, 2U * kSteps);
    EXPECT_EQ(query("SELECT DISTINCT sender, receiver FROM PIPESCOPE_COPY ORDER BY sender"),
              (std::vector<std::string>{"2|3", "3|2"}));
    // Both are in the time of rank 0 of the run, although that is in the first replica only.
    const Timeline a = open_trace(folder / "first.sqlite").measured;
    const OpenedTrace b = open_trace(output);
    ASSERT_EQ(a.slices.size(), b.measured.slices.size());
    for (std::size_t k = 0; k < a.slices.size(); ++k) {
        EXPECT_EQ(a.slices[k].key, b.measured.slices[k].key);
        EXPECT_NEAR(static_cast<double>((a.slices[k].start - b.measured.slices[k].start).count()), 0, 2);
    }
    EXPECT_EQ(b.utc_epoch_ns, 1'700'000'000'000'000'000 - 7 * kSecond);

    EXPECT_THAT(thrown<TraceFormatError>([&] { merge_traces({all[3]}, folder / "x.sqlite", IfExists::refuse); }),
                HasSubstr("rank 2"));
    EXPECT_THAT(thrown<TraceFormatError>([&] {
                    merge_traces({all[0], all[2], all[3]}, folder / "x.sqlite", IfExists::refuse);
                }),
                HasSubstr("rank 1"));
}

TEST_F(MergeTraces, KeepsTheStagesOfCopiesBetweenProcesses) {
    write(0);
    write(1);
    merge();
    const CopyTimes first = copy(0, TaskKind::copy_forward);
    const std::string found = query("SELECT sender || ' ' || receiver, abs(c.posted - " + std::to_string(first.posted) +
                                    ") < 3, abs(c.received - " + std::to_string(first.came) +
                                    ") < 3 FROM PIPESCOPE_COPY AS c JOIN PIPESCOPE_TASK AS t ON t.id = c.taskId "
                                    "WHERE t.step = 0 AND t.kind = 'copy_forward'")
                                  .at(0);
    EXPECT_EQ(found, "0 1|1|1");
    EXPECT_THAT(query("SELECT count(*) FROM PIPESCOPE_COPY WHERE sender = 1"), ElementsAre("3"));
}

TEST_F(MergeTraces, SaysHowFarTimesOfDifferentProcessesCanBeOff) {
    write(0);
    write(1);
    const MergedTrace merged = merge();
    EXPECT_EQ(clock_bound(merged.processes), Nanoseconds{30'000});
    const std::vector<MergedProcess> stored = merged_processes(open_trace(output).run);
    ASSERT_EQ(stored.size(), 2U);
    EXPECT_EQ(stored, merged.processes);
    EXPECT_EQ(stored[1].name(), "rank 1, host b");
    EXPECT_EQ(stored[1].bound, Nanoseconds{30'000});
    EXPECT_EQ(stored[1].lanes, (std::vector{LaneId{1}}));
    EXPECT_EQ(clock_bound({}), std::nullopt);
}

TEST_F(MergeTraces, ShiftsClocksWithinTheirBoundsSoThatNoCopyArrivesBeforeItWasSent) {
    travel = 5'000;
    for (const std::int64_t error : {-25'000, 25'000}) {
        clock_error = error;
        for (const int rank : {0, 1}) {
            fs::remove(path(rank));
            write(rank);
        }
        fs::remove(output);
        const MergedTrace merged = merge();
        EXPECT_THAT(merged.warnings, ElementsAre());
        EXPECT_GT(merged.largest_shift, Nanoseconds{19'000});
        EXPECT_THAT(query("SELECT count(*) FROM PIPESCOPE_COPY AS c JOIN PIPESCOPE_TASK AS t ON t.id = c.taskId "
                          "WHERE c.received < t.start OR t.end < c.received"),
                    ElementsAre("0"));
    }
}

TEST_F(MergeTraces, WarnsWhereTheClocksCannotBeRight) {
    clock_error = 80'000;
    write(0);
    write(1);
    const MergedTrace merged = merge();
    ASSERT_EQ(merged.warnings.size(), 1U);
    EXPECT_THAT(merged.warnings[0], AllOf(HasSubstr("3 copies between processes arrive before they were sent"),
                                          HasSubstr("30.0 us"), HasSubstr("do not trust times across processes")));
    EXPECT_THAT(query("SELECT text FROM PIPESCOPE_DIAGNOSTIC WHERE source = 'merge'"), ElementsAre(merged.warnings[0]));
    EXPECT_EQ(clock_bound(merged.processes), std::nullopt);
    EXPECT_EQ(clock_bound(merged_processes(open_trace(output).run)), std::nullopt);
}

TEST_F(MergeTraces, TellsThreadsDomainsAndProcessesOfTheRanksApart) {
    write(0);
    write(1);
    merge();
    const OpenedTrace trace = open_trace(output);
    ASSERT_EQ(trace.tracks.size(), 2U);
    EXPECT_EQ(trace.tracks[0].group, "process 40 (pipescope-torch, rank 0, host a)");
    EXPECT_THAT(trace.tracks[1].group, HasSubstr("(pipescope-torch, rank 1, host b)"));
    EXPECT_THAT(trace.tracks[1].name, HasSubstr("thread 51"));
    EXPECT_EQ(trace.names[trace.tracks[0].ranges[0].category], "first");
    EXPECT_EQ(trace.names[trace.tracks[1].ranges[0].category], "second");
    EXPECT_EQ(trace.tracks[1].ranges.size(), 4U * kSteps);
    EXPECT_THAT(query("SELECT count(*) FROM PIPESCOPE_TASK AS t JOIN NVTX_EVENTS AS r ON r.rowid = t.nvtxId WHERE "
                      "r.text LIKE '%' || t.kind || '%' AND r.start = t.start"),
                ElementsAre("18"));
    EXPECT_THAT(query("SELECT DISTINCT r.text = s.value FROM NVTX_EVENTS AS r JOIN StringIds AS s ON s.id = r.textId"),
                ElementsAre("1"));
}

TEST_F(MergeTraces, AddsUpWhatWasLostAndNamesTheRankOfADiagnostic) {
    write(0);
    write(1);
    merge();
    EXPECT_THAT(query("SELECT source, recorded, dropped FROM PIPESCOPE_DROPS ORDER BY source, thread"),
                ElementsAre("nvtx|15|0", "nvtx|15|0", "trace|0|1"));
    EXPECT_THAT(query("SELECT source, text FROM PIPESCOPE_DIAGNOSTIC"),
                ElementsAre("cupti|off", "nvtx|only here (rank 1, host b)"));
    EXPECT_THAT(query("SELECT source FROM PIPESCOPE_OVERHEAD"),
                ElementsAre("drain thread", "drain thread, rank 1, host b"));
    EXPECT_THAT(query("SELECT count(*) FROM PIPESCOPE_CLOCK"), ElementsAre("1"));
}

TEST_F(MergeTraces, GivesDevicesAndTheirWorkNumbersOfTheirOwn) {
    for (const int rank : {0, 1}) {
        write(rank, [&](TraceWriter& writer) {
            const std::int64_t thread = std::int64_t{40} << 24 | (50 + rank);
            add_measured_task(writer, {9, TaskKind::forward, rank, 0, -1}, rank, thread, 100, 200);
            CuptiRows rows(writer, 40);
            rows.add(DeviceRecord{.device = 0, .name = "GPU", .uuid = "GPU-1", .total_memory = 1 << 30});
            rows.add(MemcpyRecord{.span = {100, 120, 0, 1, 13, 5, 0}, .bytes = 8, .copy_kind = 1});
            add_launched_kernel(rows, 1, static_cast<std::uint32_t>(50 + rank), 110, 13, 150, 250);
            rows.finish();
            writer.change([](SQLite::Database& db) { attribute_device_work(db); });
        });
    }
    merge();
    EXPECT_THAT(query("SELECT t.partition, k.deviceId, g.name, s.value FROM PIPESCOPE_DEVICE_WORK AS w "
                      "JOIN PIPESCOPE_TASK AS t ON t.id = w.taskId JOIN CUPTI_ACTIVITY_KIND_KERNEL AS k "
                      "ON k.rowid = w.activityId AND w.activity = 'kernel' JOIN StringIds AS s ON s.id = k.shortName "
                      "JOIN TARGET_INFO_GPU AS g ON g.id = k.deviceId ORDER BY 1"),
                ElementsAre("0|0|GPU, rank 0, host a|add", "1|1|GPU, rank 1, host b|add"));
    // Each kernel has one launch, although both processes count theirs from 1.
    EXPECT_THAT(query("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS c "
                      "USING (correlationId)"),
                ElementsAre("2"));
    EXPECT_THAT(query("SELECT kernels FROM PIPESCOPE_TASK_DEVICE"), ElementsAre("1", "1"));
}

// Each rank recorded its end of the message; the second one knows paced times of the first step only.
TEST_F(MergeTraces, JoinsTheDeviceWorkOfBothEndsOfACopy) {
    const auto write_with_work = [&](int rank, const std::string& values) {
        write(rank, [&](TraceWriter& writer) {
            writer.change([&](SQLite::Database& db) {
                db.exec("INSERT INTO PIPESCOPE_TASK_DEVICE SELECT id, 1, 0, start, end, 1, end - start - 1, " + values +
                        " FROM PIPESCOPE_TASK WHERE kind = 'copy_forward' AND source = 'measured'");
            });
        });
    };
    write_with_work(0, "3, 2, 20");
    write_with_work(1, "5, 7, CASE WHEN step = 0 THEN 30 END");
    merge();
    EXPECT_THAT(query("SELECT DISTINCT d.kernels, d.launchGap, d.paced FROM PIPESCOPE_TASK_DEVICE AS d "
                      "JOIN PIPESCOPE_TASK AS t ON t.id = d.taskId ORDER BY t.step"),
                ElementsAre("2|7|30", "2|7|"));
}

TEST_F(MergeTraces, TakesWhatAKilledRankLeft) {
    write(0);
    const pid_t child = fork();
    if (child == 0) {
        TraceWriter writer(path(1), IfExists::refuse);
        fill(1, writer);
        writer.change([](SQLite::Database& db) {
            db.exec("DELETE FROM PIPESCOPE_STEP WHERE step = 2");
            db.exec("DELETE FROM PIPESCOPE_TASK WHERE step = 2 AND kind LIKE '%backward'");
        });
        writer.commit();
        kill(getpid(), SIGKILL);
    }
    waitpid(child, nullptr, 0);
    const MergedTrace merged = merge();
    EXPECT_TRUE(merged.processes[1].cut_off);
    EXPECT_FALSE(merged.processes[0].cut_off);
    EXPECT_TRUE(fs::exists(path(1).string() + "-wal")) << "the input was changed";
    const OpenedTrace trace = open_trace(output);
    EXPECT_TRUE(trace.cut_off());
    EXPECT_EQ(trace.steps.size(), 2U);  // the third one did not end everywhere
    // What rank 0 received of the third step has no sender, and is on the sending lane all the same.
    EXPECT_EQ(std::ranges::count_if(trace.measured.slices,
                                    [](const Slice& slice) { return slice.key.kind == TaskKind::copy_backward; }),
              3);
    EXPECT_EQ(merged.copies, 5U);
}

TEST_F(MergeTraces, TakesGrowingTracesAsTheyWereAtOneMoment) {
    const auto begin = [&](int rank) {
        auto writer = std::make_unique<TraceWriter>(path(rank), IfExists::refuse);
        writer->set_run("process", to_json(facts(rank)));
        writer->set_lanes({{"lane 0", "cpu"}, {"lane 1", "cpu"}});
        writer->commit();
        return writer;
    };
    const auto first = begin(0);
    const auto second = begin(1);
    // Both ranks finish steps while their files are merged.
    std::jthread training([&](const std::stop_token& stop) {
        for (int step = 0; !stop.stop_requested(); ++step) {
            for (int rank = 0; rank < 2; ++rank) {
                TraceWriter& writer = rank == 0 ? *first : *second;
                const Nanoseconds start = own(rank, kSecond + step * 1000);
                const Nanoseconds end = own(rank, kSecond + step * 1000 + 500);
                writer.add_task({{step, TaskKind::forward, rank, 0, -1}, LaneId{rank}, start, end, 0},
                                Source::measured);
                writer.add_step({step, start, end, start, end, 0.5, false});
                writer.commit();
            }
            std::this_thread::sleep_for(std::chrono::microseconds{500});
        }
    });
    for (int each = 0; each < 5; ++each) {
        const fs::path joined = folder / ("joined" + std::to_string(each) + ".sqlite");
        ASSERT_NO_THROW(merge_traces({path(0), path(1)}, joined, IfExists::refuse));
        const OpenedTrace trace = open_trace(joined);
        std::set<std::pair<int, int>> tasks;
        for (const Slice& slice : trace.measured.slices) {
            tasks.emplace(slice.key.step, slice.lane.value());
        }
        for (const StepRecord& step : trace.steps) {
            EXPECT_TRUE(tasks.contains({step.step, 0}) && tasks.contains({step.step, 1})) << step.step;
        }
    }
}

TEST_F(MergeTraces, RefusesTracesThatAreNotTheRanksOfOneRun) {
    write(0);
    write(1);
    const auto merging = [&](const std::vector<fs::path>& inputs) {
        return thrown<TraceError>([&] { merge_traces(inputs, output, IfExists::refuse); });
    };
    EXPECT_THAT(merging({path(1)}), HasSubstr("rank 0"));
    EXPECT_THAT(merging({path(0), path(1), path(1)}), HasSubstr("rank 1"));
    EXPECT_THAT(merging({}), HasSubstr("no trace was given"));
    EXPECT_THAT(merging({path(0), folder / "missing.sqlite"}), HasSubstr("does not exist"));
    write_text(folder / "text.sqlite", "hello");
    EXPECT_THAT(merging({path(0), folder / "text.sqlite"}), HasSubstr("is not a PipeScope trace"));
    write_text(folder / "chrome.json", "[]");
    EXPECT_THAT(merging({path(0), folder / "chrome.json"}), HasSubstr("is no trace of PipeScope"));
    TraceWriter(folder / "alone.sqlite", IfExists::refuse).close();
    EXPECT_THAT(merging({path(0), folder / "alone.sqlite"}), HasSubstr("does not say which process recorded it"));
    const auto other = [&](const std::string& name, const std::string& key, const std::string& value) {
        write(1, [&](TraceWriter& writer) { writer.set_run(key, value); });
        fs::rename(path(1), folder / name);
        return folder / name;
    };
    fs::rename(path(1), folder / "kept.sqlite");
    EXPECT_THAT(merging({path(0), other("m.sqlite", "model", R"("unet")")}),
                HasSubstr(R"(are not of one run: the model of the first is "mlp", and of the other "unet")"));
    ProcessFacts later = facts(1);
    later.run = "run-8";
    EXPECT_THAT(merging({path(0), other("r.sqlite", "process", to_json(later))}), HasSubstr("the run of the first is"));
    later = facts(1);
    later.size = 3;
    EXPECT_THAT(merging({path(0), other("s.sqlite", "process", to_json(later))}), HasSubstr("number of processes"));
    EXPECT_THAT(merging({path(0), other("c.sqlite", "configuration", R"({"replicas": 3})")}), HasSubstr("3 replicas"));
    EXPECT_FALSE(fs::exists(output));
    EXPECT_THAT(thrown<TraceError>([&] {
                    merge_traces({path(0), folder / "kept.sqlite"}, path(0), IfExists::replace);
                }),
                HasSubstr("one of the traces"));
    merge_traces({path(0), folder / "kept.sqlite"}, output, IfExists::refuse);
    EXPECT_THAT(merging({path(0), output}), HasSubstr("merged already"));
}

TEST_F(MergeTraces, BecomesAChromeFileWithAProcessForEachRank) {
    write(0);
    write(1);
    merge();
    const OpenedTrace trace = open_trace(output);
    std::ostringstream exported;
    export_chrome(trace, exported);
    EXPECT_THAT(exported.str(), AllOf(HasSubstr(R"("name":"rank 0, host a")"), HasSubstr(R"("name":"rank 1, host b")"),
                                      HasSubstr(R"("clock_bound_ns":30000)")));
    write_text(folder / "out.json", exported.str());
    const OpenedTrace back = open_trace(folder / "out.json");
    EXPECT_EQ(back.measured, trace.measured);
    EXPECT_EQ(back.memory, trace.memory);
    EXPECT_EQ(back.steps, trace.steps);
    EXPECT_EQ(merged_processes(back.run), merged_processes(trace.run));
}
}  // namespace
}  // namespace pipescope
