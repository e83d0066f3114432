// A model's library whose layers emit their own NVTX ranges.

#include "models/user_model.h"

#include <ATen/ops/mse_loss.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <nvtx3/nvToolsExt.h>
#include <torch/version.h>

#include <memory>
#include <string>

namespace {
/// Scales its input within a range.
class RangingLayer : public pipescope::Layer {
public:
    pipescope::Tensors forward(const pipescope::Tensors& inputs) override {
        nvtxRangePushA("of the model's library");
        pipescope::Tensors outputs{at::mul(inputs.at(0), scale_)};
        nvtxRangePop();
        return outputs;
    }
    pipescope::NamedTensors parameters() const override { return {{"scale", scale_}}; }
    pipescope::NamedTensors buffers() const override { return {}; }
    void train(bool) override {}
    void to(at::ScalarType) override {}

private:
    const at::Tensor scale_ = at::ones({4}).requires_grad_();
};

pipescope::ModelSpec make(const std::string&) {
    pipescope::ModelSpec model;
    for (const char* name : {"first", "second"}) {
        model.layers.push_back({name, [] { return std::make_unique<RangingLayer>(); }});
    }
    model.make_batch = [](std::int64_t batch, std::uint64_t) {
        return pipescope::Batch{{at::ones({batch, 4})}, {at::zeros({batch, 4})}};
    };
    model.loss = [](const pipescope::Tensors& output, const pipescope::Tensors& target) {
        return at::mse_loss(output[0], target[0]);
    };
    return model;
}
}  // namespace

PIPESCOPE_USER_MODEL(make)
