#include "analysis/step_peaks.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
MemorySample sample(std::int64_t time, Bytes allocated, Bytes peak, std::size_t lane = 0) {
    MemorySample made;
    made.lane = LaneId{lane};
    made.time = Nanoseconds{time};
    made.allocated = allocated;
    made.peak = peak;
    return made;
}

TEST(MeasuredPeaks, LeaveOutAnOptimizerThatNeedsScratchMemoryBetweenTheSteps) {
    const std::vector<MemorySample> samples{sample(10, 4, 5), sample(20, 6, 6), sample(25, 90, 90), sample(30, 4, 7)};
    EXPECT_EQ(measured_peaks(samples, {{10, 20}, {30, 40}}, 1)[0]->bytes, 7);
}

TEST(MeasuredPeaks, CountSamplesOnBothEdgesOfAStep) {
    const std::vector<MemorySample> samples{sample(9, 50, 50), sample(10, 1, 5), sample(20, 6, 6), sample(21, 50, 50)};
    EXPECT_EQ(measured_peaks({samples.data(), 2}, {{10, 20}}, 1)[0]->bytes, 5);
    EXPECT_EQ(measured_peaks(samples, {{10, 20}}, 1)[0]->bytes, 6);
}

TEST(MeasuredPeaks, CountWhatIsHeldWhereNoPeakWasRecorded) {
    EXPECT_EQ(measured_peaks(std::vector{sample(15, 8, 0)}, {{10, 20}}, 1)[0]->bytes, 8);
}

TEST(MeasuredPeaks, AreOfEveryLaneInStepsThatOverlapInAnyOrder) {
    const std::vector<MemorySample> samples{sample(45, 3, 3, 1), sample(12, 2, 2, 0), sample(99, 7, 7, 0),
                                            sample(15, 7, 7, 5)};
    const auto peaks = measured_peaks(samples, {{20, 30}, {10, 50}}, 3);
    ASSERT_EQ(peaks.size(), 3U);
    EXPECT_EQ(peaks[0]->bytes, 2);
    EXPECT_EQ(peaks[1]->bytes, 3);
    EXPECT_FALSE(peaks[2]);
}

TEST(MeasuredPeaks, HaveACompositionOnlyIfASampleWasTakenAtThePeak) {
    MemorySample at_peak = sample(10, 9, 9);
    at_peak.composition[MemoryCategory::saved] = 9;
    MemorySample behind = sample(12, 4, 8);
    behind.composition[MemoryCategory::saved] = 4;
    EXPECT_EQ(measured_peaks(std::vector{at_peak, behind}, {{0, 20}}, 1)[0]->composition, at_peak.composition);
    EXPECT_FALSE(measured_peaks(std::vector{behind}, {{0, 20}}, 1)[0]->composition.known());
}
}  // namespace
}  // namespace pipescope
