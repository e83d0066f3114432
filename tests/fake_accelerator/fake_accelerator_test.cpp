#include "tests/fake_accelerator/fake_device.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

namespace pipescope::fake_accelerator {
namespace {
class FakeAccelerator : public ::testing::Test {
protected:
    void TearDown() override {
        behaviour().reset();
        synchronize();
        take_races();
    }
};

const c10::Device kFirst(kType, 0);
const c10::Device kSecond(kType, 1);

TEST_F(FakeAccelerator, ComputesWhatTheCpuComputes) {
    const at::Tensor x = torch::randn({5, 6}, torch::kFloat64);
    torch::nn::Sequential on_cpu(torch::nn::Linear(6, 8), torch::nn::Tanh(), torch::nn::Linear(8, 3));
    on_cpu->to(torch::kFloat64);
    at::Tensor expected = on_cpu->forward(x);
    expected.pow(2).mean().backward();
    expected = expected.detach();  // lets go of the graph, and with it of what it knows of the parameters
    std::vector<at::Tensor> gradients;
    for (const at::Tensor& parameter : on_cpu->parameters()) {
        gradients.push_back(parameter.grad().clone());
        parameter.mutable_grad() = at::Tensor();
        // set_data would refuse devices of this type.
        parameter.unsafeGetTensorImpl()->shallow_copy_from(parameter.detach().to(kFirst).getIntrusivePtr());
    }
    const at::Tensor actual = on_cpu->forward(x.to(kFirst));
    actual.pow(2).mean().backward();
    EXPECT_TRUE(torch::allclose(actual.cpu(), expected));
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        EXPECT_TRUE(torch::allclose(on_cpu->parameters()[k].grad().cpu(), gradients[k]));
    }
}

TEST_F(FakeAccelerator, ComputesLossesThatTheCpuResizesOrAddsUpOnTheSide) {
    const at::Tensor x = torch::randn({6, 5});
    const at::Tensor y = torch::randn({6, 5});
    const at::Tensor classes = torch::randint(5, {6}, torch::kLong);
    const at::Tensor tokens = torch::randint(7, {6, 3}, torch::kLong);
    const at::Tensor table = torch::randn({7, 5});
    const auto on = [&](c10::Device device) {
        const at::Tensor input = x.clone().to(device).set_requires_grad(true);
        const at::Tensor rows = table.clone().to(device).set_requires_grad(true);
        const at::Tensor embedded = torch::embedding(rows, tokens.to(device)).sum(1);
        const at::Tensor loss =
            torch::mse_loss(input, y.to(device)) + torch::cross_entropy_loss(input + embedded, classes.to(device));
        loss.backward();
        return std::vector<at::Tensor>{loss.detach().cpu(), input.grad().cpu(), rows.grad().cpu()};
    };
    const std::vector<at::Tensor> expected = on(c10::kCPU);
    for (int round = 0; round < 20; ++round) {
        const std::vector<at::Tensor> found = on(kFirst);
        for (std::size_t k = 0; k < expected.size(); ++k) {
            EXPECT_TRUE(torch::allclose(found[k], expected[k])) << k;
        }
    }
}

TEST_F(FakeAccelerator, GoesOnWhileKernelsRun) {
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    behaviour().holds_kernels = true;
    const at::Tensor y = x + 1;
    EXPECT_FALSE(current_stream(0).is_idle());
    release();
    EXPECT_EQ(y.sum().item<double>(), 8);
}

TEST_F(FakeAccelerator, ShowsAReadThatDidNotWait) {
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    at::Tensor y = torch::empty_like(x);
    current_stream(0).synchronize();  // or memory given out again might not be NaN yet
    behaviour().holds_kernels = true;
    torch::mul_out(y, x, x);
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    const c10::StreamGuard elsewhere(guard->getStreamFromGlobalPool(kFirst));
    EXPECT_TRUE(y.cpu().isnan().all().item<bool>());
}

TEST_F(FakeAccelerator, OrdersStreamsByEvents) {
    behaviour().kernel_delay_us = 2'000;
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    const at::Tensor y = x * 2;
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    c10::Event event(c10::kPrivateUse1);
    event.record(guard->getStream(kFirst));
    const c10::Stream other = guard->getStreamFromGlobalPool(kFirst);
    event.block(other);
    const c10::StreamGuard elsewhere(other);
    EXPECT_EQ(y.sum().item<double>(), 8);
}

TEST_F(FakeAccelerator, PoisonsMemoryThatWasLetGoOfTooEarly) {
    at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    synchronize();
    behaviour().holds_kernels = true;
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    at::Tensor y;
    {
        const c10::StreamGuard elsewhere(guard->getStreamFromGlobalPool(kFirst));
        y = x * 2;  // reads later
    }
    x = at::Tensor();
    const at::Tensor in_its_place = torch::empty_like(y);
    current_stream(0).synchronize();
    release();
    synchronize();
    EXPECT_TRUE(y.cpu().isnan().all().item<bool>());
}

TEST_F(FakeAccelerator, CopiesBetweenDevices) {
    behaviour().copy_delay_us = 1'000;
    const at::Tensor x = torch::arange(6, torch::kFloat64);
    EXPECT_TRUE(torch::equal(x.to(kFirst).to(kSecond).add(1).cpu(), x + 1));
    EXPECT_EQ(x.to(kSecond).device(), kSecond);
}

TEST_F(FakeAccelerator, CountsItsMemory) {
    const std::int64_t before = allocated_bytes(1);
    {
        const at::Tensor x = torch::ones({1024}, torch::TensorOptions().dtype(torch::kFloat64).device(kSecond));
        EXPECT_EQ(allocated_bytes(1) - before, 8192);
    }
    EXPECT_EQ(allocated_bytes(1), before);
}

TEST_F(FakeAccelerator, DrawsRandomNumbersByAGenerator) {
    const auto draw = [] {
        at::Generator generator =
            at::globalContext().getAcceleratorHooksInterface(c10::kPrivateUse1).getNewGenerator(0);
        generator.set_current_seed(7);
        const auto options = torch::TensorOptions().dtype(torch::kFloat64).device(kFirst);
        return torch::empty({8}, options).bernoulli_(0.5, generator).cpu();
    };
    EXPECT_TRUE(torch::equal(draw(), draw()));
}

TEST_F(FakeAccelerator, CopiesFromPinnedMemoryWhileTheHostGoesOn) {
    const at::Tensor pinned = torch::ones({4}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true));
    ASSERT_TRUE(pinned.is_pinned());
    behaviour().holds_copies = true;
    const at::Tensor x = pinned.to(kFirst, /*non_blocking=*/true);
    EXPECT_FALSE(current_stream(0).is_idle());
    release();
    EXPECT_EQ(x.sum().item<double>(), 4);
}

TEST_F(FakeAccelerator, CopiesToTheHostNoEarlierThanAskedTo) {
    behaviour().copies_late = true;
    const at::Tensor pinned = torch::empty({4}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true));
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    pinned.copy_(x, /*non_blocking=*/true);
    EXPECT_TRUE(pinned.isnan().all().item<bool>());
    current_stream(0).synchronize();
    EXPECT_EQ(pinned.sum().item<double>(), 4);
}

// Independent of timing:

TEST_F(FakeAccelerator, FindsAReadThatNoEventOrders) {
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    const at::Tensor y = x * 2;
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    const c10::Stream other = guard->getStreamFromGlobalPool(kFirst);
    {
        const c10::StreamGuard elsewhere(other);
        const at::Tensor z = y + 1;
    }
    const std::vector<std::string> races = take_races();
    ASSERT_EQ(races.size(), 1U);
    EXPECT_NE(races[0].find("aten::add"), std::string::npos) << races[0];
    EXPECT_NE(races[0].find("reads what aten::mul"), std::string::npos) << races[0];
}

TEST_F(FakeAccelerator, FindsAWriteToWhatAnotherStreamReads) {
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    const c10::Stream other = guard->getStreamFromGlobalPool(kFirst);
    {
        const c10::StreamGuard elsewhere(other);  // the copy to the device has ended: the host waited for it
        const at::Tensor z = x + 1;
    }
    x.zero_();
    const std::vector<std::string> races = take_races();
    ASSERT_EQ(races.size(), 1U);
    EXPECT_NE(races[0].find("zero"), std::string::npos) << races[0];
}

TEST_F(FakeAccelerator, FindsMemoryThatIsGivenOutWhileAnotherStreamReadsIt) {
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    const c10::Stream other = guard->getStreamFromGlobalPool(kFirst);
    behaviour().kernel_delay_us = 5'000;
    for (const bool recorded : {false, true}) {
        at::Tensor x = torch::ones({3, 77}, torch::kFloat64).to(kFirst);
        {
            const c10::StreamGuard elsewhere(other);
            const at::Tensor z = x + 1;
        }
        if (recorded) {
            guard->recordDataPtrOnStream(x.storage().data_ptr(), other);
        }
        x = at::Tensor();
        const at::Tensor again = torch::empty({3, 77}, at::TensorOptions(kFirst).dtype(torch::kFloat64));
        EXPECT_EQ(take_races().size(), recorded ? 0U : 1U);
        synchronize();
    }
}

TEST_F(FakeAccelerator, FindsNothingWhereEventsOrOneThreadsWaitsOrder) {
    const at::Tensor x = torch::ones({4}, torch::kFloat64).to(kFirst);
    const at::Tensor y = x * 2;
    const auto* const guard = c10::impl::getDeviceGuardImpl(c10::kPrivateUse1);
    c10::Event made(c10::kPrivateUse1);
    made.record(guard->getStream(kFirst));
    const c10::Stream other = guard->getStreamFromGlobalPool(kFirst);
    made.block(other);
    {
        const c10::StreamGuard elsewhere(other);
        const at::Tensor z = y + 1;
    }
    current_stream(0).synchronize();
    {
        const c10::StreamGuard elsewhere(guard->getStreamFromGlobalPool(kFirst));
        const at::Tensor z = y + 1;
    }
    EXPECT_TRUE(take_races().empty());
}
}  // namespace
}  // namespace pipescope::fake_accelerator
