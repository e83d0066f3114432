#include "analysis/trace_warnings.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "base/printable.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/profile_from_trace.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/torch/environment.h"
#include "cli/torch/link_profile.h"
#include "cli/torch/process_environment.h"
#include "cli/torch/python_models.h"
#include "cli/torch/self_profile.h"
#include "cli/torch/torch_program.h"
#include "cluster/training_program.h"
#include "engine/cores/usable_cores.h"
#include "hardware/device_catalogue.h"
#include "hardware/links_file.h"
#include "models/cast_model.h"
#include "models/zoo.h"
#include "profiler/layers/host_device.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/layers/meta_profiler.h"
#include "profiler/profile/profile_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
namespace {
constexpr const char* kThisHost = "cpu";
constexpr const char* kTf32 = "tf32";

struct ProfileFlags {
    std::string model;
    std::string output;
    std::string sizes = "1,2,4";
    std::string batches;
    int co_running = ProfileOptions{}.co_running_lanes;
    std::string time_limit = "30s";
    std::string device = "cpu";
    std::string device_type = kThisHost;
    std::string catalogue;
    std::string program;
    std::string memory_limit;
    std::string dtype;
    std::string batch_from;
    TraceProfileFlags trace;
    bool links = false;
    bool tapes = true;
    bool one_layer_at_a_time = false;
    std::uint64_t seed = 0;
    bool force = false;
    bool json = false;
};

std::vector<std::int64_t> ascending(const std::string& text, const char* flag) {
    std::vector<std::int64_t> sizes = parse_whole_numbers(text, flag, 1);
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    return sizes;
}

std::vector<std::int64_t> sizes_of(const ProfileFlags& flags) {
    return ascending(flags.sizes, "--micro-batch-sizes");
}

/// Parses a limit into seconds.
double parse_time_limit(const std::string& text) {
    const bool lacks_unit = !text.empty() && text.find_first_not_of("0123456789.") == std::string::npos;
    const double ns = lacks_unit ? 0 : parse_duration_ns(text, "--time-limit");
    if (ns == 0) {
        const bool is_zero = text.find_first_of("123456789") == std::string::npos;
        throw UsageError(
            fmt::format("--time-limit is '{}'; it is a time above 0 with a unit (ns, us, ms, s); write it "
                        "as {}",
                        text, lacks_unit && !is_zero ? text + "s" : "30s"));
    }
    return ns / 1e9;
}

ProfileOptions profile_options(const ProfileFlags& flags) {
    ProfileOptions options;
    options.samples = sizes_of(flags);
    if (flags.co_running < 1) {
        throw UsageError(
            fmt::format("--co-running is {}; the measured lane is one of them; use 1 or more", flags.co_running));
    }
    options.co_running_lanes = flags.co_running;
    options.time_limit_s = parse_time_limit(flags.time_limit);
    options.seed = flags.seed;
    options.device = flags.device;
    if (!flags.batches.empty()) {
        options.batches = ascending(flags.batches, "--batch");
    }
    if (!flags.memory_limit.empty()) {
        options.memory_limit = parse_bytes(flags.memory_limit, "--memory-limit");
    }
    options.tapes = flags.tapes;
    options.one_layer_at_a_time = flags.one_layer_at_a_time;
    return options;
}

/// The device to estimate times for: from the catalogue, or this machine.
DeviceType estimated_device(const ProfileFlags& flags, const std::string& dtype) {
    if (flags.device_type == kThisHost && flags.catalogue.empty()) {
        return calibrated_host(dtype);
    }
    return find_device(flags.catalogue.empty() ? device_catalogue() : load_device_catalogue(flags.catalogue),
                       flags.device_type);
}

bool estimates(const ProfileFlags& flags) {
    return flags.device == "meta";
}

/// The program to estimate times for; empty: eager PyTorch.
std::optional<KernelProgram> estimated_program(const ProfileFlags& flags) {
    return flags.program.empty() ? std::nullopt : std::optional<KernelProgram>(*load_program(flags.program));
}

void check_device(const ProfileFlags& flags, bool has_device_type, bool has_co_running) {
    const bool measures_only = flags.one_layer_at_a_time || !flags.batches.empty();
    if (estimates(flags) && measures_only) {
        throw UsageError(
            "--one-layer-at-a-time and --batch measure, and --device meta does not; leave out one of them");
    }
    if (!estimates(flags) && (has_device_type || !flags.catalogue.empty())) {
        throw UsageError(
            fmt::format("--device-type and --device-catalogue say for what device times are estimated, and "
                        "--device {} measures them; add --device meta",
                        flags.device));
    }
    if (estimates(flags)) {
        estimated_program(flags);  // throws for an unknown one
        return;
    }
    if (!flags.program.empty()) {
        throw UsageError(
            fmt::format("--program says how a program's kernels run, and --device {} measures them; add --device meta",
                        flags.device));
    }
    const bool is_host = device_of_flag(flags.device).is_cpu();
    if (is_host && has_co_running && flags.co_running > usable_cores()) {
        throw UsageError(fmt::format(
            "--co-running is {}; lanes beyond the cores take turns, which is simulated; use 1 to {}, the cores "
            "there are",
            flags.co_running, usable_cores()));
    }
    if (!is_host && has_co_running && flags.co_running > 1) {
        throw UsageError(
            fmt::format("--co-running is {} on {}; the slowdown between lanes of one accelerator is "
                        "simulated; leave it out",
                        flags.co_running, flags.device));
    }
}

void check_dtype(const ProfileFlags& flags) {
    if (flags.dtype.empty()) {
        return;
    }
    dtype_bytes(flags.dtype);  // throws for unknown names
    if (flags.dtype == kTf32 && !estimates(flags)) {
        throw UsageError(
            "--dtype is tf32; a rate of tensor units, which is estimated and not measured; add --device meta");
    }
    if (emulated_profile(flags.model)) {
        throw UsageError(
            fmt::format("--dtype is {} for {}; emulated layers hold the bytes of their profile; leave it out",
                        flags.dtype, flags.model));
    }
}

Profile make_profile(const ProfileFlags& flags, PythonModels* python) {
    const CommandModel model = command_model(flags.model,
                                             {.on_meta = estimates(flags),
                                              .dtype = flags.dtype,
                                              .batch_from = flags.batch_from,
                                              .seed = flags.seed,
                                              .samples = sizes_of(flags)},
                                             python);
    ProgressBar bar("profiling " + flags.model);
    const auto progress = [&](double done) { bar.show(done); };
    if (estimates(flags)) {
        Profile profile = profile_on_meta(
            model.spec,
            {sizes_of(flags), progress, flags.dtype == kTf32, model.makes_meta_batches, estimated_program(flags)},
            [&](const std::string& dtype) { return estimated_device(flags, dtype); });
        count_once(profile, model.shared);
        return profile;
    }
    ProfileOptions options = profile_options(flags);
    options.output_dimensions = model.split.output;
    options.progress = progress;
    options.announce = [](const std::string& sentence) { std::cerr << "pipescope: " << sentence << '\n'; };
    Profile profile = profile_model(model.spec, options);
    count_once(profile, model.shared);
    if (const auto emulated = emulated_profile(flags.model)) {
        const Profile source = load_profile(*emulated);
        profile.dtype = source.dtype;  // the dtype of its bytes; emulated layers hold plain bytes
        profile.token_input = source.token_input;
        profile.tokens_per_sample = source.tokens_per_sample;
    }
    return profile;
}

/// The given options that shape the profile and do not follow from its other fields.
std::vector<std::string> further_options(const CLI::App& command, const ProfileFlags& flags) {
    std::vector<std::string> words;
    for (const char* name : {"--batch", "--batch-from", "--co-running", "--time-limit", "--device-catalogue",
                             "--program", "--memory-limit", "--seed"}) {
        if (const CLI::Option& option = *command.get_option(name); option.count() > 0) {
            words.insert(words.end(), {name, option.as<std::string>()});
        }
    }
    if (!flags.tapes) {
        words.emplace_back("--no-tapes");
    }
    if (flags.one_layer_at_a_time) {
        words.emplace_back("--one-layer-at-a-time");
    }
    return words;
}

Nanoseconds whole(double ns) {
    return Nanoseconds{std::llround(ns)};
}

std::string profile_text(const Profile& profile) {
    const std::size_t last = profile.samples.size() - 1;
    const std::string how =
        profile.estimated ? "estimated" : counted(profile.co_running_lanes, "lane", "lanes") + " busy";
    std::string text =
        fmt::format("{} on {}, {}, {}; per micro-batch of {}:\n\n", printable(profile.model), printable(profile.device),
                    profile.dtype, how, counted(profile.samples[last], "sample", "samples"));
    TextTable table({{"layer", Align::left}, {"forward"}, {"backward"}, {"parameters"}, {"output"}, {"saved"}});
    const auto bytes_at = [&](const PerSize& values) {
        return values.empty() ? std::string("0 B") : format_bytes(std::llround(values[last]));
    };
    for (const LayerProfile& layer : profile.layers) {
        table.add_row({layer.name, format_duration(whole(layer.forward_ns[last])),
                       format_duration(whole(layer.backward_ns[last])), format_bytes(layer.parameter_bytes),
                       bytes_at(layer.output_bytes), bytes_at(layer.saved_bytes)});
    }
    text += table.str();
    if (profile.co_running_slowdown.size() > 1) {
        text += fmt::format("\nWith {} lanes busy a layer takes {:.2f} times as long as alone.\n",
                            profile.co_running_slowdown.size(), profile.co_running_slowdown.back());
    }
    return text;
}

std::string links_text(const std::vector<LinkSample>& samples) {
    TextTable table({{"message"}, {"time"}, {"least"}, {"crossing"}, {"bandwidth"}});
    for (const LinkSample& each : samples) {
        const double rate = static_cast<double>(each.time.bytes) / std::max(each.time.ns, 1.0) * 1e9;
        table.add_row({format_bytes(each.time.bytes), format_duration(whole(each.time.ns)),
                       format_duration(whole(each.least_ns)), format_duration(whole(each.time.exchange_ns)),
                       fmt::format("{:.3g} MB/s", rate / 1e6)});
    }
    return table.str();
}

/// Measures the links between the processes that a launcher started. Rank 0 writes and prints.
ExitCode profile_links_command(const CLI::App& command, const ProfileFlags& flags) {
    for (const CLI::Option* option : command.get_options()) {
        const std::string name = option->get_name();
        if (option->count() > 0 && name != "--links" && name != "--output" && name != "--force" && name != "--json") {
            throw UsageError(fmt::format("{} is given with --links, which measures no model; leave it out", name));
        }
    }
    const ProcessOptions place = processes_from(environment_variable).value_or(ProcessOptions{});
    if (place.size < 2) {
        throw UsageError(
            "--links measures messages between processes, and there is one; start several, as in pipescope launch -n 2 "
            "-- profile --links -o links.json");
    }
    if (place.rank == 0 && !flags.output.empty()) {
        check_output(flags.output, flags.force);
    }
    const std::vector<LinkSample> samples = profile_links(Processes::join(place));
    if (place.rank == 0) {
        std::vector<LinkTime> times;
        for (const LinkSample& each : samples) {
            times.push_back(each.time);
        }
        if (!flags.output.empty()) {
            write_output(flags.output, flags.force, links_json(times));
        }
        std::cout << (flags.json ? links_json(times) : links_text(samples));
    }
    return ExitCode::success;
}

/// Refuses options that are for measuring a model.
ExitCode profile_trace_command(const CLI::App& command, const ProfileFlags& flags) {
    constexpr std::array kAllowed{"--from-trace", "--calibrate", "--profile", "--steps", "--micro-batch-size",
                                  "--task-rules", "--output",    "--force",   "--json"};
    for (const CLI::Option* option : command.get_options()) {
        const std::string name = option->get_name();
        if (option->count() > 0 && std::ranges::find(kAllowed, name) == kAllowed.end()) {
            throw UsageError(fmt::format("{} is given with {}, which measures a trace and no model; leave it out", name,
                                         flags.trace.traces.empty() ? "--calibrate" : "--from-trace"));
        }
    }
    TraceProfileFlags trace = flags.trace;
    trace.output = flags.output;
    trace.force = flags.force;
    trace.json = flags.json;
    return profile_from_trace(trace);
}

ExitCode profile_command(const CLI::App& command, const ProfileFlags& flags, PythonModels* python) {
    if (!flags.trace.traces.empty() || !flags.trace.runs.empty() || !flags.trace.earlier.empty()) {
        return profile_trace_command(command, flags);
    }
    if (flags.links) {
        return profile_links_command(command, flags);
    }
    if (flags.model.empty()) {
        throw UsageError(
            "profile is given no model; it measures one; name it, measure links with --links, or a recorded run with "
            "--from-trace");
    }
    check_device(flags, command.count("--device-type") > 0, command.count("--co-running") > 0);
    check_dtype(flags);
    profile_options(flags);  // checks the options before a model is created
    if (!flags.output.empty()) {
        check_output(flags.output, flags.force);
        check_not_input(flags.output, file_of_model(flags.model).value_or(""));
    }
    Profile profile = make_profile(flags, python);
    profile.command_options = further_options(command, flags);
    if (!flags.output.empty()) {
        write_output(flags.output, flags.force, to_json(profile));
    }
    std::cout << (flags.json ? to_json(profile) : profile_text(profile));
    print_warnings(load_warnings(profile.load, "the profile was taken"));
    return ExitCode::success;
}
}  // namespace

void add_profile_command(Program& program, PythonModels* python) {
    const auto flags = std::make_shared<ProfileFlags>();
    CLI::App* command =
        program.add_command("profile", "Measure what each layer of a model costs in time and memory",
                            "Examples:\n"
                            "  pipescope profile transformer:layers=8 -o p.json --micro-batch-sizes 1,2,4\n"
                            "  pipescope profile model.py:make -o p.json\n"
                            "  pipescope profile unet:B=48,C=160 --device meta --device-type V100 -o p.json\n"
                            "  pipescope profile --from-trace traces/ -o p.json\n"
                            "  pipescope profile --calibrate run.sqlite --profile p.json -o calibrated.json\n"
                            "Measure the sizes you will run: batch / chunks. Costs are interpolated between them and "
                            "extrapolated outside.");
    command->add_option(
        "MODEL", flags->model,
        "Built-in model with options ('pipescope models' lists them), a .so or .pt file, a function in Python such as "
        "model.py:make, or emulated:PROFILE");
    command->add_flag(
        "--links", flags->links,
        "Measure messages between the processes of a launcher instead of a model, as in 'pipescope launch "
        "-n 2 -- profile --links -o links.json'");
    add_option(*command, "--micro-batch-sizes", flags->sizes, "Micro-batch sizes to measure, in samples; default 1,2,4",
               "LIST");
    add_option(*command, "--batch", flags->batches,
               "Mini-batch sizes at which to measure the loss, which a step may compute once; default: 8 and 32 "
               "times the largest micro-batch",
               "LIST");
    add_batch_from_option(*command, flags->batch_from);
    add_option(*command, "--co-running", flags->co_running,
               "Lanes busy at the same time, the measured one included, as in the pipeline to predict; how "
               "much they slow each other down is measured too; default 2, at most the cores",
               "N");
    add_option(*command, "--time-limit", flags->time_limit, "Time limit of the whole profile; default 30s", "TIME");
    add_option(*command, "--device", flags->device,
               "Where to measure: cpu (default) or an accelerator such as cuda:0. meta needs no memory and gives "
               "shapes, bytes, flops and estimated times",
               "DEVICE");
    add_option(*command, "--device-type,--device-types", flags->device_type,
               "With --device meta: device to estimate times for, of the catalogue, such as V100, or cpu "
               "(default), one core of this machine",
               "NAME");
    add_option(*command, "--device-catalogue,--catalogue", flags->catalogue,
               "File that describes device types (docs/device-catalogue.md); default: the built-in catalogue", "FILE");
    add_option(*command, "--program", flags->program,
               "With --device meta: how the kernels run, as a program or a file (docs/program-format.md): torchtitan, "
               "nemo, ..; operators between products are fused. Default: eager PyTorch, each operator by itself",
               "NAME");
    add_option(*command, "--dtype", flags->dtype,
               "Cast parameters, buffers and floating-point inputs before profiling: float64, float32, float16 or "
               "bfloat16; with --device meta also tf32, float32 tensors at the rate of TF32. Default: as the model "
               "makes them",
               "NAME");
    command->add_flag(
        "--tapes,!--no-tapes", flags->tapes,
        "Record every allocation of a layer (default), to replay its memory exactly; --no-tapes gives a smaller file");
    command->add_flag("--one-layer-at-a-time", flags->one_layer_at_a_time,
                      "Make, measure and free one layer at a time; the default for a model larger than memory");
    add_option(*command, "--memory-limit", flags->memory_limit,
               "Memory for parameters and gradients of all busy lanes; default: the free memory", "SIZE");
    add_seed_option(*command, flags->seed, "Seed of the initial weights and the data");
    add_trace_profile_options(*command, flags->trace);
    add_option(*command, "-o,--output", flags->output, "Profile file to write", "FILE", "Output");
    add_force_flag(*command, flags->force);
    command->add_flag("--json", flags->json, "Print the profile itself, as the file holds it")->group("Output");
    program.set_action(command, [flags, command, python, &program] {
        enter_python(flags->model, flags->batch_from, python, program.arguments());
        return profile_command(*command, *flags, python);
    });
}
}  // namespace pipescope
