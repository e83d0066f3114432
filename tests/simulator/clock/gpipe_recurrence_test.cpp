#include "simulator/clock/gpipe_recurrence.h"
#include "balance/optimal_partition.h"
#include "simulator/simulation.h"
#include "tests/simulator/random_pipelines.h"

#include <gtest/gtest.h>

#include <cmath>

namespace pipescope {
namespace {
std::vector<std::int64_t> random_times(std::mt19937& random, std::size_t count, int most) {
    std::vector<std::int64_t> times(count);
    for (std::int64_t& time : times) {
        time = static_cast<std::int64_t>(random() % static_cast<unsigned>(most));
    }
    return times;
}

TEST(GPipeRecurrence, EqualsTheClosedFormOnRandomInstances) {
    // Includes links slower than compute, partitions without cost, and m = 1.
    std::mt19937 random(21);
    GPipeRecurrence recurrence;
    for (int round = 0; round < 20000; ++round) {
        const std::size_t n = 1 + random() % 8;
        const int m = 1 + static_cast<int>(random() % 32);
        GPipeTimes times{random_times(random, n, 50), random_times(random, n, 50), random_times(random, n, 90),
                         random_times(random, n - 1, 80), random_times(random, n - 1, 80)};
        if (random() % 2 == 0) {
            times.kept_forward = random_times(random, n, 70);
        }
        PartitionProblem problem;
        problem.partitions = static_cast<int>(n);
        problem.micro_batches = m;
        problem.checkpoint = static_cast<Checkpoint>(random() % 3);
        problem.forward_ns.assign(times.forward.begin(), times.forward.end());
        problem.recompute_ns.assign(times.recompute.begin(), times.recompute.end());
        problem.backward_ns.assign(times.backward.begin(), times.backward.end());
        problem.kept_forward_ns.assign(times.kept_forward.begin(), times.kept_forward.end());
        problem.copy_forward_ns = times.copy_forward;
        problem.copy_backward_ns = times.copy_backward;
        problem.loss_ns = static_cast<std::int64_t>(random() % 30);
        ASSERT_EQ(recurrence.step(times, m, problem.checkpoint, problem.loss_ns),
                  gpipe_step(problem, Balance(std::vector<std::int64_t>(n, 1))))
            << "round " << round;
    }
}

/// The times that simulate() would use for micro-batches of `samples`.
GPipeTimes times_of(const Profile& profile, const PipelineOptions& options, double samples) {
    const auto read = [&](const PerSize& values) { return interpolate(profile.samples, values, samples).value; };
    GPipeTimes times;
    for (std::size_t j = 0; j < options.balance.num_partitions(); ++j) {
        const LaneId lane{static_cast<std::int64_t>(j)};
        double forward = 0;
        double kept_forward = 0;
        double recompute = 0;
        double backward = 0;
        const LayerRange layers = options.balance.layers_of(PartitionId{lane.value()});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            const LayerProfile& layer = profile.layers[l];
            forward += read(layer.forward_ns);
            kept_forward += read(layer.graph_forward_ns.empty() ? layer.forward_ns : layer.graph_forward_ns);
            recompute += read(profile.layers[l].recompute_ns);
            backward += read(profile.layers[l].backward_ns);
        }
        const std::size_t m = micro_batch_sizes(options).size();
        const bool all_keep = !is_checkpointed(options.checkpoint, MicroBatchId{0}, static_cast<int>(m));
        times.forward.push_back(std::llround((all_keep ? kept_forward : forward) / speed_of(options.hardware, lane)));
        times.kept_forward.push_back(std::llround(kept_forward / speed_of(options.hardware, lane)));
        times.recompute.push_back(std::llround(recompute / speed_of(options.hardware, lane)));
        times.backward.push_back(std::llround(backward / speed_of(options.hardware, lane)));
        if (j + 1 < options.balance.num_partitions()) {
            const auto bytes =
                static_cast<double>(std::llround(read(profile.layers[layers.end.index() - 1].output_bytes)));
            const bool free =
                device_of(options.hardware, lane) == device_of(options.hardware, LaneId{lane.value() + 1});
            const double per_byte =
                options.hardware.link.bytes_per_second > 0 ? 1e9 / options.hardware.link.bytes_per_second : 0;
            const std::int64_t copy = free ? 0 : std::llround(options.hardware.link.latency_ns + bytes * per_byte);
            times.copy_forward.push_back(copy);
            times.copy_backward.push_back(copy);
        }
    }
    return times;
}

TEST(GPipeRecurrence, EqualsTheSimulatedTaskGraphUnevenMicroBatchesIncluded) {
    std::mt19937 random(22);
    GPipeRecurrence recurrence;
    for (int round = 0; round < 1500; ++round) {
        const std::size_t layers = 1 + random() % 8;
        const int n = 1 + static_cast<int>(random() % std::min<std::size_t>(layers, 5));
        Profile profile = random_profile(random, layers, false);
        PipelineOptions options = random_options(random, random_balance(random, layers, n));
        options.batch += static_cast<std::int64_t>(random() % 3);
        for (LayerProfile& layer : profile.layers) {  // no compute task of 0 ns at either end of the step
            layer.forward_ns[0] += 1;
            layer.backward_ns[0] += 1;
            layer.graph_forward_ns = round % 2 == 0 ? layer.recompute_ns : PerSize{};
            if (round % 2 == 0) {
                layer.graph_forward_ns[0] += 1;
            }
        }
        const Simulation simulation = simulate(CheckedProfile(profile), options, {.noise = false, .memory = false});
        const std::int64_t m = simulation.micro_batches;
        const std::int64_t large = (options.batch + m - 1) / m;
        const std::int64_t num_large = options.batch % m == 0 ? m : options.batch % m;
        const double loss = interpolate(profile.samples, profile.loss_ns, static_cast<double>(options.batch)).value;
        EXPECT_EQ(recurrence.step(times_of(profile, options, static_cast<double>(large)),
                                  times_of(profile, options, static_cast<double>(options.batch / m)),
                                  static_cast<int>(m), static_cast<int>(num_large), options.checkpoint,
                                  std::llround(loss / speed_of(options.hardware, LaneId{n - 1}))),
                  simulation.step_time.count())
            << "round " << round;
    }
}
}  // namespace
}  // namespace pipescope
