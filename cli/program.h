#pragma once

#include <CLI/App.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
enum class ExitCode { success = 0, failure = 1, usage = 2, infeasible = 3, interrupted = 130, terminated = 143 };

/// A command line with commands of the form `program command arguments`. A command's callback chooses an action, which
/// runs once everything is parsed.
class Program {
public:
    /// `version` is what --version prints behind the name.
    Program(const std::string& name, const std::string& description, const std::string& version);

    /// `example` and what else helps stands below the options in the command's --help.
    CLI::App* add_command(const std::string& name, const std::string& description, const std::string& example);
    /// What the command does when it is the one asked for.
    void set_action(CLI::App* command, std::function<ExitCode()> action);
    /// What the user typed behind the program's name, with `help COMMAND` as `COMMAND --help`. Known to an action.
    const std::vector<std::string>& arguments() const { return arguments_; }
    /// Parses, runs the action, turns every error into one line "pipescope: .." on stderr and an exit code: 2 for a
    /// UsageError and what the parser refuses, 130 or 143 for Interrupted, 1 for every other exception and for output
    /// that cannot be written.
    int run(int argc, const char* const* argv);

private:
    int parse_and_act();
    void check_command_name() const;
    int refuse_arguments(const CLI::ParseError& error);

    CLI::App app_;
    std::vector<std::string> arguments_;
    std::function<ExitCode()> action_;
};

/// The words of the text in lines of at most that many columns, as far as single words allow.
std::string wrapped(const std::string& text, std::size_t columns);
/// The line for stderr: torch's errors carry a C++ backtrace, of which the first line is enough.
std::string error_line(std::string_view what);
/// "pipescope: warning: ..." for each, on stderr.
void print_warnings(const std::vector<std::string>& warnings);
}  // namespace pipescope
