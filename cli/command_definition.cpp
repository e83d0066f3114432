#include "cli/command_definition.h"

#include <nlohmann/json.hpp>

#include <utility>

namespace pipescope {
namespace {
OptionDefinition definition_of(const CLI::Option& option) {
    OptionDefinition definition;
    for (const std::string& name : option.get_snames()) {
        definition.names.push_back("-" + name);
    }
    for (const std::string& name : option.get_lnames()) {
        definition.names.push_back("--" + name);
    }
    if (definition.names.empty()) {
        definition.names.push_back(option.get_name(true));
    }
    definition.value = option.get_items_expected_max() > 0 ? option.get_type_name() : "";
    definition.description = option.get_description();
    definition.required = option.get_required();
    return definition;
}
}  // namespace

std::vector<CommandDefinition> definitions_of(const CLI::App& app) {
    std::vector<CommandDefinition> commands;
    for (const CLI::App* command : app.get_subcommands({})) {
        CommandDefinition definition{command->get_name(), command->get_description(), {}, command->get_footer()};
        for (const CLI::Option* option : command->get_options()) {
            definition.options.push_back(definition_of(*option));
        }
        commands.push_back(std::move(definition));
    }
    return commands;
}

nlohmann::ordered_json to_json(const std::vector<CommandDefinition>& commands) {
    auto list = nlohmann::ordered_json::array();
    for (const CommandDefinition& command : commands) {
        auto options = nlohmann::ordered_json::array();
        for (const OptionDefinition& option : command.options) {
            options.push_back({{"names", option.names},
                               {"value", option.value},
                               {"description", option.description},
                               {"required", option.required}});
        }
        list.push_back({{"name", command.name},
                        {"description", command.description},
                        {"options", std::move(options)},
                        {"footer", command.footer}});
    }
    return list;
}

std::vector<CommandDefinition> parse_definitions(const std::string& json) {
    std::vector<CommandDefinition> commands;
    for (const auto& each : nlohmann::ordered_json::parse(json)) {
        CommandDefinition command{each.at("name"), each.at("description"), {}, each.at("footer")};
        for (const auto& option : each.at("options")) {
            command.options.push_back(
                {option.at("names"), option.at("value"), option.at("description"), option.at("required")});
        }
        commands.push_back(std::move(command));
    }
    return commands;
}
}  // namespace pipescope
