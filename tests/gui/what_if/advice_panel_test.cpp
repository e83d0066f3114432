#include "gui/what_if/advice_panel.h"

#include "gui/style/number_format.h"
#include "gui/what_if/scenario_model.h"
#include "simulator/plan/planner.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAccessible>
#include <QApplication>
#include <QClipboard>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTest>

#include <algorithm>

namespace pipescope {
namespace {
using namespace std::chrono_literals;

class AdvicePanelTest : public testing::Test {
protected:
    void SetUp() override {
        SampleRun run;
        run.partitions = 8;
        profile_ = sampleProfile(run);
        recorded_.options = sampleOptions(run);
        recorded_.options.balance = Balance({3, 1, 2, 2});
        recorded_.options.chunks = 8;
        recorded_.options.batch = 32;
        model_.setPatience(1h);
        panel_.resize(1100, 300);
    }

    void play() { model_.setProfile(CheckedProfile(profile_), recorded_); }
    bool completes() {
        return QTest::qWaitFor([this] { return panel_.isComplete(); }, kPatience);
    }

    QAbstractItemModel& rows() { return *panel_.table().model(); }
    QVariant plain(int row, AdviceTableModel::Column column) { return rows().index(row, column).data(kExportRole); }
    QString text(int row, AdviceTableModel::Column column) { return rows().index(row, column).data().toString(); }
    int rowOf(const QString& title) {
        for (int row = 0; row < rows().rowCount(); ++row) {
            if (text(row, AdviceTableModel::title) == title) {
                return row;
            }
        }
        return -1;
    }

    Profile profile_;
    Scenario recorded_;
    ScenarioModel model_;
    AdvicePanel panel_{model_};
};

TEST_F(AdvicePanelTest, ListsEachMoveWithTheFiguresOfItsSimulation) {
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    const Advice advice = advise(CheckedProfile(profile_), recorded_.options);
    ASSERT_EQ(rows().rowCount(), static_cast<int>(advice.moves.size()));
    ASSERT_GT(rows().rowCount(), 5);
    for (int row = 0; row < rows().rowCount(); ++row) {
        const Move& move = advice.moves[static_cast<std::size_t>(row)];
        EXPECT_EQ(text(row, AdviceTableModel::title).toStdString(), move.title);
        EXPECT_EQ(plain(row, AdviceTableModel::step).toLongLong(), move.simulation.step_time.count());
        EXPECT_EQ(text(row, AdviceTableModel::change), formatShareChange(relative_change(advice, move)));
        EXPECT_EQ(plain(row, AdviceTableModel::bubble).toDouble(), move.simulation.bubble_fraction);
        EXPECT_EQ(plain(row, AdviceTableModel::peak).toLongLong(), highest_peak(move.simulation));
        EXPECT_EQ(plain(row, AdviceTableModel::effect).toString().toStdString(), to_string(move.effect));
    }
    EXPECT_EQ(text(0, AdviceTableModel::effect), QStringLiteral("faster"));
    EXPECT_EQ(rows().index(0, AdviceTableModel::change).data(AdviceTableModel::kBarRole).toDouble(), -1)
        << "the largest gain fills its half";
    EXPECT_EQ(panel_.table().currentIndex().row(), 0) << "the best is selected";
    EXPECT_TRUE(panel_.message().contains(QStringLiteral("Lane 0 is the bottleneck")) ||
                panel_.message().contains(QStringLiteral("lane 0 is the bottleneck")))
        << panel_.message().toStdString();
}

TEST_F(AdvicePanelTest, TriesARowByButtonKeyAndDoubleClick) {
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    QSignalSpy tried(&panel_, &AdvicePanel::tried);
    const int row = rowOf(QStringLiteral("Checkpoint: never instead of except_last"));
    ASSERT_GE(row, 0);
    panel_.table().selectRow(row);
    QTest::mouseClick(&panel_.tryButton(), Qt::LeftButton);
    QTest::keyClick(&panel_.table(), Qt::Key_Return);
    const QPoint at = panel_.table().visualRect(rows().index(row, 0)).center();
    QTest::mouseClick(panel_.table().viewport(), Qt::LeftButton, {}, at);
    QTest::mouseDClick(panel_.table().viewport(), Qt::LeftButton, {}, at);
    ASSERT_EQ(tried.count(), 3);
    Scenario never = recorded_;
    never.options.checkpoint = Checkpoint::never;
    for (const QList<QVariant>& each : tried) {
        EXPECT_EQ(each[0].value<Scenario>(), never);
        EXPECT_EQ(each[1].toString(), QStringLiteral("Checkpoint: never instead of except_last"));
    }
}

TEST_F(AdvicePanelTest, CopiesTheCommandThatChecksAChange) {
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    const int row = rowOf(QStringLiteral("Checkpoint: never instead of except_last"));
    ASSERT_GE(row, 0);
    panel_.table().selectRow(row);
    const auto buttons = panel_.findChildren<QPushButton*>();
    const auto check = std::ranges::find_if(
        buttons, [](const QPushButton* each) { return each->text().contains(QStringLiteral("Chec&k it")); });
    ASSERT_NE(check, buttons.end());
    (*check)->click();
    const QString copied = QApplication::clipboard()->text();
    EXPECT_TRUE(copied.startsWith(QStringLiteral("pipescope check "))) << copied.toStdString();
    EXPECT_TRUE(copied.contains(QStringLiteral(" --balance 3,1,2,2 -m 8 --batch 32 "))) << copied.toStdString();
    EXPECT_TRUE(copied.endsWith(QStringLiteral(" -- --checkpoint never"))) << copied.toStdString();
}

TEST_F(AdvicePanelTest, MarksChangesWithinTheErrorOfTheSimulation) {
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    const double best = -plain(0, AdviceTableModel::change).toDouble();
    ASSERT_GT(best, 0);
    EXPECT_EQ(text(0, AdviceTableModel::effect), QStringLiteral("faster"));
    model_.setModelError(ModelError{best / 2, best / 2, 9});
    EXPECT_EQ(text(0, AdviceTableModel::effect), QStringLiteral("cannot be told apart"));
    EXPECT_TRUE(panel_.message().contains(QStringLiteral("cannot be told apart"))) << panel_.message().toStdString();
    model_.setModelError(ModelError{best / 2, best / 8, 9});
    EXPECT_TRUE(text(0, AdviceTableModel::effect).startsWith(QStringLiteral("faster by ")));
}

TEST_F(AdvicePanelTest, FollowsTheScenario) {
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    Scenario never = recorded_;
    never.options.checkpoint = Checkpoint::never;
    model_.change(never, QStringLiteral("checkpoint"));
    EXPECT_FALSE(panel_.isComplete());
    EXPECT_EQ(rows().rowCount(), 0) << "moves of the former scenario would be wrong";
    EXPECT_FALSE(panel_.tryButton().isEnabled());
    ASSERT_TRUE(completes());
    EXPECT_GE(rowOf(QStringLiteral("Checkpoint: except_last instead of never")), 0);
    EXPECT_LT(rowOf(QStringLiteral("Checkpoint: never instead of except_last")), 0);
}

TEST_F(AdvicePanelTest, ShowsExpectedStepsOnceTheNoiseIsKnown) {
    for (LayerProfile& layer : profile_.layers) {
        layer.forward_cv = layer.backward_cv = 0.2;
    }
    play();
    QString first;  // what the panel says beside its first rows
    QString header;
    QObject::connect(&rows(), &QAbstractItemModel::modelReset, &panel_, [&] {
        if (first.isEmpty() && rows().rowCount() > 0) {
            first = panel_.message();
            header = rows().headerData(AdviceTableModel::step, Qt::Horizontal).toString();
        }
    });
    panel_.show();
    ASSERT_TRUE(completes());
    Advice advice = advise(CheckedProfile(profile_), recorded_.options);
    EXPECT_TRUE(first.startsWith(QStringLiteral("Without noise so far"))) << first.toStdString();
    EXPECT_TRUE(first.contains(formatDuration(advice.base.step_time.count()))) << "the base of the differences";
    EXPECT_EQ(header, QStringLiteral("Step without noise"));
    add_noise(CheckedProfile(profile_), advice);
    EXPECT_TRUE(panel_.message().contains(formatDuration(advice.base.noise->mean.count())));
    EXPECT_FALSE(panel_.message().contains(QStringLiteral("Without noise")));
    EXPECT_EQ(rows().headerData(AdviceTableModel::step, Qt::Horizontal).toString(), QStringLiteral("Step time"));
    for (int row = 0; row < rows().rowCount(); ++row) {
        const Move& move = advice.moves.at(static_cast<std::size_t>(row));
        EXPECT_EQ(text(row, AdviceTableModel::effect).startsWith(QStringLiteral("within noise")),
                  is_within_noise(advice, move));
    }
    EXPECT_EQ(text(0, AdviceTableModel::title).toStdString(), advice.moves.front().title);
    EXPECT_EQ(plain(0, AdviceTableModel::step).toLongLong(), advice.moves.front().simulation.noise->mean.count());
    EXPECT_EQ(panel_.table().currentIndex().row(), 0) << "the best is selected";
}

// Without noise, another change is the best.
TEST_F(AdvicePanelTest, SelectsTheBestChangeOnceTheNoiseIsKnownUnlessTheUserSelectsAnother) {
    profile_.layers.front().forward_cv = profile_.layers.front().backward_cv = 0.8;
    recorded_.options.balance = Balance({4, 4});
    recorded_.options.chunks = 4;
    recorded_.options.batch = 16;
    recorded_.options.hardware.memory_limit = {};
    Advice advice = advise(CheckedProfile(profile_), recorded_.options);
    const std::string quiet = advice.moves.front().title;
    add_noise(CheckedProfile(profile_), advice);
    ASSERT_NE(advice.moves.front().title, quiet);
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    EXPECT_EQ(panel_.table().currentIndex().row(), 0);

    QString chosen;
    QObject::connect(&rows(), &QAbstractItemModel::modelReset, &panel_, [&] {
        if (chosen.isEmpty() && rows().rowCount() > 0) {
            chosen = text(2, AdviceTableModel::title);
            QMetaObject::invokeMethod(
                &panel_, [this] { panel_.table().selectRow(2); }, Qt::QueuedConnection);
        }
    });
    play();
    ASSERT_TRUE(completes());
    EXPECT_FALSE(chosen.isEmpty());
    EXPECT_EQ(text(panel_.table().currentIndex().row(), AdviceTableModel::title), chosen);
}

TEST_F(AdvicePanelTest, ComputesNothingWhileItIsHidden) {
    play();
    QSignalSpy advised(&panel_, &AdvicePanel::advised);
    EXPECT_FALSE(advised.wait(500)) << "longer than the scenario has to rest";
    panel_.show();
    ASSERT_TRUE(completes());
    EXPECT_GT(rows().rowCount(), 0);
}

TEST_F(AdvicePanelTest, LeadsAPipelineThatDoesNotFitToOnesThatDo) {
    recorded_.options.checkpoint = Checkpoint::never;
    PipelineOptions frugal = recorded_.options;
    frugal.checkpoint = Checkpoint::always;
    recorded_.options.hardware.memory_limit = highest_peak(simulate(CheckedProfile(profile_), frugal));
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    EXPECT_TRUE(panel_.message().contains(QStringLiteral("above its limit"))) << panel_.message().toStdString();
    EXPECT_EQ(text(0, AdviceTableModel::effect), QStringLiteral("makes it fit"));
    recorded_.options.hardware.memory_limit = 1;
    play();
    ASSERT_TRUE(completes());
    EXPECT_TRUE(panel_.message().contains(QStringLiteral("Plan (Ctrl+P) tries several at once")));
    EXPECT_TRUE(text(0, AdviceTableModel::effect).endsWith(QStringLiteral("does not fit")));
}

TEST_F(AdvicePanelTest, StartsFromAutoToo) {
    recorded_.options.schedule = Schedule::automatic;
    play();
    panel_.show();
    ASSERT_TRUE(completes()) << panel_.message().toStdString();
    EXPECT_GE(rowOf(QStringLiteral("Schedule: gpipe instead of auto")), 0);
    EXPECT_EQ(static_cast<std::size_t>(rows().rowCount()),
              advise(CheckedProfile(profile_), recorded_.options).moves.size());
}

TEST_F(AdvicePanelTest, SaysWhyThereIsNoList) {
    panel_.show();
    EXPECT_TRUE(panel_.message().startsWith(QStringLiteral("No advice: this file contains no profile. Open a trace")));
    panel_.setReason(QStringLiteral("is of another program"));
    EXPECT_EQ(panel_.message(), QStringLiteral("No advice: this file is of another program. Open a trace of 'pipescope "
                                               "run --trace', or a profile."));
    EXPECT_FALSE(panel_.tryButton().isVisible() || panel_.table().isVisible());
    recorded_.options.placement = {LaneId{0}, LaneId{7}, LaneId{1}, LaneId{2}};
    play();
    EXPECT_TRUE(panel_.table().isVisible());
    EXPECT_TRUE(
        QTest::qWaitFor([this] { return panel_.message().contains(QStringLiteral("renumber them")); }, kPatience))
        << panel_.message().toStdString();
    recorded_.options.placement.clear();
    recorded_.options.chunks = recorded_.options.batch = 1'000'000;
    play();
    EXPECT_TRUE(QTest::qWaitFor([this] { return panel_.message().contains(QStringLiteral("Use pipescope advise")); },
                                kPatience))
        << panel_.message().toStdString();
}

TEST_F(AdvicePanelTest, HasNamesForScreenReaders) {
    EXPECT_EQ(panel_.table().accessibleName(), QStringLiteral("What to change"));
    EXPECT_EQ(panel_.tryButton().accessibleName(), QStringLiteral("Try the selected change"));
    EXPECT_EQ(panel_.focusProxy(), &panel_.table());
}

TEST_F(AdvicePanelTest, GivesNoPeakThatTheProfileDoesNotKnow) {
    profile_.memory_unknown = true;
    recorded_.options.hardware.memory_limit.reset();
    play();
    panel_.show();
    ASSERT_TRUE(completes());
    ASSERT_GT(rows().rowCount(), 0);
    EXPECT_EQ(text(0, AdviceTableModel::peak), QStringLiteral("unknown"));
    EXPECT_FALSE(plain(0, AdviceTableModel::peak).isValid());
}
}  // namespace
}  // namespace pipescope
