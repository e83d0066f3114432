#include "profiler/profile/profile_file.h"

#include "base/text_file.h"

namespace pipescope {
CheckedProfile load_profile(const std::filesystem::path& path) {
    const std::string text = read_text_as<ProfileError>(path, {"a profile", "make one with 'pipescope profile'"});
    try {
        return parse_profile(text);
    } catch (const ProfileError& fault) {
        throw ProfileError(path.string() + ": " + fault.what());
    }
}
}  // namespace pipescope
