#pragma once

#include "engine/layer.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// A random model, so small that a step takes milliseconds. Deterministic for a seed.
struct RandomModel {
    ModelSpec spec;
    std::string kind;
    /// Layers that change their input in place. A checkpointed partition must not start with one.
    std::vector<std::size_t> in_place;
};

/// The kinds of random_model(): image, sequence, recurrent, wide, narrow, tuple, skip, readers (skips that several
/// layers pop).
const std::vector<std::string>& random_model_kinds();

RandomModel random_model(const std::string& kind, std::uint64_t seed);
}  // namespace pipescope
