// The paper's bound for checkpointing, in bytes: a lane's peak is the boundary inputs of all micro-batches plus the
// memory of one micro-batch (GPipe, arXiv 1811.06965, section 2.3). The tracking allocator replaces torch's for the
// whole process.

#include "engine/current_task.h"
#include "profiler/memory/lane_memory.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace pipescope {
namespace {
using namespace testing_support;

constexpr std::int64_t kChunks = 8;
constexpr std::int64_t kSamples = 4;  // of a micro-batch
constexpr std::int64_t kWidth = 64;
constexpr Bytes kBoundary = kSamples * kWidth * static_cast<Bytes>(sizeof(double));
constexpr Bytes kOutputs = 2 * kChunks * kSamples * static_cast<Bytes>(sizeof(double));  // and gathered; one value each
constexpr std::size_t kLanes = 3;

// Wide inside and narrow at the ends: activations are 16 boundaries per layer. A sigmoid saves its output.
Tensors widen(const Tensors& in) {
    return {in[0].repeat({1, 16})};
}
Tensors sigmoid(const Tensors& in) {
    return {in[0].sigmoid()};
}
Tensors fold(const Tensors& in) {
    return {in[0].view({-1, 16, kWidth}).sum(1)};
}
Tensors narrow(const Tensors& in) {
    return {in[0].sum(1, true)};
}
/// Peak of one micro-batch's forward and backward through a partition, without its input. `end` is its last layer.
Bytes peak_of_one_micro_batch(Tensors (*end)(const Tensors&)) {
    const at::Tensor input = torch::ones({kSamples, kWidth}, torch::kFloat64).requires_grad_();
    const int before = tracking_allocator::set_owner(tracking_allocator::kMeasuredOwner);
    tracking_allocator::reset_peak(tracking_allocator::kMeasuredOwner);
    {
        const at::Tensor output = end(sigmoid(sigmoid(sigmoid(widen({input})))))[0];
        output.backward(torch::ones_like(output));
    }
    tracking_allocator::set_owner(before);
    return tracking_allocator::peak(tracking_allocator::kMeasuredOwner);
}

/// Prevents a lane from recomputing micro-batch i before the previous lane recomputes i + 1, as in the paper's clock.
/// Otherwise early gradients would wait in the other lane's memory.
class Lockstep {
public:
    void recompute(std::size_t lane, int micro_batch) {
        std::unique_lock lock(mutex_);
        reached_[lane] = micro_batch;
        moved_.notify_all();
        EXPECT_TRUE(moved_.wait_for(lock, std::chrono::seconds(30),
                                    [&] { return lane == 0 || reached_[lane - 1] <= micro_batch + 1; }));
    }

private:
    std::mutex mutex_;
    std::condition_variable moved_;
    std::array<int, kLanes> reached_{kChunks, kChunks, kChunks};  // by lane; micro-batches are taken last first
};

/// Peaks of a step through three lanes with equal layers, except for the very last one.
std::vector<Bytes> peaks_of_lanes(Checkpoint mode) {
    std::mutex mutex;
    std::vector<Bytes> peaks(kLanes);
    LaneMemory memory([] { return Nanoseconds{0}; },
                      [&](const MemorySample& sample) {
                          const std::lock_guard lock(mutex);
                          Bytes& peak = peaks.at(sample.lane.index());
                          peak = std::max(peak, sample.peak);
                      });
    Lockstep lockstep;
    std::vector<LayerSpec> layers;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        layers.push_back(function_layer("widen", [&lockstep, lane](const Tensors& in) {
            if (is_recomputing()) {
                lockstep.recompute(lane, current_task()->key.micro_batch);
            }
            return widen(in);
        }));
        layers.insert(layers.end(), 3, function_layer("sigmoid", sigmoid));
        layers.push_back(lane + 1 < kLanes ? function_layer("fold", fold) : function_layer("narrow", narrow));
    }
    GPipe model(layers, {.balance = {5, 5, 5},
                         .devices = cpus(kLanes),
                         .chunks = kChunks,
                         .checkpoint = mode,
                         .host_cores = kLanes,
                         .observer = &memory});
    const at::Tensor input = torch::ones({kChunks * kSamples, kWidth}, torch::kFloat64).requires_grad_();
    model.step(input, {}, sum_of);
    return peaks;
}

TEST(LanePeak, IsTheBoundaryInputsAndOneMicroBatchWhereAllAreCheckpointed) {
    tracking_allocator::install();
    const Bytes between = peak_of_one_micro_batch(fold);
    const Bytes at_the_end = peak_of_one_micro_batch(narrow);
    EXPECT_GE(at_the_end, 3 * 16 * kBoundary) << "three layers' outputs are saved";
    const std::vector<Bytes> peaks = peaks_of_lanes(Checkpoint::always);
    // The first lane's inputs are parts of the caller's, but finally it owns all their gradients.
    EXPECT_LE(peaks[0], kChunks * kBoundary + between);
    EXPECT_LE(peaks[1], kChunks * kBoundary + between + kBoundary) << "a gradient may come one task early";
    EXPECT_LE(peaks[2], kChunks * kBoundary + at_the_end + kOutputs);
}

TEST(LanePeak, IsAllMicroBatchesWhereNoneIsCheckpointed) {
    tracking_allocator::install();
    for (const Bytes peak : peaks_of_lanes(Checkpoint::never)) {
        EXPECT_GT(peak, kChunks * 3 * 16 * kBoundary);
    }
}

/// What each of two lanes holds after the first half of its only backward, by category.
std::vector<MemoryBreakdown> held_between_halves() {
    std::mutex mutex;
    std::vector<MemoryBreakdown> held(2);
    LaneMemory memory([] { return Nanoseconds{0}; },
                      [&](const MemorySample& sample) {
                          const std::lock_guard lock(mutex);
                          const auto key = unpack(static_cast<std::uint64_t>(sample.task));
                          if (key && key->kind == TaskKind::backward) {
                              held.at(sample.lane.index()) = sample.composition;
                          }
                      });
    const std::vector<LayerSpec> layers(4, linear(kWidth, kWidth));
    GPipe model(layers, {.balance = {2, 2},
                         .devices = cpus(2),
                         .chunks = 1,
                         .checkpoint = Checkpoint::never,
                         .schedule = Schedule::zero_bubble_h1,
                         .host_cores = 2,
                         .observer = &memory});
    model.step(torch::ones({kSamples, kWidth}, torch::kFloat64), {}, sum_of);
    return held;
}

TEST(LanePeak, CountsGradientsThatWaitForTheSecondHalfAsSaved) {
    tracking_allocator::install();
    const std::vector<MemoryBreakdown> held = held_between_halves();
    // On each lane the second layer's input, and its gradient, which the first layer's weights need.
    EXPECT_EQ(held[0][MemoryCategory::saved], 2 * kBoundary);
    EXPECT_EQ(held[1][MemoryCategory::saved], 2 * kBoundary);
    EXPECT_EQ(held[0][MemoryCategory::copy], kBoundary) << "came from the other lane";
    EXPECT_EQ(held[1][MemoryCategory::copy], kBoundary) << "is to be passed on";
}
}  // namespace
}  // namespace pipescope
