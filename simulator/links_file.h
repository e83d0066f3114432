#pragma once

#include "simulator/hardware.h"

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// The times of a links file (docs/links-format.md). Throws ProfileError whose message starts with the path of the
/// fault, and OptionError for times that no link can have (check_link()).
std::vector<LinkTime> parse_links(std::string_view json);
/// Like the above; messages start with the file's name.
std::vector<LinkTime> load_links(const std::filesystem::path& path);
/// The text of a links file.
std::string links_json(const std::vector<LinkTime>& times);
}  // namespace pipescope
