#include "answers/profile_again.h"

#include "base/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <set>
#include <string_view>

namespace pipescope {
std::string shell_word(const std::string& text) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
        return text;
    }
    if (printable(text) == text) {
        std::string word = "'";
        for (const char c : text) {
            word += c == '\'' ? std::string("'\\''") : std::string(1, c);
        }
        return word + "'";
    }
    std::string word = "$'";  // a terminal might take these bytes for commands
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        const bool is_plain = byte >= 0x20 && byte < 0x7f && c != '\'' && c != '\\';
        word += is_plain ? std::string(1, c) : fmt::format("\\{:03o}", byte);
    }
    return word + "'";
}

std::string shell_words(const std::vector<std::string>& words) {
    std::string line;
    for (const std::string& word : words) {
        line += (line.empty() ? "" : " ") + shell_word(word);
    }
    return line;
}

namespace {
/// "out/p.json" in bfloat16: "out/p-bfloat16.json".
std::string name_for_dtype(const std::filesystem::path& file, const std::string& dtype) {
    std::filesystem::path name = file.stem();
    name += "-" + dtype;
    name += file.extension();
    return (file.parent_path() / name).string();
}
}  // namespace

std::string profile_command_of(const Profile& profile, const std::string& file, const ProfileChange& change) {
    std::string command = "pipescope profile " + (profile.model.empty() ? "MODEL" : shell_word(profile.model));
    if (profile.estimated) {
        command += " --device meta" + (profile.device == "cpu" ? "" : " --device-type " + shell_word(profile.device));
    } else if (profile.device != "cpu") {
        command += " --device " + shell_word(profile.device);
    }
    const std::string& dtype = change.dtype.empty() ? profile.dtype : change.dtype;
    const bool is_emulated = profile.model.starts_with(kEmulatedPrefix);  // holds its profile's bytes; takes no dtype
    if (!is_emulated && (!change.dtype.empty() || dtype != Profile{}.dtype)) {
        command += " --dtype " + dtype;
    }
    std::set<std::int64_t> sizes(profile.samples.begin(), profile.samples.end());
    sizes.insert(change.sizes.begin(), change.sizes.end());
    command += fmt::format(" --micro-batch-sizes {}", fmt::join(sizes, ","));
    for (const std::string& word : profile.command_options) {
        command += " " + shell_word(word);
    }
    return command + (change.dtype.empty() ? " -o " + shell_word(file) + " --force"
                                           : " -o " + shell_word(name_for_dtype(file, change.dtype)));
}
}  // namespace pipescope
