#include "gui/plan/plan_view.h"

#include "base/error.h"
#include "gui/plan/pareto_chart.h"
#include "gui/plan/plan_form.h"
#include "gui/plan/plan_runner.h"
#include "gui/plan/plan_table_model.h"
#include "gui/style/number_format.h"
#include "gui/style/quantity_box.h"
#include "gui/tables/filtered_table.h"
#include "gui/tables/table_export.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QFile>
#include <QHeaderView>
#include <QLineEdit>
#include <QListWidget>
#include <QProgressBar>
#include <QPushButton>
#include <QSemaphore>
#include <QSignalSpy>
#include <QSortFilterProxyModel>
#include <QTableView>
#include <QTest>

#include <filesystem>
#include <fstream>

namespace pipescope {
namespace {
class PlanViewTest : public testing::Test {
protected:
    void SetUp() override {
        run_.partitions = 8;
        open(sampleProfile(run_));
        view_.resize(1200, 400);
        view_.show();
    }

    void open(const CheckedProfile& profile) {
        profile_ = profile;
        PipelineOptions options = sampleOptions(run_);
        options.batch = 16;
        options.hardware.devices.assign(2, "cpu");
        view_.setProfile(profile_, options);
        view_.form().partitions().setText(QStringLiteral("1..4"));
        view_.form().chunks().setText(QStringLiteral("1,4,16"));
    }

    void planNow() {
        QSignalSpy finished(&view_, &PlanView::finished);
        view_.start();
        ASSERT_TRUE(finished.wait(kPatience));
        QApplication::processEvents();
    }

    int rows() { return view_.table().model()->rowCount(); }

    SampleRun run_;
    std::optional<CheckedProfile> profile_;
    PlanView view_;
};

TEST_F(PlanViewTest, FillsTableAndChart) {
    planNow();
    EXPECT_EQ(rows(), 4 * (3 + 3 + 2)) << "never and except_last are the same with one micro-batch";
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Best:"))) << view_.message().toStdString();
    EXPECT_TRUE(view_.chart().candidateAt(view_.chart().pointOf(0)));
    view_.findChild<FilterLine*>()->setText(QStringLiteral("always"));
    EXPECT_EQ(rows(), 4 * 3);
}

TEST_F(PlanViewTest, ShowsExpectedStepsWhereTheProfileHasNoise) {
    planNow();
    const QAbstractItemModel& table = *view_.table().model();
    EXPECT_TRUE(view_.table().isColumnHidden(PlanTableModel::expectedStep));
    EXPECT_EQ(table.headerData(PlanTableModel::stepTime, Qt::Horizontal).toString(), QStringLiteral("Step time"));
    Profile noisy = *profile_;
    for (LayerProfile& layer : noisy.layers) {
        layer.forward_cv = layer.backward_cv = 0.4;
    }
    open(CheckedProfile(noisy));
    planNow();
    EXPECT_FALSE(view_.table().isColumnHidden(PlanTableModel::expectedStep));
    EXPECT_EQ(table.headerData(PlanTableModel::stepTime, Qt::Horizontal).toString(), QStringLiteral("Without noise"));
    const QString expected = table.index(0, PlanTableModel::expectedStep).data().toString();
    EXPECT_NE(expected, table.index(0, PlanTableModel::stepTime).data().toString());
    EXPECT_TRUE(view_.message().contains(QStringLiteral("step ") + expected)) << view_.message().toStdString();
    const auto* model =
        static_cast<const PlanTableModel*>(static_cast<QSortFilterProxyModel&>(*view_.table().model()).sourceModel());
    const PlanCandidate& best = model->plan()->candidates.front();
    const StepFigures figures = expected_figures(best.simulation);
    ASSERT_NE(figures.bubble, best.simulation.bubble_fraction);
    const auto first = [&](PlanTableModel::Column column, int role) { return model->index(0, column).data(role); };
    EXPECT_EQ(first(PlanTableModel::bubble, Qt::DisplayRole).toString(), formatShare(figures.bubble));
    EXPECT_EQ(first(PlanTableModel::samplesPerSecond, kExportRole).toDouble(), figures.samples_per_second);
    EXPECT_EQ(first(PlanTableModel::cost, kExportRole).toDouble(), expected_cost(best));
    EXPECT_EQ(table.headerData(PlanTableModel::bubble, Qt::Horizontal, kExportRole), QStringLiteral("bubble_mean"));
}

TEST_F(PlanViewTest, OpensACandidateByDoubleClickAndByEnter) {
    planNow();
    QSignalSpy opened(&view_, &PlanView::opened);
    view_.table().selectRow(3);
    QTest::keyClick(&view_.table(), Qt::Key_Return);
    ASSERT_EQ(opened.count(), 1);
    const QModelIndex row = view_.table().model()->index(3, PlanTableModel::lanes);
    const QPoint at = view_.table().visualRect(row).center();
    QTest::mouseClick(view_.table().viewport(), Qt::LeftButton, {}, at);
    QTest::mouseDClick(view_.table().viewport(), Qt::LeftButton, {}, at);
    ASSERT_EQ(opened.count(), 2);
    const auto scenario = opened.back().front().value<Scenario>();
    EXPECT_EQ(scenario, opened.front().front().value<Scenario>());
    // Simulating the scenario again gives the figures of its row.
    const SimulatedScenario simulated = simulateScenario(*profile_, scenario);
    ASSERT_TRUE(simulated.runs());
    EXPECT_EQ(QString::number(simulated.simulation.lanes.size()), row.data().toString());
    const QModelIndex step = view_.table().model()->index(3, PlanTableModel::stepTime);
    EXPECT_EQ(simulated.simulation.step_time.count(), step.data(Qt::UserRole + 100).toLongLong());
}

TEST_F(PlanViewTest, OpensAnInterleavedCandidateWithItsPartitionsDealtOut) {
    view_.form().partitions().setText(QStringLiteral("2"));
    view_.form().chunks().setText(QStringLiteral("4"));
    const QList<QListWidgetItem*> ticks =
        view_.form().schedules().findItems(QStringLiteral("interleaved"), Qt::MatchExactly);
    ASSERT_EQ(ticks.size(), 1);
    view_.form().schedules().findItems(QStringLiteral("gpipe"), Qt::MatchExactly)[0]->setCheckState(Qt::Unchecked);
    ticks[0]->setCheckState(Qt::Checked);
    planNow();
    ASSERT_EQ(rows(), 3);
    QSignalSpy opened(&view_, &PlanView::opened);
    view_.table().selectRow(0);
    QTest::keyClick(&view_.table(), Qt::Key_Return);
    ASSERT_EQ(opened.count(), 1);
    const auto scenario = opened[0][0].value<Scenario>();
    EXPECT_EQ(scenario.options.balance.num_partitions(), 4U);
    EXPECT_EQ(scenario.options.placement, (std::vector<LaneId>{LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}}));
}

TEST_F(PlanViewTest, TriesAutoAndSchedulesFromFiles) {
    QListWidget& schedules = view_.form().schedules();
    const auto tick = [&](const char* name, Qt::CheckState state) {
        const QList<QListWidgetItem*> found = schedules.findItems(QString::fromLatin1(name), Qt::MatchExactly);
        ASSERT_EQ(found.size(), 1) << name;
        found[0]->setCheckState(state);
    };
    tick("gpipe", Qt::Unchecked);
    tick("auto", Qt::Checked);
    const std::filesystem::path file = temporaryPath("mine.csv");
    std::ofstream(file) << "0F0,0F1,,,0B1,0B0\n,1F0,1F1,1B1,1B0\n";
    const QString path = QString::fromStdString(file.string());
    view_.form().addSchedule(path);
    view_.form().addSchedule(path);
    tick("mine.csv", Qt::Checked);  // there once
    QSignalSpy refused(&view_.form(), &PlanForm::refused);
    view_.form().addSchedule(path + QStringLiteral(".csv"));
    ASSERT_EQ(refused.count(), 1);
    EXPECT_TRUE(refused[0][0].toString().contains(QStringLiteral("mine.csv.csv")));
    view_.form().partitions().setText(QStringLiteral("2"));
    view_.form().chunks().setText(QStringLiteral("2"));
    planNow();
    ASSERT_EQ(rows(), 2 * 3) << "each with three checkpoint modes; " << view_.message().toStdString();
    QSignalSpy opened(&view_, &PlanView::opened);
    for (int row = 0; row < rows(); ++row) {
        view_.table().selectRow(row);
        QTest::keyClick(&view_.table(), Qt::Key_Return);
        const auto scenario = opened.last().front().value<Scenario>();
        const SimulatedScenario simulated = simulateScenario(*profile_, scenario);
        ASSERT_TRUE(simulated.runs());
        EXPECT_EQ(simulated.simulation.step_time.count(),
                  view_.table().model()->index(row, PlanTableModel::stepTime).data(Qt::UserRole + 100).toLongLong());
    }
    EXPECT_EQ(opened.count(), 6);
}

TEST_F(PlanViewTest, MarksTheSameCandidateInTableAndChart) {
    planNow();
    view_.chart().setFocus();
    QTest::keyClick(&view_.chart(), Qt::Key_Right);
    QTest::keyClick(&view_.chart(), Qt::Key_Right);
    EXPECT_EQ(view_.table().currentIndex().siblingAtColumn(PlanTableModel::rank).data().toString(),
              QStringLiteral("3"));
}

TEST_F(PlanViewTest, SavesTableAndChart) {
    planNow();
    view_.findChild<FilterLine*>()->setText(QStringLiteral("never"));
    const QString csv = QString::fromStdString(temporaryPath("plan.csv").string());
    const QString json = QString::fromStdString(temporaryPath("plan.json").string());
    const QString svg = QString::fromStdString(temporaryPath("plan.svg").string());
    view_.exportTable(csv);
    view_.exportTable(json);
    view_.exportChart(svg);
    QFile file(csv);
    ASSERT_TRUE(file.open(QIODevice::ReadOnly));
    EXPECT_TRUE(file.readLine().startsWith("rank,device_type,lanes,balance"));
    EXPECT_EQ(file.readAll().count('\n'), rows());
    EXPECT_TRUE(QFile::exists(json) && QFile::exists(svg));
    EXPECT_THROW(view_.exportTable(QStringLiteral("plan.doc")), UsageError);
    EXPECT_THROW(view_.exportChart(QStringLiteral("/no/such/folder/plan.png")), Error);
}

TEST_F(PlanViewTest, SaysWhatIsWrongWithTheForm) {
    view_.form().partitions().setText(QStringLiteral("4..two"));
    view_.start();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("two"))) << view_.message().toStdString();
    view_.form().partitions().setText(QStringLiteral("1..4"));
    for (int k = 0; k < view_.form().checkpoints().count(); ++k) {
        view_.form().checkpoints().item(k)->setCheckState(Qt::Unchecked);
    }
    view_.start();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("no checkpoint mode")));
    EXPECT_EQ(rows(), 0);
}

TEST_F(PlanViewTest, ShowsStepTimeAndMemoryWithoutScrolling) {
    view_.resize(1000, 300);
    planNow();
    const QHeaderView& header = *view_.table().horizontalHeader();
    for (const PlanTableModel::Column column :
         {PlanTableModel::stepTime, PlanTableModel::peak, PlanTableModel::lanes}) {
        const int right = header.sectionViewportPosition(column) + header.sectionSize(column);
        EXPECT_LE(right, view_.table().viewport()->width()) << column;
    }
    EXPECT_TRUE(view_.table().isColumnHidden(PlanTableModel::device));
}

TEST_F(PlanViewTest, PlansWithTheMemoryLimitOfTheWhatIfPanel) {
    PipelineOptions options = sampleOptions({});
    options.batch = 16;
    view_.form().batch().setValue(8);  // typed here
    options.hardware.memory_limit = Bytes{300} << 20;
    options.hardware.link.latency_ns = 77;
    view_.follow(options);
    PlanRequest request = view_.form().request(*profile_);
    EXPECT_EQ(request.hardware.memory_limit, Bytes{300} << 20);
    EXPECT_EQ(request.hardware.link.latency_ns, 77);
    EXPECT_EQ(request.batch, 8);  // the panel's is as it was
    planNow();
    for (int row = 0; row < rows(); ++row) {
        const QModelIndex peak = view_.table().model()->index(row, PlanTableModel::peak);
        EXPECT_EQ(peak.data().toString().startsWith(QStringLiteral("▲")),
                  peak.data(kExportRole).toLongLong() > 300 << 20);
    }
    options.hardware.memory_limit.reset();
    view_.follow(options);
    EXPECT_FALSE(view_.form().request(*profile_).hardware.memory_limit);
}

TEST_F(PlanViewTest, SaysWhyATypedLimitIsNotTaken) {
    QuantityBox& limit = view_.form().memoryLimit();
    limit.setFocus();
    limit.selectAll();
    QTest::keyClicks(&limit, QStringLiteral("2 XB"));
    QTest::keyClick(&limit, Qt::Key_Return);
    EXPECT_TRUE(view_.message().contains(QStringLiteral("'XB' is none of the units"))) << view_.message().toStdString();
    EXPECT_EQ(limit.value(), 1);
}

TEST_F(PlanViewTest, SaysWhatADeviceTypeNeeds) {
    view_.form().devices().item(0)->setCheckState(Qt::Checked);  // the sample profile has no flops
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("flops"))) << view_.message().toStdString();
}

TEST_F(PlanViewTest, TellsWhyNothingFits) {
    view_.form().memoryLimit().setValue(0.01);
    planNow();
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Nothing fits"))) << view_.message().toStdString();
    EXPECT_EQ(rows(), 32);
}

TEST_F(PlanViewTest, IsCancelledAndKeepsWhatItFound) {
    view_.form().partitions().setText(QStringLiteral("1..8"));
    view_.form().batch().setValue(4096);
    view_.form().chunks().setText(QStringLiteral("1..2048"));
    QSignalSpy finished(&view_, &PlanView::finished);
    view_.start();
    view_.cancel();
    ASSERT_TRUE(finished.wait(kPatience));
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Cancelled")));
    EXPECT_LT(rows(), 200);
}

/// A planner that evaluates one candidate after another, as the test allows.
class PlanInStepsTest : public testing::Test {
protected:
    void SetUp() override {
        SampleRun run;
        run.partitions = 4;
        profile_ = sampleProfile(run);
        view_.setProfile(profile_, sampleOptions(run));
        view_.resize(1200, 400);
        view_.show();
    }

    ~PlanInStepsTest() override { allowed_.release(kSteps); }  // whatever failed, the worker ends

    Plan planInSteps(const CheckedProfile& profile, const PlanRequest& request) {
        PlanRequest all = request;
        all.progress = {};
        Plan made = plan(profile, all);
        for (int step = 1; step <= kSteps; ++step) {
            allowed_.acquire();
            if (!request.progress(static_cast<double>(step) / kSteps)) {
                made.cancelled = true;
                made.candidates.resize(1);
                made.best.reset();
                return made;
            }
        }
        allowed_.acquire();  // done, but not told yet
        return made;
    }

    bool shows(int thousandths) {
        return QTest::qWaitFor([&] { return view_.progress().value() == thousandths; }, kPatience);
    }

    static constexpr int kSteps = 4;
    QSemaphore allowed_;
    std::optional<CheckedProfile> profile_;
    PlanView view_{nullptr, [this](const CheckedProfile& profile, const PlanRequest& request) {
                       return planInSteps(profile, request);
                   }};
};

TEST_F(PlanInStepsTest, ShowsHowFarItIsWhileTheWindowAnswers) {
    EXPECT_FALSE(view_.progress().isVisible());
    QSignalSpy finished(&view_, &PlanView::finished);
    QTest::mouseClick(&view_.button(), Qt::LeftButton);
    EXPECT_TRUE(view_.progress().isVisible());
    EXPECT_EQ(view_.progress().value(), 0);
    EXPECT_EQ(view_.button().text(), QStringLiteral("&Cancel"));
    EXPECT_EQ(view_.message(), QStringLiteral("Planning…"));
    for (int step = 1; step <= kSteps; ++step) {
        allowed_.release();
        EXPECT_TRUE(shows(step * 1000 / kSteps)) << view_.progress().value();
        view_.findChild<FilterLine*>()->setText(QString::number(step));  // typed meanwhile
    }
    EXPECT_TRUE(finished.isEmpty());
    view_.findChild<FilterLine*>()->clear();
    allowed_.release();
    ASSERT_TRUE(finished.wait(kPatience));
    EXPECT_FALSE(view_.progress().isVisible());
    EXPECT_EQ(view_.button().text(), QStringLiteral("&Plan"));
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Best:"))) << view_.message().toStdString();
    EXPECT_GT(view_.table().model()->rowCount(), 1);
}

TEST_F(PlanInStepsTest, IsCancelledByTheButtonInTheMidst) {
    QSignalSpy finished(&view_, &PlanView::finished);
    view_.button().setFocus();
    QTest::keyClick(&view_.button(), Qt::Key_Space);
    allowed_.release(2);
    ASSERT_TRUE(shows(500)) << view_.progress().value();
    QTest::keyClick(&view_.button(), Qt::Key_Space);
    allowed_.release();  // the worker asks, and is told to stop
    ASSERT_TRUE(finished.wait(kPatience));
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Cancelled."))) << view_.message().toStdString();
    EXPECT_EQ(view_.table().model()->rowCount(), 1);
    EXPECT_FALSE(view_.progress().isVisible());
    EXPECT_EQ(view_.button().text(), QStringLiteral("&Plan"));
}

TEST_F(PlanViewTest, ForgetsAPlanOfAnotherProfile) {
    view_.start();
    view_.setProfile(std::nullopt, {});
    QSignalSpy finished(&view_, &PlanView::finished);
    QTest::qWait(100);
    EXPECT_EQ(finished.count(), 0);
    EXPECT_EQ(rows(), 0);
    view_.start();  // nothing to plan
    EXPECT_TRUE(view_.message().contains(QStringLiteral("no profile")));
}
}  // namespace
}  // namespace pipescope
