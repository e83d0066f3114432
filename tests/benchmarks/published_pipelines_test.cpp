#include "benchmarks/published/published_pipelines.h"
#include "base/csv_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <vector>

namespace pipescope {
namespace {
// docs/evidence/published-pipelines.md shows the rows. The constants are those of all users; nothing is set for a row.
TEST(PublishedPipelines, AreWithinAFewPerCent) {
    const PublishedSet weak = megatron_weak_scaling(PIPESCOPE_SOURCE_DIR);
    EXPECT_LE(weak.mean_error(), 0.05);
    EXPECT_LE(weak.largest_error(), 0.12);
    const PublishedSet strong = strong_scaling(PIPESCOPE_SOURCE_DIR);
    EXPECT_LE(strong.mean_error(), 0.05);
    EXPECT_LE(strong.largest_error(), 0.12);
    for (const PublishedSet& set : selective_recompute(PIPESCOPE_SOURCE_DIR)) {
        EXPECT_LE(set.mean_error(), 0.06) << set.title;
        EXPECT_LE(set.largest_error(), 0.12) << set.title;
    }
}

// A row that is left out makes an error look smaller.
TEST(PublishedPipelines, HaveAllRowsOfTheirTables) {
    EXPECT_EQ(megatron_weak_scaling(PIPESCOPE_SOURCE_DIR).figures.size(), 10U);
    EXPECT_EQ(selective_recompute(PIPESCOPE_SOURCE_DIR).front().figures.size(), 8U);
    EXPECT_EQ(strong_scaling(PIPESCOPE_SOURCE_DIR).figures.size(), 8U);
    EXPECT_EQ(vtrain(PIPESCOPE_SOURCE_DIR).figures.size(), 109U);
}

// A figure entered wrongly would not agree with the others of its row.
TEST(PublishedPipelines, AgreeWithTheRatesOfTheirTables) {
    const std::filesystem::path folder = std::filesystem::path(PIPESCOPE_SOURCE_DIR) / "benchmarks/published";
    constexpr double kPeak = 312e12;
    constexpr double kTokens = 2048;
    const std::vector<CsvRow> weak = read_csv_rows(folder / "megatron_weak_scaling.csv");
    EXPECT_EQ(weak.size(), 10U);
    for (const CsvRow& row : weak) {  // equation 3 of the paper
        const double hidden = row.number("hidden");
        const double layers = row.number("layers");
        const double flops = 96 * row.number("batch") * kTokens * layers * hidden * hidden *
                             (1 + kTokens / (6 * hidden) + 51200 / (16 * layers * hidden));
        const double rate = row.number("tflops_per_gpu") * 1e12;
        EXPECT_NEAR(row.number("iteration_s"), flops / rate / row.number("gpus"), 0.005) << row.text("params_b");
        EXPECT_NEAR(row.number("percent_of_peak"), 100 * rate / kPeak, 0.5) << row.text("params_b");
    }
    const std::vector<CsvRow> strong = read_csv_rows(folder / "strong_scaling.csv");
    EXPECT_EQ(strong.size(), 8U);
    constexpr double kFlopsPerToken = 1.077e12;  // the same model in each row
    for (const CsvRow& row : strong) {
        const double flops = row.number("megatron_s") * row.number("megatron_mfu") / 100 * kPeak * row.number("gpus") /
                             (row.number("batch") * kTokens);
        EXPECT_NEAR(flops / kFlopsPerToken, 1, 0.005) << row.text("gpus");
    }
}

TEST(PublishedPipelines, OfVTrainAreWithinEightPerCentInTheMean) {
    EXPECT_LE(vtrain(PIPESCOPE_SOURCE_DIR).mean_error(), 0.08);
}

// Nothing was set for these rows. Those whose program does what we simulate are Mixtral's and those of long sequences.
TEST(PublishedPipelines, OfMixturesOfExpertsAreWithinAFifth) {
    const PublishedSet set = mixtures_of_experts(PIPESCOPE_SOURCE_DIR);
    ASSERT_EQ(set.figures.size(), 8U);
    EXPECT_LE(set.mean_error(), 0.2);
    for (const std::size_t row : {0, 4, 5, 6, 7}) {
        EXPECT_LE(std::abs(set.figures[row].error()), 0.15) << set.figures[row].row;
    }
}

TEST(PublishedPipelines, SpeedUpsOfZeroBubbleComeOutOfItsStages) {
    const std::vector<PublishedSet> sets = zero_bubble_speed_ups(PIPESCOPE_SOURCE_DIR);
    EXPECT_LE(sets[0].mean_error(), 0.0135);
    EXPECT_LE(sets[1].mean_error(), 0.03);
}
}  // namespace
}  // namespace pipescope
