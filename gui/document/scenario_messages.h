#pragma once

#include "gui/document/scenario.h"

namespace pipescope {
/// What there is to say about a scenario that was simulated: what ran differs from what was asked, figures that are
/// estimates, lanes over the memory limit. The gravest first.
std::vector<ScenarioMessage> scenarioMessages(const Profile& profile, const Simulation& simulation);
}  // namespace pipescope
