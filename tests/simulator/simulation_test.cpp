#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

PipelineOptions options_of(const std::vector<std::int64_t>& balance, std::int64_t m, Checkpoint checkpoint) {
    PipelineOptions options;
    options.balance = Balance(balance);
    options.chunks = m;
    options.batch = m;
    options.checkpoint = checkpoint;
    return options;
}
PipelineOptions uniform_options(int n, int m, Checkpoint checkpoint) {
    return options_of(std::vector<std::int64_t>(static_cast<std::size_t>(n), 1), m, checkpoint);
}

/// One lane per line, a letter per slice with its micro-batch and, behind @, its start in thousands of ns.
std::string picture(const Simulation& simulation, int lane) {
    std::string text;
    for (const Slice& slice : simulation.timeline.slices) {
        if (slice.lane == LaneId{lane} && slice.end > slice.start) {
            text += text.empty() ? "" : " ";
            text += is_copy(slice.key.kind) ? "c" : "";
            text += static_cast<char>(std::toupper(to_string(slice.key.kind)[is_copy(slice.key.kind) ? 5 : 0]));
            text += slice.key.micro_batch < 0 ? "" : std::to_string(slice.key.micro_batch);
            text += "@" + std::to_string(slice.start.count() / 1000);
        }
    }
    return text;
}

struct UniformCase {
    int n, m;
    std::int64_t always, except_last, never;  ///< thousands of ns
};

// T = (m + n - 1) f + s r + m b + (n - 1) b with s recomputed micro-batches, here f = r = 1 and b = 2 (torchgpipe's
// order with early recompute).
TEST(Simulate, UniformPipelinesTakeTheClosedForm) {
    for (const UniformCase& each :
         {UniformCase{2, 4, 19, 18, 15}, UniformCase{4, 4, 25, 24, 21}, UniformCase{4, 8, 41, 40, 33},
          UniformCase{4, 32, 137, 136, 105}, UniformCase{8, 32, 149, 148, 117}}) {
        const Profile profile = uniform_profile(each.n);
        const auto of = [&](Checkpoint mode) { return simulate(profile, uniform_options(each.n, each.m, mode)); };
        EXPECT_EQ(of(Checkpoint::always).step_time.count(), each.always * 1000);
        EXPECT_EQ(of(Checkpoint::except_last).step_time.count(), each.except_last * 1000);
        const Simulation never = of(Checkpoint::never);
        EXPECT_EQ(never.step_time.count(), each.never * 1000);
        EXPECT_NEAR(never.bubble_fraction, (each.n - 1.0) / (each.m + each.n - 1), 1e-12);
        EXPECT_NEAR(never.utilization, each.m / (each.m + each.n - 1.0), 1e-12);
        EXPECT_NEAR(of(Checkpoint::always).bubble_fraction, 3.0 * (each.n - 1) / static_cast<double>(each.always),
                    1e-12);
    }
}

TEST(Simulate, LaysOutASmallPipelineAsOnPaper) {
    // thousand ns  0    1    2    3    4    5    6    7    8    9
    // lane 0       F0   F1             .    B1   B1   R0   B0   B0      (R0 waits for its lane, not for its gradient)
    // lane 1            F0   F1   B1   B1   R0   B0   B0
    const Simulation simulation = simulate(uniform_profile(2), uniform_options(2, 2, Checkpoint::except_last));
    EXPECT_EQ(picture(simulation, 0), "F0@0 F1@1 B1@5 R0@7 B0@8");
    EXPECT_EQ(picture(simulation, 1), "F0@1 F1@2 B1@3 R0@5 B0@6");
    EXPECT_EQ(simulation.step_time.count(), 10000);
}

TEST(Simulate, RecomputesWhileTheGradientIsStillComing) {
    // never starts before the loss at 3, though lane 0 is free from 2 on; then B1 of lane 1 runs 4..6
    const Simulation simulation = simulate(uniform_profile(2), uniform_options(2, 2, Checkpoint::always));
    EXPECT_EQ(picture(simulation, 0), "F0@0 F1@1 R1@3 B1@6 R0@8 B0@9");
    EXPECT_EQ(picture(simulation, 1), "F0@1 F1@2 R1@3 B1@4 R0@6 B0@7");
}

TEST(Simulate, RefusesOptionsThatDoNotFit) {
    const Profile profile = uniform_profile(3);
    const auto refuses = [&](const PipelineOptions& options, const char* value, const char* remedy) {
        EXPECT_THAT([&] { simulate(profile, options); },
                    ThrowsMessage<UsageError>(AllOf(HasSubstr(value), HasSubstr(remedy))));
    };
    PipelineOptions good = options_of({1, 2}, 4, Checkpoint::always);
    PipelineOptions bad = good;
    bad.balance = Balance({1, 1});
    refuses(bad, "balance 1,1 sums to 2", "3 layers");
    bad = good;
    bad.chunks = 0;
    refuses(bad, "chunks is 0", "use 1 or more");
    bad = good;
    bad.schedule = "zigzag";
    refuses(bad, "schedule 'zigzag'", "gpipe");
    bad = good;
    bad.speeds = {1, 0};
    refuses(bad, "speeds[1] is 0", "above 0");
    bad = good;
    bad.speeds = {1};
    refuses(bad, "speeds names 1 lanes", "has 2");
    bad = good;
    bad.devices = {"cpu"};
    refuses(bad, "devices names 1 lanes", "has 2");
    bad = good;
    bad.link.latency_ns = -1;
    refuses(bad, "link.latency_ns is -1", "not negative");
    bad = good;
    bad.optimizer = "lion";
    refuses(bad, "optimizer 'lion'", "adam");
    bad = good;
    bad.batch = 1'000'000'000'000'000'000;
    refuses(bad, "batch 1000000000000000000", "smaller batch");
}
}  // namespace
}  // namespace pipescope
