#include "trace/store/trace_writer.h"

#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <limits>
#include <stop_token>
#include <thread>

namespace pipescope {
namespace {
using std::chrono::nanoseconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

/// A small valid trace, identified by its run value "model".
void write_trace(const std::filesystem::path& path, const std::string& model) {
    TraceWriter writer(path, IfExists::refuse);
    writer.set_run("model", nlohmann::json(model).dump());
    writer.close();
}

TEST(TraceWriter, GivesBackEveryRecordItWasGiven) {
    const TemporaryFolder folder;
    const auto path = folder / "t.sqlite";
    StepRecord step{3, nanoseconds{10}, nanoseconds{90}, nanoseconds{5}, nanoseconds{120}, 0.25, true};
    step.load = StepLoad{{0.25, 0.5, std::nullopt}, nanoseconds{115}};
    MemorySample with_task{LaneId{1}, nanoseconds{50},
                           1000,      2000,
                           4096,      static_cast<std::int64_t>(pack({kMostSteps - 1, TaskKind::backward, 1, 2, -1}))};
    with_task.composition[MemoryCategory::parameters] = 600;
    with_task.composition[MemoryCategory::output] = 0;  // known to hold nothing, unlike the rest
    const MemorySample without_task{LaneId{0}, nanoseconds{60}, 10, 20, 0, -1};
    const DropRecord drop{"nvtx", 77, 5, 2, 1, 3};
    const ClockRecord clock{1'700'000'000'000'000'000, 2, 3, 4};
    const DiagnosticRecord diagnostic{"warning", "cupti", "off: no driver"};
    const OverheadRecord overhead{"drain thread", "cpu_ns", 42};
    {
        TraceWriter writer(path, IfExists::refuse);
        writer.set_lanes({{"lane 0", "cpu"}, {"lane 1", "cuda:0"}});
        writer.set_run("model", R"("unet")");
        writer.set_profile(R"({"format": "pipescope.profile"})");
        writer.set_start(1'700'000'000'123'456'789);
        writer.add_step(step);
        writer.add_memory(with_task);
        writer.add_memory(without_task);
        writer.add_drop(drop);
        writer.add_clock(clock);
        writer.add_diagnostic(diagnostic);
        writer.add_overhead(overhead);
        writer.close();
    }
    const TraceReader reader(path);
    EXPECT_THAT(reader.lanes(), ElementsAre(LaneInfo{"lane 0", "cpu"}, LaneInfo{"lane 1", "cuda:0"}));
    EXPECT_EQ(reader.run().at("model"), R"("unet")");
    EXPECT_EQ(reader.run().at("recording_start"), R"("2023-11-14T22:13:20.123456789Z")");
    EXPECT_EQ(nlohmann::json::parse(reader.run().at("format")),
              nlohmann::json::parse(R"({"name": "pipescope.trace", "version": 2})"));
    EXPECT_EQ(reader.profile_json(), R"({"format": "pipescope.profile"})");
    EXPECT_EQ(reader.utc_epoch_ns(), 1'700'000'000'123'456'789);
    EXPECT_THAT(reader.steps(), ElementsAre(step));
    EXPECT_THAT(reader.memory(), ElementsAre(without_task, with_task));  // by lane, then time
    EXPECT_THAT(reader.drops(), ElementsAre(drop));
    EXPECT_THAT(reader.clocks(), ElementsAre(clock));
    EXPECT_THAT(reader.diagnostics(), ElementsAre(diagnostic));
    EXPECT_THAT(reader.overheads(), ElementsAre(overhead));
}

TEST(TraceWriter, GivesBackATimelineSliceForSlice) {
    const TemporaryFolder folder;
    const auto path = folder / "t.sqlite";
    Timeline timeline{Source::simulated, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
    for (int k = 0; k < kNumTaskKinds; ++k) {
        const auto kind = static_cast<TaskKind>(k);
        timeline.slices.push_back({{2, kind, k % 2, k, is_copy(kind) ? 1 : -1},
                                   LaneId{k % 2},
                                   nanoseconds{k * 100},
                                   nanoseconds{k * 100 + 70},
                                   is_copy(kind) ? 4096 : 0});
    }
    timeline.slices.push_back({{-1, TaskKind::loss, -1, -1, -1}, LaneId{1}, nanoseconds{5000}, nanoseconds{5000}, 0});
    sort_slices(timeline);
    {
        TraceWriter writer(path, IfExists::refuse);
        writer.add_timeline(timeline);
        writer.close();
    }
    const TraceReader reader(path);
    EXPECT_EQ(reader.timeline(Source::simulated), timeline);
    EXPECT_TRUE(reader.timeline(Source::measured).slices.empty());
}

TEST(TraceWriter, KeepsTheLanesOfEarlierTasksIfAnotherPipelineHasFewer) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.set_lanes({{"a", "cpu"}, {"b", "cpu"}, {"c", "cpu"}});
    writer.add_task({{0, TaskKind::forward, 1, 0, -1}, LaneId{1}, Nanoseconds{0}, Nanoseconds{1}, 0}, Source::measured);
    writer.set_lanes({{"one", "cpu"}});
    writer.close();
    const TraceReader reader(folder / "t.sqlite");
    EXPECT_EQ(reader.lanes(), (std::vector<LaneInfo>{{"one", "cpu"}, {"b", "cpu"}}));
    EXPECT_EQ(reader.timeline(Source::measured).slices.size(), 1U);
}

TEST(TraceWriter, KeepsALossThatIsNotANumber) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        StepRecord step;
        step.training_loss = std::numeric_limits<double>::quiet_NaN();
        writer.add_step(step);
        writer.close();
    }
    EXPECT_TRUE(std::isnan(TraceReader(folder / "t.sqlite").steps().at(0).training_loss));
}

TEST(TraceWriter, ReplacesTheCountsAndTheNameOfAThreadInsteadOfDoublingThem) {
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_drop({"nvtx", 1, 10, 0, 0, 0});
        writer.add_drop({"nvtx", 1, 20, 4, 0, 0});
        writer.add_thread_name(1, "python");
        writer.add_thread_name(1, "lane 0");
        writer.close();
    }
    EXPECT_THAT(TraceReader(folder / "t.sqlite").drops(), ElementsAre(DropRecord{"nvtx", 1, 20, 4, 0, 0}));
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(db.execAndGet("SELECT group_concat(value) FROM ThreadNames JOIN StringIds ON nameId = id").getString(),
              "lane 0");
}

TEST(TraceWriter, LeavesOnePlainFileWhenClosed) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", "a");
    const auto files = std::distance(std::filesystem::directory_iterator(folder.path()), {});
    EXPECT_EQ(files, 1);
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(db.execAndGet("PRAGMA journal_mode").getString(), "delete");
}

// Another process opens the file as soon as it exists, and reads its contents.
TEST(TraceWriter, IsMadeUnderTheEyesOfAnother) {
    const TemporaryFolder folder;
    for (int round = 0; round < 50; ++round) {
        const auto path = folder / ("trace" + std::to_string(round) + ".sqlite");
        const std::jthread onlooker([&](const std::stop_token& stop) {
            while (!stop.stop_requested()) {
                try {
                    SQLite::Database db(path, SQLite::OPEN_READWRITE);
                    db.exec("BEGIN");
                    db.execAndGet("SELECT count(*) FROM sqlite_master").getInt();
                    std::this_thread::sleep_for(std::chrono::milliseconds(1));
                } catch (const SQLite::Exception&) {
                    // not there yet, or locked
                }
            }
        });
        EXPECT_NO_THROW({
            TraceWriter writer(path, IfExists::refuse);
            writer.set_run("model", "\"m\"");
            writer.close();
        });
    }
}

TEST(TraceWriter, RefusesAnExistingFileAndLeavesItAsItWas) {
    const TemporaryFolder folder;
    write_text(folder / "t.sqlite", "precious");
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "t.sqlite", IfExists::refuse); }),
                AllOf(HasSubstr("t.sqlite"), HasSubstr("exists"), HasSubstr("--force")));
    EXPECT_EQ(read_text(folder / "t.sqlite"), "precious");
}

TEST(TraceWriter, ReplacesAnExistingTraceWhenAsked) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", "old");
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::replace);
        writer.set_run("model", R"("new")");
        writer.close();
    }
    EXPECT_EQ(TraceReader(folder / "t.sqlite").run().at("model"), R"("new")");
}

TEST(TraceWriter, ReplacesTheTraceOfAKilledRunWithItsLog) {
    const TemporaryFolder folder;
    {  // a copy of the files of an open trace is what a killed run leaves
        TraceWriter open(folder / "live.sqlite", IfExists::refuse);
        open.set_run("model", R"("killed")");
        open.commit();
        for (const char* suffix : {"", "-wal", "-shm"}) {
            std::filesystem::copy_file(folder / ("live.sqlite" + std::string(suffix)),
                                       folder / ("t.sqlite" + std::string(suffix)));
        }
    }
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::replace);
        writer.close();
    }
    EXPECT_FALSE(TraceReader(folder / "t.sqlite").run().contains("model"));
}

TEST(TraceWriter, DoesNotReplaceATraceThatIsBeingWritten) {
    const TemporaryFolder folder;
    TraceWriter first(folder / "t.sqlite", IfExists::refuse);
    first.set_run("model", R"("first")");
    first.commit();
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "t.sqlite", IfExists::replace); }),
                AllOf(HasSubstr("another process"), HasSubstr("wait")));
    first.close();
    EXPECT_EQ(TraceReader(folder / "t.sqlite").run().at("model"), R"("first")");
}

TEST(TraceWriter, KeepsTheOldFileWhereTheNewOneCannotBeMade) {
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "t.sqlite");
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "t.sqlite", IfExists::replace); }),
                HasSubstr("not a regular file"));
    EXPECT_TRUE(std::filesystem::is_directory(folder / "t.sqlite"));
}

TEST(TraceWriter, KeepsTheOldTraceWhereTheDiskIsFull) {
    const TemporaryFolder folder;
    write_trace(folder / "t.sqlite", "old");
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{4096, 4096};  // no file may grow beyond: what a full disk looks like to SQLite
        setrlimit(RLIMIT_FSIZE, &limit);
        try {
            const TraceWriter writer(folder / "t.sqlite", IfExists::replace);
            _exit(1);
        } catch (const TraceError&) {
            _exit(0);
        }
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(TraceReader(folder / "t.sqlite").run().at("model"), R"("old")");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);  // nothing half made is left
}

TEST(TraceWriter, ReplacesALinkAndKeepsItsTarget) {
    const TemporaryFolder folder;
    write_trace(folder / "real.sqlite", "old");
    std::filesystem::create_symlink("real.sqlite", folder / "link.sqlite");
    std::filesystem::create_symlink("nowhere.sqlite", folder / "dangling.sqlite");
    for (const char* name : {"link.sqlite", "dangling.sqlite"}) {
        EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / name, IfExists::refuse); }), HasSubstr("exists"));
        EXPECT_TRUE(std::filesystem::is_symlink(folder / name));
        { TraceWriter(folder / name, IfExists::replace).close(); }
        EXPECT_FALSE(std::filesystem::is_symlink(folder / name));
        EXPECT_FALSE(TraceReader(folder / name).run().contains("model"));
    }
    EXPECT_EQ(TraceReader(folder / "real.sqlite").run().at("model"), R"("old")");
    EXPECT_FALSE(std::filesystem::exists(folder / "nowhere.sqlite"));
}

TEST(TraceWriter, NamesTheFolderThatDoesNotExist) {
    const TemporaryFolder folder;
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "nowhere/t.sqlite", IfExists::refuse); }),
                AllOf(HasSubstr("nowhere/t.sqlite"), HasSubstr("folder does not exist")));
    write_text(folder / "file", "");
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "file/t.sqlite", IfExists::refuse); }),
                HasSubstr("a file, not a folder"));
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter("", IfExists::refuse); }), HasSubstr("empty"));
}

TEST(TraceWriter, SaysThatItsFolderMayNotBeWritten) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root may write everywhere";
    }
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "locked");
    std::filesystem::permissions(folder / "locked",
                                 std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
    EXPECT_THAT(thrown<TraceError>([&] { TraceWriter(folder / "locked/t.sqlite", IfExists::refuse); }),
                HasSubstr("may not be written"));
}

TEST(TraceWriter, TakesNothingMoreOnceItIsClosed) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    writer.close();
    writer.close();
    EXPECT_THAT(thrown<TraceError>([&] { writer.add_step({}); }), HasSubstr("closed"));
}

TEST(TraceWriter, RefusesARunValueThatIsNotJson) {
    const TemporaryFolder folder;
    TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
    EXPECT_THAT(thrown<TraceError>([&] { writer.set_run("model", "unet"); }),
                AllOf(HasSubstr("'model'"), HasSubstr("unet"), HasSubstr("JSON")));
}
}  // namespace
}  // namespace pipescope
