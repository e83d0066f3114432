#pragma once

#include "gui/document/scenario.h"

namespace pipescope {
/// Messages about a simulated scenario: differences from the request, estimated figures, lanes over the memory limit.
/// Most serious first.
std::vector<ScenarioMessage> scenarioMessages(const Profile& profile, const Simulation& simulation);
}  // namespace pipescope
