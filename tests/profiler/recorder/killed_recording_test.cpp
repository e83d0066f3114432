#include "killed_recording.h"

#include "tests/temporary_folder.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
// benchmarks/recorder_gates.cpp tests all fifty kills and the amount of losses, which depends on the load of the
// machine.
TEST(KilledRecording, LeavesATraceThatOpensWhenever) {
    const TemporaryFolder folder;
    std::mt19937_64 random(1);
    for (int round = 0; round < 6; ++round) {
        Kill how;
        how.after_ns = std::uniform_int_distribution<std::int64_t>(0, 200'000'000)(random);
        how.drain_period = std::chrono::milliseconds{20};
        how.pause_ns = 10'000;
        const Remains remains = kill_recording(folder / (std::to_string(round) + ".sqlite"), how);
        EXPECT_GE(remains.lost_ranges, -2) << "a thread may be killed before it counted the range it ended";
    }
}

TEST(KilledRecording, LeavesATraceThatOpensInTheMiddleOfALargeTransaction) {
    const TemporaryFolder folder;
    for (const int milliseconds : {250, 320, 410}) {
        Kill how;
        how.after_ns = std::int64_t{milliseconds} * 1'000'000;
        how.drain_period = std::chrono::milliseconds{200};
        how.ring_entries = 1 << 19;
        const auto path = folder / (std::to_string(milliseconds) + ".sqlite");
        EXPECT_NO_THROW(kill_recording(path, how));
    }
}
/// Shared memory of a killed recording.
struct PeriodProgress {
    std::atomic<std::int64_t> emitted{0};  ///< ranges that ended
    std::atomic<std::int64_t> written{0};  ///< of them, those that were there when the last finished period began
};

constexpr int kRangesOfAPeriod = 50'000;  // 5 MB: beyond the pages SQLite keeps in memory

/// Drains on request, so that a period has a fixed number of ranges on any machine.
[[noreturn]] void record_periods_until_killed(const std::filesystem::path& path, PeriodProgress& progress) {
    RecorderOptions options;
    options.path = path;
    options.drain_period = std::chrono::hours{1};
    options.ring_entries = 1 << 17;
    options.devices = false;
    Recorder recorder(options);
    for (;;) {
        for (int k = 0; k < kRangesOfAPeriod; ++k) {
            nvtxRangePushA("range");
            nvtxRangePop();
            progress.emitted.fetch_add(1);
        }
        recorder.flush();
        progress.written = progress.emitted.load();
    }
}

TEST(KilledRecording, LosesAtMostTwoDrainPeriodsWhereTransactionsAreLarge) {
    const TemporaryFolder folder;
    std::mt19937_64 random(2);
    void* memory = mmap(nullptr, sizeof(PeriodProgress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    for (int round = 0; round < 5; ++round) {
        auto& progress = *new (memory) PeriodProgress;
        const auto path = folder / (std::to_string(round) + ".sqlite");
        const pid_t child = fork();
        if (child == 0) {
            record_periods_until_killed(path, progress);
        }
        // At any point of the emission or transaction of the second or a later period.
        const auto from = static_cast<std::int64_t>(kRangesOfAPeriod + random() % (2 * kRangesOfAPeriod));
        while (progress.emitted.load() < from && waitpid(child, nullptr, WNOHANG) == 0) {
            usleep(1000);
        }
        usleep(static_cast<useconds_t>(random() % 100'000));
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        const Recovery recovery = recover_trace(path);  // checks the integrity
        EXPECT_TRUE(recovery.was_open);
        EXPECT_EQ(recovery.dropped, 0);
        EXPECT_GE(recovery.ranges, progress.written.load()) << "a period that was finished is lost";
        const std::int64_t lost = progress.emitted.load() - recovery.ranges;
        EXPECT_GE(lost, -1) << "it may have been killed before it counted a range";
        EXPECT_LE(lost, 2 * kRangesOfAPeriod);
        EXPECT_GE(TraceReader(path).run().size(), 1U);
        std::filesystem::remove(path);
    }
    munmap(memory, sizeof(PeriodProgress));
}
}  // namespace
}  // namespace pipescope
