#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/reports.h"
#include "cli/stop_signals.h"
#include "cli/torch/demo.h"
#include "cli/torch/torch_program.h"
#include "schedule/error.h"

#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>

namespace pipescope {
namespace {
struct DemoFlags {
    DemoOptions demo;
    std::string output = "demo";
    bool json = false;
};

ExitCode demo_command(DemoFlags flags) {
    const StopSignals signals;
    flags.demo.output = flags.output;
    // With --json, stdout contains only the object.
    flags.demo.say = [&](const std::string& line) { (flags.json ? std::cerr : std::cout) << line << std::endl; };
    const std::vector<DemoPart> parts = run_demo(flags.demo);
    if (flags.json) {
        nlohmann::ordered_json object{{"real", demo_json(parts.front())}};
        if (parts.size() > 1) {
            object["emulated"] = demo_json(parts[1]);
        }
        if (stop_signal() != 0) {
            object["interrupted"] = true;
        }
        std::cout << dump(object);
        return stop_exit_code();
    }
    for (const DemoPart& part : parts) {
        std::cout << "\n" << demo_text(part);
    }
    std::cout << "\nreport: " << (flags.demo.output / "report.md").string()
              << (stop_signal() == 0 ? "\n" : "; interrupted: it contains the measurements so far\n");
    return stop_exit_code();
}
}  // namespace

void add_demo_command(Program& program) {
    const auto flags = std::make_shared<DemoFlags>();
    CLI::App* command = program.add_command(
        "demo", "Do the whole job once on this machine: profile, balance, simulate, run and compare",
        "Example:\n"
        "  pipescope demo --output demo --force\n"
        "Trains a real model on 2 lanes of this CPU. Then runs 8 emulated partitions with 32 micro-batches, whose\n"
        "layers wait instead of computing. Writes profiles, traces, pictures of the viewer and report.md.");
    add_option(*command, "--output", flags->output, "Folder to write; default demo", "FOLDER", "Output");
    add_force_flag(*command, flags->demo.force);
    add_json_flag(*command, flags->json);
    add_option(*command, "--model", flags->demo.model, "Real model to train; default " + flags->demo.model, "MODEL");
    add_option(*command, "--batch", flags->demo.batch, "Samples of one of its steps; default 16", "N");
    add_option(*command, "-m,--chunks", flags->demo.chunks, "Micro-batches of one of its steps; default 8", "N");
    add_option(*command, "--steps", flags->demo.steps, "Measured steps, after 2 of warm-up; default 24", "N");
    program.set_action(command, [flags] { return demo_command(*flags); });
}
}  // namespace pipescope
