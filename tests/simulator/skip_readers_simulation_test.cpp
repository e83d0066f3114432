#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::IsEmpty;
using testing::UnorderedElementsAre;

/// Layers of 1000 ns forward and 2000 ns backward that pass nothing on, but a skip of 500 bytes from layer 0.
Profile skip_profile(int layers, const std::vector<std::size_t>& readers) {
    Profile profile = uniform_profile(layers);
    profile.layers[0].stash["x"] = {500};
    for (const std::size_t each : readers) {
        profile.layers[each].pop = {"x"};
    }
    return profile;
}

PipelineOptions one_micro_batch(std::vector<std::int64_t> balance) {
    PipelineOptions options;
    options.balance = Balance(balance);
    options.chunks = options.batch = 1;
    options.checkpoint = Checkpoint::never;
    options.hardware.link = {1e9, 0};  // 1 ns a byte
    return options;
}

/// "lane 0 1000-1500", by start.
std::vector<std::string> copies(const Simulation& simulation, TaskKind kind) {
    std::vector<std::string> found;
    for (const Slice& slice : simulation.timeline.slices) {
        if (slice.key.kind == kind) {
            found.push_back("lane " + std::to_string(slice.lane.value()) + " " + std::to_string(slice.start.count()) +
                            "-" + std::to_string(slice.end.count()));
        }
    }
    return found;
}

TEST(SkipReadersSimulation, SendsTheValueOnceToEachLaneAndOneGradientBack) {
    const CheckedProfile profile = skip_profile(6, {1, 2, 3, 5});
    // Layers 2 and 3 are on lane 1, layer 1 on the stashing lane.
    const Simulation apart = simulate(profile, one_micro_batch({2, 2, 2}));
    EXPECT_THAT(copies(apart, TaskKind::skip_forward), UnorderedElementsAre("lane 0 2000-2500", "lane 0 2000-2500"));
    EXPECT_THAT(copies(apart, TaskKind::skip_backward),
                UnorderedElementsAre("lane 2 10500-11000", "lane 1 14500-15000"));

    PipelineOptions looped = one_micro_batch({1, 1, 1, 1, 1, 1});
    looped.placement = {LaneId{0}, LaneId{1}, LaneId{2}, LaneId{0}, LaneId{1}, LaneId{2}};
    const Simulation in_turns = simulate(profile, looped);
    EXPECT_EQ(copies(in_turns, TaskKind::skip_forward).size(), 2u) << "partition 3 is on the stashing lane";
    EXPECT_EQ(copies(in_turns, TaskKind::skip_backward).size(), 2u) << "partitions 2 and 5 give one";

    PipelineOptions whole = one_micro_batch({6});
    EXPECT_THAT(copies(simulate(profile, whole), TaskKind::skip_forward), IsEmpty());
}

TEST(SkipReadersSimulation, SendsNoGradientOfNumbersAndTruthValues) {
    Profile profile = skip_profile(3, {1, 2});
    profile.layers[0].without_gradient = {"x"};
    const Simulation simulation = simulate(CheckedProfile(profile), one_micro_batch({1, 1, 1}));
    EXPECT_THAT(copies(simulation, TaskKind::skip_forward),
                UnorderedElementsAre("lane 0 1000-1500", "lane 0 1000-1500"));
    for (const Slice& slice : simulation.timeline.slices) {
        if (slice.key.kind == TaskKind::skip_backward) {
            EXPECT_EQ(slice.start, slice.end);
        }
    }
}

/// The most bytes of skips on a lane at the end of a task.
Bytes most_skips(const Simulation& simulation, LaneId lane) {
    Bytes most = 0;
    for (const MemorySample& sample : simulation.memory) {
        most = sample.lane == lane ? std::max(most, sample.composition[MemoryCategory::skip]) : most;
    }
    return most;
}

TEST(SkipReadersSimulation, HoldsOneValueOnALaneUntilItsLastPartitionHasIt) {
    PipelineOptions options = one_micro_batch({1, 1, 1, 1});
    options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
    const auto skips = [&](const std::vector<std::size_t>& readers, std::int32_t behind) {
        for (const MemorySample& sample : simulate(CheckedProfile(skip_profile(4, readers)), options).memory) {
            if (sample.lane == LaneId{1} && sample.task >= 0) {
                const TaskKey key = unpack(static_cast<std::uint64_t>(sample.task)).value();
                if (key.kind == TaskKind::forward && key.partition == behind) {
                    return sample.composition[MemoryCategory::skip];
                }
            }
        }
        return Bytes{-1};
    };
    options.checkpoint = Checkpoint::always;
    EXPECT_EQ(skips({1, 3}, 1), 500);
    EXPECT_EQ(skips({1, 3}, 3), 500) << "both partitions hold one storage for their recomputes";
    EXPECT_EQ(most_skips(simulate(CheckedProfile(skip_profile(4, {1, 3})), options), LaneId{1}), 1000)
        << "the value and the sum of both gradients";
}
}  // namespace
}  // namespace pipescope
