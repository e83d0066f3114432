#pragma once

#include "balance/profile.h"

#include <string>

namespace pipescope {
// Defaults of a pipeline's options, shared by commands and viewer.

/// "adam" for models whose input is token numbers, as language models are trained; otherwise "sgd".
std::string default_optimizer(bool token_input);

/// True if the profile was measured on a host's CPU and records its number of cores. Lanes are then on "cpu" and share
/// these cores, as in `run`.
bool measured_on_host(const Profile& profile);
}  // namespace pipescope
