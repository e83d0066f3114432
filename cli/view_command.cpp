#include "cli/child_process.h"
#include "cli/commands.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "schedule/error.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

namespace pipescope {
namespace {
struct ViewFlags {
    std::string file;
    std::string render;
    std::string size;
    bool force = false;
};

bool has_display() {
    for (const char* variable : {"DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"}) {
        const char* value = std::getenv(variable);
        if (value != nullptr && *value != '\0') {
            return true;
        }
    }
    return false;
}

ExitCode view_command(const ViewFlags& flags) {
    if (!std::filesystem::exists(flags.file)) {
        throw Error(
            fmt::format("{} does not exist; view opens a trace; record one with 'pipescope run --trace'", flags.file));
    }
    if (flags.render.empty() && !flags.size.empty()) {
        throw UsageError(fmt::format("--size is {}; it is the size of a picture; add --render out.png", flags.size));
    }
    if (flags.render.empty() && !has_display()) {
        throw Error(
            "there is no display to open a window on; set DISPLAY or WAYLAND_DISPLAY, or write a picture with "
            "--render out.png");
    }
    if (!flags.render.empty()) {
        check_output(flags.render, flags.force);
    }
    const auto program = program_beside("pipescope-gui");
    if (!program) {
        throw Error(
            "view needs pipescope-gui, which is not beside this program; build with -DPIPESCOPE_GUI=ON, or "
            "install it into the same folder");
    }
    std::vector<std::string> arguments{flags.file};
    if (!flags.render.empty()) {
        arguments.insert(arguments.end(), {"--render", flags.render});
    }
    if (!flags.size.empty()) {
        arguments.insert(arguments.end(), {"--size", flags.size});
    }
    if (flags.force) {
        arguments.emplace_back("--force");
    }
    execute(*program, arguments);
}
}  // namespace

void add_view_command(Program& program) {
    const auto flags = std::make_shared<ViewFlags>();
    CLI::App* command = program.add_command(
        "view", "Look at a trace: measured timeline above the simulated one",
        "Examples:\n  pipescope view out.sqlite\n  pipescope view out.sqlite --render out.png --size 1600x900\n"
        "--render needs no display.");
    command->add_option("FILE", flags->file, "Trace of 'run --trace' or 'simulate --trace'")->required();
    command->add_option("--render", flags->render, "Write the window's picture here and exit")
        ->type_name("FILE")
        ->group("Output");
    command->add_option("--size", flags->size, "Of the picture, in pixels")->type_name("WxH")->group("Output");
    add_force_flag(*command, flags->force);
    program.set_action(command, [flags] { return view_command(*flags); });
}
}  // namespace pipescope
