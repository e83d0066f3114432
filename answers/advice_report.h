#pragma once

#include "simulator/plan/advice.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace pipescope {
// Output of `pipescope advise`. Pure functions.

/// "-m 16", "--checkpoint never", "no --placement": the change as options of simulate.
std::string options_text(const std::vector<OptionText>& changes);
/// The documented object (docs/cli/advise.md). `commands` are those of the moves, or empty if there are none.
nlohmann::ordered_json advice_json(const Advice& advice, const std::vector<std::string>& commands,
                                   bool batch_known = true);
/// The base, a table of all moves, and why the helpful ones help. `commands` as above; the first one's is printed.
std::string advice_text(const Advice& advice, const std::vector<std::string>& commands);
}  // namespace pipescope
