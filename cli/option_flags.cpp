#include "cli/option_flags.h"

#include "base/error.h"
#include "base/number_text.h"

namespace pipescope {
namespace {
/// The callbacks keep the table.
CLI::Option* add_row(CLI::App& command, const std::shared_ptr<OptionTable>& table, OptionRow& row) {
    std::string names = "--" + row.name;
    names = row.short_name.empty() ? names : "-" + row.short_name + "," + names;
    names += row.alias.empty() ? "" : ",--" + row.alias;
    if (row.is_flag()) {
        return command.add_flag_callback(
            names,
            [table, &row] {
                row.given = "";
                row.take("");
            },
            row.help);
    }
    const auto take = [table, &row](const std::string& text) {
        try {
            row.set(text);
        } catch (const UsageError& error) {
            if (row.is_whole_number) {  // the parser's error for it has a hint at --help
                throw CLI::ValidationError(error.message(OptionNames::command_line));
            }
            throw;
        }
    };
    return command.add_option_function<std::string>(names, take, row.help)
        ->type_name(row.value)
        ->required(row.required);
}
}  // namespace

void add_options(CLI::App& command, const std::shared_ptr<OptionTable>& table) {
    for (OptionRow& row : table->rows()) {
        CLI::Option* option = add_row(command, table, row);
        if (!row.group.empty()) {
            option->group(row.group);
        }
    }
}

void add_json_flag(CLI::App& command, bool& json) {
    command.add_flag("--json", json, "Print one JSON object instead of text; times in ns, sizes in bytes")
        ->group("Output");
}

void add_force_flag(CLI::App& command, bool& force) {
    command.add_flag("--force", force, "Replace output files that exist")->group("Output");
}

CLI::Option* add_batch_from_option(CLI::App& command, std::string& function) {
    return command
        .add_option("--batch-from", function,
                    "With a model in Python: function of a Python file or module that makes its batches, as "
                    "data.py:make_batch; default: make_batch in the model's file")
        ->type_name("FILE:NAME");
}

CLI::Option* add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& of) {
    // CLI11 would wrap negative numbers around and clamp large numbers.
    const CLI::Validator is_seed{[](const std::string& text) {
                                     return number_in<std::uint64_t>(text)
                                                ? std::string()
                                                : "'" + text +
                                                      "' is not a seed; it is a whole number from 0 to 2^64 - 1";
                                 },
                                 ""};
    return command.add_option("--seed", seed, of + "; default 0")->check(is_seed)->type_name("SEED");
}
}  // namespace pipescope
