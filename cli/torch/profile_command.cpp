#include "balance/profile_file.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/text_table.h"
#include "cli/torch/torch_program.h"
#include "cli/units.h"
#include "models/zoo.h"
#include "profiler/layers/layer_profiler.h"
#include "schedule/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

namespace pipescope {
namespace {
struct ProfileFlags {
    std::string model;
    std::string output;
    std::string sizes = "1,2,4";
    int co_running = ProfileOptions{}.co_running_lanes;
    std::string time_limit = "30s";
    std::uint64_t seed = 0;
    bool force = false;
    bool json = false;
};

ProfileOptions profile_options(const ProfileFlags& flags) {
    ProfileOptions options;
    options.samples = parse_whole_numbers(flags.sizes, "--micro-batch-sizes", 1);
    std::sort(options.samples.begin(), options.samples.end());
    options.samples.erase(std::unique(options.samples.begin(), options.samples.end()), options.samples.end());
    if (flags.co_running < 1) {
        throw UsageError(
            fmt::format("--co-running is {}; the measured lane is one of them; use 1 or more", flags.co_running));
    }
    options.co_running_lanes = flags.co_running;
    options.time_limit_s = parse_duration_ns(flags.time_limit, "--time-limit") / 1e9;
    options.seed = flags.seed;
    return options;
}

Nanoseconds whole(double ns) {
    return Nanoseconds{std::llround(ns)};
}

std::string profile_text(const Profile& profile) {
    const std::size_t last = profile.samples.size() - 1;
    std::string text = fmt::format("{} on {}, {} lanes busy; per micro-batch of {} samples:\n\n", profile.model,
                                   profile.device, profile.co_running_lanes, profile.samples[last]);
    TextTable table({{"layer", Align::left}, {"forward"}, {"backward"}, {"parameters"}, {"output"}, {"saved"}});
    const auto bytes_at = [&](const PerSize& values) {
        return values.empty() ? std::string("0 B") : format_bytes(std::llround(values[last]));
    };
    for (const LayerProfile& layer : profile.layers) {
        table.add_row({layer.name, format_duration(whole(layer.forward_ns[last])),
                       format_duration(whole(layer.backward_ns[last])), format_bytes(layer.parameter_bytes),
                       bytes_at(layer.output_bytes), bytes_at(layer.saved_bytes)});
    }
    return text + table.str();
}

ExitCode profile_command(const ProfileFlags& flags) {
    ProfileOptions options = profile_options(flags);
    if (!flags.output.empty()) {
        check_output(flags.output, flags.force);
    }
    const ModelSpec model = make_model(flags.model);
    ProgressBar bar("profiling " + flags.model);
    options.progress = [&](double done) { bar.show(done); };
    const Profile profile = profile_model(model, options);
    if (!flags.output.empty()) {
        write_output(flags.output, flags.force, to_json(profile));
    }
    std::cout << (flags.json ? to_json(profile) : profile_text(profile));
    return ExitCode::success;
}
}  // namespace

void add_profile_command(Program& program) {
    const auto flags = std::make_shared<ProfileFlags>();
    CLI::App* command = program.add_command(
        "profile", "Measure what each layer of a model costs in time and memory",
        "Example:\n  pipescope profile transformer:layers=8 -o p.json --micro-batch-sizes 1,2,4\n"
        "Measure the sizes you will run: batch / chunks. Between them costs are interpolated, outside extrapolated.");
    command
        ->add_option("MODEL", flags->model,
                     "Zoo name with options ('pipescope models' lists them), a .so or .pt file, or "
                     "emulated:PROFILE")
        ->required();
    command->add_option("--micro-batch-sizes", flags->sizes, "Samples per micro-batch to measure; default 1,2,4")
        ->type_name("LIST");
    command
        ->add_option("--co-running", flags->co_running,
                     "Lanes busy at the same time, the measured one included, as in the pipeline to come; default 2")
        ->type_name("N");
    command->add_option("--time-limit", flags->time_limit, "For the whole profile; default 30s")->type_name("TIME");
    command->add_option("--seed", flags->seed, "Of the initial weights and the data; default 0")->type_name("N");
    command->add_option("-o,--output", flags->output, "Profile file to write")->type_name("FILE")->group("Output");
    add_force_flag(*command, flags->force);
    command->add_flag("--json", flags->json, "Print the profile itself, as the file holds it")->group("Output");
    program.set_action(command, [flags] { return profile_command(*flags); });
}
}  // namespace pipescope
