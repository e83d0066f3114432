// What the paper promises of checkpointing, in bytes: a lane's peak is the boundary inputs of all micro-batches and
// what one micro-batch takes (GPipe, arXiv 1811.06965, section 2.3). A program of its own: the tracking allocator
// replaces torch's for the whole process.

#include "profiler/memory/lane_memory.h"
#include "profiler/memory/tracking_allocator.h"
#include "tests/engine/engine_fixtures.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <mutex>

namespace pipescope {
namespace {
using namespace testing_support;

constexpr std::int64_t kChunks = 8;
constexpr std::int64_t kSamples = 4;  // of a micro-batch
constexpr std::int64_t kWidth = 64;
constexpr Bytes kBoundary = kSamples * kWidth * static_cast<Bytes>(sizeof(double));
constexpr Bytes kOutputs = 2 * kChunks * kSamples * static_cast<Bytes>(sizeof(double));  // and gathered; one value each

// Wide inside, narrow at its ends: activations are 16 boundaries a layer. A sigmoid saves its output.
Tensors widen(const Tensors& in) {
    return {in[0].repeat({1, 16})};
}
Tensors sigmoid(const Tensors& in) {
    return {in[0].sigmoid()};
}
Tensors narrow(const Tensors& in) {
    return {in[0].sum(1, true)};
}
at::Tensor sum_of(const at::Tensor& output, const at::Tensor&) {
    return output.sum();
}

/// Peak of one micro-batch's forward and backward through the second partition, its input apart.
Bytes peak_of_one_micro_batch() {
    const at::Tensor input = torch::ones({kSamples, kWidth}, torch::kFloat64).requires_grad_();
    const int before = tracking_allocator::set_owner(tracking_allocator::kMeasuredOwner);
    tracking_allocator::reset_peak(tracking_allocator::kMeasuredOwner);
    narrow(sigmoid(sigmoid(sigmoid(widen({input})))))[0].sum().backward();
    tracking_allocator::set_owner(before);
    return tracking_allocator::peak(tracking_allocator::kMeasuredOwner);
}

Bytes peak_of_the_last_lane(Checkpoint mode) {
    std::mutex mutex;
    Bytes peak = 0;
    LaneMemory memory([] { return Nanoseconds{0}; },
                      [&](const MemorySample& sample) {
                          const std::lock_guard lock(mutex);
                          if (sample.lane == LaneId{1}) {
                              peak = std::max(peak, sample.peak);
                          }
                      });
    GPipe model({function_layer("copy", [](const Tensors& in) { return Tensors{in[0] * 1}; }),
                 function_layer("widen", widen), function_layer("sigmoid", sigmoid), function_layer("sigmoid", sigmoid),
                 function_layer("sigmoid", sigmoid), function_layer("narrow", narrow)},
                {.balance = {1, 5}, .devices = cpus(2), .chunks = kChunks, .checkpoint = mode, .observer = &memory});
    const at::Tensor input = torch::ones({kChunks * kSamples, kWidth}, torch::kFloat64).requires_grad_();
    model.step(input, {}, sum_of);
    return peak;
}

TEST(LanePeak, IsTheBoundaryInputsAndOneMicroBatchWhereAllAreCheckpointed) {
    tracking_allocator::install();
    const Bytes one = peak_of_one_micro_batch();
    EXPECT_GE(one, 3 * 16 * kBoundary) << "three layers' outputs are saved";
    EXPECT_LE(peak_of_the_last_lane(Checkpoint::always), kChunks * kBoundary + one + kOutputs);
    EXPECT_GT(peak_of_the_last_lane(Checkpoint::never), kChunks * 3 * 16 * kBoundary)
        << "all micro-batches' activations";
}
}  // namespace
}  // namespace pipescope
