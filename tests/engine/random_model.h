#pragma once

#include "engine/layer.h"

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

namespace pipescope::testing_support {
/// A seeded random choice, equal on all machines.
class Choice {
public:
    explicit Choice(std::uint64_t seed) : engine_(seed) {}
    int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }
    int between(int first, int last) { return first + below(last - first + 1); }
    bool once_in(int count) { return below(count) == 0; }

private:
    std::mt19937_64 engine_;
};

/// Content of a value between layers, for n samples.
enum class Kind {
    matrix,     ///< [n, 3, 3] in double: what layers compute on
    index,      ///< [n] integers, 0 or 1
    summary,    ///< [n] in double; an output only
    auxiliary,  ///< [1] or [2], whatever n; an output only
};

/// A model of layers that copy, view, expand, transpose, share, change in place, stash and pop. Its parameters may be
/// broadcast, used twice, frozen or unused. All layer lists created by `layers` share their parameters, so that a
/// pipeline can be compared with the plain model.
struct RandomModel {
    std::vector<LayerSpec> layers;
    std::vector<Kind> inputs;
    std::vector<Kind> outputs;
    Tensors parameters;
    bool changes_inputs = false;  ///< a layer changes in place what it may not own: torch and the engine may refuse it
};
/// `draws`: layers may draw random numbers.
RandomModel random_model(Choice& choice, bool draws);
}  // namespace pipescope::testing_support
