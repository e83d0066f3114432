#pragma once

#include "profiler/profile/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// Changes that a new profile of the same model must bring.
struct ProfileChange {
    std::vector<std::int64_t> sizes;  ///< micro-batch sizes beside those of the old one
    std::string dtype;                ///< empty: that of the old one
};
/// The "pipescope profile MODEL" command that profiles the model again, ready for a shell: with the device, the
/// micro-batch sizes and the further options of the profile. It replaces `file`, the profile's own, or writes a new
/// file for another dtype.
std::string profile_command_of(const Profile& profile, const std::string& file, const ProfileChange& change);

/// The text as one word of a shell's command line.
std::string shell_word(const std::string& text);
}  // namespace pipescope
