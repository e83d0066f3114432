#include "gui/console/sql_console.h"
#include "gui/style/message_bar.h"
#include "gui/style/number_format.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/selection_panel.h"
#include "gui/timeline/track_view.h"
#include "gui/window/search_bar.h"
#include "gui/window/step_strip.h"
#include "tests/gui/window/main_window_fixture.h"
#include "tests/trace/rank_files.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_writer.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <QDropEvent>
#include <QLineEdit>
#include <QMimeData>
#include <QSettings>
#include <QUrl>

#include <fstream>
#include <map>
#include <memory>
#include <set>

namespace pipescope {
namespace {
/// Threads, a stream and counters of a program without a pipeline, in the form of PyTorch's profiler.
constexpr const char* kForeign = R"json({"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H200"}],
"traceEvents": [
{"ph": "M", "name": "process_labels", "pid": 0, "args": {"labels": "GPU 0"}},
{"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#4", "pid": 17, "tid": 18, "ts": 100, "dur": 400},
{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#5", "pid": 17, "tid": 18, "ts": 500, "dur": 600},
{"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#5", "pid": 0, "tid": 7, "ts": 700, "dur": 300},
{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "pid": 17, "tid": 18, "ts": 120, "dur": 100,
 "args": {"External id": 3, "Input Dims": [[8, 512], [512, 512]]}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 17, "tid": 18, "ts": 150, "dur": 10,
 "args": {"correlation": 9}},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 300, "dur": 50, "args": {"correlation": 9}},
{"ph": "s", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 17, "tid": 18, "ts": 121},
{"ph": "X", "cat": "cpu_op", "name": "AddmmBackward0", "pid": 17, "tid": 19, "ts": 600, "dur": 100},
{"ph": "f", "bp": "e", "cat": "fwdbwd", "name": "fwdbwd", "id": 1, "pid": 17, "tid": 19, "ts": 600},
{"ph": "C", "name": "utilisation", "pid": 0, "ts": 100, "args": {"value": 20}},
{"ph": "C", "name": "utilisation", "pid": 0, "ts": 900, "args": {"value": 80}}]})json";

class ForeignTrace : public MainWindowTest {
protected:
    void openForeign(const std::string& name) {
        path_ = temporaryPath(name);
        std::ofstream(path_) << kForeign;
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path_.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        settle();
    }
    TrackView& tracks() { return window_.page()->views().tracks(); }
    const TrackStore& store() { return *window_.page()->document()->tracks; }
    SliceRef find(const std::string& text) {
        for (std::uint32_t row = 0; row < store().rows.size(); ++row) {
            for (std::uint32_t i = 0; i < store().rows[row].text.size(); ++i) {
                if (store().textOf({row, i}) == text) {
                    return {row, i};
                }
            }
        }
        ADD_FAILURE() << "no range " << text;
        return {};
    }
    QString fact(const QString& name) {
        for (const FactSection& section : window_.tables().selection().facts().sections) {
            for (const FactRow& row : section.rows) {
                if (row.name == name) {
                    return row.measured;
                }
            }
        }
        return {};
    }
    std::int64_t number(const QString& sql) {
        SqlConsole& console = window_.tables().console();
        console.setSql(sql);
        QSignalSpy finished(&console, &SqlConsole::finished);
        console.run();
        EXPECT_TRUE(finished.wait(kPatience));
        EXPECT_EQ(console.error(), QString());
        return console.results().rowCount() > 0 ? console.results().index(0, 0).data().toLongLong() : -1;
    }

    std::filesystem::path path_;
};

TEST_F(ForeignTrace, HasARulerAndNoControlsForTasks) {
    openForeign("ruler.json");
    EXPECT_FALSE(tracks().rulerLabels().empty());
    EXPECT_TRUE(tracks().rulerLabels().front().text.startsWith(QLatin1Char('0')));
    EXPECT_EQ(store().counters.size(), 1U);
    EXPECT_EQ(store().counters[0].group(), "GPU 0 (NVIDIA H200)");
    EXPECT_TRUE(tracks().hasFocus() || !window_.isActiveWindow());
    // The first view is the whole file, and steps lead into it.
    EXPECT_LE(window_.page()->axis().window().start, 0);
    ASSERT_EQ(window_.page()->stepStrip().history().steps.size(), 2U);
    EXPECT_EQ(window_.page()->stepStrip().history().steps[1].time, Nanoseconds{600'000});  // the host's, not the GPU's
    window_.page()->model().selectStep(5);
    EXPECT_NEAR(window_.page()->axis().window().length, 600'000 * 1.04, 60'000);
    EXPECT_NEAR(static_cast<double>(window_.page()->axis().window().start), 400'000, 40'000);
}

TEST_F(ForeignTrace, WritesNamesInOneLineFromLeftToRight) {
    std::ofstream(path_ = temporaryPath("names.json"))
        << R"([{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"a\u202eb"}},)"
        << R"({"ph":"X","pid":1,"tid":2,"ts":0,"dur":90,"name":"ProfilerStep#3"},)"
        << R"({"ph":"X","pid":1,"tid":2,"ts":11,"dur":5,"name":" \n"},)"
        << R"({"ph":"X","pid":1,"tid":2,"ts":1,"dur":9,"name":"two\nlines"}])";
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path_.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    window_.finishWork();
    EXPECT_EQ(store().rows[0].name, "thread 2 (ab)");
    EXPECT_EQ(store().textOf(find("two lines")), "two lines");
    EXPECT_EQ(fact(QStringLiteral("(no name)")), QStringLiteral("1 · %1").arg(formatDuration(5'000)));
    EXPECT_EQ(fact(QStringLiteral("two lines")), QStringLiteral("1 · %1").arg(formatDuration(9'000)));
    EXPECT_TRUE(fact(QStringLiteral("ProfilerStep#3")).isEmpty()) << "a step contains the other ranges";
}

TEST_F(ForeignTrace, SumsNamesOfTheHostAndOfTheDeviceApart) {
    std::ofstream(path_ = temporaryPath("both_sides.json"))
        << R"([{"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "args": {"name": "stream 7"}},)"
        << R"({"ph": "X", "cat": "user_annotation", "name": "block", "pid": 1, "tid": 2, "ts": 0, "dur": 10},)"
        << R"({"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 1},)"
        << R"({"ph": "X", "cat": "gpu_user_annotation", "name": "block", "pid": 0, "tid": 7, "ts": 20, "dur": 60}])";
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path_.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    window_.finishWork();
    EXPECT_EQ(fact(QStringLiteral("block")), QStringLiteral("1 · %1").arg(formatDuration(10'000)));
    EXPECT_EQ(fact(QStringLiteral("block, on the device")), QStringLiteral("1 · %1").arg(formatDuration(60'000)));
    EXPECT_EQ(fact(QStringLiteral("gemm")), QStringLiteral("1 · %1").arg(formatDuration(1'000)));
}

TEST_F(ForeignTrace, SumsTheCallsOfAnOperator) {
    std::ofstream(path_ = temporaryPath("calls.json"))
        << R"([{"ph": "X", "name": "aten::mm, op_id = 3", "pid": 1, "tid": 2, "ts": 0, "dur": 10},)"
        << R"({"ph": "X", "name": "aten::mm, seq = 2, op_id = 4", "pid": 1, "tid": 2, "ts": 10, "dur": 5}])";
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path_.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    window_.finishWork();
    EXPECT_EQ(fact(QStringLiteral("aten::mm")), QStringLiteral("2 · %1").arg(formatDuration(15'000)));
}

TEST_F(ForeignTrace, LeavesLanesInSightAboveManyThreads) {
    SampleRun run;
    run.partitions = 4;
    const auto path = temporaryPath("lanes_and_threads.sqlite");
    writeSampleTrace(path, run);
    {
        SQLite::Database db(path.string(), SQLite::OPEN_READWRITE);
        for (int thread = 1; thread < 40; ++thread) {
            db.exec(
                "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid) VALUES (0, 1000000, 59, 'work', " +
                std::to_string((17 << 24) + thread) + ")");
        }
    }
    window_.resize(1600, 900);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    window_.finishWork();
    EXPECT_TRUE(tracks().isVisible());
    EXPECT_FALSE(measured().overflows()) << "threads scroll, lanes do not";
    EXPECT_FALSE(simulated().overflows());
}

TEST_F(ForeignTrace, SelectsARangeWithItsArgumentsAndArrows) {
    openForeign("select.json");
    const SliceRef linear = find("aten::linear");
    const QRect row = tracks().rowRect(linear.row);
    QSignalSpy changed(&window_.page()->axis(), &TimeAxisModel::selectionChanged);
    QTest::mouseClick(
        tracks().viewport(), Qt::LeftButton, {},
        {static_cast<int>(tracks().pixelAtTime(store().rangeOf(linear).start + 5'000)), row.center().y()});
    ASSERT_EQ(changed.size(), 1);
    EXPECT_EQ(window_.tables().selection().facts().title, QStringLiteral("aten::linear"));
    EXPECT_EQ(fact(QStringLiteral("Length")), formatDuration(100'000));
    EXPECT_TRUE(fact(QStringLiteral("To")).contains(QStringLiteral("AddmmBackward0")));
    ASSERT_TRUE(QTest::qWaitFor([&] { return !fact(QStringLiteral("Input Dims")).isEmpty(); }, kPatience));
    EXPECT_EQ(fact(QStringLiteral("Input Dims")), QStringLiteral("[[8,512],[512,512]]"));
    EXPECT_EQ(fact(QStringLiteral("category")), QStringLiteral("cpu_op"));
    EXPECT_TRUE(window_.tables().selection().facts().plainText().contains(QStringLiteral("External id\t3\n")));

    window_.page()->navigation().moveSelection(1);
    EXPECT_EQ(window_.page()->axis().part()->range, linear);  // the last one of its row
    window_.page()->navigation().show(find("cudaLaunchKernel"));
    EXPECT_EQ(fact(QStringLiteral("To")), QStringLiteral("gemm, stream 7 · ") + formatDuration(150'000));
    window_.page()->navigation().fitSelection();
    EXPECT_NEAR(window_.page()->axis().window().length, 30'000, 1);
    QTest::keyClick(&tracks(), Qt::Key_R);
    window_.page()->axis().select(std::nullopt);
    EXPECT_TRUE(window_.tables().selection().facts().isEmpty());
}

TEST_F(ForeignTrace, IsSearchedByNamesOfRangesAndCounters) {
    openForeign("search.json");
    const auto find = [&](const char* text) {
        QSignalSpy searched(&window_.search(), &SearchBar::searched);
        window_.search().start();
        window_.search().field().setText(QString::fromUtf8(text));
        EXPECT_TRUE(searched.wait(kPatience));
        return window_.search().status();
    };
    EXPECT_EQ(find("GEMM"), QStringLiteral("1 of 1 · gemm"));
    ASSERT_TRUE(window_.page()->axis().part());
    EXPECT_EQ(store().textOf(window_.page()->axis().part()->range), "gemm");
    EXPECT_EQ(find("utilis"), QStringLiteral("1 of 1 · utilisation"));
    EXPECT_EQ(find("backward"), QStringLiteral("1 of 1 · AddmmBackward0")) << "a kind of task, but there are none";
    EXPECT_EQ(find("nothing like this"), QStringLiteral("Nothing found"));
}

TEST_F(ForeignTrace, AnswersSqlFromADatabaseThatIsMadeForIt) {
    openForeign("query.json");
    EXPECT_EQ(number(QStringLiteral("SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL")), 1);
    EXPECT_EQ(number(QStringLiteral("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL")), 200'000);  // as in the view
    EXPECT_FALSE(std::filesystem::exists(path_.string() + ".sqlite"));
    // Read again after a change, it is imported again.
    std::string text = kForeign;
    text.replace(text.find("\"ts\": 300"), 9, "\"ts\": 310");
    std::ofstream(path_) << text;
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().reload();
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_EQ(number(QStringLiteral("SELECT start FROM CUPTI_ACTIVITY_KIND_KERNEL")), 210'000);
}

/// Files of two ranks of torch.distributed.pipelining.
std::filesystem::path writeRanks(const std::string& name) {
    const std::filesystem::path folder = temporaryPath(name);
    std::filesystem::create_directories(folder);
    for (int rank = 0; rank < 2; ++rank) {
        RankFile(rank, 2)
            .range("ProfilerStep#0", 0, 1000)
            .range(rank == 0 ? "PP:0F0" : "PP:1F0", 100.0 + 200 * rank, 200.0 + 200 * rank)
            .range(rank == 0 ? "PP:0B0" : "PP:1B0", 700.0 - 200 * rank, 800.0 - 200 * rank)
            .write(folder / ("rank" + std::to_string(rank) + ".json"));
    }
    return folder;
}

TEST_F(ForeignTrace, OpensADroppedFolderOfRanksAsOneTimelineThatTheSessionRemembers) {
    const std::filesystem::path folder = writeRanks("ranks");
    std::ofstream(folder / "rank0.json.notes.json") << "{}";  // not a trace
    QSettings settings(QString::fromStdString(temporaryPath("ranks.ini").string()), QSettings::IniFormat);
    {
        MainWindow window(&settings);
        window.show();
        QMimeData mime;
        mime.setUrls({QUrl::fromLocalFile(QString::fromStdString(folder.string()))});
        QSignalSpy loaded(&window.files(), &FileTabs::loaded);
        QDragEnterEvent enter({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window, &enter);
        QDropEvent drop({50, 50}, Qt::CopyAction, &mime, Qt::LeftButton, Qt::NoModifier);
        QApplication::sendEvent(&window, &drop);
        ASSERT_TRUE(loaded.wait(kPatience));
        ASSERT_EQ(window.files().pages().size(), 1);
        ASSERT_TRUE(window.page()->document()->measured);
        EXPECT_EQ(window.page()->document()->measured->lanes().size(), 2U);
        EXPECT_EQ(window.page()->document()->measured->numSlices(), 4U);
        EXPECT_TRUE(window.windowTitle().contains(QStringLiteral("rank0 + rank1.json")));
        EXPECT_EQ(QFileInfo(window.page()->path()).absolutePath(), QString::fromStdString(folder.string()));
        window.files().open(QStringList{QString::fromStdString((folder / "rank0.json").string()),
                                        QString::fromStdString((folder / "rank1.json").string())});
        ASSERT_TRUE(loaded.wait(kPatience));
        EXPECT_EQ(window.files().pages().size(), 1);  // the same page, read again
        window.close();
    }
    const SessionState session(&settings);
    ASSERT_EQ(session.recentFiles().size(), 1);
    EXPECT_EQ(session.recentFiles()[0].path.count(QLatin1Char('\n')), 1);
    MainWindow again(&settings);
    again.show();
    QSignalSpy loaded(&again.files(), &FileTabs::loaded);
    again.files().restoreSession();
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_EQ(again.page()->document()->measured->lanes().size(), 2U);
}

TEST_F(ForeignTrace, ListsAFolderOfManyFilesThatAreNotOfOneRun) {
    const std::filesystem::path folder = temporaryPath("many");
    std::filesystem::create_directories(folder);
    for (int k = 0; k < 9; ++k) {
        std::ofstream(folder / ("file" + std::to_string(k) + ".json")) << kForeign;
    }
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    QSignalSpy found(&window_.files(), &FileTabs::runsFound);
    window_.files().open(QString::fromStdString(folder.string()));
    ASSERT_TRUE(found.wait(kPatience));
    EXPECT_EQ(found[0][0].toString().toStdString(), folder.string());
    EXPECT_EQ(window_.page(), nullptr);
    std::filesystem::create_directories(folder / "empty");
    window_.files().open(QString::fromStdString((folder / "empty").string()));
    ASSERT_TRUE(failed.wait(kPatience));
    ASSERT_EQ(failed.size(), 1);
    EXPECT_TRUE(failed[0][0].toString().contains(QStringLiteral("folder without a trace")));
}

TEST_F(ForeignTrace, FollowsTheGrowingTracesOfAllProcessesOfARun) {
    const SampleRun run{.steps = 3};
    const Timeline timeline = sampleTimeline(run);
    std::vector<std::unique_ptr<TraceWriter>> writers;
    QStringList files;
    for (int rank = 0; rank < 2; ++rank) {
        const auto path = temporaryPath("live.rank" + std::to_string(rank) + ".sqlite");
        files << QString::fromStdString(path.string());
        auto& writer = writers.emplace_back(std::make_unique<TraceWriter>(path, IfExists::replace));
        ProcessFacts process;
        process.rank = rank;
        process.size = 2;
        process.host = "host";
        process.run = "run-7";
        process.boot_id = "boot";
        process.time_namespace = "time";
        process.lanes = {LaneId{rank}};
        process.clock = {{Nanoseconds{1}, Nanoseconds{0}, Nanoseconds{0}}};
        writer->set_run("process", to_json(process));
        writer->set_start(1'700'000'000'000'000'000);
        writer->set_lanes(timeline.lanes);
        writer->commit();
    }
    const auto record = [&](int rank, std::int32_t step) {
        for (const Slice& slice : timeline.slices) {
            if (slice.key.step == step && slice.lane.value() == rank && !is_copy(slice.key.kind)) {
                writers[static_cast<std::size_t>(rank)]->add_task(slice, Source::measured);
            }
        }
        writers[static_cast<std::size_t>(rank)]->commit();
    };
    const auto steps = [&] {
        const bool shown =
            window_.page() != nullptr && window_.page()->document() && window_.page()->document()->measured;
        std::map<LaneId, std::set<std::int32_t>> of;
        for (const StoredRow& row : shown ? window_.page()->document()->measured->rows() : std::vector<StoredRow>()) {
            for (const std::uint64_t key : row.key) {
                of[row.lane].insert(unpack(key)->step);
            }
        }
        return std::pair(of[LaneId{0}].size(), of[LaneId{1}].size());
    };
    record(0, 0);
    record(1, 0);
    window_.files().open(files);
    ASSERT_TRUE(QTest::qWaitFor([&] { return steps() == std::pair<std::size_t, std::size_t>(1, 1); }, kPatience));
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::following; }, kPatience));
    record(1, 1);  // only the second one grows
    ASSERT_TRUE(QTest::qWaitFor([&] { return steps() == std::pair<std::size_t, std::size_t>(1, 2); }, kPatience));
    record(0, 1);
    writers[0]->close();
    ASSERT_TRUE(QTest::qWaitFor([&] { return steps() == std::pair<std::size_t, std::size_t>(2, 2); }, kPatience));
    EXPECT_EQ(window_.page()->live().state(), LiveBadge::State::following);  // the other one is still written
    writers[1]->close();
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::ended; }, kPatience));
    EXPECT_EQ(window_.files().pages().size(), 1);
}
}  // namespace
}  // namespace pipescope
