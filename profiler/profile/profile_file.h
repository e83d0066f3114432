#pragma once

#include "profiler/profile/profile.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
/// Parses the JSON of a profile, fills in defaults and keeps unknown fields. Throws ProfileError with the JSON path of
/// the first fault.
CheckedProfile parse_profile(std::string_view json);
/// The file's text. Equal profiles give equal bytes.
std::string to_json(const Profile& profile);

/// {"others": .., "stolen": .., "pressure": ..}, for the "load" of a profile or trace. "pressure" only if it is known.
std::string to_json(const MachineLoad& load);
/// Throws ProfileError unless the shares lie between 0 and 1.
MachineLoad parse_load(std::string_view json);

/// Throws ProfileError if the file cannot be read or parse_profile refuses it. The message starts with the path.
CheckedProfile load_profile(const std::filesystem::path& path);
}  // namespace pipescope
