#pragma once

#include "answers/option_table.h"

#include <CLI/App.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace pipescope {
/// Adds the options of a question to a command: parsing sets the question's fields.
void add_options(CLI::App& command, const std::shared_ptr<OptionTable>& table);
/// Adds the rows that add(table) creates to the command. Returns their table.
template <class Add>
std::shared_ptr<OptionTable> add_options(CLI::App& command, const Add& add) {
    auto table = std::make_shared<OptionTable>();
    add(*table);
    add_options(command, table);
    return table;
}

/// Adds an option with a text, which parse(text) turns into the value.
template <class Value, class Parse>
CLI::Option* add_parsed(CLI::App& command, const std::string& name, Value& value, Parse parse, const std::string& help,
                        const std::string& type, const std::string& group = "") {
    const auto take = [&value, parse](const std::string& text) { value = parse(text); };
    CLI::Option* option = command.add_option_function<std::string>(name, take, help)->type_name(type);
    return group.empty() ? option : option->group(group);
}
/// --json, with the same help text everywhere.
void add_json_flag(CLI::App& command, bool& json);
void add_force_flag(CLI::App& command, bool& force);
/// --batch-from, of the commands that take a model in Python.
CLI::Option* add_batch_from_option(CLI::App& command, std::string& function);
CLI::Option* add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& of);
}  // namespace pipescope
