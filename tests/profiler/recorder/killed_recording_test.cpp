#include "killed_recording.h"

#include "../../trace/temporary_folder.h"

#include <gtest/gtest.h>

#include <random>

namespace pipescope {
namespace {
// All fifty, with their figures: benchmarks/recorder_gates.cpp.
TEST(KilledRecording, LeavesATraceThatOpensWhenever) {
    const TemporaryFolder folder;
    std::mt19937_64 random(1);
    for (int round = 0; round < 6; ++round) {
        Kill how;
        how.after_ns = std::uniform_int_distribution<std::int64_t>(0, 200'000'000)(random);
        how.drain_period = std::chrono::milliseconds{20};
        how.pause_ns = 10'000;
        const Remains remains = kill_recording(folder / (std::to_string(round) + ".sqlite"), how);
        EXPECT_LT(remains.lost_tail_ns, 20 * 20'000'000) << round;  // two periods on a quiet machine
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
