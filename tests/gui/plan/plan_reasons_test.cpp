#include "gui/plan/plan_table_model.h"
#include "gui/style/number_format.h"
#include "gui/tables/table_export.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

#include <QAbstractItemModelTester>

namespace pipescope {
namespace {
PlanCandidate candidate(double samplesPerSecond, std::size_t lanes, Bytes peak, bool feasible = true) {
    PlanCandidate each;
    each.simulation.samples_per_second = samplesPerSecond;
    each.simulation.step_time = Nanoseconds{static_cast<std::int64_t>(1e9 / samplesPerSecond)};
    each.simulation.lanes.resize(lanes);
    each.simulation.lanes.back().peak_bytes = peak;
    each.simulation.options.hardware.memory_limit = 1000;
    each.simulation.feasible = feasible;
    each.cost = static_cast<double>(lanes) / samplesPerSecond;
    return each;
}

/// Candidates in the planner's order, best first.
Plan handmade() {
    Plan plan;
    plan.candidates = {candidate(10, 4, 900), candidate(8, 4, 950), candidate(6, 2, 900),
                       candidate(20, 8, 2000, false)};
    plan.candidates[0].pareto = plan.candidates[2].pareto = true;
    plan.best = 0;
    return plan;
}

TEST(PlanReasons, TellWhyEachIsOrIsNotOneToTake) {
    const std::vector<QString> reasons = planReasons(handmade());
    ASSERT_EQ(reasons.size(), 4U);
    EXPECT_TRUE(reasons[0].contains(QStringLiteral("fastest")));
    EXPECT_TRUE(reasons[1].contains(QStringLiteral("dominated by 1")));
    EXPECT_TRUE(reasons[1].contains(QStringLiteral("+25.0")));
    EXPECT_TRUE(reasons[2].contains(QStringLiteral("2 lanes instead of 4")));
    EXPECT_TRUE(reasons[3].contains(QStringLiteral("lane 7")));
}

TEST(PlanReasons, CountTheLanesOfAllReplicas) {
    Plan plan = handmade();
    plan.candidates[0].simulation.options.replicas = 2;  // 8 lanes
    plan.candidates[1] = candidate(8, 6, 950);
    const QString reason = planReasons(plan)[1];
    EXPECT_TRUE(reason.contains(QStringLiteral("6 lanes instead of 8"))) << reason.toStdString();
}

TEST(PlanReasons, NameTheLaneThatExceedsItsOwnLimitMost) {
    Plan plan = handmade();
    Simulation& over = plan.candidates[3].simulation;
    over.options.hardware.memory_limit.reset();
    over.options.hardware.memory_limits.assign(8, 3000);
    over.options.hardware.memory_limits[1] = 100;
    over.lanes[1].peak_bytes = 700;
    over.options.hardware.memory_limits[2] = 600;
    over.lanes[2].peak_bytes = 800;
    EXPECT_EQ(planReasons(plan)[3],
              QStringLiteral("does not fit: lane 1 needs %1 of %2").arg(formatBytes(700), formatBytes(100)));
}

// In a real plan, every candidate has a reason, and none on the front is dominated.
TEST(PlanReasons, FitWhatThePlannerMarks) {
    SampleRun run;
    run.partitions = 8;
    PlanRequest request;
    request.partitions = {1, 2, 4};
    request.chunks = {1, 4, 8};
    request.schedules = {Schedule::gpipe};
    request.batch = 8;
    request.hardware.memory_limit = Bytes{900} << 20;
    request.threads = 1;
    const Plan found = plan(sampleProfile(run), request);
    ASSERT_EQ(found.candidates.size(), 24U) << "never and except_last are the same with one micro-batch";
    const std::vector<QString> reasons = planReasons(found);
    for (std::size_t k = 0; k < reasons.size(); ++k) {
        const PlanCandidate& each = found.candidates[k];
        EXPECT_FALSE(reasons[k].isEmpty());
        EXPECT_EQ(reasons[k].contains(QStringLiteral("does not fit")), !each.simulation.feasible);
        EXPECT_EQ(reasons[k].contains(QStringLiteral("dominated")), each.simulation.feasible && !each.pareto)
            << reasons[k].toStdString();
    }
}

TEST(PlanTableModel, SortsByValuesAndFiltersByWordsAndTicks) {
    PlanTableModel model;
    const QAbstractItemModelTester tester(&model);
    model.setPlan(std::make_shared<const Plan>(handmade()));
    PlanFilter filter;
    const QAbstractItemModelTester filterTester(&filter);
    filter.setSourceModel(&model);
    filter.sort(PlanTableModel::stepTime, Qt::AscendingOrder);
    EXPECT_EQ(filter.index(0, PlanTableModel::lanes).data(kExportRole).toInt(), 8);
    filter.sort(PlanTableModel::peak, Qt::DescendingOrder);
    EXPECT_EQ(filter.index(3, PlanTableModel::peak).data(kExportRole).toLongLong(), 900);
    filter.setFeasibleOnly(true);
    EXPECT_EQ(filter.rowCount(), 3);
    filter.setParetoOnly(true);
    EXPECT_EQ(filter.rowCount(), 2);
    filter.setText(QStringLiteral("  TRADE lanes"));
    EXPECT_EQ(filter.rowCount(), 1);
    filter.setText(QStringLiteral("no such word"));
    EXPECT_EQ(filter.rowCount(), 0);
    model.setPlan(nullptr);
    filter.setText({});
    EXPECT_EQ(filter.rowCount(), 0);
}
}  // namespace
}  // namespace pipescope
