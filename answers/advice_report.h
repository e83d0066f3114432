#pragma once

#include "simulator/plan/advice.h"

#include <nlohmann/json_fwd.hpp>

#include <string>
#include <vector>

namespace pipescope {
// Output of `pipescope advise`. Pure functions.

/// "-m 16", "--checkpoint never", "no --placement": the change as options of simulate.
std::string options_text(const std::vector<OptionText>& changes);
/// What the move does: "fits", "faster", "faster, within the error", "over the limit", "no gain", "within noise".
std::string effect_text(const Advice& advice, const Move& move);
/// The documented object (docs/cli/advise.md). `commands` simulate the moves, or are empty if there are none.
nlohmann::ordered_json advice_json(const Advice& advice, const std::vector<std::string>& commands,
                                   bool batch_known = true);
/// The base, a table of all moves, and why the helpful moves help. `commands` as above; prints the first.
std::string advice_text(const Advice& advice, const std::vector<std::string>& commands);
/// The arguments of `run` for the pipeline: the model, and the options that `run` takes. Links, for instance, are the
/// machine's.
std::vector<std::string> run_words(const std::string& model, const PipelineOptions& options);
/// The command that runs the base and the move in turns, so that runs decide: "pipescope check MODEL .. -- -m 16".
/// `trace`: of the base, which then says what runs; or empty. Empty if `run` cannot make this move.
std::string check_command(const Advice& advice, const Move& move, const std::string& model,
                          const std::string& trace = {});
}  // namespace pipescope
