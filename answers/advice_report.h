#pragma once

#include "simulator/plan/advice.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace pipescope {
// Output of `pipescope advise`. Pure functions.

/// "-m 16", "--checkpoint never", "no --placement": the change as options of simulate.
std::string options_text(const std::vector<OptionText>& changes);
/// The documented object (docs/cli/advise.md). `commands` simulate the moves, or are empty if there are none.
nlohmann::ordered_json advice_json(const Advice& advice, const std::vector<std::string>& commands,
                                   bool batch_known = true);
/// The base, a table of all moves, and why the helpful moves help. `commands` as above; prints the first.
std::string advice_text(const Advice& advice, const std::vector<std::string>& commands);
/// The command that runs the move's pipeline and records it, so that a run decides: "pipescope run MODEL .. --trace
/// changed.sqlite". Has the options that `run` takes; links, for instance, are the machine's.
std::string run_command(const std::string& model, const Move& move);
}  // namespace pipescope
