#pragma once

#include "analysis/paired_ratio.h"
#include "base/machine_load.h"
#include "base/quantities.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
// Decides from runs of both whether a change makes the training faster.

/// One run of one configuration. Times are means over the steps after the warm-up, in ns.
struct CheckedTurn {
    std::int64_t steps = 0;  ///< after the warm-up
    double step = 0;
    double step_deviation = 0;  ///< standard deviation of the steps
    double wall_step = 0;
    std::optional<double> bubble;  ///< median of the steps, 0 to 1
    Bytes peak = 0;                ///< of the fullest lane
    std::optional<double> loss;    ///< of the last step; empty if it is not a number, or 0
    std::optional<MachineLoad> load;
};

/// One of the two configurations, with its turns in order.
struct CheckedSide {
    std::string command;  ///< that ran: "pipescope run .."
    std::int64_t batch = 0;
    std::string update = {};  ///< "synchronous" or "staggered"
    std::vector<CheckedTurn> turns = {};
};

/// Takes in the output of `pipescope run --json`. Throws Error if the run has no step after its warm-up.
void add_turn(CheckedSide& side, const nlohmann::json& output);

/// The time that decides. Synchronous steps lack the update of the parameters, staggered ones include it; wall steps of
/// both do.
enum class CheckedTime { step, wall_step };

struct ChangeCheck {
    CheckedSide before;
    CheckedSide after;
    CheckedTime judged = CheckedTime::step;
    bool per_sample = false;  ///< the batches differ, so times are divided by them
    PairedRatio step = {};    ///< of the rounds' means
    PairedRatio wall_step = {};
    std::int64_t rounds = 0;
    bool interrupted = false;

    const PairedRatio& judgement() const { return judged == CheckedTime::step ? step : wall_step; }
    /// "faster", "slower", or "cannot be told apart".
    std::string verdict() const;
    /// How many more rounds would decide, as PairedRatio::pairs_to_decide().
    std::optional<std::int64_t> more_rounds() const;
    /// The most steps after the warm-up that a turn has.
    std::int64_t steps_per_turn() const;
};
/// Precondition: equally many turns on both sides, at least one. Turn k of both are one round.
ChangeCheck checked_change(CheckedSide before, CheckedSide after);

/// docs/schemas/check.schema.json
nlohmann::ordered_json change_check_json(const ChangeCheck& check);
std::string change_check_text(const ChangeCheck& check);
}  // namespace pipescope
