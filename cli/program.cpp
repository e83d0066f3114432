#include "cli/program.h"

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "cli/output_file.h"
#include "cli/stop_signals.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <iostream>
#include <limits>
#include <new>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace pipescope {
namespace {
int to_int(ExitCode code) {
    return static_cast<int>(code);
}

// Columns of help text: CLI11 indents descriptions by kNameColumns, but does not wrap them.
constexpr std::size_t kNameColumns = 30;
constexpr std::size_t kTextColumns = 80;

/// Rejects numbers that CLI11 misreads: it clamps numbers that are too large, and reads 010 as 8 and 0x10 as 16.
CLI::Validator is_decimal() {
    return {[](const std::string& text) {
                const std::size_t first = text.find_first_of("0123456789");
                if (first + 1 < text.size() && text[first] == '0' && text[first + 1] != '.') {
                    return text + " begins with 0; numbers are decimal; leave out the 0";
                }
                std::int64_t value = 0;
                const auto error = std::from_chars(text.data(), text.data() + text.size(), value).ec;
                return error == std::errc::result_out_of_range
                           ? text + " is too large; at most 2^63 - 1 can be counted; use less"
                           : std::string();
            },
            ""};
}

/// Rejects empty values, so that an unset shell variable does not silently disable an option.
CLI::Validator is_given() {
    return {[](const std::string& text) {
                return text.empty() ? std::string("its value is empty; give one, or leave it out") : std::string();
            },
            ""};
}

/// Describes "--steps = x": a value that is not a number, not a whole number, or out of range for the option's type.
std::string wrong_number(const std::string& assignment, CLI::App& command) {
    const std::size_t equals = assignment.find(" = ");
    const std::string option = assignment.substr(0, equals);
    const std::string value = equals == std::string::npos ? "" : assignment.substr(equals + 3);
    if (number_in<std::int64_t>(value)) {
        return fmt::format("{} is {}; a number here is at most {}, with either sign; change it", option, value,
                           std::numeric_limits<int>::max());
    }
    const CLI::Option* known = command.get_option_no_throw(option);
    // An option that takes fractions would have accepted this value.
    if (number_in<double>(value) || (known != nullptr && known->get_type_name() == "N")) {
        return fmt::format("{} is '{}'; it must be a whole number; write it as 4", option, value);
    }
    return fmt::format("{} is '{}'; it must be a number; write it as 1", option, value);
}

/// Describes an argument that the command does not know.
std::string unexpected(const std::string& argument, const CLI::App& command) {
    if (!argument.starts_with('-')) {
        return fmt::format("'{}' is one argument too many for {}; leave it out, or give it to an option", argument,
                           command.get_name());
    }
    const std::string name = argument.substr(0, argument.find('='));
    std::vector<std::string> known;
    for (const CLI::Option* option : command.get_options()) {
        for (const std::string& each : option->get_lnames()) {
            known.push_back("--" + each);
        }
    }
    const std::optional<std::string> nearest = nearest_name(name, known);
    return fmt::format("{} is not an option of {}{}", name, command.get_name(),
                       nearest ? "; the nearest one is " + *nearest : "");
}

/// The parser's message in our words: value, rule and remedy.
std::string problem_of(const CLI::ParseError& error, CLI::App& command, const std::vector<std::string>& arguments,
                       const std::vector<std::string>& unparsed) {
    const std::string text = error.what();
    const std::string option = text.substr(0, text.find_first_of(": "));
    if (constexpr std::string_view kBegin = "Could not convert: "; text.starts_with(kBegin)) {  // "--steps = x"
        return wrong_number(text.substr(kBegin.size()), command);
    }
    if (text.starts_with("A subcommand is required")) {
        return arguments.front().starts_with('-') ? unexpected(arguments.front(), command)
                                                  : "no command is given; one is required";
    }
    if (text.ends_with("missing")) {
        return option + " has no value; it needs one; add it";
    }
    if (text.find("At Most 1 required") != std::string::npos) {
        return option + " is given more than once; it has one value; leave out the others";
    }
    if (text.ends_with("flag override")) {
        return (option.size() == 1 ? "-" : "--") + option + " is given a value; it takes none; leave out the =";
    }
    if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && !unparsed.empty()) {
        return unexpected(unparsed.front(), command);
    }
    return text;
}

/// Completes the options of a command: the rules for their values, which CLI11 lacks.
void complete_options(CLI::App& command) {
    for (CLI::Option* option : command.get_options()) {
        option->description(wrapped(option->get_description(), kTextColumns));
        if (option->get_type_name() == "N") {
            option->check(is_decimal());
        }
        // Arguments of the user's program may be empty; names of files may not.
        const bool may_hold_an_empty_one = option->get_items_expected_max() > 1 &&
                                           (option->get_name() == "PROGRAM" || option->get_name() == "COMMAND");
        if (option->get_items_expected_min() > 0 && !may_hold_an_empty_one) {
            option->check(is_given());
        }
        if (option->get_items_expected_max() == 0) {
            option->disable_flag_override();  // otherwise --json=5 turns it on, and --json=no off
        }
    }
}

/// True if help is requested before `--`, after which another program's arguments follow.
bool asks_for_help(const std::vector<std::string>& arguments) {
    const auto end = std::ranges::find(arguments, "--");
    return std::any_of(arguments.begin(), end,
                       [](const std::string& each) { return each == "--help" || each == "-h"; });
}

/// Translates a call without arguments, or `help`, into a request for help. Drops all other arguments of such a
/// request, since the parser would refuse wrong values first.
std::vector<std::string> plain_arguments(std::vector<std::string> arguments) {
    if (arguments.empty()) {
        return {"--help"};
    }
    if (!arguments.front().starts_with('-') && asks_for_help(arguments)) {
        arguments.resize(1);
        arguments.emplace_back("--help");
    }
    if (arguments.front() == "help") {
        arguments.erase(arguments.begin());
        arguments.resize(std::min<std::size_t>(arguments.size(), 1));
        arguments.emplace_back("--help");
    }
    return arguments;
}

/// The message without the C++ backtrace of torch's errors, and without empty lines around it.
std::string_view without_backtrace(std::string_view what) {
    for (const std::string_view begin : {"\nException raised from ", "\nframe #"}) {
        what = what.substr(0, what.find(begin));
    }
    constexpr std::string_view kSpace = " \t\r\n";
    what.remove_prefix(std::min(what.find_first_not_of(kSpace), what.size()));
    return what.substr(0, what.find_last_not_of(kSpace) + 1);
}

/// True for errors of the standard library and torch about a size larger than the memory, or than any memory.
bool lacks_memory(const std::exception& error) {
    if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr ||
        dynamic_cast<const std::length_error*>(&error) != nullptr) {
        return true;
    }
    const std::string_view text = error.what();
    const std::array torch_words{"can't allocate memory", "out of memory", "Storage size calculation overflowed"};
    return std::ranges::any_of(torch_words,
                               [&](const char* words) { return text.find(words) != std::string_view::npos; });
}

std::string out_of_memory(const std::exception& error) {
    const std::string_view text = without_backtrace(error.what());
    constexpr std::string_view kTried = "you tried to allocate ";  // torch's message, after the position in its sources
    std::string detail(text);
    if (const std::size_t tried = text.find(kTried); tried != std::string_view::npos) {
        const std::string_view size = text.substr(tried + kTried.size());
        detail = std::string(size.substr(0, size.find('.'))) + " in one piece";
    }
    // torch allocates tensors; the standard library also holds what is read from files.
    const bool is_of_torch = dynamic_cast<const std::bad_alloc*>(&error) == nullptr &&
                             dynamic_cast<const std::length_error*>(&error) == nullptr;
    return fmt::format("{} not fit the memory ({}); use {}a smaller batch, smaller micro-batches or a smaller model",
                       is_of_torch ? "the sizes asked for do" : "a file, or what was asked for, does", detail,
                       is_of_torch ? "" : "a smaller file, ");
}

/// True if output is lost because its reader ended, as with `head`. Only matters if SIGPIPE is ignored, as under
/// Python: otherwise it has already ended this process.
bool lost_its_reader() {
    pollfd output{STDOUT_FILENO, POLLOUT, 0};
    return !std::cout && poll(&output, 1, 0) == 1 && (output.revents & (POLLERR | POLLHUP)) != 0;
}

int report(ExitCode code, std::string_view what) {
    if (lost_its_reader()) {
        return to_int(ExitCode::broken_pipe);
    }
    std::cerr << error_line(what) << std::endl;
    return to_int(code);
}

/// Flushes the output and returns the exit code.
int flushed(ExitCode code) {
    std::cout.flush();
    if (!std::cout) {
        return report(ExitCode::failure,
                      "stdout cannot be written; redirect it to a program or a disk that accepts all of it");
    }
    return to_int(code);
}
}  // namespace

std::string wrapped(const std::string& text, std::size_t columns) {
    std::string lines;
    std::size_t used = 0;
    std::istringstream words(text);
    for (std::string word; words >> word; used += word.size()) {
        if (used > 0 && used + 1 + word.size() > columns) {
            lines += '\n';
            used = 0;
        } else if (used > 0) {
            lines += ' ';
            ++used;
        }
        lines += word;
    }
    return lines;
}

std::string error_line(std::string_view what) {
    return "pipescope: " + printable(without_backtrace(what));
}

Program::Program(const std::string& name, const std::string& description, const std::string& version)
    : app_(description, name) {
    app_.set_version_flag("-v,--version", name + " " + version, "Print the version and exit");
    app_.set_help_flag("-h,--help", "Print this help and exit");
    app_.require_subcommand(1);
    app_.footer("'" + name + " help COMMAND' explains a command.");
    app_.get_formatter()->column_width(kNameColumns);
    app_.get_formatter()->label("SUBCOMMAND", "COMMAND");
    add_hidden(kPrintCommands, [this] { std::cout << to_json(definitions()).dump() << '\n'; });
}

CLI::App* Program::add_command(const std::string& name, const std::string& description, const std::string& example) {
    CLI::App* command = app_.add_subcommand(name, description);
    command->footer(example);
    command->group("Commands");
    return command;
}

void Program::set_action(CLI::App* command, std::function<ExitCode()> action) {
    command->callback([this, action = std::move(action)] { action_ = action; });
}

void Program::add_hidden(const std::string& argument, std::function<void()> act) {
    hidden_[argument] = std::move(act);
}

int Program::run(int argc, const char* const* argv) {
    std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit of file sizes then fails, and is reported
    try {
        arguments_ = plain_arguments({argv + std::min(argc, 1), argv + argc});
        return parse_and_act();
    } catch (const UsageError& error) {
        return report(ExitCode::usage, error.message(OptionNames::command_line));
    } catch (const Interrupted& error) {
        return report(stop_exit_code(), error.what());
    } catch (const Error& error) {
        return report(ExitCode::failure,
                      lacks_memory(error) ? out_of_memory(error) : error.message(OptionNames::command_line));
    } catch (const std::exception& error) {
        return report(ExitCode::failure, lacks_memory(error) ? out_of_memory(error) : error.what());
    } catch (...) {
        return report(ExitCode::failure,
                      "an exception that is not a std::exception ended the command; a layer threw it");
    }
}

int run_main(int (*program)(int argc, const char* const* argv), int argc, const char* const* argv) noexcept {
    const auto say = [](const char* words) { std::fputs(words, stderr); };  // stderr has no buffer to allocate
    try {
        return program(argc, argv);
    } catch (const std::bad_alloc&) {
        say("pipescope: there is no memory, not even for a message about it; raise the limit (ulimit -v, or that of "
            "the container; LibTorch alone takes half a gigabyte of addresses), or free memory\n");
    } catch (const std::exception& error) {
        say("pipescope: ");
        say(error.what());
        say("\n");
    } catch (...) {
        say("pipescope: an unknown exception ended the program; try again\n");
    }
    return to_int(ExitCode::failure);
}

int Program::parse_and_act() {
    const auto hidden = hidden_.find(arguments_.front());
    if (hidden != hidden_.end()) {
        hidden->second();
        return flushed(ExitCode::success);
    }
    for (CLI::App* command : app_.get_subcommands({})) {
        complete_options(*command);
    }
    check_command_name();
    try {
        app_.parse(std::vector<std::string>(arguments_.rbegin(), arguments_.rend()));  // CLI11 expects them reversed
    } catch (const CLI::ParseError& error) {
        return refuse_arguments(error);
    }
    for (const CLI::App* chosen : app_.get_subcommands()) {
        check_named_outputs(*chosen);
    }
    return flushed(act());
}

ExitCode Program::act() {
    try {
        return action_ ? action_() : ExitCode::usage;
    } catch (...) {
        if (rethrow_) {
            rethrow_();
        }
        throw;
    }
}

/// Refuses an unknown command and lists the known ones. CLI11 would only report a missing command.
void Program::check_command_name() const {
    if (arguments_.front().starts_with('-')) {
        return;
    }
    std::string names;
    for (const CLI::App* command : app_.get_subcommands({})) {
        if (command->get_name() == arguments_.front()) {
            return;
        }
        names += (names.empty() ? "" : ", ") + command->get_name();
    }
    throw UsageError(fmt::format("'{}' is not a command; the commands are {}; see '{} help'", arguments_.front(), names,
                                 app_.get_name()));
}

int Program::refuse_arguments(const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {  // --help, --version
        app_.exit(error, std::cout, std::cerr);
        return flushed(ExitCode::success);
    }
    const auto chosen = app_.get_subcommands();
    const std::string command = chosen.empty() ? app_.get_name() : app_.get_name() + " " + chosen.front()->get_name();
    return report(ExitCode::usage, fmt::format("{}; see '{} --help'",
                                               problem_of(error, chosen.empty() ? app_ : *chosen.front(), arguments_,
                                                          app_.remaining(true)),
                                               command));
}

void print_warnings(const std::vector<std::string>& warnings) {
    for (const std::string& warning : warnings) {
        std::cerr << "pipescope: warning: " << printable(warning) << "\n";
    }
}
}  // namespace pipescope
