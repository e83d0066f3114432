#include "killed_recording.h"

#include "../../trace/temporary_folder.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
// All fifty, and how little they lose: benchmarks/recorder_gates.cpp, since that depends on what else the machine does.
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
}  // namespace
}  // namespace pipescope
