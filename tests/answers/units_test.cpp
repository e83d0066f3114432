#include "answers/units.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

TEST(Units, PlainNumbersAreNanosecondsBytesAndBytesPerSecond) {
    EXPECT_EQ(parse_duration_ns("2500", "--link-latency"), 2500);
    EXPECT_EQ(parse_duration_ns("0", "--link-latency"), 0);
    EXPECT_EQ(parse_bytes("4096", "--memory-limit"), 4096);
    EXPECT_EQ(parse_bandwidth("1e9", "--link-bandwidth"), 1e9);
}

TEST(Units, ASmallPlainNumberIsAForgottenUnit) {
    EXPECT_THAT(thrown<UsageError>([] { parse_duration_ns("5", "--link-latency"); }),
                HasSubstr("--link-latency is '5'"));
    EXPECT_THAT(thrown<UsageError>([] { parse_bytes("16", "--memory-limit"); }), HasSubstr("16GiB"));
    EXPECT_THAT(thrown<UsageError>([] { parse_bandwidth("12.5", "--link-bandwidth"); }), HasSubstr("12GB/s"));
}

TEST(Units, ALinkThatMovesNothingIsRefused) {
    for (const char* text : {"0", "0GB/s", "0.0 MB/s"}) {
        EXPECT_THAT(thrown<UsageError>([&] { parse_bandwidth(text, "--link-bandwidth"); }),
                    HasSubstr("--link-bandwidth"));
    }
}

TEST(Units, TellsPowersOfThousandFromPowersOf1024) {
    EXPECT_EQ(parse_bytes("2kB", ""), 2000);
    EXPECT_EQ(parse_bytes("2KiB", ""), 2048);
    EXPECT_EQ(parse_bytes("3MB", ""), 3'000'000);
    EXPECT_EQ(parse_bytes("3MiB", ""), 3 * 1024 * 1024);
    EXPECT_EQ(parse_bytes("1.5GB", ""), 1'500'000'000);
    EXPECT_EQ(parse_bytes("16 GiB", ""), 16LL << 30);
    EXPECT_EQ(parse_bytes("1TB", ""), 1'000'000'000'000);
    EXPECT_EQ(parse_bytes("1TiB", ""), 1LL << 40);
    EXPECT_EQ(parse_bytes("7B", ""), 7);
}

TEST(Units, ReadsTimesAndRates) {
    EXPECT_EQ(parse_duration_ns("1.5ms", ""), 1.5e6);
    EXPECT_EQ(parse_duration_ns("10us", ""), 1e4);
    EXPECT_EQ(parse_duration_ns("3ns", ""), 3);
    EXPECT_EQ(parse_duration_ns("2s", ""), 2e9);
    EXPECT_EQ(parse_duration_ns("1.5min", ""), 90e9);
    EXPECT_EQ(parse_duration_ns("24h", ""), parse_duration_ns("1d", ""));
    EXPECT_EQ(parse_duration_ns("1d", ""), 86400e9);
    EXPECT_EQ(parse_bandwidth("12.5GB/s", ""), 12.5e9);
    EXPECT_EQ(parse_bandwidth("1GiB/s", ""), 1073741824.0);
}

TEST(Units, AWrongUnitIsNamedWithTheOnesThereAre) {
    EXPECT_THAT(thrown<UsageError>([] { parse_bytes("16Gb", "--memory-limit"); }),
                AllOf(HasSubstr("--memory-limit is '16Gb'"), HasSubstr("GiB")));
    EXPECT_THAT(thrown<UsageError>([] { parse_bandwidth("12GB", "--link-bandwidth"); }), HasSubstr("12GB/s"));
    EXPECT_THAT(thrown<UsageError>([] { parse_duration_ns("3weeks", "--link-latency"); }),
                HasSubstr("ns, us, ms, s, min, h, d"));
}

TEST(Units, RefusesWhatIsNoQuantity) {
    for (const char* text : {"", "fast", "-1GB", "nan", "inf", "1e400", "1GB/s/s"}) {
        EXPECT_THROW(parse_bytes(text, "--memory-limit"), UsageError) << text;
        EXPECT_THROW(parse_duration_ns(text, "--link-latency"), UsageError) << text;
    }
    for (const char* text : {"GB/s", "-1GB/s", "nanGB/s", "infGB/s", "1e400GB/s"}) {
        EXPECT_THROW(parse_bandwidth(text, "--link-bandwidth"), UsageError) << text;
    }
    EXPECT_THROW(parse_bytes("9223372036854775808", ""), UsageError);
}

TEST(Units, RefusesMoreThanANumberHolds) {
    EXPECT_THAT(thrown<UsageError>([] { parse_duration_ns("1e300s", "--link-latency"); }), HasSubstr("1e300s"));
}

TEST(Units, CountsOneOfAThingInTheSingular) {
    EXPECT_EQ(counted(1, "step", "steps"), "1 step");
    EXPECT_EQ(counted(0, "step", "steps"), "0 steps");
    EXPECT_EQ(counted(std::size_t{2}, "micro-batch", "micro-batches"), "2 micro-batches");
}

TEST(Units, FormatsForPeople) {
    EXPECT_EQ(format_duration(Nanoseconds{999}), "999 ns");
    EXPECT_EQ(format_duration(Nanoseconds{12'340}), "12.34 us");
    EXPECT_EQ(format_duration(Nanoseconds{1'234'567'890}), "1235 ms");
    EXPECT_EQ(format_duration(Nanoseconds{61'000'000'000}), "61.00 s");
    EXPECT_EQ(format_duration(Nanoseconds{-12'340'000}), "-12.34 ms");
    EXPECT_EQ(format_bytes(512), "512 B");
    EXPECT_EQ(format_bytes(1536), "1.50 KiB");
    EXPECT_EQ(format_bytes(16LL << 30), "16.00 GiB");
    EXPECT_EQ(format_percent(0.1234), "12.34 %");
    EXPECT_EQ(format_percent(-0.000001), "0.00 %");
    EXPECT_EQ(format_percent(-0.0001), "-0.01 %");
    EXPECT_EQ(format_error_percent(-0.021), "-2.10 %");
    EXPECT_EQ(format_error_percent(-0.000001), "+0.00 %") << "an error too small to print has no direction";
    EXPECT_EQ(format_points(0.0028), "+0.28 points");
}
TEST(Units, OperationsASecondHaveThreeDigitsInTheUnitThatSuitsThem) {
    for (const auto& [rate, text] : std::vector<std::pair<double, std::string>>{{0, "0 FLOP/s"},
                                                                                {23.46e6, "23.5 MFLOP/s"},
                                                                                {2.204e9, "2.2 GFLOP/s"},
                                                                                {999.4e9, "999 GFLOP/s"},
                                                                                {999.6e9, "1 TFLOP/s"},
                                                                                {312e12, "312 TFLOP/s"},
                                                                                {5.2e17, "520 PFLOP/s"}}) {
        EXPECT_EQ(format_operations(rate), text);
    }
}
}  // namespace
}  // namespace pipescope
