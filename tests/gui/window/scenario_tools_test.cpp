#include "gui/window/scenario_tools.h"
#include "gui/plan/plan_table_model.h"

#include "cluster/step_parts.h"
#include "gui/document/schedule_edit.h"
#include "gui/plan/plan_form.h"
#include "gui/plan/plan_view.h"
#include "gui/style/message_bar.h"
#include "gui/style/number_format.h"
#include "gui/tables/table_export.h"
#include "gui/timeline/memory_view.h"
#include "gui/timeline/time_axis_model.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/timeline/timeline_view.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/balance_bar.h"
#include "gui/what_if/balance_editor.h"
#include "gui/what_if/pinned_scenarios.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/file_tabs.h"
#include "gui/window/main_window.h"
#include "gui/window/scenario_docks.h"
#include "profiler/profile/profile_file.h"
#include "simulator/schedule_file.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"
#include "tests/gui/window/main_window_fixture.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QComboBox>
#include <QDockWidget>
#include <QDoubleSpinBox>
#include <QLineEdit>
#include <QMouseEvent>
#include <QPushButton>
#include <QSignalSpy>
#include <QSlider>
#include <QTableView>
#include <QTest>
#include <QUndoStack>

#include <fstream>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

class ScenarioToolsTest : public testing::Test {
protected:
    void SetUp() override {
        window_.resize(1400, 900);
        window_.show();
    }

    void open(const std::string& name, const std::string& content = {}) {
        const auto path = temporaryPath(name);
        if (content.empty()) {
            SampleRun run;
            run.partitions = 4;
            writeSampleTrace(path, run);
        } else {
            std::ofstream(path, std::ios::binary) << content;
        }
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        QApplication::processEvents();
        ASSERT_NE(window_.scenarios().tools(), nullptr);
        model().setPatience(1h);
    }

    ScenarioModel& model() { return window_.scenarios().tools()->model(); }
    WhatIfPanel& panel() { return window_.scenarios().tools()->panel(); }
    const Simulation& simulation() { return *window_.files().document()->simulation; }
    QDockWidget& dock(const char* name) { return *window_.findChild<QDockWidget*>(QString::fromLatin1(name)); }
    bool selectKey(Qt::Key key, Qt::KeyboardModifiers modifiers = Qt::ControlModifier) {
        QTest::keyClick(&window_, key, modifiers);
        QApplication::processEvents();
        return true;
    }

    MainWindow window_{nullptr};
};

TEST_F(ScenarioToolsTest, TheSimulatedTimelineFollowsTheSlider) {
    open("follow.sqlite");
    const auto recorded = window_.files().document()->simulated;
    const auto measured = window_.files().document()->measured;
    QSlider& slider = panel().latency().slider();
    for (int k = 0; k < 5; ++k) {
        const auto before = window_.files().document()->simulated;
        QTest::keyClick(&slider, Qt::Key_Right);
        EXPECT_NE(window_.files().document()->simulated, before);
        EXPECT_EQ(window_.page()->views().view(Source::simulated).store(), window_.files().document()->simulated.get());
        EXPECT_EQ(window_.page()->views().view(Source::measured).store(), measured.get());
    }
    EXPECT_TRUE(window_.page()->views().pane(Source::simulated).title().contains(QStringLiteral("WHAT IF")));
    EXPECT_GT(simulation().options.hardware.link.latency_ns, 50'000);
    selectKey(Qt::Key_0);  // back to as recorded
    EXPECT_EQ(window_.files().document()->simulated, recorded);
    EXPECT_EQ(window_.page()->views().pane(Source::simulated).title(), QStringLiteral("SIMULATED"));
    selectKey(Qt::Key_Z);
    EXPECT_NE(window_.files().document()->simulated, recorded);
}

TEST_F(ScenarioToolsTest, UndoesAChangeWhileItsNumberBoxHasTheFocus) {
    open("undo.sqlite");
    dock("whatIf").show();
    dock("whatIf").raise();
    window_.activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(&window_, kPatience));
    QDoubleSpinBox& box = panel().microBatches().box();
    const Scenario recorded = model().scenario();
    const auto type = [&](const QString& text) {
        box.setFocus();
        box.selectAll();
        QTest::keyClicks(&box, text);
    };
    type(QStringLiteral("2"));
    QTest::keyClick(&box, Qt::Key_Return);
    ASSERT_EQ(model().scenario().options.chunks, 2);
    ASSERT_TRUE(box.hasFocus());
    QTest::keyClick(&box, Qt::Key_Z, Qt::ControlModifier);
    EXPECT_EQ(model().scenario(), recorded);
    EXPECT_EQ(box.value(), recorded.options.chunks);
    QTest::keyClick(&box, Qt::Key_Z, Qt::ControlModifier | Qt::ShiftModifier);
    EXPECT_EQ(model().scenario().options.chunks, 2);
    // While a number is typed, its text is undone.
    type(QStringLiteral("3"));
    QTest::keyClick(&box, Qt::Key_Z, Qt::ControlModifier);
    EXPECT_EQ(model().scenario().options.chunks, 2);
    EXPECT_NE(box.text(), QStringLiteral("3"));
}

TEST_F(ScenarioToolsTest, KeepsTheScaleAndTheSelectedTask) {
    open("scale.sqlite");
    window_.page()->axis().zoom(0.5, 0.5);
    const TimeWindow window = window_.page()->axis().window();
    const TaskKey task{1, TaskKind::backward, 1, 2, -1};
    ASSERT_TRUE(window_.page()->navigation().goTo(Source::measured, task));
    const TimeWindow at = window_.page()->axis().window();
    panel().bandwidth().slider().setFocus();
    QTest::keyClick(&panel().bandwidth().slider(), Qt::Key_Right);
    EXPECT_EQ(window_.page()->axis().window(), at);
    ASSERT_TRUE(window_.page()->axis().selection());
    EXPECT_TRUE(window_.page()->axis().selection()->twin);
    EXPECT_NE(window, at);
}

TEST_F(ScenarioToolsTest, ShowsLanesThatTheRunDidNotHave) {
    open("lanes.sqlite");
    selectKey(Qt::Key_I);
    panel().partitions().slider().setFocus();
    QTest::keyClick(&panel().partitions().slider(), Qt::Key_Home);
    EXPECT_EQ(lanesOf(model().scenario()), 1);
    ASSERT_TRUE(model().result()->runs()) << panel().messages().toStdString();
    EXPECT_EQ(window_.files().document()->simulated->lanes().size(), 1U);
    EXPECT_EQ(laneFacts(*window_.files().document(), window_.page()->model().step()).size(), 4U);
    window_.grab();
    model().undoStack().undo();
    EXPECT_TRUE(model().isAsRecorded());
    window_.grab();
}

TEST_F(ScenarioToolsTest, ComparesAScenarioWithWhatWasMeasuredOnceItRests) {
    open("compare.sqlite");
    const double before = window_.files().document()->comparison->step_error;
    selectKey(Qt::Key_I);
    panel().latency().slider().setFocus();
    QTest::keyClick(&panel().latency().slider(), Qt::Key_End);  // 10 ms a copy
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.files().document()->comparison.has_value(); }, kPatience));
    EXPECT_GT(window_.files().document()->comparison->step_error, before + 0.1);
}

TEST_F(ScenarioToolsTest, OpensABareProfileWithThePanel) {
    SampleRun run;
    run.partitions = 12;
    open("bare.json", to_json(sampleProfile(run)));
    EXPECT_FALSE(window_.files().document()->measured);
    EXPECT_TRUE(window_.files().document()->simulated);
    EXPECT_TRUE(dock("whatIf").isVisible());
    EXPECT_TRUE(panel().microBatches().isVisible());
    // The end of a longer step stays visible.
    panel().partitions().slider().setFocus();
    QTest::keyClick(&panel().partitions().slider(), Qt::Key_Home);
    EXPECT_EQ(window_.files().document()->simulated->lanes().size(), 1U);
    const TimeWindow shown = window_.page()->axis().window();
    EXPECT_GE(static_cast<double>(shown.start) + shown.length,
              static_cast<double>(window_.files().document()->simulated->range().end));
    window_.grab();
}

// The longer step made the view show more. Without it, what the user had chosen is shown again.
TEST_F(ScenarioToolsTest, ShowsAgainWhatWasChosenWhenALongerStepIsUndone) {
    open("zoom_undo.sqlite");
    TimeAxisModel& axis = window_.page()->axis();
    const TimeRange step = stepRange(*window_.files().document(), window_.page()->model().step());
    const auto makeLonger = [&](std::int64_t batch) {
        Scenario longer = model().scenario();
        longer.options.batch = batch;
        model().change(longer, QStringLiteral("batch"));
        QApplication::processEvents();
    };
    axis.show({step.start + step.length() / 3, step.end});
    const TimeWindow chosen = axis.window();
    axis.setRange(TimeRange{step.start + step.length() / 2, step.end});
    const std::optional<TimeRange> range = axis.range();
    const TaskKey task{window_.page()->model().step(), TaskKind::backward, 1, 2, -1};
    window_.page()->model().select(Source::measured, window_.files().document()->measured->find(task));
    const std::int64_t batch = model().scenario().options.batch;
    makeLonger(batch * 3);
    EXPECT_GT(axis.window().length, chosen.length) << "the end of the longer step stays visible";
    model().undoStack().undo();
    QApplication::processEvents();
    EXPECT_EQ(axis.window(), chosen);
    EXPECT_EQ(axis.range(), range);
    ASSERT_TRUE(axis.selection() && axis.selection()->twin);
    EXPECT_EQ(window_.files().document()->simulated->slice(*axis.selection()->twin).key.micro_batch, 2);
    // Both timelines show the same part, at any place of the history.
    makeLonger(batch * 3);
    axis.zoom(0.5, 0.5);
    const TimeWindow moved = axis.window();
    for (const auto travel : {&TimeAxisModel::goBack, &TimeAxisModel::goForward}) {
        (axis.*travel)();
        const TimelineView& measured = window_.page()->views().view(Source::measured);
        const TimelineView& simulated = window_.page()->views().view(Source::simulated);
        EXPECT_EQ(measured.timeAtPixel(measured.lanesRect().left()),
                  simulated.timeAtPixel(simulated.lanesRect().left()));
        EXPECT_TRUE(axis.selection());
    }
    EXPECT_EQ(axis.window(), moved);
    model().undoStack().undo();
    EXPECT_EQ(axis.window(), clamped(moved, axis.total())) << "the user moved it since";
}

TEST_F(ScenarioToolsTest, EachTabHasItsOwnScenario) {
    open("first.sqlite");
    ScenarioTools* first = window_.scenarios().tools();
    panel().batch().box().setValue(77);
    SampleRun run;
    open("second.json", to_json(sampleProfile(run)));
    EXPECT_NE(window_.scenarios().tools(), first);
    EXPECT_TRUE(model().isAsRecorded());
    EXPECT_TRUE(panel().isVisible());
    EXPECT_FALSE(first->panel().isVisible());
    window_.files().closePage(window_.page());
    QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    QApplication::processEvents();
    EXPECT_EQ(window_.scenarios().tools(), first);
    EXPECT_EQ(simulation().options.batch, 77);
    window_.files().closePage(window_.page());
    QApplication::sendPostedEvents(nullptr, QEvent::DeferredDelete);
    QApplication::processEvents();
    EXPECT_EQ(window_.scenarios().tools(), nullptr);
}

TEST_F(ScenarioToolsTest, ReadingTheFileAgainKeepsTheScenario) {
    open("reload.sqlite");
    panel().batch().box().setValue(9);
    const Scenario scenario = model().scenario();
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(window_.page()->path());
    ASSERT_TRUE(loaded.wait(kPatience));
    QApplication::processEvents();
    EXPECT_EQ(model().scenario(), scenario);
    EXPECT_EQ(simulation().options.batch, 9);
}

TEST_F(ScenarioToolsTest, PinsAndOpensAgain) {
    open("pin.sqlite");
    selectKey(Qt::Key_D);
    EXPECT_TRUE(dock("scenarios").isVisible());
    panel().batch().box().setValue(9);
    selectKey(Qt::Key_D);
    PinnedScenarios& pins = window_.scenarios().tools()->pins();
    ASSERT_EQ(pins.scenarios().size(), 2U);
    pins.table().selectRow(0);
    QTest::keyClick(&pins.table(), Qt::Key_Return);
    EXPECT_TRUE(model().isAsRecorded());
}

TEST_F(ScenarioToolsTest, OpensACandidateOfThePlanAsTheSimulatedTimeline) {
    open("plan.sqlite");
    selectKey(Qt::Key_P);
    EXPECT_TRUE(dock("plan").isVisible());
    PlanView& plan = window_.scenarios().tools()->plan();
    plan.form().partitions().setText(QStringLiteral("2"));
    plan.form().chunks().setText(QStringLiteral("2"));
    QSignalSpy finished(&plan, &PlanView::finished);
    plan.start();
    ASSERT_TRUE(finished.wait(kPatience));
    plan.table().selectRow(0);
    QTest::keyClick(&plan.table(), Qt::Key_Return);
    EXPECT_EQ(window_.files().document()->simulated->lanes().size(), 2U);
    EXPECT_EQ(simulation().step_time.count(),
              plan.table().model()->index(0, PlanTableModel::stepTime).data(kExportRole).toLongLong());
    model().undoStack().undo();
    EXPECT_EQ(window_.files().document()->simulated->lanes().size(), 4U);
}

TEST_F(ScenarioToolsTest, MovesTasksByKeysAndSavesTheSchedule) {
    open("order.sqlite");
    Scenario scenario = model().scenario();
    scenario.options.schedule = Schedule::one_f_one_b;
    model().change(scenario, QStringLiteral("schedule"));
    const Nanoseconds before = simulation().step_time;
    const TaskKey task{0, TaskKind::backward, 0, 1, -1};
    const auto startOf = [&](const TaskKey& key) {
        const TimelineStore& store = *window_.files().document()->simulated;
        return store.slice(*store.find(key)).start;
    };
    const auto message = [this] { return window_.page()->messages().text(); };
    ASSERT_TRUE(window_.page()->navigation().goTo(Source::simulated, task));
    window_.page()->focusTimeline();
    const auto press = [this](Qt::Key key) {
        QTest::keyClick(window_.focusWidget(), key, Qt::AltModifier | Qt::ShiftModifier);
        QApplication::processEvents();
    };
    const TaskKey next{0, TaskKind::backward, 0, 2, -1};
    ASSERT_LT(startOf(task), startOf(next));
    press(Qt::Key_Right);
    EXPECT_GT(startOf(task), startOf(next));
    EXPECT_GT(simulation().step_time, before);
    EXPECT_EQ(to_string(simulation().options.schedule), "1f1b (edited)");
    EXPECT_EQ(panel().schedule().currentText(), QStringLiteral("1f1b (edited)"));
    EXPECT_TRUE(message().contains(formatDuration(simulation().step_time.count()))) << message().toStdString();
    EXPECT_TRUE(message().contains(QStringLiteral(" relative to the previous order)"))) << message().toStdString();
    ASSERT_TRUE(window_.page()->axis().selection()) << "the task stays selected";
    EXPECT_EQ(window_.page()->axis().selection()->in(Source::simulated),
              window_.files().document()->simulated->find(task));

    const QString file = QString::fromStdString(temporaryPath("edited.csv").string());
    window_.scenarios().tools()->saveSchedule(file);
    EXPECT_TRUE(message().contains(QStringLiteral("edited.csv"))) << message().toStdString();
    PipelineOptions options = scenario.options;
    options.schedule = load_schedule(file.toStdString());
    EXPECT_EQ(simulate(*model().profile(), options).step_time, simulation().step_time);
    window_.scenarios().tools()->saveSchedule(QStringLiteral("/nowhere/at/all.csv"));
    EXPECT_TRUE(message().startsWith(QStringLiteral("cannot write '/nowhere/at/all.csv'"))) << message().toStdString();

    press(Qt::Key_Left);
    EXPECT_EQ(simulation().step_time, before);
    model().undoStack().undo();
    model().undoStack().undo();
    EXPECT_EQ(simulation().options.schedule, Schedule(Schedule::one_f_one_b));

    // What cannot be is refused with its reason.
    ASSERT_TRUE(window_.page()->navigation().goTo(Source::simulated, {0, TaskKind::forward, 0, 0, -1}));
    press(Qt::Key_Left);
    EXPECT_TRUE(message().contains(QStringLiteral("is the first task of its lane"))) << message().toStdString();
    ASSERT_TRUE(window_.page()->navigation().goTo(Source::simulated, {0, TaskKind::forward, 3, 0, -1}));
    press(Qt::Key_Right);
    EXPECT_TRUE(message().contains(QStringLiteral("3B0 before 3F0"))) << message().toStdString();
    EXPECT_EQ(simulation().options.schedule, Schedule(Schedule::one_f_one_b));
    window_.page()->axis().select(std::nullopt);
    press(Qt::Key_Right);
    EXPECT_TRUE(message().startsWith(QStringLiteral("Select a task"))) << message().toStdString();
}

TEST_F(ScenarioToolsTest, MovesATaskByDraggingIt) {
    open("drag.sqlite");
    Scenario scenario = model().scenario();
    scenario.options.schedule = Schedule::one_f_one_b;
    model().change(scenario, QStringLiteral("schedule"));
    window_.page()->axis().showAll();
    QApplication::processEvents();
    TimelineView& view = window_.page()->views().view(Source::simulated);
    const auto rectOf = [&](const TaskKey& key) { return view.rectOf(*view.store()->find(key)); };
    const TaskKey task{0, TaskKind::backward, 0, 1, -1};
    const TaskKey last{0, TaskKind::backward, 0, 3, -1};
    const QPoint from = rectOf(task).center().toPoint();
    const QPoint to(static_cast<int>(rectOf(last).right()) - 1, from.y());
    ASSERT_TRUE(view.sliceAt(from));
    const auto move = [&](QEvent::Type type, const QPoint& at, Qt::MouseButton button, Qt::KeyboardModifiers keys) {
        QMouseEvent event(type, QPointF(at), view.viewport()->mapToGlobal(QPointF(at)), button,
                          type == QEvent::MouseButtonRelease ? Qt::NoButton : Qt::LeftButton, keys);
        QApplication::sendEvent(view.viewport(), &event);
    };
    constexpr Qt::KeyboardModifiers kMove = Qt::AltModifier | Qt::ShiftModifier;
    const TimeWindow window = window_.page()->axis().window();
    const QImage before = view.viewport()->grab().toImage();
    move(QEvent::MouseButtonPress, from, Qt::LeftButton, kMove);
    move(QEvent::MouseMove, to, Qt::NoButton, kMove);
    EXPECT_NE(view.viewport()->grab().toImage(), before) << "the place is shown";
    move(QEvent::MouseButtonRelease, to, Qt::LeftButton, kMove);
    QApplication::processEvents();
    const ScheduleTable& table = simulation().options.schedule.file()->table;
    const PlaceInLane place = placeInLane(table, task);
    EXPECT_EQ(place.index + 1, place.count) << "it is the last one now";
    EXPECT_EQ(window_.page()->axis().window(), window) << "the axis did not move";
    EXPECT_FALSE(window_.page()->axis().range()) << "nothing was measured";

    // What was said of the move goes with it.
    const auto tellsOfMove = [&] {
        const MessageBar& bar = window_.page()->messages();
        return bar.isVisible() && bar.text().startsWith(QStringLiteral("Moved backward of micro-batch 1"));
    };
    ASSERT_TRUE(QTest::qWaitFor(tellsOfMove, kPatience)) << window_.page()->messages().text().toStdString();
    model().undoStack().undo();
    EXPECT_TRUE(QTest::qWaitFor([&] { return !tellsOfMove(); }, kPatience));
    model().undoStack().redo();
    ASSERT_TRUE(QTest::qWaitFor([&] { return !model().isBehind(); }, kPatience));

    // An impossible place leaves the schedule, and says why.
    const Schedule edited = simulation().options.schedule;
    const QPoint forward = rectOf({0, TaskKind::forward, 3, 0, -1}).center().toPoint();
    const QPoint end(static_cast<int>(rectOf({0, TaskKind::backward, 3, 3, -1}).right()) - 1, forward.y());
    move(QEvent::MouseButtonPress, forward, Qt::LeftButton, kMove);
    move(QEvent::MouseMove, end, Qt::NoButton, kMove);
    move(QEvent::MouseButtonRelease, end, Qt::LeftButton, kMove);
    EXPECT_EQ(simulation().options.schedule, edited);
    EXPECT_TRUE(window_.page()->messages().text().contains(QStringLiteral("before 3F0")))
        << window_.page()->messages().text().toStdString();
}

// A field of text has an undo of its own, which is for text that is being typed.
TEST_F(ScenarioToolsTest, UndoesATypedValueInItsField) {
    open("undo_text.sqlite");
    selectKey(Qt::Key_I);
    window_.activateWindow();
    ASSERT_TRUE(QTest::qWaitForWindowActive(&window_, kPatience));
    const auto fieldNamed = [&](const char* name) -> QWidget* {
        for (QWidget* each : panel().findChildren<QWidget*>()) {
            if (each->accessibleName() == QLatin1String(name)) {
                return each;
            }
        }
        return nullptr;
    };
    const std::vector<std::pair<const char*, const char*>> typed{
        {"Lane of each partition", "0,0,1,1"}, {"Device of each lane", "gpu,gpu,gpu,gpu"}, {"Optimizer", "adamw"}};
    for (const auto& [name, text] : typed) {
        QWidget* field = fieldNamed(name);
        ASSERT_NE(field, nullptr) << name;
        auto* combo = qobject_cast<QComboBox*>(field);
        QLineEdit& line = combo != nullptr ? *combo->lineEdit() : *qobject_cast<QLineEdit*>(field);
        field->setFocus();
        const QString before = line.text();
        line.selectAll();
        QTest::keyClicks(field, QString::fromLatin1(text));
        QTest::keyClick(field, Qt::Key_Z, Qt::ControlModifier);
        EXPECT_TRUE(model().isAsRecorded()) << "it is still being typed: " << name;
        if (combo == nullptr) {  // a list that completes what is typed has no undo of its own
            EXPECT_NE(line.text(), QString::fromLatin1(text)) << name;
        }
        line.selectAll();
        QTest::keyClicks(field, QString::fromLatin1(text));
        QTest::keyClick(field, Qt::Key_Return);
        EXPECT_FALSE(model().isAsRecorded()) << name;
        QTest::keyClick(field, Qt::Key_Z, Qt::ControlModifier);
        EXPECT_TRUE(model().isAsRecorded()) << name;
        EXPECT_EQ(line.text(), before) << name;
        QTest::keyClick(field, Qt::Key_Y, Qt::ControlModifier);
        EXPECT_FALSE(model().isAsRecorded()) << name;
        QTest::keyClick(field, Qt::Key_Z, Qt::ControlModifier);
    }
}

/// The trace of a layout on a cluster, which holds the pipeline of its step.
class ClusterScenarioTest : public ScenarioToolsTest {
protected:
    void SetUp() override {
        ScenarioToolsTest::SetUp();
        const auto path = temporaryPath("cluster.sqlite");
        step_ = writeClusterTrace(path);
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        model().setPatience(1h);
        selectKey(Qt::Key_I);
    }

    Nanoseconds rest() const { return step_on_cluster(step_).after_pipeline(); }
    /// The plain value of a figure, as files have it.
    QVariant figure(const char* key, FigureTableModel::Column column = FigureTableModel::value) {
        const FigureTableModel& figures = panel().figures().model();
        for (int row = 0; row < figures.rowCount(); ++row) {
            if (figures.index(row, FigureTableModel::figure).data(kExportRole).toString() == QLatin1String(key)) {
                return figures.index(row, column).data(kExportRole);
            }
        }
        ADD_FAILURE() << key;
        return {};
    }
    void choose(const char* schedule) { Q_EMIT panel().schedule().textActivated(QLatin1String(schedule)); }

    LayoutStep step_;
};

TEST_F(ClusterScenarioTest, FiguresAreThoseOfTheWholeStep) {
    ASSERT_GT(rest().count(), 0);
    EXPECT_EQ(figure("step_time_ns").toLongLong(), std::llround(step_.step_ns()));
    EXPECT_EQ(panel().figures().shownName(0), QStringLiteral("Step time"));
    EXPECT_EQ(panel().figures().shownValue(0), formatDuration(std::llround(step_.step_ns())));
    EXPECT_NEAR(figure("samples_per_second").toDouble(), step_.samples_per_second(), 1e-6 * step_.samples_per_second());
    EXPECT_NEAR(figure("tokens_per_second").toDouble(), step_.tokens_per_second(), 1e-6 * step_.tokens_per_second());
    const double tflops = step_.tflops_per_device().value() * step_.layout.devices();
    EXPECT_NEAR(figure("model_tflops_per_second").toDouble(), tflops, 1e-6 * tflops);
    EXPECT_NEAR(figure("mfu").toDouble(), step_.tflops_per_device().value() * 1e12 / *device_peak("A100", "bfloat16"),
                1e-6);
    EXPECT_LT(figure("speedup").toDouble(), step_.simulation.speedup);
    EXPECT_EQ(panel().figures().shownName(1), QStringLiteral("Pipeline's bubble"));
    EXPECT_DOUBLE_EQ(figure("bubble_fraction").toDouble(), step_.simulation.bubble_fraction);
    const QString title = panel().title();
    EXPECT_TRUE(title.contains(QString::fromStdString(part_text(step_on_cluster(step_))))) << title.toStdString();
    EXPECT_TRUE(title.contains(QStringLiteral("kept at %1").arg(formatDuration(rest().count()))))
        << title.toStdString();
    EXPECT_FALSE(panel().messages().contains(QStringLiteral("kept"))) << panel().messages().toStdString();
    open("whole.sqlite");
    EXPECT_FALSE(panel().title().contains(QStringLiteral("This is"))) << panel().title().toStdString();
    EXPECT_EQ(panel().figures().shownName(1), QStringLiteral("Bubble"));
}

// The work after the pipeline is the same for other schedules and batches, so these are the steps that simulate
// --cluster gives.
TEST_F(ClusterScenarioTest, OtherSchedulesAndBatchesGiveTheStepsOfTheirLayouts) {
    Layout changed = step_.layout;
    const auto expectStepOf = [&](const LayoutStep& other) {
        EXPECT_EQ(figure("step_time_ns").toLongLong(), std::llround(other.step_ns()));
        EXPECT_NEAR(figure("samples_per_second").toDouble(), other.samples_per_second(),
                    1e-6 * other.samples_per_second());
        EXPECT_NEAR(figure("mfu").toDouble(),
                    other.tflops_per_device().value() * 1e12 / *device_peak("A100", "bfloat16"), 1e-6);
        EXPECT_FALSE(panel().messages().contains(QStringLiteral("kept"))) << panel().messages().toStdString();
    };
    changed.schedule = parse_schedule("zero-bubble-h1");
    choose("zero-bubble-h1");
    ASSERT_NE(std::llround(clusterStep(changed).step_ns()), std::llround(step_.step_ns()));
    expectStepOf(clusterStep(changed));
    EXPECT_EQ(figure("step_time_ns", FigureTableModel::reference).toLongLong(), std::llround(step_.step_ns()));
    changed.batch = 32;
    Q_EMIT panel().batch().valueChanged(32);
    Q_EMIT panel().microBatches().valueChanged(16);
    expectStepOf(clusterStep(changed));
    const Nanoseconds whole{figure("step_time_ns").toLongLong()};
    const QString line = headlineOf(window_, Source::simulated);
    EXPECT_TRUE(line.contains(QStringLiteral("step time %1 (").arg(formatDuration(whole.count()))))
        << line.toStdString();
    EXPECT_TRUE(line.contains(QStringLiteral(", its pipeline ") + formatDuration((whole - rest()).count())))
        << line.toStdString();
}

TEST_F(ClusterScenarioTest, SaysWhatAScenarioWouldChangeAndKeeps) {
    Q_EMIT panel().latency().valueChanged(500);
    Scenario next = model().scenario();
    next.options.balance = Balance({2, 4});
    model().change(next, QStringLiteral("cuts"));
    const QString text = panel().messages();
    EXPECT_TRUE(text.contains(QStringLiteral("which other cuts and other links would change"))) << text.toStdString();
    EXPECT_EQ(figure("step_time_ns").toLongLong(), (simulation().step_time + rest()).count());
    EXPECT_FALSE(panel().update().isEnabled()) << "a layout updates after its pipeline";
    model().backToRecorded();
    EXPECT_FALSE(panel().messages().contains(QStringLiteral("kept"))) << panel().messages().toStdString();
}

TEST_F(ClusterScenarioTest, PinsWholeSteps) {
    selectKey(Qt::Key_D);
    choose("zero-bubble-h1");
    selectKey(Qt::Key_D);
    PinnedScenarios& pins = window_.scenarios().tools()->pins();
    ASSERT_EQ(pins.scenarios().size(), 2U);
    const QAbstractItemModel& table = *pins.table().model();
    EXPECT_EQ(table.index(0, 2).data(kExportRole).toLongLong(), std::llround(step_.step_ns()));
    const qlonglong second = table.index(1, 2).data(kExportRole).toLongLong();
    EXPECT_EQ(second, (simulation().step_time + rest()).count());
    EXPECT_EQ(table.headerData(3, Qt::Horizontal).toString(), QStringLiteral("Pipeline's bubble"));
    const double change = static_cast<double>(second) / step_.step_ns() - 1;
    EXPECT_EQ(table.index(1, 2).data().toString(),
              QStringLiteral("%1 (%2)").arg(formatDuration(second), formatShareChange(change)));
    EXPECT_TRUE(pins.timelines().accessibleDescription().contains(formatDuration(second)));
}

TEST_F(ClusterScenarioTest, AdvisesOnWholeSteps) {
    selectKey(Qt::Key_J);
    AdvicePanel& advice = window_.scenarios().tools()->advice();
    ASSERT_TRUE(QTest::qWaitFor([&] { return advice.isComplete(); }, kPatience));
    EXPECT_TRUE(advice.message().contains(formatDuration(std::llround(step_.step_ns())))) << "the step now";
    EXPECT_TRUE(advice.message().contains(QStringLiteral("%1 after the pipeline").arg(formatDuration(rest().count()))))
        << advice.message().toStdString();
    const QAbstractItemModel& table = *advice.table().model();
    ASSERT_GT(table.rowCount(), 0);
    bool anyKept = false;
    for (int row = 0; row < table.rowCount(); ++row) {
        const qlonglong step = table.index(row, AdviceTableModel::step).data(kExportRole).toLongLong();
        EXPECT_NEAR(table.index(row, AdviceTableModel::change).data(kExportRole).toDouble(),
                    static_cast<double>(step) / step_.step_ns() - 1, 1e-6);
        const QString title = table.index(row, AdviceTableModel::title).data().toString();
        const bool kept =
            table.index(row, AdviceTableModel::why).data().toString().contains(QStringLiteral("is kept at"));
        EXPECT_TRUE(kept || !title.startsWith(QStringLiteral("Links"))) << title.toStdString();
        EXPECT_FALSE(kept && title.startsWith(QStringLiteral("Micro-batches"))) << title.toStdString();
        EXPECT_FALSE(title.startsWith(QStringLiteral("Checkpoint"))) << "layers contain their recompute";
        anyKept = anyKept || kept;
    }
    EXPECT_TRUE(anyKept);
    const qlonglong first = table.index(0, AdviceTableModel::step).data(kExportRole).toLongLong();
    QTest::keyClick(&advice.table(), Qt::Key_Return);
    EXPECT_EQ(figure("step_time_ns").toLongLong(), first) << "the panel gives the step that was listed";
}

TEST_F(ClusterScenarioTest, TellsTheWholeStepOfAMovedTask) {
    ASSERT_TRUE(window_.page()->navigation().goTo(Source::simulated, {0, TaskKind::forward, 0, 1, -1}));
    selectKey(Qt::Key_Left, Qt::AltModifier | Qt::ShiftModifier);
    const QString told = window_.page()->messages().text();
    const QString whole = formatDuration((simulation().step_time + rest()).count());
    EXPECT_TRUE(told.contains(QStringLiteral("step time %1 without noise").arg(whole))) << told.toStdString();
}

TEST_F(ClusterScenarioTest, PlansPipelinesAndSaysSo) {
    selectKey(Qt::Key_P);
    const QString about = window_.scenarios().tools()->plan().message();
    EXPECT_TRUE(about.contains(QStringLiteral("without what follows it"))) << about.toStdString();
}

TEST_F(ScenarioToolsTest, DrawsTheLowerBoundOfEverySchedule) {
    open("bound.sqlite");
    TimelineView& view = window_.page()->views().view(Source::simulated);
    ASSERT_TRUE(simulation().lower_bound) << "as recorded";
    const QString ofRecorded = view.lowerBoundText();
    EXPECT_TRUE(ofRecorded.contains(formatDuration(simulation().lower_bound->count())));
    EXPECT_LT(*simulation().lower_bound, simulation().step_time);
    Q_EMIT panel().schedule().textActivated(QStringLiteral("auto"));
    ASSERT_TRUE(QTest::qWaitFor([this] { return !model().isBehind(); }, kPatience));
    ASSERT_TRUE(simulation().lower_bound);
    window_.page()->axis().showAll();
    const QString bound = formatDuration(simulation().lower_bound->count());
    EXPECT_EQ(view.lowerBoundText(), QStringLiteral("lower bound %1").arg(bound));
    EXPECT_FALSE(view.rulerPlate().isEmpty());
    EXPECT_TRUE(view.rect().contains(view.rulerPlate().toRect()));
    EXPECT_LE(view.rulerPlate().bottom(), view.lanesRect().top()) << "it hides no task";
    for (const AxisView::RulerLabel& label : view.rulerLabels()) {
        EXPECT_FALSE(label.rect.intersects(view.rulerPlate())) << label.text.toStdString();
    }
    const QString facts = headlineOf(window_, Source::simulated);
    EXPECT_TRUE(facts.contains(QStringLiteral("lower bound %1, gap ").arg(bound))) << facts.toStdString();
    // The line stays while tasks are moved, so that it shows what is left to gain.
    const Nanoseconds found = simulation().step_time;
    ASSERT_TRUE(window_.page()->navigation().goTo(Source::simulated, {0, TaskKind::forward, 0, 2, -1}));
    selectKey(Qt::Key_Left, Qt::AltModifier | Qt::ShiftModifier);
    EXPECT_TRUE(simulation().options.schedule.file()) << window_.page()->messages().text().toStdString();
    EXPECT_GE(simulation().step_time, found);
    window_.page()->axis().showAll();
    EXPECT_EQ(view.lowerBoundText(), QStringLiteral("lower bound %1").arg(bound));
    EXPECT_FALSE(view.rulerPlate().isEmpty());
    selectKey(Qt::Key_0);  // back to as recorded
    EXPECT_EQ(view.lowerBoundText(), ofRecorded);
    Q_EMIT panel().schedule().textActivated(QStringLiteral("pipedream"));
    ASSERT_TRUE(QTest::qWaitFor([this] { return !model().isBehind(); }, kPatience));
    EXPECT_TRUE(view.lowerBoundText().isEmpty()) << "it never drains";
    EXPECT_TRUE(view.rulerPlate().isEmpty());
}

TEST_F(ScenarioToolsTest, TriesASingleChangeAndAdvisesFromThere) {
    open("advice.sqlite");
    selectKey(Qt::Key_J);
    EXPECT_TRUE(dock("advice").isVisible());
    EXPECT_TRUE(dock("lanes").isHidden()) << "the tabs of another group";
    AdvicePanel& advice = window_.scenarios().tools()->advice();
    ASSERT_TRUE(advice.isVisible());
    const auto completes = [&] { return QTest::qWaitFor([&] { return advice.isComplete(); }, kPatience); };
    ASSERT_TRUE(completes());
    const auto cell = [&](int row, AdviceTableModel::Column column) {
        return advice.table().model()->index(row, column);
    };
    const QString title = cell(0, AdviceTableModel::title).data().toString();
    const QString step = cell(0, AdviceTableModel::step).data().toString();
    const QString bubble = cell(0, AdviceTableModel::bubble).data().toString();
    const QString change = cell(0, AdviceTableModel::change).data().toString();
    const qlonglong stepNs = cell(0, AdviceTableModel::step).data(kExportRole).toLongLong();
    EXPECT_EQ(window_.focusWidget(), &advice.table());
    QTest::keyClick(&advice.table(), Qt::Key_Return);
    EXPECT_FALSE(model().isAsRecorded());
    EXPECT_EQ(model().undoStack().undoText(), title);
    EXPECT_EQ(simulation().step_time.count(), stepNs);
    EXPECT_TRUE(window_.page()->views().pane(Source::simulated).title().contains(QStringLiteral("WHAT IF")));
    EXPECT_EQ(panel().figures().shownValue(0), step);
    EXPECT_EQ(panel().figures().shownValue(1), bubble);
    EXPECT_EQ(panel().figures().shownChange(0), change) << "against the recorded pipeline, as the list was";
    EXPECT_EQ(window_.focusWidget(), &advice.table()) << "the next change can be tried at once";
    ASSERT_TRUE(completes());
    EXPECT_NE(cell(0, AdviceTableModel::title).data().toString(), title);
    const qlonglong next = cell(0, AdviceTableModel::step).data(kExportRole).toLongLong();
    QTest::mouseClick(&advice.tryButton(), Qt::LeftButton);
    EXPECT_EQ(simulation().step_time.count(), next);
    model().undoStack().undo();
    EXPECT_EQ(simulation().step_time.count(), stepNs);
}

TEST_F(ScenarioToolsTest, MovesACutInTheDock) {
    SampleRun run;
    run.partitions = 12;
    open("cuts.json", to_json(sampleProfile(run)));
    selectKey(Qt::Key_B);
    BalanceBar& bar = window_.scenarios().tools()->balance().bar();
    EXPECT_TRUE(bar.isVisible());
    const Balance before = simulation().options.balance;
    bar.setFocus();
    QTest::keyClick(&bar, Qt::Key_Right);
    EXPECT_NE(simulation().options.balance, before);
}

TEST_F(ScenarioToolsTest, SaysSoWithoutAProfile) {
    SampleRun run;
    run.profile = false;
    const auto path = temporaryPath("no_profile_tools.sqlite");
    writeSampleTrace(path, run);
    QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
    window_.files().open(QString::fromStdString(path.string()));
    ASSERT_TRUE(loaded.wait(kPatience));
    EXPECT_TRUE(model().isEmpty());
    selectKey(Qt::Key_D);
    selectKey(Qt::Key_0);
    window_.grab();
}
}  // namespace
}  // namespace pipescope
