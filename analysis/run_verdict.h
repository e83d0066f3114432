#pragma once

#include "analysis/compared_bubbles.h"
#include "analysis/comparison.h"
#include "analysis/recorded_run.h"
#include "simulator/model_error.h"
#include "simulator/plan/advice.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Where a reader finds what a part of a verdict rests on.
enum class Evidence {
    none,     ///< nowhere: words between other parts, or the reason why something is not known
    bubbles,  ///< the list of bubbles
    lanes,    ///< the times that lanes work
    change,   ///< the simulation of the proposed change
};
/// The key in JSON: bubbles.
std::string_view to_string(Evidence evidence);

/// The role of a part in a verdict. Window, page and JSON show the roles differently.
enum class VerdictRole {
    words,   ///< between other parts
    idle,    ///< how much idle time there is
    cause,   ///< one cause of it
    aside,   ///< what readers need to judge the causes, such as other load
    change,  ///< what would help
};
/// The key in JSON: words.
std::string_view to_string(VerdictRole role);

struct VerdictPart {
    std::string text;
    Evidence evidence = Evidence::none;
    std::optional<BubbleCause> cause = {};  ///< the bubbles of this cause; empty: all
    std::optional<LaneId> lane = {};        ///< the lane that the part is about
    VerdictRole role = VerdictRole::words;
};

/// The answer to "why does this run idle, and what would help?" in two sentences: "17 % idle: lane 0 works 23 % longer
/// than lane 1 (8.2 points), the schedule fills and drains (6 points). Moving layer 3 from lane 0 to lane 1 would save
/// 6 to 9 % of the step (the model was 2 % off on this run)." If there is nothing to say, it says so. A value.
struct RunVerdict {
    std::optional<double> idle;  ///< share of step time x lanes; empty: not known
    std::vector<VerdictPart> parts;
    std::optional<Move> change;  ///< the proposed one; empty: none helps, or none was tried
    double step_change = 0;      ///< what it does to the step: -0.08 is 8 % shorter
    std::optional<ModelError> error;
    std::shared_ptr<const Advice> advice;  ///< the changes that `change` was chosen from; null: none was tried

    /// All parts, one after the other.
    std::string text() const;
};

/// The first sentence. `report`: of the compared steps. `lanes`: their median busy times. Takes the root causes, or
/// else the causes of bubbles, also if a root cause takes more than all idle time. Parts of less than a point are left
/// out, unless nothing else is left.
RunVerdict why_idle(const BubbleReport& report, std::span<const RunLane> lanes);
/// For a run whose idle time is not known. `why`: "ranges were lost".
RunVerdict unknown_idle(const std::string& why);
/// Adds the second sentence: the first real move that needs no other hardware, with the range that the model's error
/// leaves. `profile`: names the layers.
void add_change(const Advice& advice, const Profile& profile, RunVerdict& verdict);

/// Both sentences, and between them what other load on the machine took, if that is notable, and how much of the idle
/// time it explains: how much more all steps idle than those at little load, if there are enough of both. The
/// second one follows about 60 simulations without noise, and is left out if the run cannot be simulated, has too many
/// tasks, or if cancelled. `error`: of the simulation on this run; empty if unknown.
RunVerdict verdict_of(const RecordedRun& run, const BubbleReport& report, std::span<const RunLane> lanes,
                      const std::optional<ModelError>& error, const std::function<bool()>& cancelled = {});

/// The lanes of the measured side, for why_idle().
std::vector<RunLane> measured_lanes(const Comparison& comparison);
}  // namespace pipescope
