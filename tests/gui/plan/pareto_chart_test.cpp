#include "gui/plan/pareto_chart.h"

#include "gui/style/task_style.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QApplication>
#include <QSignalSpy>
#include <QTest>

namespace pipescope {
namespace {
class ParetoChartTest : public testing::Test {
protected:
    void SetUp() override {
        SampleRun run;
        run.partitions = 4;
        PlanRequest request;
        request.partitions = {1, 2, 4};
        request.chunks = {1, 8};
        request.batch = 8;
        request.hardware.memory_limit = Bytes{600} << 20;
        request.threads = 1;
        plan_ = std::make_shared<const Plan>(plan(sampleProfile(run), request));
        chart_.resize(500, 300);
        chart_.setPlan(plan_);
        chart_.show();
        QApplication::processEvents();
    }

    std::shared_ptr<const Plan> plan_;
    ParetoChart chart_;
};

TEST_F(ParetoChartTest, PlacesQuickerToTheLeftAndLessMemoryBelow) {
    for (std::size_t a = 0; a < plan_->candidates.size(); ++a) {
        EXPECT_TRUE(chart_.rect().contains(chart_.pointOf(a).toPoint()));
        for (std::size_t b = 0; b < plan_->candidates.size(); ++b) {
            const Simulation& one = plan_->candidates[a].simulation;
            const Simulation& other = plan_->candidates[b].simulation;
            if (one.step_time < other.step_time) {
                EXPECT_LT(chart_.pointOf(a).x(), chart_.pointOf(b).x());
            }
            if (highest_peak(one) < highest_peak(other)) {
                EXPECT_GT(chart_.pointOf(a).y(), chart_.pointOf(b).y());
            }
        }
    }
}

TEST_F(ParetoChartTest, WritesTwoNumbersAtEachAxisHoweverNearTheCandidatesAre) {
    EXPECT_GE(chart_.xTicks().size(), 2U);
    EXPECT_GE(chart_.yTicks().size(), 2U);
    auto one = std::make_shared<Plan>(*plan_);
    one->candidates.resize(1);
    chart_.setPlan(one);
    const Simulation& only = one->candidates[0].simulation;
    for (const auto& [ticks, value] : {std::pair{chart_.xTicks(), static_cast<double>(only.step_time.count())},
                                       std::pair{chart_.yTicks(), static_cast<double>(highest_peak(only))}}) {
        ASSERT_EQ(ticks.size(), 2U);
        EXPECT_LT(ticks[0], value);
        EXPECT_GT(ticks[1], value);
    }
    chart_.grab();
}

TEST_F(ParetoChartTest, FillsTheFront) {
    const std::size_t best = *plan_->best;
    const QImage image = chart_.grab().toImage();
    const QPoint at = chart_.pointOf(best).toPoint();
    EXPECT_EQ(image.pixelColor(at), chart_.colorOf(best));
}

TEST_F(ParetoChartTest, TellsTheLanesThatKeepASlowerAndFullerCandidateOnTheFront) {
    const auto lanes = [&](std::size_t k) { return plan_->candidates[k].simulation.lanes.size(); };
    int looksBeaten = 0;
    for (std::size_t a = 0; a < plan_->candidates.size(); ++a) {
        for (std::size_t b = 0; plan_->candidates[a].pareto && b < plan_->candidates.size(); ++b) {
            const bool above = chart_.pointOf(a).y() <= chart_.pointOf(b).y();
            const bool behind = chart_.pointOf(a).x() >= chart_.pointOf(b).x();
            if (plan_->candidates[b].pareto && above && behind && lanes(a) < lanes(b)) {
                ++looksBeaten;
                EXPECT_NE(chart_.colorOf(a), chart_.colorOf(b));
            }
        }
    }
    EXPECT_GT(looksBeaten, 0);
    EXPECT_GT(chart_.labels().size(), 1U);
    for (const ParetoChart::Label& label : chart_.labels()) {
        EXPECT_TRUE(plan_->candidates[label.candidate].pareto);
        EXPECT_EQ(label.text, QString::number(lanes(label.candidate)));
        EXPECT_TRUE(QRectF(chart_.rect()).contains(label.rect));
    }
}

TEST_F(ParetoChartTest, PicksByClickAndOpensByDoubleClickAndKeys) {
    QSignalSpy picked(&chart_, &ParetoChart::picked);
    QSignalSpy activated(&chart_, &ParetoChart::activated);
    const std::size_t best = *plan_->best;
    QTest::mouseClick(&chart_, Qt::LeftButton, {}, chart_.pointOf(best).toPoint());
    ASSERT_EQ(picked.count(), 1);
    QTest::mouseDClick(&chart_, Qt::LeftButton, {}, chart_.pointOf(best).toPoint());
    ASSERT_EQ(activated.count(), 1);
    const std::size_t at = picked.front().front().value<std::size_t>();
    EXPECT_EQ(chart_.pointOf(at), chart_.pointOf(best));
    QTest::keyClick(&chart_, Qt::Key_Right);
    EXPECT_EQ(picked.back().front().value<std::size_t>(), at + 1);
    QTest::keyClick(&chart_, Qt::Key_Return);
    EXPECT_EQ(activated.back().front().value<std::size_t>(), at + 1);
    picked.clear();
    QTest::mouseClick(&chart_, Qt::LeftButton, {}, {2, 2});
    EXPECT_EQ(picked.count(), 0);
}

TEST_F(ParetoChartTest, SaysWhatItIsForWithoutAPlan) {
    chart_.setPlan(nullptr);
    chart_.grab();
    QTest::keyClick(&chart_, Qt::Key_Right);
    QTest::keyClick(&chart_, Qt::Key_Return);
    EXPECT_FALSE(chart_.candidateAt({100, 100}));
}
}  // namespace
}  // namespace pipescope
