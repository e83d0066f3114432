#pragma once

#include "analysis/time_range.h"

#include <CLI/App.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The options of `pipescope view`, which passes them to the viewer's program with the same options. Texts are as
/// given; empty: not given.
struct ViewOptions {
    std::vector<std::string> files;
    std::vector<std::string> baseline;
    std::string render;
    std::string report;
    std::string size;
    std::string mode;
    std::string align;
    std::string step;
    std::string range;
    std::string theme;
    std::string notes_of;  ///< the trace whose notes are shown if FILE is temporary; empty: FILE's
    bool all = false;
    bool critical_path = false;
    bool force = false;

    /// True if no window is shown.
    bool writes_file() const { return !render.empty() || !report.empty(); }
};

/// Adds all options that add_look_options() does not add. `options` must outlive the parsing.
void add_view_options(CLI::App& command, ViewOptions& options);
/// --theme and --force.
void add_look_options(CLI::App& command, ViewOptions& options);

/// Checks what can be checked before a file is read. Throws UsageError for texts that cannot be parsed and for options
/// that do not fit each other, and Error if a window is requested without a display.
void check_view_options(const ViewOptions& options);

/// The options as arguments of the viewer's program.
std::vector<std::string> viewer_arguments(const ViewOptions& options);

struct PictureSize {
    int width = 1600;
    int height = 900;
};
/// Throws UsageError if the text cannot be parsed; so do the functions below.
PictureSize picture_size(const ViewOptions& options);
std::optional<std::int32_t> shown_step(const ViewOptions& options);
/// In ns since the start of the step. A negative time lies before the step.
std::optional<TimeRange> shown_range(const ViewOptions& options);
}  // namespace pipescope
