#include "cli/command_definition.h"

#include "base/error.h"
#include "cli/child_process.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <utility>

namespace pipescope {
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionDefinition, names, value, description, required)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CommandDefinition, name, description, options, footer)

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

nlohmann::json to_json(const std::vector<CommandDefinition>& commands) {
    return nlohmann::json(commands);
}

std::vector<CommandDefinition> parse_definitions(const std::string& json) {
    return nlohmann::json::parse(json).get<std::vector<CommandDefinition>>();
}

std::vector<CommandDefinition> definitions_of(const std::filesystem::path& torch) {
    const ChildResult answer = run_child(torch, {kPrintCommands});
    if (answer.exit_code == 0) {
        try {
            return parse_definitions(answer.output);
        } catch (const nlohmann::json::exception&) {  // as below
        }
    }
    throw Error(fmt::format("{} does not print its commands (exit code {}); install programs of one version",
                            torch.string(), answer.exit_code));
}
}  // namespace pipescope
