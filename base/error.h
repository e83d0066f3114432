#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <string_view>

namespace pipescope {
/// How a surface writes the names of options in messages: link-bandwidth, --link-bandwidth or link_bandwidth.
enum class OptionNames { plain, command_line, python };

// Marks around an option's name in a message. No value that a person types contains them.
inline constexpr char kOptionBegin = '\x0e';
inline constexpr char kOptionEnd = '\x0f';

/// Marks the name of an option in the message of an Error; each surface writes it in its own way. "m,chunks=8" is an
/// option with a short name and a value: chunks 8, -m 8 or chunks=8. "force=" is a flag: force, --force or force=True.
inline std::string option_name(std::string_view name) {
    return kOptionBegin + std::string(name) + kOptionEnd;
}

/// The option "m,chunks=8" as the surface writes it.
inline std::string written_option(std::string_view option, OptionNames names) {
    const std::size_t equals = std::min(option.find('='), option.size());
    const bool is_flag = equals + 1 == option.size();
    const std::string value(option.substr(std::min(equals + 1, option.size())));
    const std::size_t comma = option.find(',');
    const std::size_t begin = comma < equals ? comma + 1 : 0;
    std::string name(option.substr(begin, equals - begin));
    if (names == OptionNames::python) {
        std::ranges::replace(name, '-', '_');
        return name + (is_flag ? "=True" : value.empty() ? "" : "=" + value);
    }
    if (names == OptionNames::command_line) {
        name = begin == 0 ? "--" + name : "-" + std::string(option.substr(0, comma));
    }
    return name + (value.empty() ? "" : " " + value);
}

/// The message with each option_name() as the surface writes it.
inline std::string with_option_names(std::string_view message, OptionNames names) {
    std::string text;
    while (true) {
        const std::size_t begin = message.find(kOptionBegin);
        const std::size_t end = message.find(kOptionEnd, std::min(begin, message.size()));
        if (end == std::string_view::npos) {
            return text.append(message);
        }
        text.append(message.substr(0, begin)).append(written_option(message.substr(begin + 1, end - begin - 1), names));
        message.remove_prefix(end + 1);
    }
}

/// Base class of all errors that PipeScope throws. A message names the value, the rule and the remedy, in lower case
/// and without a full stop. what() names options without dashes. Exceptions of user layers are never wrapped.
class Error : public std::runtime_error {
public:
    explicit Error(const std::string& message)
        : std::runtime_error(with_option_names(message, OptionNames::plain)), marked_(message) {}

    /// The message with option names as that surface writes them.
    std::string message(OptionNames names) const { return with_option_names(marked_.what(), names); }

private:
    std::runtime_error marked_;  ///< the message with its option_name()s; a runtime_error, whose copies cannot fail
};

/// A wrong flag, option or argument: the request can never work.
class UsageError : public Error {
public:
    using Error::Error;
};

class BalanceError : public UsageError {
public:
    using UsageError::UsageError;
};
}  // namespace pipescope
