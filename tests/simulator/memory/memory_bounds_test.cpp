#include "simulator/memory/memory_bounds.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(MemoryBounds, HoldTheSimulatedPeakBetweenThem) {
    std::mt19937 random(11);
    int tight = 0;
    for (int round = 0; round < 2000; ++round) {
        const std::size_t layers = 1 + random() % 8;
        const int n = 1 + static_cast<int>(random() % std::min<std::size_t>(layers, 4));
        const Profile drawn = round % 8 < 4 ? random_profile(random, layers, round % 2 == 1)
                                            : with_readers(random_profile(random, layers, true), random);
        const CheckedProfile profile(round % 4 == 3 ? with_shared(drawn) : drawn);
        PipelineOptions options = random_options(random, random_balance(random, layers, n));
        options.batch += static_cast<std::int64_t>(random() % 3);
        options.replicas = round % 5 == 0 ? 3 : 1;
        options.batch *= options.replicas;
        const Simulation simulation = simulate(profile, options, {.noise = false, .memory = true});
        MemoryBounds bounds(profile, options, n);
        for (const SimulatedPartition& partition : simulation.partitions) {
            const PartitionId id{partition.lane.value()};
            const Bytes peak = simulation.lanes[partition.lane.index()].peak_bytes;
            ASSERT_LE(bounds.at_least(id, partition.layers), peak) << "round " << round << " partition " << id.value();
            ASSERT_GE(bounds.at_most(id, partition.layers), peak) << "round " << round << " partition " << id.value();
            tight += bounds.at_least(id, partition.layers) == peak ? 1 : 0;
        }
    }
    EXPECT_GT(tight, 600) << "a bound that is never met filters nothing";
}
}  // namespace
}  // namespace pipescope
