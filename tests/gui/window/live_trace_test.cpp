#include "gui/style/message_bar.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_writer.h"

#include <gtest/gtest.h>

#include <QAbstractButton>
#include <QSignalSpy>
#include <QTest>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
/// Writes a sample run step by step, like a recorder, while the window shows it.
class LiveTrace : public testing::Test {
protected:
    void SetUp() override {
        path_ = temporaryPath("live.sqlite");
        std::filesystem::remove(path_);
        timeline_ = sampleTimeline(run_);
        writer_.emplace(path_, IfExists::replace);
        writer_->set_lanes(timeline_.lanes);
        writer_->commit();
        window_.resize(1300, 800);
        window_.show();
    }

    void configure() {
        writer_->set_run("configuration", to_json(sampleOptions(run_)));
        writer_->set_profile(to_json(sampleProfile(run_)));
        writer_->commit();
    }

    void record(std::int32_t step) {
        for (const Slice& slice : timeline_.slices) {
            if (slice.key.step == step) {
                writer_->add_task(slice, Source::measured);
            }
        }
        writer_->commit();
    }

    void open() { window_.files().open(QString::fromStdString(path_.string())); }
    std::size_t shown() const {
        return window_.files().document() != nullptr && window_.files().document()->measured
                   ? window_.files().document()->measured->numSlices()
                   : 0;
    }
    std::size_t tasksOf(std::int32_t steps) const {
        return timeline_.slices.size() / static_cast<std::size_t>(run_.steps) * static_cast<std::size_t>(steps);
    }

    SampleRun run_{.steps = 4};
    std::filesystem::path path_;
    Timeline timeline_;
    std::optional<TraceWriter> writer_;
    MainWindow window_{nullptr};
};

TEST_F(LiveTrace, GrowsInTheWindowUntilItIsClosed) {
    configure();
    record(0);
    open();
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::following; }, kPatience));
    EXPECT_TRUE(window_.page()->live().isVisible());
    record(1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(2); }, kPatience));
    record(2);
    writer_->close();
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::ended; }, kPatience));
    EXPECT_EQ(shown(), tasksOf(3));
    EXPECT_FALSE(window_.page()->live().isEnabled());
}

TEST_F(LiveTrace, MovesAlongWhenItsRightEndIsInView) {
    configure();
    record(0);
    open();
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::following; }, kPatience));
    window_.page()->axis().zoom(1, 0.3);  // the last third
    const double length = window_.page()->axis().window().length;
    record(1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(2); }, kPatience));
    const auto end = [&] {
        return static_cast<double>(window_.page()->axis().window().start) + window_.page()->axis().window().length;
    };
    EXPECT_NEAR(end(), static_cast<double>(window_.page()->axis().total().end), length / 50);
    EXPECT_NEAR(window_.page()->axis().window().length, length, 2);
    // A view of an earlier part stays there.
    window_.page()->axis().pan(-2);
    const TimeWindow earlier = window_.page()->axis().window();
    record(2);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(3); }, kPatience));
    EXPECT_EQ(window_.page()->axis().window(), earlier);
    // A view of the end stays there too, once the badge is released.
    window_.page()->axis().pan(100);
    window_.page()->live().setChecked(false);
    const TimeWindow last = window_.page()->axis().window();
    record(3);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(4); }, kPatience));
    EXPECT_EQ(window_.page()->axis().window(), last);
}

TEST_F(LiveTrace, KeepsAnErrorOfAnotherTabWhileItGrows) {
    configure();
    record(0);
    const auto other = temporaryPath("beside_live.sqlite");
    writeSampleTrace(other);
    window_.files().open(QString::fromStdString(other.string()));
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(3); }, kPatience));
    open();
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::following; }, kPatience));
    const DocumentPage& live = *window_.page();
    std::filesystem::remove(other);
    window_.files().setCurrentIndex(0);
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    window_.files().reload();
    ASSERT_TRUE(!failed.isEmpty() || failed.wait(kPatience));
    record(1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return live.document()->measured->numSlices() == tasksOf(2); }, kPatience));
    EXPECT_TRUE(window_.messages().isVisible());
    EXPECT_TRUE(window_.messages().text().contains(QStringLiteral("beside_live.sqlite")));
}

TEST_F(LiveTrace, IsFollowedInTheFileThatTookItsPlaceOnceItIsReadAgain) {
    configure();
    record(0);
    open();
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    record(1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(2); }, kPatience))
        << "the follower has opened the file";
    for (const char* suffix : {"", "-wal", "-shm"}) {
        std::filesystem::remove(path_.string() + suffix);
    }
    writer_.emplace(path_, IfExists::replace);
    writer_->set_lanes(timeline_.lanes);
    configure();
    record(3);
    window_.files().reload();
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    record(1);
    record(2);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(3); }, kPatience));
    EXPECT_EQ(window_.files().document()->measured->step(0), nullptr) << "of the file before";
    EXPECT_EQ(window_.page()->live().state(), LiveBadge::State::following);
    writer_->close();
    window_.files().reload();
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::ended; }, kPatience));
    EXPECT_EQ(shown(), tasksOf(3));
}

TEST_F(LiveTrace, WaitsForTheFirstTask) {
    QSignalSpy failed(&window_.files(), &FileTabs::failed);
    open();
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return window_.page() != nullptr && window_.page()->live().state() == LiveBadge::State::following; },
        kPatience));
    EXPECT_EQ(window_.files().document(), nullptr);
    record(0);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    EXPECT_EQ(failed.count(), 0);
}

/// The ranks of one run, each with half of the lanes.
class LiveRanks : public LiveTrace {
protected:
    void SetUp() override {
        LiveTrace::SetUp();
        for (int rank = 0; rank < 2; ++rank) {
            files_ << QString::fromStdString(temporaryPath("live.rank" + std::to_string(rank) + ".sqlite").string());
            std::filesystem::remove(files_.back().toStdString());
            TraceWriter& writer = writers_.emplace_back(files_.back().toStdString(), IfExists::replace);
            ProcessFacts process;
            process.rank = rank;
            process.size = 2;
            process.host = rank == 0 ? "a" : "b";
            process.run = "run-1";
            for (std::size_t lane = 0; lane < timeline_.lanes.size(); ++lane) {
                if (rankOf(LaneId{lane}) == rank) {
                    process.lanes.emplace_back(static_cast<std::int32_t>(lane));
                }
            }
            process.clock = {{Nanoseconds{0}, Nanoseconds{0}, Nanoseconds{1000}}};
            writer.set_run("process", to_json(process));
            writer.set_lanes(timeline_.lanes);
            writer.commit();
        }
    }

    int rankOf(LaneId lane) const { return 2 * lane.index() < timeline_.lanes.size() ? 0 : 1; }

    void recordOn(int rank, std::int32_t step) {
        for (const Slice& slice : timeline_.slices) {
            if (slice.key.step == step && !is_copy(slice.key.kind) && rankOf(slice.lane) == rank) {
                writers_[static_cast<std::size_t>(rank)].add_task(slice, Source::measured);
            }
        }
        writers_[static_cast<std::size_t>(rank)].commit();
    }
    std::size_t tasksOn(int rank, std::int32_t steps) const {
        return static_cast<std::size_t>(
            std::count_if(timeline_.slices.begin(), timeline_.slices.end(), [&](const Slice& slice) {
                return slice.key.step < steps && !is_copy(slice.key.kind) && rankOf(slice.lane) == rank;
            }));
    }

    QStringList files_;
    std::vector<TraceWriter> writers_;
};

TEST_F(LiveRanks, GrowTogether) {
    recordOn(0, 0);
    recordOn(1, 0);
    window_.files().open(files_);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOn(0, 1) + tasksOn(1, 1); }, kPatience));
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::following; }, kPatience));
    EXPECT_EQ(window_.files().count(), 1);
    EXPECT_FALSE(window_.page()->messages().text().contains(QStringLiteral("cut off before it was closed")))
        << window_.page()->messages().text().toStdString();
    recordOn(1, 1);  // one rank is ahead
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOn(0, 1) + tasksOn(1, 2); }, kPatience));
    writers_[1].close();
    recordOn(0, 1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOn(0, 2) + tasksOn(1, 2); }, kPatience));
    EXPECT_EQ(window_.page()->live().state(), LiveBadge::State::following) << "rank 0 still writes";
    writers_[0].close();
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live().state() == LiveBadge::State::ended; }, kPatience));
}

TEST_F(LiveRanks, ShareATabBesideAnotherRun) {
    recordOn(0, 0);
    recordOn(1, 0);
    const auto other = temporaryPath("another_run.sqlite");
    writeSampleTrace(other);
    window_.files().open(QStringList{files_[0], QString::fromStdString(other.string()), files_[1]});
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.files().count() == 2; }, kPatience));
    EXPECT_EQ(window_.files().pages().front()->files()->files(), files_);
    EXPECT_EQ(window_.page()->path().toStdString(), other.string());
}
}  // namespace
}  // namespace pipescope
