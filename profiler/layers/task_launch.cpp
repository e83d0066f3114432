#include "profiler/layers/task_launch.h"

#include "base/sample_statistics.h"
#include "engine/gpipe.h"

#include <ATen/Functions.h>
#include <torch/types.h>

#include <chrono>
#include <memory>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kMicroBatches = 32;
constexpr int kSteps = 20;

/// One addition forward and one autograd node back: a µs or two.
class AddOne : public Layer {
public:
    Tensors forward(const Tensors& inputs) override { return {inputs.at(0) + weight_}; }
    NamedTensors parameters() const override { return {{"weight", weight_}}; }
    NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    at::Tensor weight_ = at::ones({1}).set_requires_grad(true);
};
}  // namespace

double measure_task_launch(c10::Device device) {
    GPipe pipeline(
        std::vector<LayerSpec>{{"add", [] { return std::make_unique<AddOne>(); }}},
        {.balance = {1}, .devices = {device.str()}, .chunks = kMicroBatches, .checkpoint = Checkpoint::never});
    const at::Tensor input = at::zeros({kMicroBatches, 1});
    const auto loss = [](const at::Tensor& output, const at::Tensor&) { return output.sum(); };
    std::vector<double> times;
    for (int step = 0; step < kSteps; ++step) {
        const auto start = std::chrono::steady_clock::now();
        pipeline.step(input, input, loss);
        const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
        if (step > 0) {                                            // the first step is a warm-up
            times.push_back(taken.count() / (2 * kMicroBatches));  // a forward and a backward each
        }
    }
    return median(std::move(times));
}
}  // namespace pipescope
