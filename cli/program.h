#pragma once

#include "cli/command_definition.h"

#include <CLI/App.hpp>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipescope {
enum class ExitCode {
    success = 0,
    failure = 1,
    usage = 2,
    infeasible = 3,
    interrupted = 130,
    broken_pipe = 141,
    terminated = 143
};

/// A command line of the form `program command arguments`. A command's callback selects an action, which runs after
/// parsing.
class Program {
public:
    Program(const std::string& name, const std::string& description, const std::string& version);

    /// `example`, and other help, is shown below the options in the command's --help.
    CLI::App* add_command(const std::string& name, const std::string& description, const std::string& example);
    void set_action(CLI::App* command, std::function<ExitCode()> action);
    /// The arguments after the program's name, with `help COMMAND` as `COMMAND --help`. Available to an action.
    const std::vector<std::string>& arguments() const { return arguments_; }
    /// Adds a first argument that --help does not show: an option that prints something, or a former command whose
    /// `act` throws UsageError. Every program has `--print-commands`, which prints definitions() as JSON.
    void add_hidden(const std::string& argument, std::function<void()> act);
    /// `rethrow` is called while an exception of an action is handled, and throws it again, perhaps as another one.
    void set_rethrow(std::function<void()> rethrow) { rethrow_ = std::move(rethrow); }
    /// The commands so far, for shell completion and the manual page.
    std::vector<CommandDefinition> definitions() const { return definitions_of(app_); }
    /// Parses and runs the action. Turns every error into one line "pipescope: .." on stderr and an exit code: 2 for a
    /// UsageError and parser errors, 130 or 143 for Interrupted, 1 for all other exceptions and for output that cannot
    /// be written. If the reader of stdout has closed it, ends silently with 141, as SIGPIPE does.
    int run(int argc, const char* const* argv);

private:
    int parse_and_act();
    void check_command_name() const;
    int refuse_arguments(const CLI::ParseError& error);
    ExitCode act();

    CLI::App app_;
    std::vector<std::string> arguments_;
    std::function<ExitCode()> action_;
    std::function<void()> rethrow_;
    std::map<std::string, std::function<void()>> hidden_;
};

/// The rest of main(): calls the program, which returns an exit code. An exception can still leave it if there is no
/// memory for a message. Then reports that without memory and returns 1.
int run_main(int (*program)(int argc, const char* const* argv), int argc, const char* const* argv) noexcept;

/// Adds an option as --help shows it: `type` stands for its value; an empty group means the general options.
template <class Value>
CLI::Option* add_option(CLI::App& command, const std::string& names, Value& value, const std::string& help,
                        const std::string& type, const std::string& group = "") {
    CLI::Option* option = command.add_option(names, value, help)->type_name(type);
    return group.empty() ? option : option->group(group);
}

/// Wraps the text into lines of at most that many columns, unless a word is longer.
std::string wrapped(const std::string& text, std::size_t columns);
/// The error line for stderr, without the C++ backtrace of torch's errors. Escapes newlines in names.
std::string error_line(std::string_view what);
/// Prints "pipescope: warning: ..." for each warning on stderr.
void print_warnings(const std::vector<std::string>& warnings);
}  // namespace pipescope
