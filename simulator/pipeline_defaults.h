#pragma once

#include "balance/profile.h"

#include <string>

namespace pipescope {
// What commands and viewer assume of a pipeline if an option is missing: the same everywhere.

/// "adam" for models whose input is token numbers, as language models are trained; otherwise "sgd".
std::string default_optimizer(bool token_input);

/// True if the profile was measured on the CPU of a host whose number of cores it knows. Lanes are then on "cpu" and
/// share these cores, as `run` has them.
bool measured_on_host(const Profile& profile);
}  // namespace pipescope
