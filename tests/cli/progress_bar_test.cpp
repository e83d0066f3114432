#include "cli/progress_bar.h"

#include <gmock/gmock.h>

#include <limits>

namespace pipescope {
namespace {
TEST(ProgressBar, DrawsShareAndPercent) {
    EXPECT_EQ(progress_line("profiling", 0.5), "profiling [###############...............]  50 %");
    EXPECT_EQ(progress_line("x", 2), "x [##############################] 100 %");
    EXPECT_EQ(progress_line("x", std::numeric_limits<double>::quiet_NaN()), "x [..............................]   0 %");
}

TEST(ProgressBar, IsSilentWhereStderrIsNoTerminal) {
    testing::internal::CaptureStderr();
    {
        ProgressBar bar("quiet");
        bar.show(0.5);
    }
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}
}  // namespace
}  // namespace pipescope
