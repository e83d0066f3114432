#include "gui/what_if/what_if_panel.h"

#include "gui/document/throughput.h"
#include "gui/style/number_format.h"
#include "gui/style/quantity_box.h"
#include "gui/style/task_style.h"
#include "gui/what_if/lane_speed_editor.h"
#include "gui/what_if/peak_bars.h"
#include "gui/what_if/placement_editor.h"
#include "gui/what_if/presets.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "simulator/memory/memory_fit.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"
#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QComboBox>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QMenu>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QTest>
#include <QToolButton>
#include <QUndoStack>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

class WhatIfPanelTest : public testing::Test {
protected:
    void SetUp() override {
        SampleRun run;
        run.partitions = 8;
        Scenario recorded{sampleOptions(run), {}};
        recorded.options.balance = Balance({2, 2, 2, 2});
        recorded.options.chunks = 8;
        recorded.options.batch = 32;
        model_.setPatience(1h);
        profile_ = sampleProfile(run);
        model_.setProfile(CheckedProfile(profile_), recorded);
        panel_.resize(360, 800);
        panel_.show();
        QApplication::processEvents();
    }

    const PipelineOptions& options() { return model_.scenario().options; }
    const Simulation& simulation() { return model_.result()->simulation; }

    /// Compares the panel's figures with those of a separate simulation.
    void expectFiguresOf(const Simulation& own) {
        Bytes peak = 0;
        for (const SimulatedLane& lane : own.lanes) {
            peak = std::max(peak, lane.peak_bytes);
        }
        const ScenarioFigures& shown = panel_.figures();
        EXPECT_EQ(shown.shownValue(0), formatDuration(own.step_time.count()));
        EXPECT_EQ(shown.shownValue(1), formatShare(own.bubble_fraction));
        EXPECT_EQ(shown.shownValue(2), formatShare(own.utilization));
        EXPECT_EQ(shown.shownValue(3), QLocale().toString(own.speedup, 'f', 2) + QStringLiteral("×"));
        EXPECT_EQ(shown.shownValue(4), formatPerSecond(own.samples_per_second));
        EXPECT_TRUE(shown.shownValue(5).startsWith(formatBytes(peak))) << shown.shownValue(5).toStdString();
        const SimulatedScenario& recorded = *model_.recordedResult();
        const double longer =
            static_cast<double>(own.step_time.count()) / static_cast<double>(recorded.simulation.step_time.count()) - 1;
        EXPECT_EQ(shown.shownChange(0), model_.isAsRecorded() ? QString() : formatShareChange(longer));
    }

    double widest(const PeakBars& peaks) {
        double right = 0;
        for (std::size_t lane = 0; lane < simulation().lanes.size(); ++lane) {
            right = std::max(right, peaks.barOf(lane).right());
        }
        return right;
    }

    Profile profile_;
    ScenarioModel model_;
    WhatIfPanel panel_{model_};
};

TEST_F(WhatIfPanelTest, ShowsWhatWasRecorded) {
    EXPECT_EQ(panel_.partitions().value(), 4);
    EXPECT_EQ(panel_.microBatches().value(), 8);
    EXPECT_EQ(panel_.batch().value(), 32);
    EXPECT_EQ(panel_.bandwidth().value(), 10);  // GB/s
    EXPECT_EQ(panel_.latency().value(), 50);    // µs
    EXPECT_EQ(panel_.memoryLimit().value(), 1);
    EXPECT_EQ(panel_.checkpoint().currentText(), QStringLiteral("except_last"));
    EXPECT_EQ(panel_.basis(), QStringLiteral("dtype float32"));
}

TEST_F(WhatIfPanelTest, ShowsTokensPerSecondOfALanguageModel) {
    constexpr std::size_t kTokens = 6;
    EXPECT_EQ(panel_.figures().shownValue(kTokens), unknownValue());
    profile_.tokens_per_sample = 1000;
    model_.setProfile(CheckedProfile(profile_), model_.recorded());
    EXPECT_EQ(panel_.figures().shownValue(kTokens), formatPerSecond(simulation().samples_per_second * 1000));
    constexpr std::size_t kSamples = 4;
    EXPECT_EQ(panel_.figures().shownName(kSamples), QStringLiteral("Samples/s"));
    panel_.figures().setBatchUnknown(true);
    model_.setProfile(CheckedProfile(profile_), model_.recorded());
    EXPECT_EQ(panel_.figures().shownName(kSamples), QStringLiteral("Micro-batches/s"));
}

TEST_F(WhatIfPanelTest, ShowsTheExpectedStepOnceItIsKnown) {
    for (LayerProfile& layer : profile_.layers) {
        layer.forward_cv = layer.backward_cv = 0.4;
    }
    model_.setProfile(CheckedProfile(profile_), model_.recorded());
    panel_.microBatches().setFocus();
    QTest::keyClick(&panel_.microBatches().slider(), Qt::Key_Right);
    const Simulation own = simulate(CheckedProfile(profile_), options());
    EXPECT_EQ(panel_.figures().shownValue(0), formatDuration(own.step_time.count()));
    ASSERT_TRUE(QTest::qWaitFor([&] { return model_.band().has_value(); }, kPatience));
    const StepFigures expected = expected_figures(own);
    EXPECT_EQ(panel_.figures().shownValue(0), formatDuration(own.noise->mean.count()));
    EXPECT_EQ(panel_.figures().shownValue(1), formatShare(own.noise->bubble));
    EXPECT_EQ(panel_.figures().shownValue(4), formatPerSecond(expected.samples_per_second));
    const auto before = simulate(CheckedProfile(profile_), model_.recorded().options).noise->mean;
    EXPECT_EQ(
        panel_.figures().shownChange(0),
        formatShareChange(static_cast<double>(own.noise->mean.count()) / static_cast<double>(before.count()) - 1));
}

// A layout of a measured profile has noise in its pipeline alone.
TEST_F(WhatIfPanelTest, RangeAndExpectedStepOfALayoutAreThoseOfWholeSteps) {
    for (LayerProfile& layer : profile_.layers) {
        layer.forward_cv = layer.backward_cv = 0.1;
    }
    const Simulation pipeline = simulate(CheckedProfile(profile_), options());
    const Nanoseconds rest{3'000'000};
    const StepOnCluster step{.layout = "p4 d1 t1 v1 b4",
                             .pipeline = pipeline.step_time,
                             .whole = pipeline.step_time + rest,
                             .batch = options().batch,
                             .checkpoint = to_string(options().checkpoint),
                             .optimizer = options().optimizer};
    model_.setProfile(CheckedProfile(profile_), model_.recorded(), true, pipeline.noise, false, step);
    EXPECT_EQ(panel_.figures().shownValue(0), formatDuration((pipeline.noise->mean + rest).count()));
    std::map<std::string, qlonglong> plain;
    const FigureTableModel& figures = panel_.figures().model();
    for (int row = 0; row < figures.rowCount(); ++row) {
        plain[figures.index(row, FigureTableModel::figure).data(kExportRole).toString().toStdString()] =
            figures.index(row, FigureTableModel::value).data(kExportRole).toLongLong();
    }
    EXPECT_EQ(plain["step_time_ns"], (pipeline.step_time + rest).count());
    EXPECT_EQ(plain["step_mean_ns"], (pipeline.noise->mean + rest).count());
    EXPECT_EQ(plain["step_p5_ns"], (pipeline.noise->low + rest).count());
    EXPECT_EQ(plain["step_p95_ns"], (pipeline.noise->high + rest).count());
}

TEST_F(WhatIfPanelTest, SimulatesAtEveryStepOfASlider) {
    QSlider& slider = panel_.microBatches().slider();
    slider.setFocus();
    QSignalSpy simulated(&model_, &ScenarioModel::simulated);
    const auto before = simulation().bubble_fraction;
    for (int i = 1; i <= 4; ++i) {
        QTest::keyClick(&slider, Qt::Key_Right);
        EXPECT_EQ(simulation().micro_batches, 8 + i);
    }
    EXPECT_EQ(simulated.count(), 4);
    EXPECT_LT(simulation().bubble_fraction, before);
    QTest::keyClick(&slider, Qt::Key_Left);
    EXPECT_EQ(options().chunks, 11);
    EXPECT_EQ(model_.undoStack().count(), 5);  // a key press each
    model_.undoStack().undo();
    EXPECT_EQ(panel_.microBatches().value(), 12);  // the slider follows
}

TEST_F(WhatIfPanelTest, ShowsTheFiguresOfEveryPlaceThatASliderPasses) {
    QSlider& slider = panel_.microBatches().slider();
    const QPoint from(slider.width() * slider.sliderPosition() / slider.maximum(), slider.height() / 2);
    QTest::mousePress(&slider, Qt::LeftButton, {}, from);
    ASSERT_TRUE(slider.isSliderDown());
    std::set<std::int64_t> passed;
    for (int x = from.x(); x < slider.width() - 10; x += 9) {
        QTest::mouseMove(&slider, {x, from.y()});
        passed.insert(options().chunks);
        expectFiguresOf(simulate(CheckedProfile(profile_), options()));
    }
    QTest::mouseRelease(&slider, Qt::LeftButton, {}, {slider.width() - 10, from.y()});
    EXPECT_GT(passed.size(), 5U);
    for (ValueSlider* each : {&panel_.partitions(), &panel_.batch(), &panel_.bandwidth(), &panel_.latency()}) {
        model_.backToRecorded();
        for (const Qt::Key key : {Qt::Key_Left, Qt::Key_Left, Qt::Key_Right, Qt::Key_PageUp}) {
            QTest::keyClick(&each->slider(), key);
            SCOPED_TRACE(each->slider().accessibleName().toStdString());
            expectFiguresOf(simulate(CheckedProfile(profile_), options()));
        }
    }
}

TEST_F(WhatIfPanelTest, MovesTheRedLimitWithItsSlider) {
    const PeakBars& peaks = panel_.peaks();
    QSlider& slider = panel_.memoryLimit().slider();
    std::optional<double> before;
    int shown = 0;
    int over = 0;
    while (slider.value() > 1) {  // 0: no limit
        QTest::keyClick(&slider, Qt::Key_Left);
        ASSERT_TRUE(options().hardware.memory_limit);
        const QString limit = formatBytes(*options().hardware.memory_limit);
        EXPECT_TRUE(panel_.figures().shownValue(5).endsWith(limit)) << panel_.figures().shownValue(5).toStdString();
        const bool fits = highest_peak(model_.result()->simulation) <= *options().hardware.memory_limit;
        EXPECT_EQ(panel_.messages().contains(QStringLiteral("Does not fit")), !fits);
        over += fits ? 0 : 1;
        if (!peaks.limitX()) {
            continue;  // far above the peaks
        }
        ++shown;
        EXPECT_TRUE(fits || *peaks.limitX() < widest(peaks));
        EXPECT_TRUE(!before || *peaks.limitX() < *before);
        before = peaks.limitX();
    }
    EXPECT_GT(shown, 3);
    EXPECT_GT(over, 2);
    QTest::keyClick(&slider, Qt::Key_Home);
    EXPECT_FALSE(options().hardware.memory_limit);
    EXPECT_FALSE(peaks.limitX());
}

TEST_F(WhatIfPanelTest, RecomputesAsTheCheckpointBoxSays) {
    QComboBox& box = panel_.checkpoint();
    ASSERT_EQ(box.count(), 3);
    std::map<Checkpoint, Simulation> simulated;
    for (const Qt::Key key : {Qt::Key_Home, Qt::Key_Down, Qt::Key_Down}) {
        box.setFocus();
        QTest::keyClick(&box, key);
        EXPECT_EQ(to_string(options().checkpoint), box.currentText().toStdString());
        simulated[options().checkpoint] = simulation();
        expectFiguresOf(simulate(CheckedProfile(profile_), options()));
    }
    ASSERT_EQ(simulated.size(), 3U);
    EXPECT_GT(simulated[Checkpoint::always].step_time, simulated[Checkpoint::never].step_time);
    EXPECT_LT(simulated[Checkpoint::always].lanes[0].peak_bytes, simulated[Checkpoint::never].lanes[0].peak_bytes);
    model_.undoStack().undo();
    EXPECT_EQ(to_string(options().checkpoint), box.currentText().toStdString());
}

TEST_F(WhatIfPanelTest, CutsAnewAtAPressOfEachBalanceButton) {
    Scenario uneven = model_.scenario();
    uneven.options.balance = Balance({5, 1, 1, 1});
    for (const char* text : {"&Optimal", "&Even", "B&lock"}) {
        model_.startGesture();
        model_.change(uneven, QStringLiteral("balance"));
        const int changes = model_.undoStack().count();
        QPushButton* button = nullptr;
        for (auto* each : panel_.findChildren<QPushButton*>()) {
            button = each->text() == QString::fromUtf8(text) ? each : button;
        }
        ASSERT_NE(button, nullptr) << text;
        QTest::mouseClick(button, Qt::LeftButton);
        ASSERT_TRUE(QTest::qWaitFor([&] { return options().balance != uneven.options.balance; }, kPatience)) << text;
        PipelineOptions even = options();
        even.balance = Balance({2, 2, 2, 2});
        EXPECT_LE(simulation().step_time, simulate(CheckedProfile(profile_), even).step_time) << text;
        EXPECT_EQ(model_.undoStack().count(), changes + 1);
        model_.undoStack().undo();
        EXPECT_EQ(options().balance, uneven.options.balance);
        model_.undoStack().redo();
        EXPECT_NE(options().balance, uneven.options.balance);
    }
}

TEST_F(WhatIfPanelTest, UndoesAndRedoesChangesOfEveryControl) {
    std::vector<Scenario> passed{model_.scenario()};
    const auto note = [&] { passed.push_back(model_.scenario()); };
    for (ValueSlider* each : {&panel_.partitions(), &panel_.microBatches(), &panel_.batch(), &panel_.bandwidth(),
                              &panel_.latency(), &panel_.memoryLimit()}) {
        QTest::keyClick(&each->slider(), Qt::Key_Left);
        note();
    }
    for (QComboBox* each : {&panel_.checkpoint(), &panel_.schedule()}) {
        QTest::keyClick(each, each->currentIndex() == 0 ? Qt::Key_Down : Qt::Key_Up);
        note();
    }
    panel_.speeds().slider().box().setValue(0.5);
    note();
    ASSERT_EQ(model_.undoStack().count(), static_cast<int>(passed.size()) - 1);
    for (std::size_t k = passed.size() - 1; k-- > 0;) {
        EXPECT_NE(model_.scenario(), passed[k]);
        model_.undoStack().undo();
        EXPECT_EQ(model_.scenario(), passed[k]) << k;
        EXPECT_EQ(model_.result()->scenario, passed[k]) << k;
        EXPECT_EQ(panel_.microBatches().value(), static_cast<double>(passed[k].options.chunks));
    }
    EXPECT_TRUE(model_.isAsRecorded());
    for (std::size_t k = 1; k < passed.size(); ++k) {
        model_.undoStack().redo();
        EXPECT_EQ(model_.result()->scenario, passed[k]) << k;
    }
    EXPECT_FALSE(model_.undoStack().canRedo());
}

TEST_F(WhatIfPanelTest, TakesADragAsOneStepOfUndo) {
    QSlider& slider = panel_.batch().slider();
    const QPoint from(slider.width() * slider.sliderPosition() / slider.maximum(), slider.height() / 2);
    QTest::mousePress(&slider, Qt::LeftButton, {}, from);
    ASSERT_TRUE(slider.isSliderDown());
    for (int x = from.x(); x < slider.width() - 10; x += 7) {
        QTest::mouseMove(&slider, {x, from.y()});
    }
    QTest::mouseRelease(&slider, Qt::LeftButton, {}, {slider.width() - 10, from.y()});
    EXPECT_GT(options().batch, 1000);
    EXPECT_EQ(model_.undoStack().count(), 1);
    model_.undoStack().undo();
    EXPECT_EQ(options().batch, 32);
    EXPECT_EQ(panel_.batch().value(), 32);
}

TEST_F(WhatIfPanelTest, TakesTypedNumbersBetweenTheStops) {
    QDoubleSpinBox& box = panel_.bandwidth().box();
    box.setFocus();
    box.selectAll();
    QTest::keyClicks(&box, QStringLiteral("12.345"));
    EXPECT_EQ(options().hardware.link.bytes_per_second, 10e9);  // not while it is typed
    QTest::keyClick(&box, Qt::Key_Return);
    EXPECT_NEAR(options().hardware.link.bytes_per_second, 12.345e9, 1);
    EXPECT_EQ(panel_.bandwidth().value(), 12.345);
    QTest::keyClick(&panel_.bandwidth().slider(), Qt::Key_Home);
    EXPECT_EQ(options().hardware.link.bytes_per_second, 0);
    EXPECT_EQ(box.text(), QStringLiteral("unlimited"));
}

TEST_F(WhatIfPanelTest, TakesUnitsAsTheCommandsDo) {
    const auto type = [](ValueSlider& slider, const char* text) {
        slider.box().setFocus();
        slider.box().selectAll();
        QTest::keyClicks(&slider.box(), QString::fromUtf8(text));
        QTest::keyClick(&slider.box(), Qt::Key_Return);
    };
    type(panel_.memoryLimit(), "30 MiB");
    EXPECT_EQ(options().hardware.memory_limit, Bytes{30} << 20);
    EXPECT_TRUE(panel_.figures().shownValue(5).endsWith(formatBytes(Bytes{30} << 20)));
    type(panel_.bandwidth(), "1 kB/s");
    EXPECT_NEAR(options().hardware.link.bytes_per_second, 1000, 1e-3);
    type(panel_.latency(), "2 ms");
    EXPECT_EQ(options().hardware.link.latency_ns, 2e6);
}

TEST_F(WhatIfPanelTest, SaysWhyATypedValueIsNotTaken) {
    const auto refused = [this](ValueSlider& slider, const char* text, const char* why) {
        const PipelineOptions before = options();
        slider.box().setFocus();
        slider.box().selectAll();
        QTest::keyClicks(&slider.box(), QString::fromUtf8(text));
        QTest::keyClick(&slider.box(), Qt::Key_Return);
        EXPECT_EQ(options(), before);
        EXPECT_TRUE(panel_.messages().startsWith(QStringLiteral("✖"))) << text;
        EXPECT_TRUE(panel_.messages().contains(QString::fromUtf8(why))) << panel_.messages().toStdString();
        QTest::keyClick(&slider.box(), Qt::Key_Down);  // another value, and the refusal is gone
        EXPECT_FALSE(panel_.messages().contains(QString::fromUtf8(why)));
        model_.backToRecorded();
    };
    refused(panel_.partitions(), "999", "Partitions is 999; it must be a whole number from 1 to 8");
    refused(panel_.batch(), "0", "Batch is 0; it must be a whole number from 1");
    refused(panel_.bandwidth(), "1 MiB", "'MiB' is none of the units");
    refused(panel_.speeds().slider(), "1000", "Speed is 1000; it must be from 0.01");
}

TEST_F(WhatIfPanelTest, SaysWhyABandwidthHasNoEffect) {
    const QString note = QStringLiteral("Link bandwidth and latency have no effect");
    EXPECT_FALSE(panel_.messages().contains(note));
    Scenario oneDevice = model_.scenario();
    oneDevice.options.hardware.devices.assign(4, "cpu");
    model_.change(oneDevice, QStringLiteral("devices"));
    EXPECT_TRUE(panel_.messages().contains(note)) << panel_.messages().toStdString();
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("device cpu")));
    oneDevice.options.hardware.link = {};
    model_.change(oneDevice, QStringLiteral("link"));
    EXPECT_FALSE(panel_.messages().contains(note));
    oneDevice.options.hardware.link.latency_ns = 100;
    oneDevice.options.hardware.devices.back() = "other";
    model_.change(oneDevice, QStringLiteral("device"));
    EXPECT_FALSE(panel_.messages().contains(note));
}

TEST_F(WhatIfPanelTest, CutsAnewForAnotherNumberOfPartitions) {
    QTest::keyClick(&panel_.partitions().slider(), Qt::Key_End);
    EXPECT_EQ(options().balance.num_partitions(), 8U);
    EXPECT_EQ(simulation().lanes.size(), 8U);
    QTest::keyClick(&panel_.partitions().slider(), Qt::Key_Home);
    EXPECT_EQ(simulation().lanes.size(), 1U);
    EXPECT_NEAR(simulation().bubble_fraction, 0, 0.02);  // the loss is no work of the lane
}

TEST_F(WhatIfPanelTest, PutsPartitionsOnLanesOfOnesChoice) {
    QLineEdit& field = panel_.placement().placement();
    const auto type = [&](const QString& text) {
        field.setFocus();
        field.selectAll();
        QTest::keyClicks(&field, text);
        QTest::keyClick(&field, Qt::Key_Return);
    };
    type(QStringLiteral("0,1,1,0"));
    EXPECT_EQ(options().placement, (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{1}, LaneId{0}}));
    EXPECT_EQ(simulation().lanes.size(), 2U);
    EXPECT_TRUE(model_.result()->runs()) << panel_.messages().toStdString();
    EXPECT_EQ(panel_.partitions().value(), 2);  // the slider now counts lanes
    type(QStringLiteral("0,one"));
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("'one' is not a number"))) << panel_.messages().toStdString();
    EXPECT_EQ(options().placement.size(), 4U);
    type(QStringLiteral("0,1"));  // of four partitions
    EXPECT_FALSE(model_.result()->runs());
    EXPECT_FALSE(panel_.messages().isEmpty());
    model_.undoStack().undo();
    EXPECT_EQ(field.text(), QStringLiteral("0,1,1,0"));
    type(QStringLiteral(" "));
    EXPECT_TRUE(options().placement.empty());
    EXPECT_EQ(simulation().lanes.size(), 4U);
}

TEST_F(WhatIfPanelTest, OffersCoresOnlyToLanesOnCpu) {
    QuantityBox& cores = panel_.placement().cores();
    EXPECT_FALSE(cores.isEnabled());
    EXPECT_TRUE(cores.toolTip().contains(QStringLiteral("No lane is on the device cpu")))
        << cores.toolTip().toStdString();
    QLineEdit& devices = panel_.placement().devices();
    devices.setText(QStringLiteral("cpu,cpu,gpu,gpu"));
    QTest::keyClick(&devices, Qt::Key_Return);
    EXPECT_TRUE(cores.isEnabled());
    EXPECT_FALSE(cores.toolTip().contains(QStringLiteral("No lane")));
}

TEST_F(WhatIfPanelTest, RefusesDevicesThatAreNotOneForEachLane) {
    QLineEdit& devices = panel_.placement().devices();
    for (const char* list : {"gpu", "gpu,gpu,gpu", "cpu", "a,b,c,d,e"}) {
        devices.setText(QString::fromLatin1(list));
        QTest::keyClick(&devices, Qt::Key_Return);
        EXPECT_TRUE(options().hardware.devices.empty()) << list;
        EXPECT_TRUE(panel_.messages().contains(QStringLiteral("the pipeline has 4"))) << list;
        EXPECT_TRUE(panel_.messages().contains(QStringLiteral("figures are those before"))) << list;
        EXPECT_TRUE(model_.result()->runs()) << list;
    }
    devices.setText(QStringLiteral("gpu,gpu,tpu,tpu"));
    QTest::keyClick(&devices, Qt::Key_Return);
    EXPECT_EQ(options().hardware.devices.size(), 4U);
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("those on gpu share its speed")))
        << panel_.messages().toStdString();
    for (const char* list : {",,,", "gpu,,tpu,tpu"}) {
        devices.setText(QString::fromLatin1(list));
        QTest::keyClick(&devices, Qt::Key_Return);
        EXPECT_EQ(options().hardware.devices.size(), 4U) << list << " clears nothing";
        EXPECT_TRUE(panel_.messages().contains(QStringLiteral("lacks one beside a comma"))) << list;
    }
    devices.setText(QStringLiteral("gpu"));
    QTest::keyClick(&devices, Qt::Key_Return);
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("the pipeline has 4")));
    EXPECT_FALSE(panel_.messages().contains(QStringLiteral("share its speed"))) << "of the list before";
}

TEST_F(WhatIfPanelTest, SaysWhetherAChangeIsLargerThanTheErrorOnTheRun) {
    const auto halfTheSpeed = [&](double speed) {
        Scenario next = model_.recorded();
        next.options.hardware.speeds.assign(4, speed);
        model_.change(next, QStringLiteral("speed"));
    };
    halfTheSpeed(0.5);
    EXPECT_FALSE(panel_.messages().contains(QStringLiteral("error"))) << panel_.messages().toStdString();
    model_.setModelError(ModelError{-0.2, 0.01, 20});
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("is larger than the error of the simulation")))
        << panel_.messages().toStdString();
    EXPECT_TRUE(
        panel_.messages().contains(QStringLiteral("20 % below its mean measured step (20 steps, standard error")))
        << panel_.messages().toStdString();
    halfTheSpeed(0.95);
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("cannot be told apart from none")))
        << panel_.messages().toStdString();
    model_.backToRecorded();
    EXPECT_FALSE(panel_.messages().contains(QStringLiteral("cannot be told apart")));
}

TEST_F(WhatIfPanelTest, ShowsLimitsByLaneAndTheLaneThatDoesNotFit) {
    Scenario next = model_.scenario();
    next.options.hardware.memory_limit.reset();
    next.options.hardware.memory_limits = {Bytes{1} << 40, 1000, Bytes{1} << 40, Bytes{1} << 40};
    model_.change(next, QStringLiteral("limits"));
    const QString peak = panel_.figures().shownValue(5);
    EXPECT_TRUE(peak.contains(QStringLiteral("lane 1: "))) << peak.toStdString();
    EXPECT_TRUE(peak.endsWith(QStringLiteral("of ") + formatBytes(1000))) << peak.toStdString();
    bool told = false;
    for (const auto* slider : panel_.findChildren<ValueSlider*>()) {
        told = told || slider->box().text() == QStringLiteral("by lane");
        EXPECT_NE(slider->box().text(), QStringLiteral("no limit"));
    }
    EXPECT_TRUE(told);
}

TEST_F(WhatIfPanelTest, LetsLanesShareADeviceCoresAndLinks) {
    const Nanoseconds apart = simulation().step_time;
    QLineEdit& devices = panel_.placement().devices();
    devices.setText(QStringLiteral("gpu, gpu, gpu, gpu"));
    QTest::keyClick(&devices, Qt::Key_Return);
    EXPECT_EQ(options().hardware.devices, (std::vector<std::string>{"gpu", "gpu", "gpu", "gpu"}));
    EXPECT_GT(simulation().step_time, apart);  // four lanes take turns on one device
    devices.setText(QStringLiteral("cpu,cpu,cpu,cpu"));
    QTest::keyClick(&devices, Qt::Key_Return);
    const Nanoseconds cores = simulation().step_time;
    panel_.placement().cores().setFocus();
    QTest::keyClick(&panel_.placement().cores(), Qt::Key_Up);
    EXPECT_EQ(options().hardware.host_cores, 1);
    EXPECT_GT(simulation().step_time, cores);
    model_.backToRecorded();
    EXPECT_EQ(panel_.placement().cores().value(), 0);
    const QList<QComboBox*> boxes = panel_.findChildren<QComboBox*>();
    QComboBox& sharing = **std::find_if(boxes.begin(), boxes.end(), [](const QComboBox* box) {
        return box->accessibleName() == QLatin1String("What copies share");
    });
    sharing.setFocus();
    QTest::keyClick(&sharing, Qt::Key_End);
    EXPECT_EQ(options().hardware.link.sharing, LinkSharing::all);
    EXPECT_TRUE(model_.result()->runs());
}

TEST_F(WhatIfPanelTest, PutsTwoPartitionsOnALaneWhereInterleaved) {
    QComboBox& schedule = panel_.schedule();
    schedule.setFocus();
    const int index = schedule.findText(QStringLiteral("interleaved"));
    schedule.setCurrentIndex(index);
    Q_EMIT schedule.textActivated(QStringLiteral("interleaved"));
    EXPECT_EQ(options().balance.num_partitions(), 8U);
    EXPECT_EQ(lanesOf(model_.scenario()), 4);
    EXPECT_TRUE(model_.result()->runs()) << panel_.messages().toStdString();
}

TEST_F(WhatIfPanelTest, FindsTheOrderOfScheduleAuto) {
    Scenario roomy = model_.scenario();
    roomy.options.hardware.memory_limit = Bytes{2} << 30;  // for some graphs that wait for their second half
    model_.change(roomy, QStringLiteral("memory limit"));
    const Nanoseconds recorded = simulation().step_time;
    QComboBox& schedule = panel_.schedule();
    Q_EMIT schedule.textActivated(QStringLiteral("auto"));
    EXPECT_EQ(schedule.currentText(), QStringLiteral("auto"));
    ASSERT_TRUE(QTest::qWaitFor([this] { return !model_.isBehind(); }, kPatience));
    ASSERT_TRUE(model_.result()->runs()) << panel_.messages().toStdString();
    EXPECT_LT(simulation().step_time, recorded);
    EXPECT_FALSE(panel_.messages().contains(QStringLiteral("cannot be run"))) << panel_.messages().toStdString();
    panel_.microBatches().box().setValue(4);
    ASSERT_TRUE(QTest::qWaitFor([this] { return !model_.isBehind(); }, kPatience));
    EXPECT_TRUE(model_.result()->runs()) << "the search follows other changes";
    // A run of auto recorded the table that was found.
    Scenario found = model_.scenario();
    const TaskGraph graph = make_schedule(Schedule::zero_bubble_h1, {.num_partitions = 4, .num_micro_batches = 4});
    found.options.schedule = Schedule::from_csv("auto", to_csv(schedule_table(graph)));
    model_.change(found, QStringLiteral("schedule"));
    EXPECT_EQ(schedule.currentText(), QStringLiteral("auto, as found"));
    Q_EMIT schedule.textActivated(QStringLiteral("auto"));
    EXPECT_EQ(options().schedule, Schedule(Schedule::automatic));
    EXPECT_EQ(schedule.currentText(), QStringLiteral("auto"));
}

TEST_F(WhatIfPanelTest, OpensAScheduleFromAFile) {
    const TemporaryFolder folder;
    const auto path = [&](const std::string& name, const std::string& text) {
        const std::filesystem::path file = folder / name;
        write_text(file, text);
        return QString::fromStdString(file.string());
    };
    QComboBox& schedule = panel_.schedule();
    const int named = schedule.count();
    EXPECT_EQ(schedule.itemText(named - 1), QStringLiteral("From file…"));
    panel_.openSchedule(path("mine.csv", "0F0,0F1,1F0,1F1,1B1,1B0,0B1,0B0\n"));
    EXPECT_EQ(schedule.currentText(), QStringLiteral("mine.csv"));
    EXPECT_EQ(schedule.count(), named + 1);
    EXPECT_EQ(lanesOf(model_.scenario()), 1);
    EXPECT_EQ(options().chunks, 2);
    EXPECT_TRUE(model_.result()->runs()) << panel_.messages().toStdString();
    panel_.openSchedule(path("broken.csv", "0F0,0B0,0F0\n"));
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("broken.csv: row 1, column 3 holds 0F0 again")))
        << panel_.messages().toStdString();
    EXPECT_EQ(schedule.currentText(), QStringLiteral("mine.csv"));
    model_.undoStack().undo();
    EXPECT_EQ(schedule.currentText(), QStringLiteral("gpipe"));
    EXPECT_EQ(schedule.count(), named) << "the file's entry goes with it";
    EXPECT_TRUE(model_.isAsRecorded());
}

TEST_F(WhatIfPanelTest, SaysInThePanelWhatCannotBe) {
    panel_.batch().box().setValue(4);  // 8 micro-batches of 4 samples
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("8 micro-batches of 4 samples")));
    panel_.memoryLimit().box().setValue(0.05);
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("Does not fit")));
    EXPECT_TRUE(panel_.messages().startsWith(QStringLiteral("▲")));
    panel_.schedule().setCurrentIndex(panel_.schedule().findText(QStringLiteral("interleaved")));
    Q_EMIT panel_.schedule().textActivated(QStringLiteral("interleaved"));
    panel_.batch().box().setValue(9);
    panel_.microBatches().box().setValue(9);  // do not divide into two groups
    EXPECT_FALSE(model_.result()->runs());
    EXPECT_TRUE(panel_.messages().startsWith(QStringLiteral("✖")));
    EXPECT_EQ(QApplication::activeModalWidget(), nullptr);
}

TEST_F(WhatIfPanelTest, RefusesAnOptimizerThatIsNone) {
    auto* optimizer = panel_.findChildren<QComboBox*>().last();
    for (QComboBox* each : panel_.findChildren<QComboBox*>()) {
        optimizer = each->isEditable() ? each : optimizer;
    }
    Q_EMIT optimizer->textActivated(QStringLiteral("gradient-ascent"));
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("gradient-ascent")));
    EXPECT_EQ(options().optimizer, "sgd");
    Q_EMIT optimizer->textActivated(QStringLiteral("1.5"));
    EXPECT_EQ(options().optimizer, "1.5");
}

TEST_F(WhatIfPanelTest, SetsTheSpeedOfOneLaneOrOfAll) {
    panel_.speeds().choice().setCurrentIndex(3);  // lane 2
    panel_.speeds().slider().box().setValue(0.5);
    EXPECT_EQ(options().hardware.speeds, (std::vector<double>{1, 1, 0.5, 1}));
    panel_.speeds().choice().setCurrentIndex(0);
    panel_.speeds().slider().box().setValue(2);
    EXPECT_EQ(options().hardware.speeds, (std::vector<double>{2, 2, 2, 2}));
    panel_.speeds().slider().box().setValue(1);
    EXPECT_TRUE(options().hardware.speeds.empty());
}

TEST_F(WhatIfPanelTest, GoesBackToWhatWasRecorded) {
    panel_.batch().box().setValue(64);
    EXPECT_FALSE(model_.isAsRecorded());
    for (QPushButton* button : panel_.findChildren<QPushButton*>()) {
        if (button->text() == QStringLiteral("&As recorded")) {
            EXPECT_TRUE(button->isEnabled());
            QTest::mouseClick(button, Qt::LeftButton);
            EXPECT_FALSE(button->isEnabled());
        }
    }
    EXPECT_TRUE(model_.isAsRecorded());
    EXPECT_EQ(panel_.batch().value(), 32);
}

TEST_F(WhatIfPanelTest, EveryPresetRunsFromWhatWasRecorded) {
    const auto* button = panel_.findChild<QToolButton*>();
    ASSERT_NE(button, nullptr);
    int run = 0;
    for (QAction* action : button->menu()->actions()) {
        if (action->isSeparator()) {
            continue;
        }
        model_.backToRecorded();
        action->trigger();
        EXPECT_FALSE(model_.isAsRecorded()) << action->text().toStdString();
        EXPECT_TRUE(model_.result()->runs()) << action->text().toStdString();
        ++run;
    }
    EXPECT_EQ(run, static_cast<int>(presets().size()));
}

TEST_F(WhatIfPanelTest, DrawsTheLimitAmongThePeaks) {
    auto* peaks = panel_.findChild<PeakBars*>();
    Scenario tight = model_.scenario();
    tight.options.hardware.memory_limit = simulation().lanes[0].peak_bytes - 1;
    model_.change(tight, QStringLiteral("limit"));
    QApplication::processEvents();
    const auto limit = peaks->limitX();
    ASSERT_TRUE(limit);
    EXPECT_NEAR(*limit, peaks->barOf(0).right(), 1);
    const QImage image = peaks->grab().toImage();
    const QColor red = timelineColors(panel_.palette()).limit;
    EXPECT_EQ(image.pixelColor(static_cast<int>(*limit), peaks->height() - 1), red);
}

TEST_F(WhatIfPanelTest, DrawsTheLimitOfEachLaneWhereTheyDiffer) {
    const PeakBars& peaks = panel_.peaks();
    Scenario mixed = model_.scenario();
    mixed.options.hardware.memory_limit.reset();
    for (const SimulatedLane& lane : simulation().lanes) {
        mixed.options.hardware.memory_limits.push_back(lane.peak_bytes + 1);
    }
    mixed.options.hardware.memory_limits[1] = simulation().lanes[1].peak_bytes / 2;
    model_.change(mixed, QStringLiteral("limits"));
    QApplication::processEvents();
    ASSERT_TRUE(peaks.limitX(0) && peaks.limitX(1));
    EXPECT_NEAR(*peaks.limitX(0), peaks.barOf(0).right(), 1);
    EXPECT_NEAR(*peaks.limitX(1), (peaks.barOf(1).left() + peaks.barOf(1).right()) / 2, 1);
    const QImage image = panel_.peaks().grab().toImage();
    const QColor red = timelineColors(panel_.palette()).limit;
    const auto at = [&](std::size_t line, std::size_t row) {
        return image.pixelColor(static_cast<int>(*peaks.limitX(line)), peaks.barOf(row).center().toPoint().y());
    };
    EXPECT_EQ(at(1, 1), red);
    EXPECT_NE(at(1, 0), red);
    EXPECT_TRUE(panel_.messages().contains(QStringLiteral("Does not fit"))) << panel_.messages().toStdString();
}

TEST_F(WhatIfPanelTest, GivesNoPeakOfALaneWhereMemoryIsUnknown) {
    EXPECT_FALSE(panel_.peaks().accessibleDescription().contains(QStringLiteral("unknown")));
    profile_.memory_unknown = true;
    Scenario unlimited = model_.recorded();
    unlimited.options.hardware.memory_limit.reset();
    model_.setProfile(CheckedProfile(profile_), unlimited);
    QApplication::processEvents();
    ASSERT_TRUE(simulation().memory_unknown);
    EXPECT_TRUE(panel_.peaks().accessibleDescription().startsWith(QStringLiteral("lane 0: peak unknown; lane 1")))
        << panel_.peaks().accessibleDescription().toStdString();
}

TEST_F(WhatIfPanelTest, SaysWhatToDoWithoutAProfile) {
    model_.setProfile(std::nullopt, std::nullopt);
    QApplication::processEvents();
    EXPECT_FALSE(panel_.microBatches().isVisible());
}
}  // namespace
}  // namespace pipescope
