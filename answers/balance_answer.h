#pragma once

#include "answers/asked_pipeline.h"
#include "answers/option_table.h"
#include "profiler/profile/profile.h"
#include "simulator/search/balance_search.h"
#include "simulator/simulation.h"

#include <nlohmann/json_fwd.hpp>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// The question of balance: where to cut a profiled model. `profile` in the flags is the name of the profile's file, for
// messages; it has no option. Flags must outlive their table. Threading: no shared state.

struct BalanceFlags {
    std::string profile;
    PipelineFlags pipeline;
    std::optional<int> partitions;
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
};
struct BalanceAnswer {
    FoundBalance found;
    Simulation simulation;  ///< of the balance found, with noise
    EstimatedPipeline pipeline;
};
void add_balance_options(OptionTable& table, BalanceFlags& flags);
BalanceAnswer balance_answer(const BalanceFlags& flags, Profile profile);
nlohmann::ordered_json balance_answer_json(const BalanceAnswer& answer);
/// The sentences that the command prints as warnings.
std::vector<std::string> warnings_of(const BalanceFlags& flags);
/// Throws UsageError for flags that fit no profile.
void check_balance(const BalanceFlags& flags);
std::string balance_answer_text(const BalanceAnswer& answer);
}  // namespace pipescope
