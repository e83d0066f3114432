#include "cli/view/view_options.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/quantities.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
constexpr int kLeastSide = 320;
constexpr int kMostSide = 16384;

struct NamedText {
    std::string_view option;
    std::string ViewOptions::*text;
};
constexpr std::array<NamedText, 5> kAboutPictures{{{"--size", &ViewOptions::size},
                                                   {"--range", &ViewOptions::range},
                                                   {"--mode", &ViewOptions::mode},
                                                   {"--align", &ViewOptions::align},
                                                   {"--step", &ViewOptions::step}}};
constexpr std::array<NamedText, 4> kOtherTexts{{{"--render", &ViewOptions::render},
                                                {"--report", &ViewOptions::report},
                                                {"--theme", &ViewOptions::theme},
                                                {"--notes-of", &ViewOptions::notes_of}}};

/// Parses a time with a unit; plain numbers are in ns. A negative time lies before the step.
std::int64_t parse_time(const std::string& text) {
    const bool before = text.starts_with('-');
    const bool plain = !text.empty() && (text.back() == '.' || (text.back() >= '0' && text.back() <= '9'));
    const std::string size = text.substr(before ? 1 : 0);
    if (const auto first = size.find_first_not_of(' ');
        first == std::string::npos || std::string_view(".0123456789").find(size[first]) == std::string_view::npos) {
        throw UsageError("--range holds '" + text +
                         "', but must hold two times since the start of the step; try 0ms:10ms, or -2ms:10ms to begin "
                         "before it");
    }
    const double ns = parse_duration_ns(size + (plain ? "ns" : ""), "a time of --range");
    if (ns >= 9e18) {
        throw UsageError("--range holds '" + text + "', but times end at 9e18 ns; use an earlier one");
    }
    return std::llround(before ? -ns : ns);
}

bool has_display() {
    for (const char* variable : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) {
        const char* value = std::getenv(variable);
        if (value != nullptr && *value != '\0') {
            return true;
        }
    }
    return false;
}

void check_window(const ViewOptions& options) {
    for (const auto& [option, text] : kAboutPictures) {
        if (!(options.*text).empty()) {
            throw UsageError(
                fmt::format("{} is {}; it is about a picture; add --render out.png", option, options.*text));
        }
    }
    if (options.all || options.critical_path) {
        throw UsageError(
            fmt::format("{} is about a picture; add --render out.png", options.all ? "--all" : "--critical-path"));
    }
    if (!has_display()) {
        throw Error(
            "there is no display to open a window on; set DISPLAY or WAYLAND_DISPLAY, or write a picture with "
            "--render out.png");
    }
}
}  // namespace

void add_view_options(CLI::App& command, ViewOptions& options) {
    command.add_option(
        "FILE", options.files,
        "Trace of 'run --trace' or 'simulate --trace', an export of nsys, JSON of PyTorch's profiler, any Chrome "
        "trace, or a profile. Several files open in tabs, or as one timeline if they are the traces of one run's "
        "processes. Without a file, those of the last session");
    command
        .add_option("--baseline", options.baseline,
                    "Trace of an earlier run, or those of all its processes: shown below instead of the simulation. "
                    "Put it after FILE")
        ->type_name("FILE");
    const auto add = [&command](const std::string& name, std::string& text, const std::string& help) {
        return command.add_option(name, text, help)->group("Output");
    };
    add("--render", options.render,
        "Write the window's content here and exit: a picture (.png, .svg, .pdf) or an interactive page (.html)")
        ->type_name("FILE");
    add("--report", options.report,
        "Write the interactive page here (.html) and exit, beside a picture of --render if there is one")
        ->type_name("FILE");
    add("--size", options.size, "Size of the picture in pixels; a page fills the browser's window")->type_name("WxH");
    add("--mode", options.mode, "side-by-side, overlay or difference");
    add("--align", options.align,
        "Where the simulated step starts: first-task (its first task with the measured one) or step (with the "
        "training loop's step)");
    add("--step", options.step, "Measured step to show; default: the one of median duration");
    add("--range", options.range, "Part of the step to show, such as 12ms:30ms since its start; plain numbers are ns")
        ->type_name("FROM:TO");
    command.add_flag("--all", options.all, "Show the whole recording, not one step")->group("Output");
    command.add_flag("--critical-path", options.critical_path, "Mark the critical path")->group("Output");
}

void add_look_options(CLI::App& command, ViewOptions& options) {
    command.add_option("--theme", options.theme, "system, light or dark");
    command.add_flag("--force", options.force, "Replace output files that exist")->group("Output");
}

void check_view_options(const ViewOptions& options) {
    if (!options.writes_file()) {
        check_window(options);
    }
    picture_size(options);
    shown_step(options);
    if (shown_range(options) && options.all) {
        throw UsageError("--range is '" + options.range + "', but --all shows the whole recording; leave out one");
    }
}

std::vector<std::string> viewer_arguments(const ViewOptions& options) {
    std::vector<std::string> arguments = options.files;
    for (const std::string& file : options.baseline) {
        arguments.insert(arguments.end(), {"--baseline", file});
    }
    const auto add = [&](const NamedText& each) {
        if (!(options.*each.text).empty()) {  // one argument, since a range may start with a minus
            arguments.push_back(fmt::format("{}={}", each.option, options.*each.text));
        }
    };
    std::ranges::for_each(kOtherTexts, add);
    std::ranges::for_each(kAboutPictures, add);
    for (const auto& [flag, is_set] :
         {std::pair("--all", options.all), {"--critical-path", options.critical_path}, {"--force", options.force}}) {
        if (is_set) {
            arguments.emplace_back(flag);
        }
    }
    return arguments;
}

PictureSize picture_size(const ViewOptions& options) {
    if (options.size.empty()) {
        return {};
    }
    const std::string_view text = options.size;
    const std::size_t cross = text.find('x');
    const auto width = number_in<int>(text.substr(0, cross));
    const auto height = cross == std::string_view::npos ? std::nullopt : number_in<int>(text.substr(cross + 1));
    const auto fits = [](const std::optional<int>& side) { return side && *side >= kLeastSide && *side <= kMostSide; };
    if (!fits(width) || !fits(height)) {
        throw UsageError(fmt::format("--size is '{}', but must be WIDTHxHEIGHT with each from {} to {}; try 1600x900",
                                     text, kLeastSide, kMostSide));
    }
    return {*width, *height};
}

std::optional<std::int32_t> shown_step(const ViewOptions& options) {
    const auto step = number_in<std::int32_t>(options.step);
    if (!options.step.empty() && (!step || *step < 0)) {
        throw UsageError(
            "--step is '" + options.step +
            "', but must be the number of a step, from 0; leave --step out for the one of median duration");
    }
    return step;
}

std::optional<TimeRange> shown_range(const ViewOptions& options) {
    const std::string& text = options.range;
    if (text.empty()) {
        return std::nullopt;
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string::npos) {
        throw UsageError("--range is '" + text + "', but must be FROM:TO, two times; try 0ms:10ms");
    }
    const TimeRange range{parse_time(text.substr(0, colon)), parse_time(text.substr(colon + 1))};
    if (range.length() <= 0) {
        throw UsageError("--range is '" + text + "', but must end after it starts; " +
                         (range.length() < 0 ? "swap the two times" : "give a later end"));
    }
    return range;
}
}  // namespace pipescope
