#pragma once

#include "hardware/hardware.h"

#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
template <class AnyJson>
class JsonValue;

/// The times of a links file (docs/links-format.md). Throws ProfileError whose message starts with the path of the
/// fault, and UsageError for times that no link can have (check_link()).
std::vector<LinkTime> parse_links(std::string_view json);
/// The list `times` of such a file, or of another that holds one. Checks the form of each entry only. Throws
/// ProfileError.
std::vector<LinkTime> read_link_times(const JsonValue<nlohmann::ordered_json>& times);
/// Like parse_links(); messages start with the file's name.
std::vector<LinkTime> load_links(const std::filesystem::path& path);
std::string links_json(const std::vector<LinkTime>& times);
}  // namespace pipescope
