#include "balance/text_file.h"

#include "balance/profile.h"

#include <fstream>
#include <sstream>
#include <system_error>

namespace pipescope {
std::string read_text_file(const std::filesystem::path& path, std::string_view what, std::string_view remedy) {
    const auto refuse = [&](const char* fault, const char* rule, std::string_view advice) {
        throw ProfileError((path.empty() ? "''" : path.string())
                               .append(": ")
                               .append(fault)
                               .append("; ")
                               .append(what)
                               .append(rule)
                               .append("; ")
                               .append(advice));
    };
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {  // a directory can be opened but not read
        refuse("is a directory", " is a file", "name the file in it");
    }
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        refuse("cannot be opened", " must be a readable file", std::string("check the path, or ").append(remedy));
    }
    std::ostringstream content;
    content << file.rdbuf();
    std::string text = content.str();
    if (text.empty()) {
        refuse("is empty", " is not", remedy);
    }
    return text;
}
}  // namespace pipescope
