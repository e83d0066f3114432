#include "gui/plan/cluster_plan_view.h"

#include "gui/document/document_loader.h"
#include "gui/document/link_tiers.h"
#include "gui/plan/pareto_chart.h"
#include "gui/tables/table_export.h"
#include "simulator/memory/memory_fit.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QComboBox>
#include <QFile>
#include <QLineEdit>
#include <QListWidget>
#include <QProgressBar>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace pipescope {
namespace {
class ClusterPlanViewTest : public testing::Test {
protected:
    void SetUp() override {
        QFile file(folder_.filePath(QStringLiteral("cluster.json")));
        ASSERT_TRUE(file.open(QIODevice::WriteOnly));
        file.write(R"({"format": "pipescope.cluster", "version": 1, "name": "small",
            "nodes": [{"device": "A100", "count": 2, "devices": 2, "price_per_hour": 10,
                       "hours_between_failures": 1000}],
            "between_nodes": {"bytes_per_second": 12.5e9, "latency_ns": 5000}})");
        file.close();
        view_.setCluster(file.fileName());
        form_.model().setText(QStringLiteral("gpt:layers=4,hidden=512,heads=4,sequence=128,vocabulary=1000"));
        form_.batch().setText(QStringLiteral("8"));
        view_.resize(1200, 400);
        view_.show();
    }

    void planNow() {
        QSignalSpy finished(&view_, &ClusterPlanView::finished);
        QTest::mouseClick(&view_.button(), Qt::LeftButton);
        ASSERT_TRUE(finished.wait(kPatience));
    }
    int rows() { return view_.table().model()->rowCount(); }

    QTemporaryDir folder_;
    ClusterPlanView view_;
    ClusterPlanForm& form_ = view_.form();
};

TEST_F(ClusterPlanViewTest, PlansAndOpensACandidateWithItsTimeline) {
    form_.tokens().setText(QStringLiteral("1e9"));
    form_.goal().setCurrentIndex(form_.goal().findText(QStringLiteral("cost")));
    planNow();
    ASSERT_GT(rows(), 2) << view_.message().toStdString();
    ASSERT_NE(view_.plan(), nullptr);
    EXPECT_EQ(view_.plan()->goal, ClusterGoal::cost);
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Best: "))) << view_.message().toStdString();
    EXPECT_FALSE(view_.progress().isVisible());
    std::size_t several = 0;  // a candidate of a pipeline
    while (several < view_.plan()->candidates.size() && view_.plan()->candidates[several].step.layout.pipeline == 1) {
        ++several;
    }
    ASSERT_LT(several, view_.plan()->candidates.size());
    QSignalSpy opened(&view_, &ClusterPlanView::opened);
    view_.table().selectRow(static_cast<int>(several));
    QTest::keyClick(&view_.table(), Qt::Key_Return);
    ASSERT_TRUE(opened.wait(kPatience)) << view_.message().toStdString();
    const std::shared_ptr<const TraceDocument> document = loadTrace(opened.front().front().toString());
    const LayoutStep& step = view_.plan()->candidates[several].step;
    ASSERT_TRUE(document->simulation);
    EXPECT_EQ(document->simulated->lanes().size(), static_cast<std::size_t>(step.layout.pipeline));
    EXPECT_EQ(document->simulation->step_time, step.simulation.step_time);
}

TEST_F(ClusterPlanViewTest, ShowsWhereSamplesAndExpertsLieIfTheyAreSplit) {
    const auto isShown = [&](const QString& title) {
        for (int column = 0; column < view_.table().model()->columnCount(); ++column) {
            if (view_.table().model()->headerData(column, Qt::Horizontal) == title) {
                return !view_.table().isColumnHidden(column);
            }
        }
        return false;
    };
    planNow();
    EXPECT_FALSE(isShown(QStringLiteral("Experts on")));
    EXPECT_FALSE(isShown(QStringLiteral("Sample on")));
    EXPECT_TRUE(isShown(QStringLiteral("Schedule")));
    form_.model().setText(QStringLiteral(
        "gpt:layers=4,hidden=512,heads=4,sequence=128,vocabulary=1000,experts=4,top_k=2,expert_hidden=4096"));
    planNow();
    EXPECT_TRUE(isShown(QStringLiteral("Experts on"))) << view_.message().toStdString();
    EXPECT_FALSE(isShown(QStringLiteral("Sample on")));
    form_.batch().setText(QStringLiteral("1"));
    form_.model().setText(
        QStringLiteral("gpt:layers=4,hidden=512,heads=1,sequence=8192,vocabulary=1000,attention=flash"));
    planNow();
    EXPECT_TRUE(isShown(QStringLiteral("Sample on"))) << view_.message().toStdString();
}

TEST_F(ClusterPlanViewTest, FitsItsProgramToMeasuredSteps) {
    QFile runs(folder_.filePath(QStringLiteral("runs.csv")));
    ASSERT_TRUE(runs.open(QIODevice::WriteOnly));
    runs.write("data-parallel,seconds\n2,0.3\n");
    runs.close();
    form_.program().setText(QStringLiteral("nemo"));
    form_.measured().setText(runs.fileName());
    planNow();
    ASSERT_GT(rows(), 0) << view_.message().toStdString();
    const TrainingProgram& fitted = view_.plan()->candidates.front().step.layout.how();
    EXPECT_EQ(fitted.name, "nemo-measured");
    EXPECT_GT(fitted.work_factor, 10) << "0.3 s is long for this model";
}

TEST_F(ClusterPlanViewTest, PlansAsTheFormSays) {
    form_.tokens().setText(QStringLiteral("1e9"));
    planNow();
    ASSERT_GT(rows(), 0) << view_.message().toStdString();
    const ClusterCandidate usual = view_.plan()->candidates.front();
    EXPECT_EQ(usual.step.layout.dtype, "bfloat16");
    const auto share_of = [](const ClusterCandidate& each, const Failures& failures) {
        return best_checkpoints(failures).effective * (1 - each.wait_hours / each.run_hours);
    };
    EXPECT_DOUBLE_EQ(usual.checkpoints.effective, share_of(usual, {.hours_between = 1000.0 / usual.nodes}));
    form_.dtype().setCurrentIndex(form_.dtype().findText(QStringLiteral("float32")));
    form_.sends().setCurrentIndex(form_.sends().findText(QStringLiteral("overlapped")));
    form_.gradientBucket().setText(QStringLiteral("40MB"));
    form_.checkpointTime().setText(QStringLiteral("600s"));
    form_.restartTime().setText(QStringLiteral("3600s"));
    form_.repairTime().setText(QStringLiteral("1e6s"));
    QListWidget& schedules = form_.schedules();
    for (int row = 0; row < schedules.count(); ++row) {
        const bool wanted = schedules.item(row)->text().toStdString() == to_string(Schedule(Schedule::zero_bubble_h1));
        schedules.item(row)->setCheckState(wanted ? Qt::Checked : Qt::Unchecked);
    }
    planNow();
    ASSERT_GT(rows(), 0) << view_.message().toStdString();
    for (const ClusterCandidate& each : view_.plan()->candidates) {
        EXPECT_EQ(each.step.layout.dtype, "float32");
        EXPECT_EQ(each.step.layout.sends, Sends::overlapped);
        EXPECT_EQ(each.step.layout.gradient_bucket, 40'000'000);
        EXPECT_EQ(each.step.simulation.options.schedule, Schedule(Schedule::zero_bubble_h1));
        EXPECT_DOUBLE_EQ(each.checkpoints.effective, share_of(each, {1000.0 / each.nodes, 600, 3600}));
        // Of the run's own failures, if it is shorter than a repair.
        const double in_repair = std::min(1e6 / 3600, each.run_hours - each.wait_hours);
        EXPECT_EQ(each.spare_nodes + each.missing_nodes, spare_nodes(each.nodes, 1000, in_repair));
    }
    EXPECT_TRUE(view_.message().contains(QStringLiteral("effective"))) << view_.message().toStdString();
}

TEST_F(ClusterPlanViewTest, TakesHowTokensAreSentAndWhatAGradientTakes) {
    const auto choose = [](QComboBox& box, const char* text) { box.setCurrentText(QString::fromLatin1(text)); };
    choose(form_.tokenDispatch(), "node");
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("the model has no experts"))) << view_.message().toStdString();
    form_.model().setText(QStringLiteral(
        "gpt:layers=4,hidden=512,heads=4,sequence=128,vocabulary=1000,experts=4,top_k=2,expert_hidden=4096"));
    choose(form_.gradientBytes(), "2");
    planNow();
    ASSERT_GT(rows(), 0) << view_.message().toStdString();
    for (const ClusterCandidate& each : view_.plan()->candidates) {
        EXPECT_EQ(each.step.layout.dispatch == TokenDispatch::node, each.step.layout.expert > 1);
        EXPECT_EQ(each.step.layout.gradient_bytes, 2);
    }
    form_.model().clear();
    view_.setProfile(sampleProfile(SampleRun{}));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("token-dispatch is given with a profile")))
        << view_.message().toStdString();
    choose(form_.tokenDispatch(), "expert");
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("sizes of its gradients"))) << view_.message().toStdString();
}

TEST_F(ClusterPlanViewTest, ChartAndTableSelectTheSameCandidate) {
    form_.tokens().setText(QStringLiteral("1e9"));
    planNow();
    ASSERT_GT(rows(), 2) << view_.message().toStdString();
    EXPECT_EQ(view_.chart().selected(), 0U);
    const std::vector<ClusterCandidate>& candidates = view_.plan()->candidates;
    for (std::size_t a = 0; a < candidates.size(); ++a) {
        EXPECT_TRUE(view_.chart().rect().contains(view_.chart().pointOf(a).toPoint()));
        for (std::size_t b = 0; b < candidates.size(); ++b) {
            if (candidates[a].run_hours < candidates[b].run_hours) {
                EXPECT_LT(view_.chart().pointOf(a).x(), view_.chart().pointOf(b).x());
            }
            if (candidates[a].cost < candidates[b].cost) {
                EXPECT_GT(view_.chart().pointOf(a).y(), view_.chart().pointOf(b).y());
            }
        }
    }
    QTest::mouseClick(&view_.chart(), Qt::LeftButton, {}, view_.chart().pointOf(candidates.size() - 1).toPoint());
    const std::optional<std::size_t> picked = view_.chart().selected();
    ASSERT_TRUE(picked);
    EXPECT_EQ(view_.table().currentIndex().row(), static_cast<int>(*picked));
    view_.table().selectRow(1);
    EXPECT_EQ(view_.chart().selected(), 1U);
    QSignalSpy opened(&view_, &ClusterPlanView::opened);
    QTest::keyClick(&view_.chart(), Qt::Key_Return);
    ASSERT_TRUE(opened.wait(kPatience)) << view_.message().toStdString();
}

TEST_F(ClusterPlanViewTest, PlansForTheProfileOfTheOpenFile) {
    form_.model().clear();
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("no model is named"))) << view_.message().toStdString();
    view_.setProfile(sampleProfile(SampleRun{}));
    planNow();
    EXPECT_GT(rows(), 0) << view_.message().toStdString();
}

// Options of the command, each with its effect or its refusal.
TEST_F(ClusterPlanViewTest, TakesACatalogueTypesAndAnOptimizer) {
    const auto write = [&](const char* name, const QByteArray& text) {
        QFile file(folder_.filePath(QString::fromLatin1(name)));
        EXPECT_TRUE(file.open(QIODevice::WriteOnly) && file.write(text) == text.size());
        return file.fileName();
    };
    view_.setCluster(write("two.json", R"({"format": "pipescope.cluster", "version": 1, "name": "two",
        "nodes": [{"device": "slow", "count": 2, "devices": 2}, {"device": "fast", "count": 2, "devices": 2}],
        "between_nodes": {"bytes_per_second": 12.5e9, "latency_ns": 5000}})"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("slow"))) << view_.message().toStdString();
    EXPECT_EQ(rows(), 0) << "the built-in catalogue has no such types";
    const QString device = QStringLiteral(
        R"({"name": "%1", "flops_per_second": {"float32": %2, "bfloat16": %2}, "memory_bytes": 16000000000,
            "memory_bytes_per_second": 1e12, "link_bytes_per_second": 1e11, "link_latency_ns": 2000, "launch_ns": 5000,
            "compute_efficiency": 0.5, "memory_efficiency": 0.8, "link_efficiency": 0.8, "source": "a test"})");
    form_.catalogue().setText(
        write("devices.json", (QStringLiteral(R"({"format": "pipescope.devices", "version": 1, "devices": [)") +
                               device.arg(QStringLiteral("slow"), QStringLiteral("1e13")) + QLatin1Char(',') +
                               device.arg(QStringLiteral("fast"), QStringLiteral("1e14")) + QStringLiteral("]}"))
                                  .toUtf8()));
    const auto types = [&] {
        std::set<std::string> found;
        for (const ClusterCandidate& each : view_.plan()->candidates) {
            found.insert(each.step.device);
        }
        return found;
    };
    planNow();
    ASSERT_NE(view_.plan(), nullptr) << view_.message().toStdString();
    EXPECT_TRUE(types().contains("slow") && types().contains("fast")) << view_.message().toStdString();
    form_.deviceTypes().setText(QStringLiteral("slow"));
    planNow();
    ASSERT_NE(view_.plan(), nullptr) << view_.message().toStdString();
    EXPECT_EQ(types(), std::set<std::string>{"slow"});
    QSignalSpy opened(&view_, &ClusterPlanView::opened);
    QTest::keyClick(&view_.table(), Qt::Key_Return);
    EXPECT_TRUE(opened.wait(kPatience)) << "with the same catalogue: " << view_.message().toStdString();
    form_.deviceTypes().setText(QStringLiteral("medium"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("no type 'medium'"))) << view_.message().toStdString();
    form_.deviceTypes().clear();
    form_.optimizer().setText(QStringLiteral("adamax"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("adamax"))) << view_.message().toStdString();

    form_.model().clear();
    view_.setProfile(sampleProfile(SampleRun{}));
    const auto peakWith = [&](const char* optimizer) {
        form_.optimizer().setText(QString::fromLatin1(optimizer));
        planNow();
        EXPECT_GT(rows(), 0) << view_.message().toStdString();
        return view_.plan() != nullptr && rows() > 0 ? highest_peak(view_.plan()->candidates.front().step.simulation)
                                                     : Bytes{0};
    };
    const Bytes plain = peakWith("");
    EXPECT_EQ(peakWith("sgd"), plain);
    EXPECT_GT(peakWith("adam"), plain);
    form_.optimizer().setText(QStringLiteral("nothing"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("nothing"))) << view_.message().toStdString();
    EXPECT_EQ(view_.plan(), nullptr);
}

TEST_F(ClusterPlanViewTest, SaysWhatIsWrong) {
    form_.batch().setText(QStringLiteral("many"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("'many'"))) << view_.message().toStdString();
    form_.batch().setText(QStringLiteral("8"));
    form_.devices().setText(QStringLiteral("64"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("the cluster has 4"))) << view_.message().toStdString();
    form_.devices().clear();
    form_.restartTime().setText(QStringLiteral("soon"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("restart-time is 'soon'"))) << view_.message().toStdString();
    form_.restartTime().clear();
    form_.checkpointTime().setText(QStringLiteral("0s"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("checkpoint-time is 0"))) << view_.message().toStdString();
    form_.checkpointTime().clear();
    for (int row = 0; row < form_.schedules().count(); ++row) {
        form_.schedules().item(row)->setCheckState(Qt::Unchecked);
    }
    view_.start();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("no schedule is selected"))) << view_.message().toStdString();
    form_.schedules().item(0)->setCheckState(Qt::Checked);
    view_.setCluster(QString());
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("choose one"))) << view_.message().toStdString();
    EXPECT_EQ(rows(), 0);
}

TEST_F(ClusterPlanViewTest, IsCancelled) {
    form_.model().setText(QStringLiteral("gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=51200"));
    view_.setCluster(QString::fromUtf8(PIPESCOPE_CLUSTERS "/h100-racks.json"));
    form_.batch().setText(QStringLiteral("4096"));
    QSignalSpy finished(&view_, &ClusterPlanView::finished);
    view_.start();
    EXPECT_TRUE(view_.progress().isVisible());
    view_.cancel();
    ASSERT_TRUE(finished.wait(kPatience));
    EXPECT_TRUE(view_.message().startsWith(QStringLiteral("Cancelled"))) << view_.message().toStdString();
}

TEST(LinkTiers, RankTheLinksOfPartitionsBySpeed) {
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1, 1});
    EXPECT_TRUE(linkTiers(options).empty());
    options.hardware.nearer = {{2, {.bytes_per_second = 100e9, .latency_ns = 2000}}};
    options.hardware.link = {.bytes_per_second = 10e9, .latency_ns = 5000};
    const LinkTiers tiers = linkTiers(options);
    EXPECT_EQ(tiers.ofPartition, (std::vector<int>{0, 1, 0, 1}));
    EXPECT_EQ(tiers.colors(), (std::vector<int>{0, 1, 0, 1}));
    ASSERT_EQ(tiers.tiers.size(), 2U);
    EXPECT_NE(tiers.tiers[0].name, tiers.tiers[1].name);
    options.placement = {LaneId{0}, LaneId{0}, LaneId{1}, LaneId{2}, LaneId{3}};
    EXPECT_EQ(linkTiers(options).ofPartition, (std::vector<int>{-1, 0, 1, 0}));
}

TEST(LinkTiers, AreNamedByWhereTheirLinksLie) {
    PipelineOptions options;
    options.balance = Balance({1, 1, 1, 1});
    options.hardware.link = {.bytes_per_second = 10e9, .latency_ns = 5000, .place = LinkPlace::between_nodes};
    const LinkTiers one = linkTiers(options);
    ASSERT_EQ(one.tiers.size(), 1U);
    EXPECT_EQ(one.tiers[0].name, QStringLiteral("copies between nodes"));
    EXPECT_TRUE(one.tiers[0].about.startsWith(QStringLiteral("10.0"))) << one.tiers[0].about.toStdString();
    EXPECT_EQ(one.colors(), (std::vector<int>{1, 1, 1}));
    // Two links between racks, one of them slower than that between nodes.
    const Link near{.bytes_per_second = 10e9, .place = LinkPlace::between_racks};
    const Link far{.bytes_per_second = 1e9, .place = LinkPlace::between_racks};
    options.hardware.pairs = {{0, 1, far}, {2, 3, near}};
    const LinkTiers tiers = linkTiers(options);
    ASSERT_EQ(tiers.tiers.size(), 2U);
    EXPECT_EQ(tiers.tiers[1].name, QStringLiteral("copies between racks"));
    EXPECT_EQ(tiers.tiers[1].about.count(QLatin1Char('\n')), 1);
    EXPECT_EQ(tiers.colors(), (std::vector<int>{2, 1, 2}));
}
TEST_F(ClusterPlanViewTest, RefusesARunOfNoTokensAsTheCommandDoes) {
    form_.tokens().setText(QStringLiteral("0"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("tokens is '0'"))) << view_.message().toStdString();
    EXPECT_EQ(rows(), 0);
}
}  // namespace
}  // namespace pipescope
