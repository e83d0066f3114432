#pragma once

#include "schedule/checkpoint.h"
#include "tests/engine/engine_fixtures.h"

#include <array>
#include <string>
#include <vector>

// Shared by the tests of the fake accelerator and those of a real one: a model with a skip, and its results on the CPU.
namespace pipescope::testing_support {
using Names = std::vector<std::string>;
inline constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};

/// Eight layers, 6 inputs and 4 outputs, with a skip over four of them. No random numbers, so that the CPU's results
/// are comparable.
std::vector<LayerSpec> skip_chain();
/// Four micro-batches. Each lane has the same number of layers, and the last one also what is left over.
GPipeOptions on_lanes(const Names& lanes, std::size_t num_layers, Checkpoint mode);
/// "always fake:0 cpu"
std::string name_of(const Names& lanes, Checkpoint mode);
at::Tensor first_mean_square(const Tensors& output, const Tensors& target);
NamedTensors on_cpu(NamedTensors tensors);

struct Plain {
    at::Tensor input = samples(7);
    at::Tensor target = samples(7, 4);
    at::Tensor input_gradient;
    NamedTensors gradients;
    double loss = 0;
};
/// Two steps of the plain skip_chain() on the CPU, in four micro-batches, with weights from torch's seed 1.
Plain plain_steps();

// Expectations for a pipeline of skip_chain() with the same weights, for any driver and lanes.

/// Two calls of step() give the plain loss and gradients.
void expect_plain_steps(GPipe& pipe, const Plain& plain);
/// Two forwards with a backward of the caller's own loss do too, including the input's gradient.
void expect_plain_gradients_of_the_callers_loss(GPipe& pipe, const Plain& plain);
/// A step of dropout_mlp() draws the same random numbers on all these lanes, with every checkpoint mode.
void expect_the_same_random_numbers(const std::vector<Names>& every_lanes, std::int64_t num_samples);
}  // namespace pipescope::testing_support
