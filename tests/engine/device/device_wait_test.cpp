// Every single wait of a copy is necessary: without it, the fake accelerator detects concurrent use of memory by two
// streams.

#include "tests/engine/device/device_fixtures.h"

#include <gmock/gmock.h>
#include <torch/torch.h>

#include <string>
#include <utility>

namespace pipescope {
namespace {
using namespace testing_support;
using fake_accelerator::behaviour;

using DeviceWaitTest = DeviceTest;

bool are_equal(const NamedTensors& some, const NamedTensors& others) {
    for (std::size_t k = 0; k < some.size(); ++k) {
        if (!torch::allclose(some[k].second, others[k].second, 1e-10, 1e-12)) {
            return false;
        }
    }
    return true;
}

enum class Waits { of_copies, of_host };

/// Runs steps that omit one wait each, in turn, until none is left.
void expect_each_wait_is_missed(const std::vector<LayerSpec>& layers, GPipeOptions options, int at_least,
                                Waits waits = Waits::of_copies) {
    behaviour().reset();
    torch::manual_seed(1);
    const std::string first_lane = options.devices.front();
    GPipe pipe(layers, std::move(options));
    const at::Tensor input = samples(7).to(first_lane);  // so that all copies are those between lanes
    const at::Tensor target = samples(7, 4);
    const auto step = [&] {
        pipe.zero_grad();
        pipe.step({input}, {target}, first_mean_square);
        fake_accelerator::synchronize();
        return on_cpu(gradients_of(pipe.named_parameters()));
    };
    const NamedTensors expected = step();
    EXPECT_THAT(fake_accelerator::take_races(), ::testing::IsEmpty());
    int left_out = 0;
    for (;; ++left_out) {
        behaviour().reset();
        behaviour().copies_late = waits == Waits::of_host;  // else it depends on timing what the host reads
        (waits == Waits::of_copies ? behaviour().left_out_copy_wait : behaviour().left_out_host_wait) = left_out;
        const NamedTensors gradients = step();
        const std::int64_t all =
            waits == Waits::of_copies ? fake_accelerator::copy_waits() : fake_accelerator::host_waits();
        if (all <= left_out) {
            break;
        }
        const bool is_missed = !fake_accelerator::take_races().empty() || !are_equal(gradients, expected);
        EXPECT_TRUE(is_missed) << "wait " << left_out << " of " << all;
    }
    EXPECT_GE(left_out, at_least);
}

// Each copy waits for its source, and its receiver waits for the copy, in both directions.

TEST_F(DeviceWaitTest, EachWaitOfACopyIsNeeded) {
    for (const Checkpoint mode : kModes) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::string(to_string(mode)));
        expect_each_wait_is_missed(
            skip_chain(), {.balance = {1, 7}, .devices = {"fake:0", "fake:1"}, .chunks = 4, .checkpoint = mode},
            4 * 2 * 2);
    }
}

TEST_F(DeviceWaitTest, EachWaitOfASkipsCopyIsNeeded) {
    const std::vector<std::int64_t> balance = {3, 3, 2};  // the skip passes by the second
    expect_each_wait_is_missed(
        skip_chain(), {.balance = balance, .devices = {"fake:0", "fake:1", "fake:0"}, .chunks = 2}, 2 * 2 * 2 * 2);
}

TEST_F(DeviceWaitTest, EachWaitIsNeededInSchedulesThatGoBackwardEarly) {
    // No skip here: a skip beside a copy on the same link needs no wait of its own.
    const std::vector<LayerSpec> chain = {linear(6, 8), tanh_layer(), linear(8, 8), linear(8, 4)};
    expect_each_wait_is_missed(
        chain, {.balance = {1, 3}, .devices = {"fake:0", "fake:1"}, .chunks = 4, .schedule = Schedule::one_f_one_b},
        4 * 2 * 2);
    expect_each_wait_is_missed(
        chain,
        {.balance = {1, 1, 1, 1}, .devices = {"fake:0", "fake:1"}, .chunks = 4, .schedule = Schedule::interleaved_1f1b},
        4 * 3 * 2 * 2);
}

TEST_F(DeviceWaitTest, EachWaitOfALaneOnTheHostIsNeeded) {
    expect_each_wait_is_missed(skip_chain(), {.balance = {1, 6, 1}, .devices = {"cpu", "fake:0", "cpu"}, .chunks = 2},
                               2 * 2, Waits::of_host);
}

TEST_F(DeviceWaitTest, EachWaitIsNeededWhereAutogradDrives) {
    for (const Checkpoint mode : kModes) {
        const ::testing::ScopedTrace trace(__FILE__, __LINE__, std::string(to_string(mode)));
        expect_each_wait_is_missed(skip_chain(),
                                   {.balance = {1, 7},
                                    .devices = {"fake:0", "fake:1"},
                                    .chunks = 4,
                                    .checkpoint = mode,
                                    .driver = Driver::autograd},
                                   4 * 2 * 2);
    }
}
}  // namespace
}  // namespace pipescope
