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
// The question of balance: where to cut a profiled model. `profile` is the name of the profile's file, for messages; it
// is not an option. A question must outlive its table. Threading: no shared state.

struct BalanceQuestion {
    std::string profile;
    AskedPipeline pipeline;
    std::optional<int> partitions;
    BalanceAlgorithm algorithm = BalanceAlgorithm::optimal;
};
struct BalanceAnswer {
    FoundBalance found;
    Simulation simulation;  ///< of the found balance, with noise
    EstimatedPipeline pipeline;
};
void add_balance_options(OptionTable& table, BalanceQuestion& question);
BalanceAnswer balance_answer(const BalanceQuestion& question, const CheckedProfile& profile);
nlohmann::ordered_json to_json(const BalanceAnswer& answer);
/// The sentences that the command prints as warnings.
std::vector<std::string> warnings_of(const BalanceQuestion& question);
/// Throws UsageError for options that cannot work with any profile.
void check_balance(const BalanceQuestion& question);
std::string to_text(const BalanceAnswer& answer);
}  // namespace pipescope
