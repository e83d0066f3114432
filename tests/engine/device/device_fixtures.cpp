#include "tests/engine/device/device_fixtures.h"

#include <torch/torch.h>

#include <atomic>
#include <memory>
#include <stdexcept>

namespace pipescope::testing_support {
using fake_accelerator::behaviour;

void be_slow() {
    behaviour().kernel_delay_us = 50;
    behaviour().copy_delay_us = 1'000;
}

void expect_use_after_an_exception(const std::function<GPipe(const std::vector<LayerSpec>&)>& make) {
    auto fails = std::make_shared<std::atomic<bool>>(false);
    const auto failing = function_layer("failing", [fails](const Tensors& x) {
        if (*fails) {
            throw std::domain_error("no");
        }
        return x;
    });
    GPipe pipe = make({linear(6, 8), tanh_layer(), failing, linear(8, 4)});
    const at::Tensor input = samples(7);
    const at::Tensor target = samples(7, 4);
    const double before = pipe.step({input}, {target}, first_mean_square).item<double>();
    *fails = true;
    EXPECT_THROW(pipe.step({input}, {target}, first_mean_square), std::domain_error);
    *fails = false;
    EXPECT_NEAR(pipe.step({input}, {target}, first_mean_square).item<double>(), before, 1e-12);
}

void expect_done_with_the_input(GPipe& pipe) {
    const at::Tensor pinned =
        torch::empty({7, 6}, torch::TensorOptions().dtype(torch::kFloat64).pinned_memory(true)).copy_(samples(7));
    const at::Tensor expected = pipe.forward(pinned).detach().cpu();
    behaviour().copy_delay_us = 20'000;
    const at::Tensor output = pipe.forward(pinned);
    pinned.zero_();
    EXPECT_TRUE(torch::equal(output.detach().cpu(), expected));
}
}  // namespace pipescope::testing_support
