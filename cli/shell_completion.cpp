#include "cli/shell_completion.h"

#include "base/error.h"

#include <fmt/format.h>

#include <algorithm>

namespace pipescope {
namespace {
constexpr std::string_view kProgramOptions = "--help --version";

/// The description up to its first full stop or semicolon, on one line.
std::string gist(const std::string& description) {
    std::string line = description;
    std::ranges::replace(line, '\n', ' ');
    for (const std::string_view end : {". ", "; "}) {
        line = line.substr(0, line.find(end));
    }
    return line;
}

std::string with_each_escaped(const std::string& text, std::string_view special, std::string_view escape) {
    std::string escaped;
    for (const char c : text) {
        if (special.find(c) != std::string_view::npos) {
            escaped += escape;
        }
        escaped += c;
    }
    return escaped;
}

/// Quotes the text for a POSIX shell with single quotes.
std::string single_quoted(const std::string& text) {
    std::string quoted = "'";
    for (const char c : text) {
        quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
    return quoted + "'";
}

std::string joined(const std::vector<std::string>& words, std::string_view separator) {
    return fmt::format("{}", fmt::join(words, separator));
}

std::vector<std::string> names_of(const std::vector<CommandDefinition>& commands) {
    std::vector<std::string> names;
    for (const CommandDefinition& command : commands) {
        names.push_back(command.name);
    }
    return names;
}

/// If nothing fits, bash completes file names (-o default).
std::string bash_script(const std::vector<CommandDefinition>& commands) {
    const std::string names = joined(names_of(commands), " ");
    std::string cases;
    for (const CommandDefinition& command : commands) {
        std::vector<std::string> options;
        for (const OptionDefinition& option : command.options) {
            if (!option.is_positional()) {
                options.insert(options.end(), option.names.begin(), option.names.end());
            }
        }
        cases += fmt::format("    {}) options='{}' ;;\n", command.name, joined(options, " "));
    }
    return fmt::format(R"(# bash completion for pipescope

_pipescope() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} options=
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        mapfile -t COMPREPLY < <(compgen -W '{0} help {1}' -- "$current")
        return
    fi
    case ${{COMP_WORDS[1]}} in
    help) mapfile -t COMPREPLY < <(compgen -W '{0}' -- "$current") ;;
{2}    esac
    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
    fi
}}
complete -o default -F _pipescope pipescope
)",
                       names, kProgramOptions, cases);
}

std::string zsh_argument(const OptionDefinition& option) {
    std::string text = "[" + with_each_escaped(gist(option.description), "[]:\\", "\\") + "]";
    if (!option.value.empty()) {
        text += ":" + with_each_escaped(option.value, ":", "\\") + ":" + (option.value == "FILE" ? "_files" : "");
    }
    if (option.names.size() == 1) {
        return single_quoted(option.names.front() + text);
    }
    return fmt::format("'({})'{{{}}}{}", joined(option.names, " "), joined(option.names, ","), single_quoted(text));
}

std::string zsh_script(const std::vector<CommandDefinition>& commands) {
    std::string names;
    std::string cases;
    for (const CommandDefinition& command : commands) {
        names += fmt::format("        {}\n", single_quoted(command.name + ":" + gist(command.description)));
        cases += fmt::format("    {})\n        _arguments \\\n", command.name);
        for (const OptionDefinition& option : command.options) {
            if (!option.is_positional()) {
                cases += fmt::format("            {} \\\n", zsh_argument(option));
            }
        }
        cases += "            '*:file:_files' ;;\n";
    }
    return fmt::format(R"(#compdef pipescope

_pipescope() {{
    local -a commands
    commands=(
{}        'help:Explain a command'
    )
    if (( CURRENT == 2 )); then
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    case $words[1] in
    help) _describe command commands ;;
{}    esac
}}

_pipescope "$@"
)",
                       names, cases);
}

std::string fish_script(const std::vector<CommandDefinition>& commands) {
    std::string script = "# fish completion for pipescope\n";
    const auto quoted = [](const std::string& text) { return "'" + with_each_escaped(text, "'\\", "\\") + "'"; };
    for (const CommandDefinition& command : commands) {
        script += fmt::format("complete -c pipescope -n __fish_use_subcommand -f -a {} -d {}\n", command.name,
                              quoted(gist(command.description)));
        for (const OptionDefinition& option : command.options) {
            if (option.is_positional()) {
                continue;
            }
            std::string names;
            for (const std::string& name : option.names) {
                names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
            }
            const char* value = option.value.empty() ? "" : option.value == "FILE" ? " -r -F" : " -x";
            script += fmt::format("complete -c pipescope -n '__fish_seen_subcommand_from {}'{}{} -d {}\n", command.name,
                                  names, value, quoted(gist(option.description)));
        }
    }
    script += fmt::format("complete -c pipescope -n '__fish_seen_subcommand_from help' -f -a '{}'\n",
                          joined(names_of(commands), " "));
    return script;
}
}  // namespace

std::string completion_script(std::string_view shell, const std::vector<CommandDefinition>& commands) {
    if (shell == "bash") {
        return bash_script(commands);
    }
    if (shell == "zsh") {
        return zsh_script(commands);
    }
    if (shell == "fish") {
        return fish_script(commands);
    }
    throw UsageError(fmt::format("--print-completion is '{}', but must name a shell; give bash, zsh or fish", shell));
}
}  // namespace pipescope
