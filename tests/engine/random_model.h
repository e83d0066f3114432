#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace pipescope::testing_support {
/// A seeded choice. Equal seeds choose alike on every machine.
class Choice {
public:
    explicit Choice(std::uint64_t seed) : engine_(seed) {}
    /// From 0 to count - 1.
    int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }
    int between(int first, int last) { return first + below(last - first + 1); }
    bool once_in(int count) { return below(count) == 0; }

private:
    std::mt19937_64 engine_;
};

/// What a value between layers holds, for n samples.
enum class Kind {
    matrix,     ///< [n, 3, 3] in double: what layers compute on
    index,      ///< [n] integers, 0 or 1
    summary,    ///< [n] in double; an output only
    auxiliary,  ///< [1] or [2], whatever n; an output only
};

/// A model of layers that copy, view, expand, transpose, share, change in place, normalise, look up, stash and pop,
/// with parameters that are broadcast, used twice, hooked, frozen or not used at all; some are modules that return
/// tuples. Layers share their parameters with those of other lists that `layers` makes: a pipeline's can be compared
/// with the plain model's. Buffers they do not share.
struct RandomModel {
    std::vector<LayerSpec> layers;
    std::vector<Kind> inputs;
    std::vector<Kind> outputs;
    Tensors parameters;
    bool changes_inputs = false;  ///< a layer changes in place what it may not own: torch and the engine may refuse it
    bool draws = false;           ///< random numbers, in training
    bool normalises = false;      ///< by batch norms
};
RandomModel random_model(Choice& choice);
}  // namespace pipescope::testing_support
