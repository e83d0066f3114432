#include "gui/document/step_analysis.h"

#include "gui/document/document_loader.h"
#include "gui/document/scenario.h"
#include "tests/gui/sample_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

std::string plain(QString text) {
    return text.replace(QChar(QChar::Nbsp), QLatin1Char(' ')).toStdString();
}

TEST(StepAnalysis, DescribesACopyThatALaneWaitsForByBytesLanesAndRate) {
    SampleRun run;
    run.partitions = 2;
    writeSampleTrace(temporaryPath("analysis.sqlite"), run);
    const auto recorded = loadTrace(QString::fromStdString(temporaryPath("analysis.sqlite").string()));
    Scenario slow = *recordedScenario(*recorded);
    slow.options.link = {50e6, 0};  // 4 MiB in 84 ms, a forward is 10 ms
    const auto document = withScenario(*recorded, simulateScenario(*recorded->run.profile, slow));
    const StepAnalysis analysis(document, 1);
    const std::vector<BubblePiece>& bubbles = analysis.bubbles(Source::simulated);
    std::vector<BubblePiece> copies;
    std::copy_if(bubbles.begin(), bubbles.end(), std::back_inserter(copies),
                 [](const BubblePiece& piece) { return piece.cause == BubbleCause::copy && piece.lane == LaneId{1}; });
    ASSERT_EQ(copies.size(), 4U);
    const std::string first = plain(analysis.describe(Source::simulated, copies[0]));
    EXPECT_THAT(first, AllOf(HasSubstr("waits for a copy"), HasSubstr("lane 0 to 1"), HasSubstr("4.00 MiB in 83.89 ms"),
                             HasSubstr("50.0 MB/s"), testing::Not(HasSubstr("link was busy"))));
    EXPECT_THAT(plain(analysis.describe(Source::simulated, copies[1])), HasSubstr("the link was busy before"));
    const auto previous = std::find_if(bubbles.begin(), bubbles.end(), [](const BubblePiece& piece) {
        return piece.cause == BubbleCause::previous_partition;
    });
    ASSERT_NE(previous, bubbles.end());
    EXPECT_THAT(plain(analysis.describe(Source::simulated, *previous)), HasSubstr("on lane 0"));
    EXPECT_THAT(plain(analysis.criticalPathText(Source::simulated)), HasSubstr("0 ns waiting"));
}
}  // namespace
}  // namespace pipescope
