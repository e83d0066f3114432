#pragma once

#include "engine/layer.h"
#include "schedule/checkpoint.h"
#include "tests/engine/engine_fixtures.h"

#include <array>

namespace pipescope {
inline constexpr std::array kModes = {Checkpoint::always, Checkpoint::except_last, Checkpoint::never};
inline const auto kLoss = [](const Tensors& output, const Tensors& target) {
    return testing_support::mean_square(output[0], target[0]);
};
}  // namespace pipescope
