#pragma once

#include "balance/profile.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace pipescope {
/// Reads the JSON of a profile file, fills in the defaults, keeps unknown fields. Throws ProfileError with the JSON
/// path of the first fault.
Profile parse_profile(std::string_view json);
/// The file's text: same profile, same bytes.
std::string to_json(const Profile& profile);

/// {"others": .., "stolen": .., "pressure": ..}, the last only where it is known: the profile's "load" and a trace's.
std::string to_json(const MachineLoad& load);
/// Throws ProfileError unless it is one: shares from 0 to 1.
MachineLoad parse_load(std::string_view json);

/// Throws ProfileError if the file cannot be read or parse_profile refuses it; the message starts with the path.
Profile load_profile(const std::filesystem::path& path);
/// Written beside the target and renamed, so that a failure leaves what was there. Throws Error if it cannot be
/// written.
void save_profile(const Profile& profile, const std::filesystem::path& path);
}  // namespace pipescope
