// The questions that people open a trace with, answered with mouse and keyboard in at most three actions each: a click,
// a key or a typed text. SQL on the file, which knows nothing of the viewer, says whether the answer is right.
// docs/evidence/viewer-jobs.md has the table.
#include "gui/style/number_format.h"
#include "gui/style/task_style.h"
#include "gui/tables/bubble_panel.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/selection_panel.h"
#include "gui/tables/table_models.h"
#include "gui/tables/task_table.h"
#include "gui/what_if/advice_panel.h"
#include "gui/what_if/scenario_figures.h"
#include "gui/what_if/scenario_model.h"
#include "gui/what_if/value_slider.h"
#include "gui/what_if/what_if_panel.h"
#include "gui/window/answer_bar.h"
#include "gui/window/run_list_window.h"
#include "gui/window/scenario_tools.h"
#include "gui/window/search_bar.h"
#include "gui/window/step_strip.h"
#include "profiler/profile/profile_file.h"
#include "tests/gui/window/dialog_answer.h"
#include "tests/gui/window/main_window_fixture.h"
#include "tests/trace/device_sample.h"
#include "trace/store/sql_query.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <QClipboard>
#include <QDockWidget>
#include <QFile>
#include <QLineEdit>
#include <QPushButton>
#include <QTabBar>
#include <QTableView>
#include <QToolBar>
#include <QToolButton>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing::StartsWith;

constexpr int kMostActions = 3;

/// How many times as long the layer's tasks take in the step.
using Stretch = double (*)(int step, int layer);

/// A run of equal layers, each step as the simulator runs it with stretched layers. Step 0 is warm-up.
void writeStretchedTrace(const std::filesystem::path& path, const SampleRun& run, Stretch stretch) {
    const Profile equal = sampleProfile(run);
    const PipelineOptions options = sampleOptions(run);
    TraceWriter writer(path, IfExists::replace);
    writer.set_run("model", "\"sample\"");
    writer.set_run("configuration", to_json(options));
    writer.set_profile(to_json(equal));
    Timeline measured{Source::measured, {}, {}};
    std::vector<StepRecord> steps;
    std::int64_t begin = 1'000'000;
    for (int step = 0; step < run.steps; ++step) {
        Profile profile = equal;
        for (int layer = 0; layer < run.partitions; ++layer) {
            LayerProfile& each = profile.layers[static_cast<std::size_t>(layer)];
            for (auto* times : {&each.forward_ns, &each.recompute_ns, &each.backward_ns}) {
                times->front() *= stretch(step, layer) * (1 + 0.002 * (step % 3));  // no two steps are equal
            }
        }
        const Simulation simulation = simulate(std::move(profile), options);
        measured.lanes = simulation.timeline.lanes;
        std::int64_t end = begin;
        for (Slice slice : simulation.timeline.slices) {
            slice.key.step = step;
            slice.start += Nanoseconds{begin};
            slice.end += Nanoseconds{begin};
            end = std::max(end, slice.end.count());
            measured.slices.push_back(slice);
        }
        steps.push_back(
            {step, Nanoseconds{begin}, Nanoseconds{end}, Nanoseconds{begin}, Nanoseconds{end}, 1.0, step == 0});
        begin = end + 5'000'000;
    }
    sort_slices(measured);
    writer.set_lanes(measured.lanes);
    writer.add_timeline(measured);
    for (const StepRecord& step : steps) {
        writer.add_step(step);
    }
    writer.close();
}

/// A run on devices: each forward and backward launches two kernels, of which "gemm" takes longer in forwards and
/// "softmax" in the backwards of partition 2.
void writeKernelTrace(const std::filesystem::path& path) {
    const Timeline run = sampleTimeline({.partitions = 4, .steps = 2});
    TraceWriter writer(path, IfExists::replace);
    std::vector<LaneInfo> lanes = run.lanes;
    for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
        lanes[lane].device = "cuda:" + std::to_string(lane);
    }
    writer.set_lanes(lanes);
    std::vector<Slice> tasks;
    for (const Slice& slice : run.slices) {
        if (slice.key.kind == TaskKind::forward || slice.key.kind == TaskKind::backward) {
            tasks.push_back(slice);
        }
    }
    for (const Slice& task : tasks) {
        add_measured_task(writer, task.key, static_cast<std::int32_t>(task.lane.value()),
                          std::int64_t{7} << 24 | (100 + task.lane.value()), task.start.count(), task.end.count());
    }
    {
        CuptiRows rows(writer, 7);
        std::uint32_t correlation = 0;
        for (const Slice& task : tasks) {
            const bool special = task.key.kind == TaskKind::backward && task.key.partition == 2;
            const std::int64_t length = task.duration().count();
            std::int64_t start = task.start.count() + length / 10;
            for (const auto& [name, share] : {std::pair("gemm", special ? 0.2 : 0.5), std::pair("softmax", 0.3)}) {
                const auto thread = static_cast<std::uint32_t>(100 + task.lane.value());
                rows.add(ApiRecord{task.start.count() + correlation % 2 + 1, task.start.count() + correlation % 2 + 2,
                                   false, thread, ++correlation, "cudaLaunchKernel_v7000", 0});
                KernelRecord kernel;
                const std::int64_t end = start + static_cast<std::int64_t>(static_cast<double>(length) * share);
                kernel.span = {start, end, static_cast<std::uint32_t>(task.lane.value()), 1, 13, correlation, 0};
                kernel.mangled_name = kernel.demangled_name = kernel.short_name = name;
                rows.add(kernel);
                start = end;
            }
        }
        rows.finish();
    }
    writer.change([](SQLite::Database& db) { attribute_device_work(db); });
    writer.close();
}

class TenJobs : public MainWindowTest {
protected:
    void SetUp() override {
        MainWindowTest::SetUp();
        activate();
    }
    void TearDown() override {
        EXPECT_LE(actions_, kMostActions);
        RecordProperty("actions", actions_);
    }

    void openFile(const std::filesystem::path& path) {
        path_ = path;
        QSignalSpy loaded(&window_.files(), &FileTabs::loaded);
        window_.files().open(QString::fromStdString(path.string()));
        ASSERT_TRUE(loaded.wait(kPatience));
        judged();
    }
    void openStretched(const char* name, const SampleRun& run, Stretch stretch) {
        const std::filesystem::path path = temporaryPath(name);
        writeStretchedTrace(path, run, stretch);
        openFile(path);
    }
    void judged() {
        settle();
        ASSERT_TRUE(QTest::qWaitFor([this] { return window_.page()->answer().verdict() != nullptr; }, kPatience));
        settle();
    }

    void click(QWidget& widget, const QPoint& at, Qt::KeyboardModifiers modifiers = {}) {
        ++actions_;
        ASSERT_TRUE(widget.isVisible() && widget.rect().contains(at));
        QTest::mouseClick(&widget, Qt::LeftButton, modifiers, at);
        settle();
    }
    void click(QWidget& widget) { click(widget, widget.rect().center()); }
    void clickRow(QTableView& table, int row, Qt::KeyboardModifiers modifiers = {}) {
        click(*table.viewport(), table.visualRect(table.model()->index(row, 0)).center(), modifiers);
    }
    void clickTab(const QString& title) {
        for (auto* bar : window_.findChildren<QTabBar*>()) {
            for (int tab = 0; tab < bar->count(); ++tab) {
                if (bar->tabText(tab) == title && bar->isVisible()) {
                    click(*bar, bar->tabRect(tab).center());
                    return;
                }
            }
        }
        FAIL() << "no tab " << title.toStdString();
    }
    void clickTool(const QString& word) {
        for (auto* button : window_.findChild<QToolBar*>(QStringLiteral("tools"))->findChildren<QToolButton*>()) {
            if (button->text() == word) {
                click(*button);
                return;
            }
        }
        FAIL() << "no tool " << word.toStdString();
    }
    void press(Qt::Key key, Qt::KeyboardModifiers modifiers) {
        ++actions_;
        QTest::keyClick(&window_, key, modifiers);
        settle();
    }
    /// One action, as a word is one thought.
    void type(QWidget& field, const QString& text) {
        ++actions_;
        QTest::keyClicks(&field, text);
        QTest::keyClick(&field, Qt::Key_Return);
        settle();
    }
    bool isInFront(const char* name) {
        return !window_.findChild<QDockWidget*>(QString::fromLatin1(name))->visibleRegion().isEmpty();
    }
    SelectionFacts selected() { return window_.tables().selection().facts(); }
    /// The place of a time in the measured row of a lane.
    QPoint placeOf(std::int64_t time, std::int64_t lane) {
        const QRect rows = measured().lanesRect();
        const double x = pixelOf(window_.page()->axis().window(), rows.width(), time);
        return {rows.left() + static_cast<int>(x), measured().laneRect(LaneId{lane}).top() + 6};
    }

    std::vector<std::vector<SqlValue>> rowsOf(const std::string& sql) { return query_sql(path_, sql).rows; }
    template <class Value>
    static Value as(const SqlValue& value) {
        return std::get<Value>(value);
    }
    std::int64_t number(const std::string& sql) { return as<std::int64_t>(rowsOf(sql).at(0).at(0)); }
    int shownStep() { return window_.page()->model().step(); }

    /// Gaps of the lanes in the shown step, the longest first: lane, start, end, and kind and micro-batch of the task
    /// that follows (NULL at the end of the step).
    std::vector<std::vector<SqlValue>> gaps() {
        return rowsOf(fmt::format(
            "WITH work AS (SELECT lane, start, end, kind, microBatch FROM PIPESCOPE_TASK WHERE source = 'measured' AND "
            "step = {} AND kind NOT LIKE '%copy%'), step AS (SELECT min(start) AS first, max(end) AS last FROM work), "
            "all_work AS (SELECT * FROM work UNION ALL SELECT DISTINCT work.lane, last, last, NULL, NULL FROM work, "
            "step) "
            "SELECT lane, coalesce(lag(end) OVER (PARTITION BY lane ORDER BY start, end), (SELECT first FROM step)) AS "
            "before, "
            "start, kind, microBatch FROM all_work ORDER BY start - before DESC",
            shownStep()));
    }

    std::filesystem::path path_;
    int actions_ = 0;
};

constexpr Stretch kEven = [](int, int) { return 1.0; };

TEST_F(TenJobs, WhyDoesLaneZeroWait) {
    openStretched("wait.sqlite", {.partitions = 4, .chunks = 6, .steps = 5}, kEven);
    const auto all = gaps();
    const auto gap = *std::ranges::find_if(all, [](const auto& each) { return as<std::int64_t>(each[0]) == 0; });
    ASSERT_EQ(as<std::string>(gap[3]), "backward");
    const auto microBatch = as<std::int64_t>(gap[4]);
    click(*measured().viewport(), placeOf((as<std::int64_t>(gap[1]) + as<std::int64_t>(gap[2])) / 2, 0));
    // Its next task needs the gradient of the same micro-batch from partition 1, which ends when the gap does.
    const std::string awaited = fmt::format("backward of micro-batch {} on partition 1", microBatch);
    EXPECT_THAT(selected().text.toStdString(), HasSubstr(awaited));
    const std::int64_t end =
        number(fmt::format("SELECT end FROM PIPESCOPE_TASK WHERE source = 'measured' AND step = {} AND kind = "
                           "'backward' AND partition = 1 AND "
                           "microBatch = {}",
                           shownStep(), microBatch));
    EXPECT_NEAR(static_cast<double>(as<std::int64_t>(gap[2]) - end), 0, 1e6) << "a copy lies between";
}

TEST_F(TenJobs, WhichBubbleIsTheLongestAndWhoIsTheCulprit) {
    openStretched("longest.sqlite", {.partitions = 4, .chunks = 6, .steps = 5},
                  [](int, int layer) { return layer == 3 ? 1.4 : 1.0; });
    clickTab(QStringLiteral("Bubbles"));
    QTableView& table = window_.tables().bubbles().list().table();
    clickRow(table, 0);
    const auto longest = gaps().at(0);
    const std::optional<PartSelection>& part = window_.page()->axis().part();
    ASSERT_TRUE(part && part->kind == PartSelection::Kind::bubble);
    EXPECT_EQ(part->lane.value(), as<std::int64_t>(longest[0]));
    EXPECT_GE(part->bubble.start, as<std::int64_t>(longest[1]));
    EXPECT_LE(part->bubble.end, as<std::int64_t>(longest[2]));
    const double share = static_cast<double>(part->bubble.length()) /
                         static_cast<double>(as<std::int64_t>(longest[2]) - as<std::int64_t>(longest[1]));
    EXPECT_GT(share, 0.95) << "the rest is the copy";
    const std::int64_t next = as<std::int64_t>(longest[0]) + 1;
    const std::string culprit =
        fmt::format("backward of micro-batch {} on partition {}", as<std::int64_t>(longest[4]), next);
    EXPECT_THAT(selected().text.toStdString(), HasSubstr(culprit));
}

TEST_F(TenJobs, WhyWasTheSlowestStepSlow) {
    openStretched("slowest.sqlite", {.partitions = 4, .chunks = 6, .steps = 8},
                  [](int step, int layer) { return step == 5 && layer == 2 ? 1.7 : 1.0; });
    const StepStrip& strip = window_.page()->stepStrip();
    const std::int64_t slowest = number("SELECT step FROM PIPESCOPE_STEP WHERE NOT warmup ORDER BY end - start DESC");
    EXPECT_EQ(slowest, 5);
    click(window_.page()->stepStrip(), strip.barOf(static_cast<std::int32_t>(slowest))->rect.center().toPoint());
    ASSERT_TRUE(isInFront("stepReason"));
    const SelectionFacts reason = window_.tables().stepReason().facts();
    EXPECT_THAT(reason.title.toStdString(), HasSubstr("step 5"));
    const std::int32_t median = strip.history().steps[*strip.history().median].step;
    const auto lane = rowsOf(fmt::format(
        "SELECT lane FROM PIPESCOPE_TASK WHERE source = 'measured' AND kind NOT LIKE '%copy%' GROUP BY lane ORDER BY "
        "sum(CASE WHEN step = {} THEN end - start WHEN step = {} THEN start - end ELSE 0 END) DESC",
        slowest, median));
    EXPECT_EQ(as<std::int64_t>(lane.at(0).at(0)), 2);
    EXPECT_THAT(reason.text.toStdString(), HasSubstr("lane 2")) << "which worked longest more";
}

TEST_F(TenJobs, WhichChangeHelpsMostAndIsItReal) {
    const SampleRun run{.partitions = 4, .chunks = 4, .steps = 6};
    openStretched("change.sqlite", run, kEven);
    clickTool(QStringLiteral("What to change"));
    AdvicePanel& advice = window_.scenarios().tools()->advice();
    ASSERT_TRUE(QTest::qWaitFor([&] { return advice.isComplete(); }, kPatience));
    const auto* model = dynamic_cast<const AdviceTableModel*>(advice.table().model());
    ASSERT_NE(model, nullptr);
    const AdviceRow first = *model->rowAt(0);
    const double expected =
        static_cast<double>(simulate(sampleProfile(run), first.move.simulation.options).step_time.count()) /
            static_cast<double>(simulate(sampleProfile(run), sampleOptions(run)).step_time.count()) -
        1;
    EXPECT_NEAR(first.change, expected, 1e-9);
    EXPECT_LT(first.change, -0.05);
    for (int row = 1; row < model->rowCount(); ++row) {
        EXPECT_GE(model->rowAt(row)->change, first.change) << model->rowAt(row)->move.title;
    }
    // Is it real: by how much the model was wrong on this run, and the command that lets a run decide.
    ASSERT_TRUE(first.error);
    const double measuredMean =
        as<double>(rowsOf("SELECT avg(end - start) FROM PIPESCOPE_STEP WHERE NOT warmup").at(0).at(0));
    const double error =
        static_cast<double>(simulate(sampleProfile(run), sampleOptions(run)).step_time.count()) / measuredMean - 1;
    EXPECT_NEAR(first.error->error, error, 0.005);
    EXPECT_FALSE(first.withinError);
    click(advice.checkButton());
    EXPECT_THAT(QApplication::clipboard()->text().toStdString(), StartsWith("pipescope check "));
}

TEST_F(TenJobs, WhatDoSixteenMicroBatchesGive) {
    const SampleRun run{.partitions = 4, .chunks = 8, .steps = 4};
    const std::filesystem::path path = temporaryPath("sixteen.sqlite");
    writeStretchedTrace(path, run, kEven);
    openFile(path);
    clickTool(QStringLiteral("What if"));
    WhatIfPanel& panel = window_.scenarios().tools()->panel();
    QuantityBox& box = panel.microBatches().box();
    ++actions_;
    QTest::mouseDClick(box.findChild<QLineEdit*>(), Qt::LeftButton);
    type(box, QStringLiteral("16"));
    ASSERT_TRUE(QTest::qWaitFor([&] { return panel.microBatches().value() == 16; }, kPatience));
    PipelineOptions options = window_.scenarios().tools()->model().scenario().options;
    EXPECT_EQ(options.chunks, 16);
    const Simulation own = simulate(sampleProfile(run), options);
    EXPECT_EQ(panel.figures().shownValue(0), formatDuration(own.step_time.count()));
    EXPECT_EQ(panel.figures().shownValue(1), formatShare(own.bubble_fraction));
}

TEST_F(TenJobs, WhichKernelDominatesTheBackwardOfAStage) {
    const std::filesystem::path path = temporaryPath("kernel.sqlite");
    writeKernelTrace(path);
    openFile(path);
    const auto task =
        rowsOf(fmt::format("SELECT (start + end) / 2, lane FROM PIPESCOPE_TASK WHERE kind = 'backward' AND "
                           "partition = 2 AND step = {}",
                           shownStep()))
            .at(0);
    click(*measured().viewport(), placeOf(as<std::int64_t>(task[0]), as<std::int64_t>(task[1])));
    const auto kernels = rowsOf(fmt::format(
        "SELECT s.value, sum(k.end - k.start) AS ns FROM CUPTI_ACTIVITY_KIND_KERNEL AS k JOIN StringIds AS s ON s.id = "
        "k.shortName JOIN PIPESCOPE_DEVICE_WORK AS w ON w.activity = 'kernel' AND w.activityId = k.rowid JOIN "
        "PIPESCOPE_TASK AS t ON t.id "
        "= w.taskId WHERE t.kind = 'backward' AND t.partition = 2 AND t.step = {} GROUP BY 1 ORDER BY ns DESC",
        shownStep()));
    EXPECT_EQ(as<std::string>(kernels.at(0).at(0)), "softmax");
    const SelectionFacts facts = selected();
    const auto section = std::ranges::find_if(facts.sections, [](const FactSection& each) {
        return each.heading.startsWith(QStringLiteral("Work of every backward on partition 2"));
    });
    ASSERT_NE(section, facts.sections.end());
    ASSERT_EQ(section->rows.size(), kernels.size());
    for (std::size_t k = 0; k < kernels.size(); ++k) {
        EXPECT_EQ(section->rows[k].name.toStdString(), as<std::string>(kernels[k][0]));
        EXPECT_TRUE(section->rows[k].measured.startsWith(formatDuration(as<std::int64_t>(kernels[k][1]))))
            << section->rows[k].measured.toStdString();
    }
}

TEST_F(TenJobs, WhichRankIsSlowInARunOfEight) {
    openStretched("ranks.sqlite", {.partitions = 8, .chunks = 12, .steps = 4},
                  [](int, int layer) { return layer == 5 ? 1.5 : 1.0; });
    const std::int64_t slow = number(
        "SELECT lane FROM PIPESCOPE_TASK WHERE source = 'measured' AND kind IN ('forward', 'recompute', 'backward') "
        "GROUP "
        "BY lane ORDER BY sum(end - start) DESC");
    EXPECT_EQ(slow, 5);
    EXPECT_THAT(window_.page()->answer().text().toStdString(), HasSubstr("lane 5")) << "without a click";
}

TEST_F(TenJobs, DidYesterdaysRunDifferAndWhere) {
    const std::filesystem::path folder = temporaryPath("days");
    std::filesystem::create_directories(folder);
    const SampleRun run{.partitions = 4, .chunks = 6, .steps = 6};
    writeStretchedTrace(folder / "a.sqlite", run, kEven);
    writeStretchedTrace(folder / "b.sqlite", run, [](int, int layer) { return layer == 1 ? 1.3 : 1.0; });
    window_.files().open(QString::fromStdString(folder.string()));
    const auto list = [this] { return window_.findChild<RunListWindow*>(); };
    ASSERT_TRUE(QTest::qWaitFor([&] { return list() != nullptr && list()->isComplete(); }, kPatience));
    ASSERT_TRUE(QTest::qWaitForWindowExposed(list(), kPatience));
    clickRow(list()->table().table(), 0, Qt::ControlModifier);  // the newest one is selected already
    click(list()->compareButton());
    ASSERT_TRUE(
        QTest::qWaitFor([&] { return window_.page() != nullptr && window_.page()->model().baseline(); }, kPatience));
    settle();
    const auto meanOf = [](const std::filesystem::path& file) {
        return as<double>(
            query_sql(file, "SELECT avg(end - start) FROM PIPESCOPE_STEP WHERE NOT warmup").rows.at(0).at(0));
    };
    const double change = meanOf(folder / "b.sqlite") / meanOf(folder / "a.sqlite") - 1;
    EXPECT_GT(change, 0.05);
    bool said = false;
    for (const auto* label : window_.page()->findChildren<ElidedLabel*>()) {
        said = said || label->text().contains(formatShareChange(change));
    }
    EXPECT_TRUE(said) << formatShareChange(change).toStdString();
    clickTab(QStringLiteral("Largest differences"));
    const std::vector<ComparedTask>& worst = window_.files().document()->comparison->worst;
    ASSERT_FALSE(worst.empty());
    for (const ComparedTask& each : worst) {
        EXPECT_EQ(each.task.partition, 1);
    }
    EXPECT_EQ(worst.front().task.kind, TaskKind::backward);
    path_ = folder / "b.sqlite";
    const auto sums = rowsOf(
        "SELECT kind, partition FROM PIPESCOPE_TASK WHERE source = 'measured' AND step > 0 AND kind NOT LIKE '%copy%' "
        "GROUP "
        "BY 1, 2 ORDER BY avg(end - start) DESC");
    EXPECT_EQ(as<std::string>(sums.at(0).at(0)), "backward");
    EXPECT_EQ(as<std::int64_t>(sums.at(0).at(1)), 1);
}

TEST_F(TenJobs, WhichTasksTakeMoreThanOneAndAHalfMedians) {
    openStretched("outliers.sqlite", {.partitions = 4, .chunks = 6, .steps = 8},
                  [](int step, int layer) { return step == 3 && layer == 1 ? 1.8 : 1.0; });
    press(Qt::Key_F, Qt::ControlModifier);
    QSignalSpy searched(&window_.search(), &SearchBar::searched);
    type(window_.search().field(), QStringLiteral(">1.5x"));
    ASSERT_TRUE(searched.count() > 0 || searched.wait(kPatience));
    for (auto* button : window_.search().findChildren<QToolButton*>()) {
        if (button->text() == QStringLiteral("List")) {
            click(*button);
        }
    }
    const std::int64_t longer = number(
        "WITH each AS (SELECT kind, partition, end - start AS ns FROM PIPESCOPE_TASK WHERE source = 'measured'), "
        "ranked AS "
        "(SELECT *, row_number() OVER (PARTITION BY kind, partition ORDER BY ns) AS place, count(*) OVER (PARTITION BY "
        "kind, partition) AS all_of FROM each), middle AS (SELECT kind, partition, avg(ns) AS median FROM ranked WHERE "
        "place IN ((all_of + 1) / 2, (all_of + 2) / 2) GROUP BY kind, partition) SELECT count(*) FROM each JOIN middle "
        "ON "
        "each.kind = middle.kind AND each.partition IS middle.partition WHERE ns > 1.5 * median");
    EXPECT_GT(longer, 6);
    ASSERT_TRUE(QTest::qWaitFor([&] { return window_.tables().tasks().model().rowCount() == static_cast<int>(longer); },
                                kPatience))
        << window_.tables().tasks().model().rowCount() << " instead of " << longer;
    EXPECT_TRUE(isInFront("tasks"));
}

TEST_F(TenJobs, SendTheFindingToAColleague) {
    openStretched("finding.sqlite", {.partitions = 4, .chunks = 6, .steps = 5}, kEven);
    const auto task =
        rowsOf(fmt::format("SELECT (start + end) / 2, lane FROM PIPESCOPE_TASK WHERE source = 'measured' AND "
                           "kind = 'backward' AND partition = 2 AND microBatch = 3 AND step = {}",
                           shownStep()))
            .at(0);
    click(*measured().viewport(), placeOf(as<std::int64_t>(task[0]), as<std::int64_t>(task[1])));
    const QString page = QString::fromStdString(temporaryPath("finding.html").string());
    QSignalSpy written(&window_.exports(), &ExportMenu::pageWritten);
    const DialogAnswer answer(page);
    ++actions_;  // the name, typed into the dialog
    press(Qt::Key_H, Qt::ControlModifier | Qt::ShiftModifier);
    ASSERT_TRUE(answer.answered());
    ASSERT_TRUE(written.count() > 0 || written.wait(kPatience));
    QFile file(page);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    const QByteArray html = file.readAll();
    EXPECT_TRUE(html.contains("\"selected\":[\"measured\","));
    EXPECT_TRUE(html.contains(QByteArray("\"step\":") + QByteArray::number(shownStep())));
    EXPECT_TRUE(html.contains("backward of micro-batch 3 on partition 2"));
    EXPECT_LT(html.size(), 2 << 20) << "small enough for a mail";
}
}  // namespace
}  // namespace pipescope
