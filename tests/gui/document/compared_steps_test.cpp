#include "gui/document/document_builder.h"
#include "gui/document/document_loader.h"
#include "gui/document/headlines.h"
#include "tests/gui/sample_trace.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
/// A run of `steps` steps with `tasks` forwards each, in sequence.
TraceDocument longRun(int steps, int tasks) {
    Timeline timeline{Source::measured, {{"lane 0", "cpu"}}, {}};
    std::int64_t time = 0;
    for (int step = 0; step < steps; ++step) {
        for (int task = 0; task < tasks; ++task) {
            timeline.slices.push_back(
                {{step, TaskKind::forward, 0, task, -1}, LaneId{0}, Nanoseconds{time}, Nanoseconds{time + 5}, 0});
            time += 10;
        }
    }
    TraceDocument document;
    document.measured = std::make_shared<const TimelineStore>(timeline);
    return document;
}

TEST(ComparedSteps, AreAllOfAShortRunWithoutItsWarmUp) {
    TraceDocument document = longRun(10, 10);
    EXPECT_EQ(stepsToCompare(document).steps.size(), 10U);
    for (int step = 0; step < 10; ++step) {
        document.run.steps.push_back({step, {}, {}, {}, {}, 0, step < 3});
    }
    const MeasuredSteps compared = stepsToCompare(document);
    ASSERT_EQ(compared.steps.size(), 7U);
    EXPECT_EQ(compared.comparable, 7U);
    EXPECT_EQ(compared.steps.front().step, 3);
}

TEST(ComparedSteps, AreEvenlyChosenOverALongRun) {
    const TraceDocument document = longRun(1200, 1000);
    const MeasuredSteps compared = stepsToCompare(document);
    EXPECT_EQ(compared.comparable, 1200U);
    ASSERT_EQ(compared.steps.size(), kMostComparedTasks / 1000);
    for (std::size_t i = 1; i < compared.steps.size(); ++i) {
        const int between = compared.steps[i].step - compared.steps[i - 1].step;
        EXPECT_TRUE(between == 2 || between == 3) << i;
    }
    EXPECT_EQ(timelineOf(*document.measured, compared).slices.size(), kMostComparedTasks);
}

TEST(ComparedSteps, AreToldInTheHeadlineWhereNotAllWereTaken) {
    const auto path = temporaryPath("headline.sqlite");
    writeSampleTrace(path);
    TraceDocument document = *loadTrace(QString::fromStdString(path.string()));
    EXPECT_EQ(document.comparableSteps, 2U);
    EXPECT_TRUE(comparisonHeadline(document).startsWith(QStringLiteral("Median of 2 steps:")));
    document.comparableSteps = 9000;
    EXPECT_TRUE(comparisonHeadline(document).startsWith(QStringLiteral("Median of 2 of 9000 steps, evenly chosen:")));
}
}  // namespace
}  // namespace pipescope
