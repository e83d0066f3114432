#include "balance/profile_file.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"
#include "trace/trace_writer.h"

#include <gtest/gtest.h>

#include <QAbstractButton>
#include <QSignalSpy>
#include <QTest>

#include <optional>

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
}  // namespace
}  // namespace pipescope
