#include "gui/plan/cluster_plan_view.h"

#include "gui/document/document_loader.h"
#include "gui/document/link_tiers.h"
#include "gui/tables/table_export.h"
#include "tests/gui/patience.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QComboBox>
#include <QFile>
#include <QLineEdit>
#include <QProgressBar>
#include <QPushButton>
#include <QSignalSpy>
#include <QTableView>
#include <QTemporaryDir>
#include <QTest>

#include <memory>

namespace pipescope {
namespace {
class ClusterPlanViewTest : public testing::Test {
protected:
    void SetUp() override {
        QFile file(folder_.filePath(QStringLiteral("cluster.json")));
        ASSERT_TRUE(file.open(QIODevice::WriteOnly));
        file.write(R"({"format": "pipescope.cluster", "version": 1, "name": "small",
            "nodes": [{"device": "A100", "count": 2, "devices": 2, "price_per_hour": 10}],
            "between_nodes": {"bytes_per_second": 12.5e9, "latency_ns": 5000}})");
        file.close();
        view_.setCluster(file.fileName());
        view_.model().setText(QStringLiteral("gpt:layers=4,hidden=512,heads=4,sequence=128,vocabulary=1000"));
        view_.batch().setText(QStringLiteral("8"));
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
};

TEST_F(ClusterPlanViewTest, PlansAndOpensACandidateWithItsTimeline) {
    view_.tokens().setText(QStringLiteral("1e9"));
    view_.goal().setCurrentIndex(view_.goal().findText(QStringLiteral("cost")));
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

TEST_F(ClusterPlanViewTest, PlansForTheProfileOfTheOpenFile) {
    view_.model().clear();
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("no model is named"))) << view_.message().toStdString();
    view_.setProfile(std::make_shared<Profile>(sampleProfile(SampleRun{})));
    planNow();
    EXPECT_GT(rows(), 0) << view_.message().toStdString();
}

TEST_F(ClusterPlanViewTest, SaysWhatIsWrong) {
    view_.batch().setText(QStringLiteral("many"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("'many'"))) << view_.message().toStdString();
    view_.batch().setText(QStringLiteral("8"));
    view_.devices().setText(QStringLiteral("64"));
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("the cluster has 4"))) << view_.message().toStdString();
    view_.devices().clear();
    view_.setCluster(QString());
    planNow();
    EXPECT_TRUE(view_.message().contains(QStringLiteral("choose one"))) << view_.message().toStdString();
    EXPECT_EQ(rows(), 0);
}

TEST_F(ClusterPlanViewTest, IsCancelled) {
    view_.model().setText(QStringLiteral("gpt:layers=96,hidden=12288,heads=96,sequence=2048,vocabulary=51200"));
    view_.setCluster(QString::fromUtf8(PIPESCOPE_CLUSTERS "/h100-racks.json"));
    view_.batch().setText(QStringLiteral("4096"));
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
    ASSERT_EQ(tiers.names.size(), 2U);
    EXPECT_NE(tiers.names[0], tiers.names[1]);
    options.placement = {LaneId{0}, LaneId{0}, LaneId{1}, LaneId{2}, LaneId{3}};
    EXPECT_EQ(linkTiers(options).ofPartition, (std::vector<int>{-1, 0, 1, 0}));
}
}  // namespace
}  // namespace pipescope
