#pragma once

#include "profiler/profile/profile.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// What a new profile of the same model must contain.
struct ProfileChange {
    std::vector<std::int64_t> sizes;  ///< micro-batch sizes in addition to the old profile's
    std::string dtype;                ///< empty: the old profile's dtype
};
/// The "pipescope profile MODEL" command that profiles the model again, ready for a shell, with the profile's device,
/// micro-batch sizes and other options. It replaces `file`, the profile's file, or writes a new file if the dtype
/// changes.
std::string profile_command_of(const Profile& profile, const std::string& file, const ProfileChange& change);

/// The text as one word of a shell's command line. With control characters or bytes that are not UTF-8, in the form
/// $'..' that bash, ksh and zsh read.
std::string shell_word(const std::string& text);
/// The words of a command line, with a space between two.
std::string shell_words(const std::vector<std::string>& words);
}  // namespace pipescope
