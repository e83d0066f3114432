#include "balance/profile_file.h"
#include "gui/timeline/time_axis_model.h"
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

    void open() { window_.open(QString::fromStdString(path_.string())); }
    std::size_t shown() const {
        return window_.document() != nullptr && window_.document()->measured ? window_.document()->measured->numSlices()
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
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live() == DocumentPage::Live::following; }, kPatience));
    EXPECT_TRUE(window_.page()->followButton().isVisible());
    record(1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(2); }, kPatience));
    record(2);
    writer_->close();
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live() == DocumentPage::Live::ended; }, kPatience));
    EXPECT_EQ(shown(), tasksOf(3));
    EXPECT_FALSE(window_.page()->followButton().isEnabled());
}

TEST_F(LiveTrace, MovesAlongWhenItsRightEndIsInView) {
    configure();
    record(0);
    open();
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.page()->live() == DocumentPage::Live::following; }, kPatience));
    window_.axis().zoom(1, 0.3);  // the last third
    const double length = window_.axis().window().length;
    record(1);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(2); }, kPatience));
    const auto end = [&] {
        return static_cast<double>(window_.axis().window().start) + window_.axis().window().length;
    };
    EXPECT_NEAR(end(), static_cast<double>(window_.axis().total().end), length / 50);
    EXPECT_NEAR(window_.axis().window().length, length, 2);
    // A view of an earlier part stays there.
    window_.axis().pan(-2);
    const TimeWindow earlier = window_.axis().window();
    record(2);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(3); }, kPatience));
    EXPECT_EQ(window_.axis().window(), earlier);
    // A view of the end stays there too, once the badge is released.
    window_.axis().pan(100);
    window_.page()->followButton().setChecked(false);
    const TimeWindow last = window_.axis().window();
    record(3);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(4); }, kPatience));
    EXPECT_EQ(window_.axis().window(), last);
}

TEST_F(LiveTrace, WaitsForTheFirstTask) {
    QSignalSpy failed(&window_, &MainWindow::failed);
    open();
    ASSERT_TRUE(QTest::qWaitFor(
        [&] { return window_.page() != nullptr && window_.page()->live() == DocumentPage::Live::following; },
        kPatience));
    EXPECT_EQ(window_.document(), nullptr);
    record(0);
    ASSERT_TRUE(QTest::qWaitFor([&] { return shown() == tasksOf(1); }, kPatience));
    EXPECT_EQ(failed.count(), 0);
}
}  // namespace
}  // namespace pipescope
