#include "gui/style/number_format.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
std::string plain(const QString& text) {
    return QString(text)
        .replace(QChar(QChar::Nbsp), QLatin1Char(' '))
        .replace(QChar(0x2212), QLatin1Char('-'))
        .toStdString();
}

TEST(NumberFormat, ChoosesTheUnitOfADuration) {
    EXPECT_EQ(plain(formatDuration(0)), "0 ns");
    EXPECT_EQ(plain(formatDuration(999)), "999 ns");
    EXPECT_EQ(plain(formatDuration(1'500)), "1.500 µs");
    EXPECT_EQ(plain(formatDuration(12'340'000)), "12.34 ms");
    EXPECT_EQ(plain(formatDuration(123'456'000'000)), "123.5 s");
}

TEST(NumberFormat, GivesChangesTheirSign) {
    EXPECT_EQ(plain(formatDurationChange(-1'200'000)), "-1.200 ms");
    EXPECT_EQ(plain(formatDurationChange(1'200'000)), "+1.200 ms");
    EXPECT_EQ(plain(formatShareChange(-0.012)), "-1.2 %");
    EXPECT_EQ(plain(formatPoints(0.004)), "+0.4 points");
    EXPECT_EQ(plain(formatShareChange(0)), "0.0 %");
}

TEST(NumberFormat, WritesBytesInPowersOf1024) {
    EXPECT_EQ(plain(formatBytes(0)), "0 B");
    EXPECT_EQ(plain(formatBytes(1536)), "1.50 KiB");
    EXPECT_EQ(plain(formatBytes(std::int64_t{1288490189})), "1.20 GiB");
}
}  // namespace
}  // namespace pipescope
