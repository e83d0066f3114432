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

/// The times of a links file (docs/links-format.md). Throws ProfileError, which starts with the path of the fault, and
/// UsageError for times that are not valid for a link (check_link()).
std::vector<LinkTime> parse_links(std::string_view json);
/// Reads the list `times` of a links file, or of another file that has such a list. Checks only the form of each
/// entry. Throws ProfileError.
std::vector<LinkTime> read_link_times(const JsonValue<nlohmann::ordered_json>& times);
/// Like parse_links(); messages start with the file's name.
std::vector<LinkTime> load_links(const std::filesystem::path& path);
std::string links_json(const std::vector<LinkTime>& times);
}  // namespace pipescope
