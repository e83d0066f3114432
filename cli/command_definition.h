#pragma once

#include <CLI/App.hpp>
#include <nlohmann/json_fwd.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace pipescope {
/// An option or a positional argument as its command declares it.
struct OptionDefinition {
    std::vector<std::string> names;  ///< "-m", "--chunks"; for a positional argument its only name, "PROFILE"
    std::string value;               ///< "N", "FILE"; empty for a flag
    std::string description;
    bool required = false;

    bool is_positional() const { return !names.front().starts_with('-'); }
};

struct CommandDefinition {
    std::string name;
    std::string description;
    std::vector<OptionDefinition> options;  ///< empty for a command that another program parses
    std::string footer;                     ///< examples and notes, several lines
};

/// Internal option with which pipescope-torch passes its definitions to pipescope, as JSON. Not in --help.
inline constexpr const char* kPrintCommands = "--print-commands";

/// The commands of the application, in the order of --help.
std::vector<CommandDefinition> definitions_of(const CLI::App& app);

/// The commands of pipescope-torch, which is asked for them. Throws Error if the program does not print them.
std::vector<CommandDefinition> definitions_of(const std::filesystem::path& torch);

nlohmann::json to_json(const std::vector<CommandDefinition>& commands);
/// Parses the result of to_json(). Throws nlohmann::json::exception.
std::vector<CommandDefinition> parse_definitions(const std::string& json);
}  // namespace pipescope
