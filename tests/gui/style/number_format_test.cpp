#include "gui/style/number_format.h"

#include <gtest/gtest.h>

#include <limits>

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

TEST(NumberFormat, HasNoMoreDigitsIfRoundingAddsOneInFront) {
    EXPECT_EQ(plain(formatDuration(9'999'600)), "10.00 ms");
    EXPECT_EQ(plain(formatDuration(9'999'400)), "9.999 ms");
    EXPECT_EQ(plain(formatDuration(99'996'000)), "100.0 ms");
    EXPECT_EQ(plain(formatDuration(999'960)), "1.000 ms");
    EXPECT_EQ(plain(formatDuration(999'940)), "999.9 µs");
    EXPECT_EQ(plain(formatBytes((10 << 20) - 1000)), "10.0 MiB");
    EXPECT_EQ(plain(formatBytes((1 << 20) - 100)), "1.00 MiB");
    EXPECT_EQ(plain(formatRate(999'700)), "1.00 MB/s");
    EXPECT_EQ(plain(formatCost(999.7)), "1.00 k");
    EXPECT_EQ(plain(formatCost(0.25)), "0.25");
}

TEST(NumberFormat, KeepsANameInAnotherDirectionApartFromFigures) {
    const QString hebrew = QStringLiteral("\u05de\u05e1\u05dc\u05d5\u05dc");
    EXPECT_EQ(isolated(hebrew), QStringLiteral("\u2068%1\u2069").arg(hebrew));
    EXPECT_EQ(isolated(QStringLiteral("lane 0")), QStringLiteral("lane 0"));
}

TEST(NumberFormat, GroupsTheDigitsOfVeryLongTimes) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    EXPECT_EQ(plain(formatDuration(9999 * kSecond)), "9999.0 s");
    EXPECT_EQ(plain(formatDuration(10'000 * kSecond)), "10,000 s");
    EXPECT_EQ(plain(formatDuration(-1'000'000'000 * kSecond)), "-1,000,000,000 s");
    EXPECT_EQ(plain(formatDuration(std::numeric_limits<std::int64_t>::max())), "9,223,372,037 s");
    EXPECT_EQ(plain(formatTime(200'000'000 * kSecond, 200'000'000 * kSecond, 1'000'000'000 * kSecond)),
              "200,000,000 s");
    EXPECT_EQ(plain(formatTime(12'345'600'000'000, 100'000'000, 12'400'000'000'000)), "12,345.6 s");
}

TEST(NumberFormat, GivesAnInstantTheDigitsOfTheLength) {
    EXPECT_EQ(plain(formatInstant(1'327'692'000, 9'000)), "1.327692000 s");
    EXPECT_EQ(plain(formatInstant(1'327'692'000, 90'000)), "1.32769200 s");
    EXPECT_EQ(plain(formatInstant(-12'345'678, 150'000)), "-12.3457 ms");
    for (const std::int64_t ns : {std::int64_t{0}, std::int64_t{1'500'000}, std::int64_t{12'340'000}}) {
        EXPECT_EQ(formatInstant(ns, 40'000'000), formatDuration(ns)) << "no fewer digits than a duration";
    }
}

TEST(NumberFormat, GivesChangesTheirSign) {
    EXPECT_EQ(plain(formatDurationChange(-1'200'000)), "-1.200 ms");
    EXPECT_EQ(plain(formatDurationChange(1'200'000)), "+1.200 ms");
    EXPECT_EQ(plain(formatShareChange(-0.012)), "-1.2 %");
    EXPECT_EQ(plain(formatPoints(0.104, 0.1)), "+0.40 points");
    EXPECT_EQ(plain(formatShareChange(0)), "0.0 %");
    EXPECT_EQ(plain(formatShareChange(-0.0004)), "0.0 %");  // nothing has no direction
}

TEST(NumberFormat, GivesPointsOfSharesAsTheyAreNotAsTheyAreRounded) {
    EXPECT_EQ(plain(formatShare(0.12361)), "12.4 %");
    EXPECT_EQ(plain(formatShare(0.11842)), "11.8 %");
    EXPECT_EQ(plain(formatPoints(0.11842, 0.12361)), "-0.52 points");
    EXPECT_EQ(plain(formatPoints(0.12361, 0.12439)), "-0.08 points");
    EXPECT_EQ(plain(formatPoints(0.123611, 0.123614)), "0.00 points");
}

TEST(NumberFormat, WritesRatesInPowersOf1000) {
    EXPECT_EQ(plain(formatRate(5e6)), "5.00 MB/s");
    EXPECT_EQ(plain(formatRate(12.5e9)), "12.5 GB/s");
    EXPECT_EQ(plain(formatRate(30)), "30.0 B/s");
}

TEST(NumberFormat, GivesOperationsInAUnitThatSuitsThem) {
    EXPECT_EQ(plain(formatOperations(1500)), "1.50 PFLOP/s");
    EXPECT_EQ(plain(formatOperations(0.512)), "512 GFLOP/s");
    EXPECT_EQ(plain(formatOperations(2.35e-5)), "23.5 MFLOP/s");
    EXPECT_EQ(plain(formatOperations(0)), "0.00 FLOP/s");
}

TEST(NumberFormat, WritesLongTimesInDays) {
    EXPECT_EQ(plain(formatHours(0.5)), "30.0 min");
    EXPECT_EQ(plain(formatHours(36)), "36.00 h");
    EXPECT_EQ(plain(formatHours(84)), "3.5 days");
    EXPECT_EQ(plain(formatHours(std::numeric_limits<double>::infinity())), "never");
}

TEST(NumberFormat, WritesCostsShortly) {
    EXPECT_EQ(plain(formatCost(0.0123)), "0.0123");
    EXPECT_EQ(plain(formatCost(12.34)), "12.3");
    EXPECT_EQ(plain(formatCost(123'456)), "123 k");
    EXPECT_EQ(plain(formatCost(3.456e6)), "3.46 M");
}

TEST(NumberFormat, WritesBytesInPowersOf1024) {
    EXPECT_EQ(plain(formatBytes(0)), "0 B");
    EXPECT_EQ(plain(formatBytes(1536)), "1.50 KiB");
    EXPECT_EQ(plain(formatBytes(std::int64_t{1288490189})), "1.20 GiB");
}
}  // namespace
}  // namespace pipescope
