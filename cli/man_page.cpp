#include "cli/man_page.h"

#include <fmt/format.h>

#include <sstream>
#include <string_view>

namespace pipescope {
namespace {
/// Escapes text for roff: hyphens stay hyphens, and no line becomes a request.
std::string escaped(std::string_view text) {
    std::string result;
    for (const char c : text) {
        if (c == '\\') {
            result += "\\e";
        } else if (c == '-') {
            result += "\\-";
        } else if ((c == '.' || c == '\'') && (result.empty() || result.back() == '\n')) {
            result += fmt::format("\\&{}", c);
        } else {
            result += c;
        }
    }
    return result;
}

std::string option_entry(const OptionDefinition& option) {
    std::string names;
    for (const std::string& name : option.names) {
        names += (names.empty() ? "\\fB" : ", \\fB") + escaped(name) + "\\fR";
    }
    if (!option.value.empty() && !option.is_positional()) {
        names += " \\fI" + escaped(option.value) + "\\fR";
    }
    return fmt::format(".TP\n{}{}\n{}\n", names, option.required ? " (required)" : "", escaped(option.description));
}

std::string command_section(const CommandDefinition& command) {
    std::string usage = "\\fBpipescope " + escaped(command.name) + "\\fR";
    for (const OptionDefinition& option : command.options) {
        if (option.is_positional()) {
            usage += " \\fI" + escaped(option.names.front()) + "\\fR";
        } else if (option.required) {
            usage += fmt::format(" \\fB{}\\fR \\fI{}\\fR", escaped(option.names.front()), escaped(option.value));
        }
    }
    std::string section = fmt::format(".SS {}\n{}.\n.PP\n{}{}\n", escaped(command.name), escaped(command.description),
                                      usage, command.options.empty() ? "" : " [\\fIoptions\\fR]");
    if (command.options.empty()) {
        section +=
            fmt::format(".PP\nThis command needs pipescope\\-torch; \\fBpipescope {} \\-\\-help\\fR explains it.\n",
                        escaped(command.name));
    }
    for (const OptionDefinition& option : command.options) {
        section += option_entry(option);
    }
    if (!command.footer.empty()) {
        section += fmt::format(".PP\n.nf\n{}\n.fi\n", escaped(command.footer));
    }
    return section;
}
}  // namespace

std::string man_page(const std::vector<CommandDefinition>& commands, const std::string& version) {
    std::string page = fmt::format(R"(.TH PIPESCOPE 1 "" "PipeScope {}" "User Commands"
.SH NAME
pipescope \- profile, simulate and run pipeline\-parallel training
.SH SYNOPSIS
.B pipescope
.I command
[\fIoptions\fR]
.SH DESCRIPTION
PipeScope profiles, simulates and really runs pipeline\-parallel training (GPipe) of LibTorch models. It predicts step
time, bubble and memory of a pipeline, and compares a recorded run with its prediction.
.SH COMMANDS
)",
                                   escaped(version));
    for (const CommandDefinition& command : commands) {
        page += command_section(command);
    }
    page += R"(.SH EXIT STATUS
.TP
.B 0
Success.
.TP
.B 1
Failure.
.TP
.B 2
Wrong usage.
.TP
.B 3
Infeasible: a lane needs more than its memory limit. The answer is still printed.
.TP
.BR 130 ", " 143
Stopped by SIGINT or SIGTERM.
.TP
.B 141
The reader of stdout ended first (SIGPIPE).
.SH SEE ALSO
.BR nsys (1)
)";
    return page;
}
}  // namespace pipescope
