#pragma once

#include "base/json_reader.h"
#include "save/save_error.h"

#include <nlohmann/json.hpp>

#include <string>

namespace pipescope {
/// The small JSON texts of a save. Its tensors may be many, so objects are sorted maps, where keys are found quickly.
inline constexpr JsonKind kSaveJson{"each text of a save", "the file is damaged",
                                    "a save's file has it; the file is damaged", throw_error<SaveError>, 5};
using SaveValue = JsonValue<nlohmann::json>;
using SaveObject = JsonObject<nlohmann::json>;

/// The value as in a message: in ASCII, and cut if long.
std::string shown(const nlohmann::json& value);
}  // namespace pipescope
