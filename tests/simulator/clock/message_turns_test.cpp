#include "simulator/clock/message_turns.h"

#include "base/error.h"
#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace pipescope {
namespace {
using testing::HasSubstr;

/// Forwards take 1000, backwards 2000 and copies 500.
PipelineOptions lanes_in_turn(int lanes, Schedule schedule, std::int64_t micro_batches) {
    PipelineOptions options;
    options.balance = Balance(std::vector<std::int64_t>(static_cast<std::size_t>(lanes), 1));
    options.chunks = options.batch = micro_batches;
    options.checkpoint = Checkpoint::never;
    options.schedule = schedule;
    options.hardware.link = {.latency_ns = 500, .protocol = LinkProtocol::in_turn};
    return options;
}

std::int64_t step_of(const PipelineOptions& options) {
    return simulate(CheckedProfile(uniform_profile(static_cast<int>(options.balance.num_partitions()))), options)
        .step_time.count();
}

// Lane 1 sends its first output from 2500 to 3000, and gets its second input, ready at 2000, only then: until 3500.
// Lane 2 has it at 5000 and ends its forwards at 6000. The second gradient, ready at 10000, reaches lane 1 at 11500
// likewise, after lane 1 has sent the first one until 11000. Lane 0 gets it at 14000.
TEST(MessageTurns, LetAReceiveWaitForTheSendBeforeIt) {
    PipelineOptions options = lanes_in_turn(3, Schedule::gpipe, 2);
    EXPECT_EQ(step_of(options), 16000);
    options.hardware.link.protocol = LinkProtocol::eager;
    EXPECT_EQ(step_of(options), 14000);
}

// Each lane has an output for the other one, and would get its input first.
TEST(MessageTurns, LetMessagesGoAtOnceThatWouldWaitForEachOther) {
    PipelineOptions options = lanes_in_turn(2, Schedule::one_f_one_b, 2);
    EXPECT_EQ(step_of(options), 10000);
    for (const Schedule& schedule : all_schedules()) {
        options = lanes_in_turn(4, schedule, 8);
        options.hardware.link.protocol = LinkProtocol::eager;
        std::int64_t eager = 0;
        try {
            eager = step_of(options);
        } catch (const Error&) {
            continue;  // needs another shape
        }
        options.hardware.link.protocol = LinkProtocol::in_turn;
        EXPECT_GE(step_of(options), eager) << to_string(schedule);
    }
}

TEST(MessageTurns, AreOfLanesThatShareNothing) {
    PipelineOptions options = lanes_in_turn(4, Schedule::gpipe, 4);
    options.hardware.devices = {"gpu0", "gpu0", "gpu1", "gpu1"};
    EXPECT_THAT(thrown<UsageError>([&] { step_of(options); }), HasSubstr("link protocol is in-turn"));
    options.hardware.devices = {"gpu0", "gpu0", "gpu0", "gpu0"};
    options.hardware.link.latency_ns = 0;
    EXPECT_NO_THROW(step_of(options)) << "there is no message";
}
}  // namespace
}  // namespace pipescope
