#pragma once

#include "engine/layer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// A model drawn from a seed, so small that a step takes milliseconds. The same seed gives the same model.
struct RandomModel {
    ModelSpec spec;
    std::string kind;
    /// Layers that change their input in place: a checkpointed partition must not start with one.
    std::vector<std::size_t> in_place;
};

/// The kinds that random_model() can draw: image, sequence, recurrent, wide, narrow, tuple, skip.
const std::vector<std::string>& random_model_kinds();

/// `kind` is one of random_model_kinds().
RandomModel random_model(const std::string& kind, std::uint64_t seed);
}  // namespace pipescope
