#include "simulator/simulation.h"
#include "tests/simulator/profiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// Layers with 1000 bytes of gradients each.
Profile with_gradients(int layers) {
    Profile profile = uniform_profile(layers);
    for (LayerProfile& layer : profile.layers) {
        layer.parameter_bytes = layer.gradient_bytes = 1000;
    }
    return profile;
}

/// Two replicas: a sum of x bytes is two messages of x / 2 bytes.
PipelineOptions two_replicas(const Balance& balance, double bytes_per_second, Bytes bucket) {
    PipelineOptions options;
    options.balance = balance;
    options.chunks = 1;
    options.batch = 2;
    options.replicas = 2;
    options.checkpoint = Checkpoint::never;
    options.schedule = Schedule::one_f_one_b;
    options.hardware.replica_link = Link{.bytes_per_second = bytes_per_second};
    options.gradient_bucket = bucket;
    return options;
}

std::vector<std::pair<std::int64_t, std::int64_t>> sums_of(const Simulation& simulation) {
    std::vector<std::pair<std::int64_t, std::int64_t>> sums;
    for (const Slice& slice : simulation.timeline.slices) {
        if (slice.key.kind == TaskKind::all_reduce) {
            sums.emplace_back(slice.start.count(), slice.end.count());
        }
    }
    return sums;
}

// One replica, whose weights lie on two devices: no batch is split, but both sum 2000 bytes in two messages.
TEST(GradientBuckets, WeightCopiesSumWithoutSharingTheBatch) {
    PipelineOptions options = two_replicas(Balance({2}), 1e9, 0);
    options.replicas = 1;
    options.batch = 1;
    options.weight_copies = 2;
    const Simulation simulation = simulate(with_gradients(2), options);
    using Sums = std::vector<std::pair<std::int64_t, std::int64_t>>;
    EXPECT_EQ(sums_of(simulation), (Sums{{6000, 8000}}));
    EXPECT_EQ(simulation.step_time.count(), 8000);
}

// Two layers: forwards until 2000, the second layer's backward until 4000, the first one's until 6000.
TEST(GradientBuckets, BeginWhenTheirLayersAreDone) {
    const CheckedProfile profile = with_gradients(2);
    const auto step = [&](double bytes_per_second, Bytes bucket) {
        return simulate(profile, two_replicas(Balance({2}), bytes_per_second, bucket));
    };
    EXPECT_EQ(step(1e9, 0).step_time.count(), 6000 + 2000);
    const Simulation fast = step(1e9, 1000);
    EXPECT_EQ(fast.step_time.count(), 6000 + 1000);
    using Sums = std::vector<std::pair<std::int64_t, std::int64_t>>;
    EXPECT_EQ(sums_of(fast), (Sums{{4000, 7000}}));
    EXPECT_EQ(step(1e9, 500).step_time.count(), 7000);  // a layer completes both of its buckets
    EXPECT_EQ(sums_of(step(1e9, 1500)), (Sums{{6000, 8000}}));
    EXPECT_EQ(step(0.25e9, 1000).step_time.count(), 4000 + 2 * 4000);  // the network never idles
    EXPECT_EQ(step(1e9, 1'000'000).step_time.count(), 8000);           // one bucket, at the end
}

// Lanes of two partitions: the sum of the upper one runs while the lower one's backward does.
TEST(GradientBuckets, HideTheSumsOfPartitionsThatEndEarly) {
    const CheckedProfile profile = with_gradients(4);
    PipelineOptions options = two_replicas(Balance({1, 1, 1, 1}), 1e9, 1000);
    options.schedule = Schedule::interleaved_1f1b;
    options.placement = {LaneId{0}, LaneId{1}, LaneId{0}, LaneId{1}};
    options.chunks = 2;
    options.batch = 4;
    const Simulation early = simulate(profile, options);
    options.gradient_bucket = 0;
    const Simulation late = simulate(profile, options);
    EXPECT_EQ(late.step_time.count() - early.step_time.count(), 1000);
    EXPECT_EQ(late.lanes[0].busy, early.lanes[0].busy);
    EXPECT_EQ(late.lanes[0].peak_bytes, early.lanes[0].peak_bytes);
}

// With a split backward, the gradients of weights are made by the second half.
TEST(GradientBuckets, WaitForTheGradientsOfWeights) {
    Profile profile = with_gradients(2);
    for (LayerProfile& layer : profile.layers) {
        layer.backward_weight_ns = {500};
    }
    PipelineOptions options = two_replicas(Balance({1, 1}), 1e9, 1000);
    options.schedule = Schedule::zero_bubble_h1;
    const Simulation simulation = simulate(CheckedProfile(profile), options);
    for (const auto& [start, end] : sums_of(simulation)) {
        EXPECT_EQ(end - start, 1000);
        EXPECT_TRUE(std::ranges::any_of(simulation.timeline.slices, [&](const Slice& slice) {
            return slice.key.kind == TaskKind::backward_weight && slice.end.count() == start;
        }));
    }
}
}  // namespace
}  // namespace pipescope
