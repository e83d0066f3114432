#include "balance/profile_file.h"

#include "balance/text_file.h"

#include <fstream>
#include <system_error>

namespace pipescope {
Profile load_profile(const std::filesystem::path& path) {
    const std::string text = read_text_file(path, "a profile", "make one with 'pipescope profile'");
    if (text.starts_with("SQLite format 3")) {
        throw ProfileError(
            path.string() +
            ": is an SQLite file, such as a trace; a profile is JSON; name the profile, or make one with "
            "'pipescope profile'");
    }
    try {
        return parse_profile(text);
    } catch (const ProfileError& fault) {
        throw ProfileError(path.string() + ": " + fault.what());
    }
}

void save_profile(const Profile& profile, const std::filesystem::path& path) {
    const std::string text = to_json(profile);
    std::filesystem::path beside = path;
    beside += ".part";
    const auto fail = [&](const std::string& why) {
        std::error_code ignored;
        std::filesystem::remove(beside, ignored);
        throw Error(path.string() + ": cannot be written (" + why +
                    "); its directory must exist, be writable and have space; choose another path");
    };
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    if (!file) {
        fail("no file can be made there");
    }
    file << text;
    file.close();
    if (!file) {
        fail("the disk did not take all of it");
    }
    std::error_code error;
    std::filesystem::rename(beside, path, error);
    if (error) {
        fail(error.message());
    }
}
}  // namespace pipescope
