#include "profiler/recorder/load_meter.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

/// A folder like /proc, for a machine with two cores.
class FakeProc : public testing::Test {
protected:
    FakeProc() : folder_(fs::temp_directory_path() / ("load_meter_test_" + std::to_string(getpid()))) {
        fs::create_directories(folder_ / "self");
        fs::create_directories(folder_ / "pressure");
    }
    ~FakeProc() override { fs::remove_all(folder_); }

    void writes(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
    /// Ticks of user, system, idle and stolen time per core.
    struct Core {
        int user = 0, system = 0, idle = 0, stolen = 0;
    };
    void writes_cores(Core first, Core second) const {
        const auto line = [](const Core& core) {
            return std::to_string(core.user) + " 0 " + std::to_string(core.system) + " " + std::to_string(core.idle) +
                   " 0 0 0 " + std::to_string(core.stolen) + " 0 0\n";
        };
        writes("stat", "cpu  1 1 1 1 1 1 1 1 1 1\ncpu0 " + line(first) + "cpu1 " + line(second) + "intr 5 0\nctxt 9\n");
    }
    void writes_own(int user, int system) const {
        writes("self/stat", "7 (a (b) c) S 1 1 1 0 -1 0 0 0 0 0 " + std::to_string(user) + " " +
                                std::to_string(system) + " 99 99 20 0 1 0 5 0 0\n");
    }
    void writes_pressure(int us) const {
        writes("pressure/cpu", "some avg10=1.00 avg60=1.00 avg300=1.00 total=" + std::to_string(us) +
                                   "\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
    }

    fs::path folder_;
};

// Ten seconds: of the cores' 2000 ticks, this process took 1000, others 300, the host 40.
TEST_F(FakeProc, SharesTellWhatOthersAndTheHostTook) {
    ASSERT_EQ(sysconf(_SC_CLK_TCK), 100);
    writes_cores({100, 10, 1000, 5}, {100, 10, 1000, 5});
    writes_own(50, 5);
    writes_pressure(1'000'000);
    const LoadMeter meter({}, folder_);
    writes_cores({700, 60, 1325, 30}, {650, 110, 1335, 20});
    writes_own(1000, 55);
    writes_pressure(3'000'000);
    const auto load = meter.load();
    ASSERT_TRUE(load);
    EXPECT_DOUBLE_EQ(load->others, 300.0 / 2000);
    EXPECT_DOUBLE_EQ(load->stolen, 40.0 / 2000);
    ASSERT_TRUE(load->pressure);
    EXPECT_DOUBLE_EQ(*load->pressure, 0.2);
    EXPECT_TRUE(is_notable(*load));
}

TEST_F(FakeProc, OnlyTheCoresThatMayBeUsedCount) {
    writes_cores({0, 0, 0, 0}, {0, 0, 0, 0});
    writes_own(0, 0);
    const LoadMeter meter({1}, folder_);
    writes_cores({500, 0, 0, 0}, {10, 0, 490, 0});
    writes_own(10, 0);
    const auto load = meter.load();
    ASSERT_TRUE(load);
    EXPECT_EQ(load->others, 0);
    EXPECT_FALSE(load->pressure) << "no such file";
    EXPECT_FALSE(is_notable(*load));
}

TEST_F(FakeProc, ThereIsNoAnswerBeforeASecondOrWithoutCounts) {
    EXPECT_FALSE(LoadMeter({}, folder_).load()) << "empty folder";
    writes_cores({0, 0, 0, 0}, {0, 0, 0, 0});
    EXPECT_FALSE(LoadMeter({}, folder_).load()) << "own time unknown";
    writes_own(0, 0);
    const LoadMeter meter({}, folder_);
    writes_cores({20, 0, 20, 0}, {20, 0, 39, 0});
    EXPECT_FALSE(meter.load()) << "99 ticks";
    writes_cores({20, 0, 20, 0}, {20, 0, 40, 0});
    EXPECT_TRUE(meter.load());
    EXPECT_FALSE(LoadMeter({}, folder_).load()) << "a machine whose counters stand still";
}

// Covers threads of this process on other cores, and counters that the system corrected.
TEST_F(FakeProc, SharesStayBetweenZeroAndOne) {
    writes_cores({100, 0, 100, 9}, {0, 0, 0, 0});
    writes_own(0, 0);
    const LoadMeter meter({}, folder_);
    writes_cores({150, 0, 250, 0}, {0, 0, 0, 0});
    writes_own(500, 0);
    const auto load = meter.load();
    ASSERT_TRUE(load);
    EXPECT_EQ(load->others, 0);
    EXPECT_EQ(load->stolen, 0);
}

// Steps of 0.3 s on two cores: one second of their time is 0.5 s.
TEST_F(FakeProc, AShortStepIsMeasuredTogetherWithThoseBefore) {
    writes_own(0, 0);
    writes_cores({0, 0, 0, 0}, {0, 0, 0, 0});
    StepLoadMeter meter({}, folder_);
    writes_cores({0, 0, 30, 0}, {0, 0, 30, 0});
    EXPECT_FALSE(meter.end_step(Nanoseconds{300'000'000})) << "60 ticks";
    writes_cores({30, 0, 30, 0}, {0, 0, 60, 0});
    std::optional<StepLoad> load = meter.end_step(Nanoseconds{600'000'000});
    ASSERT_TRUE(load);
    EXPECT_DOUBLE_EQ(load->shares.others, 30.0 / 120);
    EXPECT_EQ(load->over, Nanoseconds{600'000'000});
    writes_cores({30, 0, 60, 0}, {0, 0, 90, 0});
    load = meter.end_step(Nanoseconds{900'000'000});
    ASSERT_TRUE(load);
    EXPECT_DOUBLE_EQ(load->shares.others, 30.0 / 120) << "of the last two steps";
    EXPECT_EQ(load->over, Nanoseconds{600'000'000});
    writes_cores({30, 0, 90, 0}, {0, 0, 120, 0});
    EXPECT_FALSE(meter.end_step(Nanoseconds{950'000'000})) << "0.05 s after the last reading";
    load = meter.end_step(Nanoseconds{1'200'000'000});
    ASSERT_TRUE(load);
    EXPECT_EQ(load->shares.others, 0);
}

TEST_F(FakeProc, AChangeOfTheCoresStartsTheMeasurementAnew) {
    writes_own(0, 0);
    writes_cores({0, 0, 0, 0}, {0, 0, 0, 0});
    StepLoadMeter meter({}, folder_);
    writes_cores({0, 0, 30, 0}, {0, 0, 30, 0});
    EXPECT_FALSE(meter.end_step(Nanoseconds{300'000'000})) << "60 ticks";
    writes("stat", "cpu0 0 0 0 100 0 0 0 0 0 0\n");  // the second one is off
    EXPECT_FALSE(meter.end_step(Nanoseconds{1'000'000'000}));
    writes("stat", "cpu0 50 0 0 150 0 0 0 0 0 0\n");
    const std::optional<StepLoad> load = meter.end_step(Nanoseconds{2'000'000'000});
    ASSERT_TRUE(load);
    EXPECT_DOUBLE_EQ(load->shares.others, 0.5);
    EXPECT_EQ(load->over, Nanoseconds{1'000'000'000});
}

TEST(LoadMeter, ReadsThisMachine) {
    const LoadMeter meter;
    if (const auto load = meter.load()) {
        EXPECT_GE(load->others, 0);
        EXPECT_LE(load->others, 1);
    }
}
}  // namespace
}  // namespace pipescope
