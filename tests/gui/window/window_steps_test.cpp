#include "analysis/stored_simulation.h"
#include "gui/document/step_history.h"
#include "gui/style/number_format.h"
#include "gui/timeline/timeline_pane.h"
#include "gui/window/page_model.h"
#include "gui/window/step_box.h"
#include "gui/window/step_strip.h"
#include "tests/gui/window/main_window_fixture.h"

#include <QAction>
#include <QHelpEvent>
#include <QMenuBar>
#include <QToolTip>

#include <algorithm>
#include <ctime>
#include <functional>
#include <memory>
#include <utility>

namespace pipescope {
namespace {
class WindowSteps : public MainWindowTest {
protected:
    StepStrip& strip() { return window_.page()->stepStrip(); }
    StepBox& box() { return window_.page()->stepBox(); }
    std::int32_t shown() { return window_.page()->model().step(); }
    void click(std::int32_t step) {
        QTest::mouseClick(&strip(), Qt::LeftButton, {}, strip().barOf(step)->rect.center().toPoint());
    }
    QAction* action(const QString& text) {
        for (QAction* each : window_.findChildren<QAction*>()) {
            if (each->text().remove(QLatin1Char('&')) == text) {
                return each;
            }
        }
        return nullptr;
    }
};

TEST_F(WindowSteps, ChooseByAClickOnTheBar) {
    SampleRun run;
    run.steps = 8;
    open("strip.sqlite", run);
    ASSERT_TRUE(strip().isVisible());
    ASSERT_EQ(strip().numBars(), 8U);
    for (const std::int32_t step : {7, 0, 3}) {
        click(step);
        EXPECT_EQ(shown(), step);
        const StepStatistics& of = window_.files().document()->measured->step(step)->statistics;
        EXPECT_EQ(box().text().toStdString(),
                  QStringLiteral("%1 (%2)").arg(step).arg(formatDuration(of.step_time().count())).toStdString());
        EXPECT_TRUE(headlineOf(window_, Source::measured).contains(formatDuration(of.step_time().count())));
    }
    // Beside the last bar is no step.
    QTest::mouseClick(&strip(), Qt::LeftButton, {}, strip().barOf(7)->rect.center().toPoint() + QPoint(40, 0));
    EXPECT_EQ(shown(), 3);
}

TEST_F(WindowSteps, ChooseByKeysAndMenu) {
    SampleRun run;
    run.steps = 8;
    open("strip.sqlite", run);
    click(4);
    strip().setFocus();
    QTest::keyClick(&strip(), Qt::Key_Right);
    EXPECT_EQ(shown(), 5);
    QTest::keyClick(&strip(), Qt::Key_Home);
    EXPECT_EQ(shown(), 0);
    QTest::keyClick(&strip(), Qt::Key_Left);
    EXPECT_EQ(shown(), 0);
    QTest::keyClick(&strip(), Qt::Key_End);
    EXPECT_EQ(shown(), 7);
    activate();
    window_.page()->focusTimeline();
    QTest::keyClick(measured().viewport(), Qt::Key_PageUp, Qt::AltModifier);
    EXPECT_EQ(shown(), 6);
    QTest::keyClick(measured().viewport(), Qt::Key_PageDown, Qt::AltModifier);
    EXPECT_EQ(shown(), 7);
    const StepHistory& history = strip().history();
    ASSERT_NE(action(QStringLiteral("Slowest step")), nullptr);
    action(QStringLiteral("Slowest step"))->trigger();
    EXPECT_EQ(shown(), history.steps[*history.slowest].step);
    action(QStringLiteral("Median step"))->trigger();
    EXPECT_EQ(shown(), history.steps[*history.median].step);
}

TEST_F(WindowSteps, TakeATypedNumber) {
    SampleRun run;
    run.steps = 8;
    open("strip.sqlite", run);
    const auto type = [&](const QString& text) {
        box().setFocus();
        box().selectAll();
        QTest::keyClicks(&box(), text);
        QTest::keyClick(&box(), Qt::Key_Return);
    };
    type(QStringLiteral("2"));
    EXPECT_EQ(shown(), 2);
    EXPECT_TRUE(box().text().startsWith(QStringLiteral("2 ("))) << box().text().toStdString();
    type(QStringLiteral("500"));
    EXPECT_EQ(shown(), 7) << "the nearest one";
    QTest::keyClick(&box(), Qt::Key_Down);
    EXPECT_EQ(shown(), 6);
}

TEST_F(WindowSteps, TakeTheSelectedTaskAlong) {
    open("along.sqlite");
    for (const std::int32_t step : {1, 2, 0}) {
        window_.page()->model().selectStep(step);
        ASSERT_EQ(shown(), step);
        if (!window_.page()->axis().selection()) {
            window_.page()->model().select(Source::measured, slice(Source::measured, task_));
        }
        const TaskSelection selection = *window_.page()->axis().selection();
        EXPECT_EQ(selection.slice, slice(Source::measured, {step, TaskKind::backward, 1, 2, -1}));
        EXPECT_EQ(selection.twin, slice(Source::simulated, twin_));
    }
}

/// The first steps of the same file, as read first.
std::shared_ptr<const TraceDocument> partOf(const std::shared_ptr<const TraceDocument>& whole, int steps) {
    SampleRun run;
    run.steps = steps;
    auto part = std::make_shared<TraceDocument>(*whole);
    part->measured = std::make_shared<const TimelineStore>(sampleTimeline(run));
    part->complete = false;
    part->loaded = 0.1;
    return part;
}

TEST_F(WindowSteps, ShowTheMedianOneOfTheWholeFileAndNotOfItsFirstPart) {
    SampleRun run;
    run.steps = 8;
    open("whole.sqlite", run);
    const std::shared_ptr<const TraceDocument> whole = window_.page()->document();
    const std::int32_t typical = typicalStep(*whole);
    int steps = 1;
    while (steps < run.steps && typicalStep(*partOf(whole, steps)) == typical) {
        ++steps;
    }
    ASSERT_LT(steps, run.steps);
    const std::shared_ptr<const TraceDocument> part = partOf(whole, steps);
    const std::int32_t first = typicalStep(*part);
    const auto shown = [&](const std::function<void(PageModel&)>& meanwhile) {
        PageModel model;
        model.setDocument(part, false);
        EXPECT_EQ(model.step(), first);
        meanwhile(model);
        model.setDocument(whole, false);
        return std::pair(model.step(), model.axis().window());
    };
    EXPECT_EQ(shown([](PageModel&) {}), std::pair(typical, windowOf(stepRange(*whole, typical))));
    // A view that the user moved stays.
    EXPECT_EQ(shown([&](PageModel& model) { model.selectStep(first); }).first, first);
    EXPECT_EQ(shown([](PageModel& model) { model.axis().zoom(0.5, 0.5); }).first, first);
    EXPECT_EQ(shown([&](PageModel& model) {
                  model.select(Source::measured, part->measured->find({first, TaskKind::forward, 0, 0, -1}));
              }).first,
              first);
    // A chosen step that the first part lacks, as when the file is read again.
    PageModel model;
    model.setDocument(whole, false);
    model.selectStep(7);
    model.setDocument(part, false);
    model.setDocument(whole, false);
    EXPECT_EQ(model.step(), 7);
}

TEST_F(WindowSteps, StartTheRulerAlsoIfASimulatedOneOverlapsTheStepBefore) {
    PipelineOptions options = sampleOptions({});
    options.update = Update::staggered;
    const Simulation simulation = simulate(sampleProfile({}), options, {.noise = false});
    auto document = std::make_shared<TraceDocument>();
    document->simulated =
        std::make_shared<const TimelineStore>(simulation.timeline, one_step_statistics(simulation), simulation.step);
    ASSERT_TRUE(document->simulated->overlaps());
    PageModel model;
    model.setDocument(document, false);
    EXPECT_GT(model.axis().origin(), 0);
    EXPECT_EQ(model.axis().origin(), document->simulated->steps().front().range().start);
}

TEST_F(WindowSteps, AreHiddenForASingleStepAndOnRequest) {
    SampleRun run;
    run.steps = 1;
    open("one.sqlite", run);
    EXPECT_FALSE(strip().isVisible());
    EXPECT_FALSE(box().isEnabled());
    run.steps = 3;
    open("three.sqlite", run);
    EXPECT_TRUE(strip().isVisible());
    ASSERT_NE(action(QStringLiteral("Steps of the run")), nullptr);
    action(QStringLiteral("Steps of the run"))->trigger();
    EXPECT_FALSE(strip().isVisible());
    open("four.sqlite", run);
    EXPECT_FALSE(strip().isVisible()) << "a new tab too";
    action(QStringLiteral("Steps of the run"))->trigger();
    EXPECT_TRUE(strip().isVisible());
}

TEST_F(WindowSteps, GiveWayInALowWindow) {
    open("low.sqlite");
    EXPECT_TRUE(strip().isVisible());
    window_.resize(1000, 340);
    settle();
    EXPECT_EQ(window_.height(), 340);
    EXPECT_FALSE(strip().isVisible());
    window_.resize(1400, 900);
    settle();
    EXPECT_TRUE(strip().isVisible());
}

// Otherwise the end of a step that is longer than the one before it would be out of sight.
TEST_F(WindowSteps, AreShownWholeAfterAWholeOne) {
    open("whole.sqlite");
    TimeAxisModel& axis = window_.page()->axis();
    const TraceDocument& document = *window_.files().document();
    const std::int32_t first = window_.page()->model().step();
    ASSERT_EQ(axis.window(), windowOf(stepRange(document, first)));
    const std::int32_t other = first == 1 ? 2 : 1;
    ASSERT_NE(windowOf(stepRange(document, other)).length, axis.window().length);
    window_.page()->model().selectStep(other);
    EXPECT_EQ(axis.window(), windowOf(stepRange(document, other)));
    axis.zoom(0.5, 0.5);
    const double length = axis.window().length;
    window_.page()->model().selectStep(first);
    EXPECT_NEAR(axis.window().length, length, 1) << "a part stays a part";
}

TEST_F(WindowSteps, SayWhatTheyAre) {
    open("three.sqlite");
    click(1);
    const StepHistory& history = strip().history();
    EXPECT_TRUE(strip().accessibleDescription().contains(history.describe(1)))
        << strip().accessibleDescription().toStdString();
    ASSERT_EQ(strip().facts().size(), 3);
    EXPECT_TRUE(strip().facts()[2].startsWith(QStringLiteral("loss "))) << strip().facts()[2].toStdString();
    EXPECT_TRUE(strip().facts()[0].contains(formatDuration(history.medianTime.count())));
    const QPoint at = strip().barOf(2)->rect.center().toPoint();
    QHelpEvent help(QEvent::ToolTip, at, strip().mapToGlobal(at));
    QApplication::sendEvent(&strip(), &help);
    EXPECT_EQ(QToolTip::text(), history.describe(2));
}

TEST(StepStrip, ShowsManyStepsInOneBarAndChoosesTheSlowest) {
    auto history = std::make_shared<StepHistory>();
    for (int step = 0; step < 100'000; ++step) {
        history->steps.push_back({step * 3, Nanoseconds{1'000'000 + step % 7}, 0.1, 1.0, false, false});
    }
    history->steps[54'321].time = Nanoseconds{5'000'000};
    history->steps[54'321].slow = true;
    history->median = history->fastest = 0;
    history->slowest = 54'321;
    StepStrip strip;
    strip.resize(800, strip.sizeHint().height());
    strip.setHistory(history);
    std::size_t next = 0;
    for (std::size_t place = 0; place < strip.numBars(); ++place) {
        EXPECT_EQ(strip.bar(place).first, next);
        EXPECT_GT(strip.bar(place).end, next);
        next = strip.bar(place).end;
    }
    EXPECT_EQ(next, history->steps.size());
    EXPECT_LE(strip.bar(strip.numBars() - 1).rect.right(), 800);
    for (const std::int32_t step : {0, 3, 54'321 * 3, 299'997}) {
        ASSERT_TRUE(strip.barOf(step));
        EXPECT_LE(strip.barOf(step)->first, static_cast<std::size_t>(step / 3));
        EXPECT_GT(strip.barOf(step)->end, static_cast<std::size_t>(step / 3));
    }
    QSignalSpy picked(&strip, &StepStrip::picked);
    QTest::mouseClick(&strip, Qt::LeftButton, {}, strip.barOf(54'321 * 3)->rect.center().toPoint());
    ASSERT_EQ(picked.size(), 1);
    EXPECT_EQ(picked[0][0].toInt(), 54'321 * 3);
    EXPECT_FALSE(strip.barOf(1));
}

std::shared_ptr<StepHistory> historyOf(int steps, double loss) {
    auto history = std::make_shared<StepHistory>();
    for (int step = 0; step < steps; ++step) {
        history->steps.push_back({step, Nanoseconds{1'700'000'000}, 0.1, loss - 0.01 * (step % 5), false, false});
    }
    history->median = history->fastest = history->slowest = 0;
    judgeLosses(*history);
    return history;
}

TEST(StepStrip, HasAnAxisWhoseLabelsNeverOverlap) {
    for (const int width : {120, 400, 770, 1600}) {
        for (const int steps : {2, 24, 300, 100'000}) {
            SCOPED_TRACE(std::to_string(width) + " pixels, " + std::to_string(steps) + " steps");
            StepStrip strip;
            strip.resize(width, strip.sizeHint().height());
            strip.setHistory(historyOf(steps, 2.5));
            const std::vector<StepStrip::AxisLabel> labels = strip.axisLabels();
            ASSERT_GE(labels.size(), 3U);
            EXPECT_EQ(labels[0].text, formatDuration(1'700'000'000)) << "the unit too";
            EXPECT_EQ(labels[1].text, QStringLiteral("0"));
            EXPECT_EQ(labels[2].text, QStringLiteral("0"));
            for (std::size_t k = 0; k < labels.size(); ++k) {
                EXPECT_TRUE(QRectF(strip.rect()).contains(labels[k].rect)) << labels[k].text.toStdString();
                for (std::size_t other = 0; other < k; ++other) {
                    EXPECT_FALSE(labels[k].rect.intersects(labels[other].rect)) << labels[k].text.toStdString();
                }
                if (labels[k].isOfStep) {
                    EXPECT_GT(labels[k].rect.top(), strip.bar(0).rect.bottom() - 1);
                }
            }
        }
    }
}

TEST(StepStrip, KeepsTheLossReadableBesideASpikeAndSaysSo) {
    for (const int steps : {24, 30'000}) {  // a bar each, and many in a bar
        auto history = historyOf(steps, 2.5);
        history->steps[14].loss = 2500;
        history->steps[17].loss = NAN;
        history->steps[20].loss = INFINITY;
        judgeLosses(*history);
        StepStrip strip;
        strip.resize(1200, strip.sizeHint().height());
        strip.setHistory(history);
        ASSERT_EQ(strip.facts().size(), 3);
        EXPECT_EQ(strip.facts()[2].toStdString(), "loss 2.46 to 2.5, 2500 in step 14, 2 no number");
        double lowest = 0;
        double highest = 1e9;
        int spikes = 0;
        int noNumbers = 0;
        for (std::size_t place = 0; place < strip.numBars(); ++place) {
            const StepStrip::LossMark mark = strip.lossMark(place);
            spikes += mark == StepStrip::LossMark::spike ? 1 : 0;
            noNumbers += mark == StepStrip::LossMark::no_number ? 1 : 0;
            if (const std::optional<QPointF> at = strip.lossPoint(place); at && mark == StepStrip::LossMark::none) {
                EXPECT_TRUE(QRectF(strip.rect()).contains(*at));
                lowest = std::max(lowest, at->y());
                highest = std::min(highest, at->y());
            }
        }
        EXPECT_EQ(noNumbers, steps == 24 ? 2 : 1);
        EXPECT_EQ(spikes, steps == 24 ? 1 : 0) << "the mark of no number stands for a bar with both";
        if (steps == 24) {
            EXPECT_GT(lowest - highest, strip.bar(0).rect.height() / 2) << "the others have the whole height";
        }
        strip.grab();
    }
}

// A bar once read all steps several times. The window of a run of 80,000 steps gave no answer for seconds.
TEST(StepStrip, PaintsALongRunAtOnce) {
    auto history = std::make_shared<StepHistory>();
    for (int step = 0; step < 200'000; ++step) {
        history->steps.push_back({step, Nanoseconds{1'000'000 + step % 7}, 0.1, 1.0 + step % 3, false, false});
    }
    history->counted = history->steps.size();
    history->median = history->fastest = 0;
    history->slowest = 6;
    StepStrip strip;
    strip.resize(3000, strip.sizeHint().height());
    strip.setHistory(history);
    ASSERT_GT(strip.numBars(), 1000U);
    QImage image(strip.size(), QImage::Format_RGB32);
    const std::clock_t start = std::clock();
    strip.render(&image);
    EXPECT_LT(std::clock() - start, CLOCKS_PER_SEC / 4);  // takes 10 ms; before, several seconds
}

TEST(StepStrip, MarksSlowAndWarmUpStepsByMoreThanColour) {
    auto history = std::make_shared<StepHistory>();
    for (int step = 0; step < 4; ++step) {
        history->steps.push_back({step, Nanoseconds{1'000'000}, {}, {}, step == 0, step == 2});
    }
    history->steps[2].time = Nanoseconds{2'000'000};
    history->median = history->fastest = 1;
    history->slowest = 2;
    StepStrip strip;
    strip.resize(400, strip.sizeHint().height());
    strip.setHistory(history);
    const QImage image = strip.grab(QRect(0, 0, 400, strip.barOf(1)->rect.toRect().bottom() + 1))
                             .toImage()
                             .convertToFormat(QImage::Format_Grayscale8);
    const auto differ = [&](std::int32_t step) {
        const QRect column = strip.barOf(step)->rect.toRect();
        const QRect plain = strip.barOf(1)->rect.toRect();
        int pixels = 0;
        for (int y = 0; y < image.height(); ++y) {
            for (int x = 0; x < column.width() - 2; ++x) {
                pixels +=
                    std::abs(qGray(image.pixel(column.left() + x, y)) - qGray(image.pixel(plain.left() + x, y))) > 40;
            }
        }
        return pixels;
    };
    EXPECT_GT(differ(0), 10);
    EXPECT_GT(differ(2), 10);
    EXPECT_EQ(differ(3), 0);
}
}  // namespace
}  // namespace pipescope
