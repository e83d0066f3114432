#pragma once

#include "tests/engine/engine_fixtures.h"

#include <string>
#include <vector>

// Layers whose skips several other layers pop.
namespace pipescope::testing_support {
/// The names of skips in the default namespace.
SkipNames named(const std::vector<std::string>& stash, const std::vector<std::string>& pop);

/// x -> tanh(Wx), from 6 features to 4. Stashes Wx, and what it gets, the signs and the largest features of that: four
/// skips, "wx", "input" (one of the pipeline's input), "positive" (truth values) and "largest" (whole numbers).
LayerSpec stem();
/// x -> Wx with all that it pops.
LayerSpec reader(const std::vector<std::string>& pops);
/// Ten layers. The last one reads nothing.
std::vector<LayerSpec> readers_model();
}  // namespace pipescope::testing_support
