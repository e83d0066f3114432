#include "analysis/trace_comparison.h"
#include "answers/reports.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/sample_statistics.h"
#include "cli/child_process.h"
#include "cli/demo_report.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/stop_signals.h"
#include "cli/torch/emulated_demo_profile.h"
#include "cli/torch/environment.h"
#include "cli/torch/self_profile.h"
#include "cli/torch/torch_program.h"
#include "cli/torch/training.h"
#include "engine/cores/usable_cores.h"
#include "models/zoo.h"
#include "profiler/layers/repeats.h"
#include "profiler/profile/profile_file.h"
#include "profiler/recorder/load_meter.h"
#include "schedule/micro_batches.h"
#include "simulator/pipeline_defaults.h"
#include "simulator/search/balance_search.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
struct DemoOptions {
    std::filesystem::path output = "demo";
    bool force = false;  ///< replace the demo's files in an existing folder
    std::string model = "transformer:layers=6,width=256";
    std::int64_t batch = 16;
    std::int64_t chunks = 8;
    std::int64_t steps = 24;                           ///< measured after the warm-up: bursts of noise average out
    std::function<void(const std::string& line)> say;  ///< reports progress
};

namespace fs = std::filesystem;

constexpr int kRealLanes = 2;
constexpr int kEmulatedLanes = 8;
constexpr std::int64_t kEmulatedMicroBatches = 32;
constexpr std::int64_t kWarmup = 2;
constexpr std::chrono::seconds kLongestWait{30};

/// How report.md begins until the demo is complete. With this text, the next demo may replace the files.
constexpr std::string_view kUnfinished = "This demo did not finish. The next one replaces its files.\n";

bool is_unfinished(const fs::path& folder) {
    std::ifstream report(folder / "report.md");
    std::string line;
    return std::getline(report, line) && line + "\n" == kUnfinished;
}

void prepare_folder(const DemoOptions& options) {
    if (fs::exists(options.output) && !options.force && !is_unfinished(options.output)) {
        throw Error(
            fmt::format("{} exists already; the demo keeps what is there; use --force to replace the demo's "
                        "files in it, or another --output",
                        options.output.string()));
    }
    std::error_code error;
    fs::create_directories(options.output, error);
    if (error) {
        throw Error(
            fmt::format("{} cannot be made ({}); choose another --output", options.output.string(), error.message()));
    }
    check_output(options.output / "report.md", true);
    // Removes only the demo's own files: the --output folder may contain others.
    for (const char* name : {"profile.json", "trace.sqlite", "timeline.png", "emulated-profile.json",
                             "emulated-trace.sqlite", "emulated-timeline.png", "report.md"}) {
        fs::remove(options.output / name, error);
    }
    write_output(options.output / "report.md", true, kUnfinished);
}

PipelineOptions with_best_balance(const CheckedProfile& profile, PipelineOptions options, int lanes) {
    options.hardware.devices.assign(static_cast<std::size_t>(lanes), "cpu");
    options.balance = find_balance(profile, options, lanes, BalanceAlgorithm::optimal).balance;
    return options;
}

/// Waits until other programs leave the machine alone, for at most 30 s.
void wait_for_quiet(const DemoOptions& options) {
    constexpr std::chrono::milliseconds kPause{200};
    const auto start = std::chrono::steady_clock::now();
    for (bool waits = false; stop_signal() == 0;) {
        const LoadMeter meter(usable_core_numbers());
        std::optional<MachineLoad> load;
        while (!load && stop_signal() == 0 && std::chrono::steady_clock::now() - start < kLongestWait) {
            std::this_thread::sleep_for(kPause);
            load = meter.load();
        }
        if (!load || can_be_judged(*load)) {
            return;
        }
        if (!waits) {
            options.say(fmt::format("other programs take {} of the cores; waiting for up to {} s",
                                    format_percent(taken_share(*load)), kLongestWait.count()));
            waits = true;
        }
    }
}

/// Name of the picture beside the report. Empty, with a message, if there is no viewer or it fails.
std::optional<std::string> render(const DemoOptions& options, const std::string& trace, const std::string& picture) {
    if (stop_signal() != 0) {
        return std::nullopt;
    }
    const auto viewer = program_beside("pipescope-gui");
    if (!viewer) {
        options.say("no picture: pipescope-gui is not installed");
        return std::nullopt;
    }
    const ChildResult result = run_child(
        *viewer, {(options.output / trace).string(), "--render", (options.output / picture).string(), "--force"});
    if (result.exit_code != 0) {
        options.say(fmt::format("no picture: pipescope-gui ended with exit code {}", result.exit_code));
        return std::nullopt;
    }
    return picture;
}

std::string command_by_hand(const std::string& model, const PipelineOptions& options, std::int64_t steps,
                            const std::string& trace, const std::string& profile) {
    return fmt::format("pipescope run {} --balance {} -m {} --batch {} --steps {} --trace {} --profile {}", model,
                       to_string(options.balance), options.chunks, options.batch, steps, trace, profile);
}

/// Standard error of the mean, relative to the mean. Empty for fewer than two steps.
std::optional<double> uncertainty_of(const std::vector<Nanoseconds>& steps) {
    std::vector<double> ns;
    for (const Nanoseconds step : steps) {
        ns.push_back(static_cast<double>(step.count()));
    }
    const double mean = mean_of(ns);
    return ns.size() > 1 && mean > 0 ? std::optional(standard_error(ns) / mean) : std::nullopt;
}

TrainingResult train_with_bar(const std::string& label, const ModelSpec& model, TrainingOptions options) {
    ProgressBar bar(label);
    options.progress = [&](double done) { bar.show(done); };
    return train_recorded(model, options);
}

DemoPart real_part(const DemoOptions& options) {
    const ModelSpec model = make_model(options.model);
    wait_for_quiet(options);
    PipelineOptions pipeline;
    pipeline.chunks = options.chunks;
    pipeline.batch = options.batch;
    pipeline.balance = Balance(std::vector<std::int64_t>(kRealLanes, 1));  // profiling needs the number of lanes
    if (const std::string fewer = fewer_micro_batches(pipeline); !fewer.empty()) {
        options.say(fewer.substr(1, fewer.size() - 2));  // prints it without its newlines
    }
    options.say(fmt::format("profiling {}, the other lane busy", options.model));
    const CheckedProfile profile = [&] {
        ProgressBar bar("profiling");
        return profile_for_run(model, pipeline, 0, [&](double done) { bar.show(done); });
    }();
    write_output(options.output / "profile.json", true, to_json(profile));
    assume_optimizer(pipeline, profile->token_input);
    pipeline.hardware.host_cores = usable_cores();
    pipeline = with_best_balance(profile, pipeline, kRealLanes);
    const Simulation predicted = simulate(profile, pipeline);
    options.say(fmt::format("balance {}; predicted: {} per step, bubble {}", to_string(pipeline.balance),
                            format_duration(expected_step(predicted)),
                            format_percent(expected_figures(predicted).bubble)));

    TrainingOptions training;
    training.pipeline = pipeline;
    training.steps = options.steps + kWarmup;
    training.warmup = kWarmup;
    training.trace = options.output / "trace.sqlite";
    training.force = true;
    training.profile = profile;
    options.say(fmt::format("training {}, recorded; the layers are profiled again between the steps",
                            counted(training.steps, "step", "steps")));
    ProfileInTurns turns(model, pipeline, training.seed);
    turns.take_turn();  // begins with a small pipeline, whose tasks do not belong in the recording
    training.before_step = [&] { turns.take_turn(); };
    DemoPart part;
    training.profile_afterwards = [&]() -> std::optional<Profile> {
        if (stop_signal() != 0) {
            return std::nullopt;
        }
        try {
            Profile again = turns.finish();
            part.in_turns = true;
            return again;
        } catch (const Error& error) {
            options.say(fmt::format("the layers were not profiled between the steps: {}", error.what()));
            return std::nullopt;
        }
    };
    const TrainingResult result = train_with_bar("training", model, training);
    if (measured_step_times(result).empty()) {
        throw Interrupted();
    }
    part.beforehand = expected_step(predicted);
    part.uncertainty = uncertainty_of(measured_step_times(result));
    part.load = result.load;
    part.title = fmt::format("{} on {} lanes of this CPU, balance {}, batch of {} in {}", options.model, kRealLanes,
                             to_string(pipeline.balance), pipeline.batch,
                             counted(predicted.micro_batches, "micro-batch", "micro-batches"));
    part.compared = compare_trace(options.output / "trace.sqlite");
    part.loss_before = result.steps.front().loss;
    part.loss_after = result.steps.back().loss;
    part.picture = render(options, "trace.sqlite", "timeline.png");
    part.commands = {fmt::format("pipescope profile {} --micro-batch-sizes {} --co-running {} -o profile.json",
                                 options.model, fmt::join(profile->samples, ","), profile->co_running_lanes),
                     fmt::format("pipescope balance profile.json -n {} -m {} --batch {} --devices cpu,cpu", kRealLanes,
                                 pipeline.chunks, pipeline.batch),
                     command_by_hand(options.model, pipeline, training.steps, "trace.sqlite", "profile.json"),
                     "pipescope compare trace.sqlite"};
    return part;
}

DemoPart emulated_part(const DemoOptions& options) {
    const fs::path profile_path = options.output / "emulated-profile.json";
    const CheckedProfile profile = emulated_demo_profile();
    write_output(profile_path, true, to_json(profile));
    PipelineOptions pipeline;
    pipeline.chunks = kEmulatedMicroBatches;
    pipeline.batch = kEmulatedMicroBatches;
    pipeline = with_best_balance(profile, pipeline, kEmulatedLanes);

    TrainingOptions training;
    training.pipeline = pipeline;
    training.steps = 5;
    training.warmup = 1;
    training.update_parameters = false;
    training.trace = options.output / "emulated-trace.sqlite";
    training.force = true;
    training.profile = profile;
    options.say(fmt::format("emulating {} partitions with {} micro-batches", kEmulatedLanes, kEmulatedMicroBatches));
    const TrainingResult result =
        train_with_bar("emulating", make_model("emulated:" + profile_path.string()), training);
    if (measured_step_times(result).empty()) {
        throw Interrupted();
    }

    DemoPart part;
    part.title = fmt::format("{} emulated partitions, {} micro-batches, balance {}", kEmulatedLanes,
                             kEmulatedMicroBatches, to_string(pipeline.balance));
    part.compared = compare_trace(training.trace);
    part.picture = render(options, "emulated-trace.sqlite", "emulated-timeline.png");
    part.commands = {
        fmt::format("pipescope balance emulated-profile.json -n {} -m {} --batch {}", kEmulatedLanes, pipeline.chunks,
                    pipeline.batch),
        fmt::format("pipescope run emulated:emulated-profile.json --balance {} -m {} --batch {} --steps {} --warmup {} "
                    "--trace emulated-trace.sqlite",
                    to_string(pipeline.balance), pipeline.chunks, pipeline.batch, training.steps, training.warmup),
        "pipescope compare emulated-trace.sqlite"};
    return part;
}
/// Runs the whole workflow twice: a real model on two lanes of this CPU, then eight emulated partitions with 32
/// micro-batches. Writes profiles, traces, pictures and report.md, and leaves other files in the folder unchanged.
///
/// Throws Error before any work if the folder exists and `force` is false, unless it belongs to an interrupted demo. If
/// a stop is requested (stop_signals.h), returns the parts with measured steps so far, or throws Interrupted without
/// any.
std::vector<DemoPart> run_demo(const DemoOptions& options) {
    if (options.steps < 1) {
        throw UsageError(fmt::format("--steps is {}; at least one step is measured; use 1 or more", options.steps));
    }
    check_micro_batches(options.batch, options.chunks);
    prepare_folder(options);
    std::vector<DemoPart> parts;
    parts.push_back(real_part(options));
    try {
        throw_if_stopped();
        parts.push_back(emulated_part(options));
    } catch (const Interrupted&) {
        // Completed parts deserve a report.
    }
    const std::string head = stop_signal() == 0 ? "" : std::string(kUnfinished) + "\n";
    write_output(options.output / "report.md", true, head + demo_markdown(parts, environment_json()));
    return parts;
}

struct DemoFlags {
    DemoOptions demo;
    std::string output = "demo";
    bool json = false;
};

ExitCode demo_command(DemoFlags flags) {
    const StopSignals signals;
    flags.demo.output = flags.output;
    // With --json, stdout contains only the object.
    flags.demo.say = [&](const std::string& line) {
        (flags.json ? std::cerr : std::cout) << printable(line) << std::endl;
    };
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
    std::cout << "\nreport: " << printable((flags.demo.output / "report.md").string())
              << (stop_signal() == 0 ? "\n" : "; interrupted: it contains the measurements so far\n");
    return stop_exit_code();
}
}  // namespace

void add_demo_command(Program& program) {
    const auto flags = std::make_shared<DemoFlags>();
    CLI::App* command = program.add_command(
        "demo", "Profile, balance, simulate, run and compare once on this machine",
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
