#pragma once

#include "base/json_reader.h"
#include "profiler/profile/profile.h"

namespace pipescope {
/// The JSON of a profile.
inline constexpr JsonKind kProfileJson{"a profile", "correct it, or profile again",
                                       "every profile has it; add it, or profile again", throw_error<ProfileError>};
}  // namespace pipescope
