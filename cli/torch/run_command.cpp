#include "analysis/trace_warnings.h"
#include "answers/asked_pipeline.h"
#include "answers/or_null.h"
#include "answers/pipeline_rows.h"
#include "answers/profile_again.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "base/printable.h"
#include "base/sample_statistics.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/stop_signals.h"
#include "cli/torch/lane_optimizers.h"
#include "cli/torch/process_environment.h"
#include "cli/torch/process_results.h"
#include "cli/torch/python_models.h"
#include "cli/torch/self_profile.h"
#include "cli/torch/torch_program.h"
#include "cli/torch/training.h"
#include "cli/torch/training_saves.h"
#include "cli/torch/unsplit_layers.h"
#include "engine/cores/usable_cores.h"
#include "engine/processes/device_plugins.h"
#include "engine/processes/lane_channels.h"
#include "engine/saved_training.h"
#include "models/zoo.h"
#include "profiler/layers/profile_assembly.h"
#include "profiler/profile/profile_file.h"
#include "save/save_error.h"
#include "save/save_folder.h"
#include "schedule/schedules.h"
#include "trace/store/trace_records.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

struct RunFlags {
    std::string model;
    std::string batch_from;
    AskedPipeline pipeline;
    std::int64_t steps = 10;
    std::optional<std::int64_t> warmup;
    std::optional<double> learning_rate;
    std::uint64_t seed = 0;
    std::string device_messages = "host";
    SaveOptions save;
    std::string trace;
    std::string profile;
    bool force = false;
    bool json = false;
};

/// Fills in the lanes that the flags leave open.
void fill_in_lanes(PipelineOptions& pipeline) {
    place(pipeline);
    if (pipeline.hardware.devices.empty()) {
        pipeline.hardware.devices.assign(static_cast<std::size_t>(num_lanes(pipeline)), "cpu");
    }
}

std::int64_t default_warmup(std::int64_t steps) {
    return std::clamp<std::int64_t>(steps - 1, 0, TrainingOptions{}.warmup);
}

TrainingOptions training_options(const RunFlags& flags) {
    TrainingOptions options;
    options.pipeline = pipeline_options(flags.pipeline);
    fill_in_lanes(options.pipeline);
    options.steps = flags.steps;
    options.warmup = flags.warmup.value_or(default_warmup(flags.steps));
    check_device_messages(flags.device_messages);
    if (const double rate = flags.learning_rate.value_or(0);
        !(rate >= 0 && rate <= TrainingState::kLargestLearningRate)) {
        throw UsageError(fmt::format("--learning-rate is {}; it must be a number from 0 to {}; try 0.05", rate,
                                     TrainingState::kLargestLearningRate));
    }
    options.seed = flags.seed;
    options.update_parameters = !emulated_profile(flags.model).has_value();
    // Emulated lanes only wait, which needs no core.
    options.pipeline.hardware.host_cores =
        flags.pipeline.cores.value_or(options.update_parameters ? usable_cores() : 0);
    options.device_messages = flags.device_messages;
    options.trace = flags.trace;
    options.force = flags.force;
    return options;
}

/// Fills in options that the flags leave open and the model determines, as simulate and plan do.
std::vector<Assumption> assume(TrainingOptions& options, const RunFlags& flags, const ModelSpec& model) {
    std::vector<Assumption> assumptions;
    if (!flags.pipeline.optimizer) {
        const auto emulated = emulated_profile(flags.model);
        const bool tokens =
            emulated ? load_profile(*emulated)->token_input : holds_tokens(model.make_batch(1, options.seed).input);
        const Assumption assumed = assume_optimizer(options.pipeline, tokens);
        if (tokens) {
            assumptions.push_back(assumed);
        }
    }
    options.learning_rate = flags.learning_rate;
    return assumptions;
}

SavingRanks ranks_of(const std::shared_ptr<Processes>& processes) {
    if (!processes) {
        return {};
    }
    return {processes->rank(), processes->size(), [processes] { processes->barrier(); },
            [processes](bool mine) {
                const std::vector<std::string> all = processes->gather(mine ? "written" : "");
                return std::find(all.begin(), all.end(), "") == all.end();
            }};
}

/// Opens the folder of saved steps, if there is one, and sets options from the step that the run continues from.
std::unique_ptr<TrainingSaves> open_saves(const RunFlags& flags, TrainingOptions& options) {
    if (flags.save.folder.empty()) {
        return nullptr;
    }
    if (!options.update_parameters) {
        throw UsageError(
            "--save is given for an emulated model, which learns nothing; a save holds what was learned; leave it out");
    }
    const std::string& optimizer = options.pipeline.optimizer;
    auto saves = std::make_unique<TrainingSaves>(
        flags.save, TrainingState{.model = flags.model, .optimizer = optimizer, .seed = options.seed},
        ranks_of(options.processes));
    const double rate =
        saves->resumed() != nullptr ? saves->resumed()->state().learning_rate : default_learning_rate(optimizer);
    options.learning_rate = flags.learning_rate.value_or(rate);
    saves->set_learning_rate(*options.learning_rate);
    if (!flags.warmup) {
        options.warmup = default_warmup(options.steps - saves->steps_done());
    }
    options.saves = saves.get();
    return saves;
}

/// For a model in Python that has its own optimizer.
void check_own_optimizer(const RunFlags& flags) {
    const auto refuse = [&](const std::string& option, const char* why) {
        throw UsageError(
            fmt::format("{} is given, and the file of {} has its own optimizer(parameters), {}; leave it out, or "
                        "name one with --optimizer, which is used instead",
                        option, flags.model, why));
    };
    if (flags.learning_rate) {
        refuse("--learning-rate", "which has its own rate");
    }
    if (!flags.save.folder.empty()) {
        refuse("--save", "whose state a save cannot hold");
    }
}

ModelUse model_use(const RunFlags& flags, const TrainingOptions& options) {
    return {.trains = true,
            .batch_from = flags.batch_from,
            .seed = options.seed,
            .samples = micro_batch_sizes(options.pipeline)};
}

/// The profile for the trace: the given one, the emulated one, or a new measurement.
std::optional<Profile> profile_for(const RunFlags& flags, const ModelSpec& model, const TrainingOptions& options,
                                   PythonModels* python) {
    if (!flags.profile.empty()) {
        return load_profile(flags.profile);
    }
    if (const auto emulated = emulated_profile(flags.model)) {
        return load_profile(*emulated);
    }
    if (flags.trace.empty()) {
        return std::nullopt;
    }
    ProgressBar bar("profiling " + flags.model);
    const auto progress = [&](double done) { bar.show(done); };
    if (is_python_model(flags.model)) {  // whose layers must not be those that train
        ModelUse use = model_use(flags, options);
        use.trains = false;
        const CommandModel copies = command_model(flags.model, use, python);
        Profile profile = profile_for_run(copies.spec, options.pipeline, options.seed, progress, copies.split.output);
        count_once(profile, copies.shared);
        return profile;
    }
    return profile_for_run(model, options.pipeline, options.seed, progress);
}

Json run_json(const TrainingResult& result, std::size_t micro_batches) {
    Json object{{"micro_batches", micro_batches},
                {"steps", Json::array()},
                {"bubble_fraction", or_null(result.bubble_fraction)},
                {"lanes", Json::array()}};
    for (const TrainedStep& step : result.steps) {
        object["steps"].push_back({{"loss", step.loss},
                                   {"step_ns", step.step_time().count()},
                                   {"wall_step_ns", step.wall_step_time.count()},
                                   {"warmup", step.warmup}});
    }
    for (const TrainedLane& lane : result.lanes) {
        object["lanes"].push_back({{"peak_bytes", lane.peak_bytes},
                                   {"peak", memory_json(lane.peak)},
                                   {"busy_ns", or_null(lane.median_busy())}});
    }
    if (result.unsplit_layers) {
        object["unsplit_layers"] = Json::parse(unsplit_json(*result.unsplit_layers));
    }
    object["load"] = load_json(result.load);
    object["trace"] = result.trace.empty() ? Json(nullptr) : Json(result.trace.string());
    if (result.interrupted) {
        object["interrupted"] = true;
    }
    return object;
}

Json nanoseconds_json(const std::vector<Nanoseconds>& times) {
    Json list = Json::array();
    for (const Nanoseconds time : times) {
        list.push_back(time.count());
    }
    return list;
}

void add_saves(Json& object, const RunFlags& flags, const TrainingSaves& saves) {
    if (flags.save.resume) {
        object["resumed_from"] = saves.resumed() != nullptr ? Json(saves.steps_done()) : Json(nullptr);
    }
    object["saved"] = saves.newest().empty() ? Json(nullptr) : Json(saves.newest().string());
    object["save_ns"] = nanoseconds_json(saves.times());
    object["save_pause_ns"] = nanoseconds_json(saves.pauses());
}

std::string saves_text(const RunFlags& flags, const TrainingSaves& saves, std::int64_t steps) {
    std::string text;
    if (const std::int64_t done = saves.steps_done(); done >= steps) {
        return fmt::format("{} holds {} of {}: nothing is left to train; a larger --steps continues\n",
                           printable(saves.newest().string()), done, counted(steps, "step", "steps"));
    } else if (saves.resumed() != nullptr) {
        text += fmt::format("continued after step {} of {}\n", done, printable(saves.resumed()->path().string()));
    } else if (flags.save.resume) {
        text += fmt::format("started from the beginning: there was no saved step in {}\n",
                            printable(flags.save.folder.string()));
    }
    if (!saves.times().empty()) {
        text += fmt::format("saved {} ({}, median {}; the training waited {})\n", printable(saves.newest().string()),
                            counted(saves.times().size(), "save", "saves"), format_duration(median(saves.times())),
                            format_duration(median(saves.pauses())));
    }
    return text;
}

std::string bubble_text(const TrainingResult& result) {
    if (result.bubble_fraction) {
        return fmt::format("bubble fraction {} (median, without warm-up)\n", format_percent(*result.bubble_fraction));
    }
    return measured_step_times(result).empty() ? "bubble fraction unknown: every step was a warm-up\n"
                                               : "bubble fraction unknown: the recording is incomplete\n";
}

/// Describes the traces of the processes, and what to do with them.
std::string trace_text(const std::string& trace, int processes) {
    if (processes == 1) {
        const std::string word = shell_word(trace);
        return fmt::format("trace {}; next: 'pipescope compare {}' or 'pipescope view {}'\n", printable(trace), word,
                           word);
    }
    const std::string of_rank = ".rank0";
    const std::size_t at = trace.rfind(of_rank);
    const std::string before = trace.substr(0, at);
    const std::string behind = trace.substr(at + of_rank.size());
    const std::string all = shell_word(before + ".rank") + "*" + (behind.empty() ? "" : shell_word(behind));
    return fmt::format("traces {}.rank*{}; next: 'pipescope compare {}' or 'pipescope merge {} -o {}'\n",
                       printable(before), printable(behind), all, all, shell_word(before + behind));
}

std::string run_text(const TrainingResult& result, std::int64_t asked_steps, int processes) {
    if (result.steps.empty()) {
        return "";
    }
    TextTable steps({{"step"}, {"loss"}, {"step time"}, {"wall step time"}, {"", Align::left}});
    bool some_count = false;
    for (const TrainedStep& step : result.steps) {
        some_count = some_count || !step.warmup;
        const std::string why_not = some_count ? "drains the pipeline" : "warm-up";
        steps.add_row({std::to_string(step.step), fmt::format("{:.4f}", step.loss), format_duration(step.step_time()),
                       format_duration(step.wall_step_time), step.warmup ? why_not : ""});
    }
    TextTable lanes({{"lane"}, {"busy"}, {"peak memory"}, {"consists of", Align::left}});
    for (std::size_t lane = 0; lane < result.lanes.size(); ++lane) {
        const TrainedLane& each = result.lanes[lane];
        const std::optional<Nanoseconds> busy = each.median_busy();
        lanes.add_row({std::to_string(lane), busy ? format_duration(*busy) : "unknown", format_bytes(each.peak_bytes),
                       memory_text(each.peak)});
    }
    std::string text = steps.str() + "\n" + lanes.str() + "\n";
    text += bubble_text(result);
    if (result.unsplit_layers) {
        text += unsplit_text(*result.unsplit_layers);
    }
    if (result.interrupted) {
        text += fmt::format("interrupted after {} of {}\n", result.steps.back().step + 1,
                            counted(asked_steps, "step", "steps"));
    }
    if (const std::string trace = result.trace.string(); !trace.empty() && result.trace_failure.empty()) {
        text += trace_text(trace, processes);
    }
    return text;
}

/// Names the first step whose loss is nan or infinite; empty if there is none.
std::vector<std::string> diverged_warning(const TrainingResult& result) {
    const auto first = std::find_if(result.steps.begin(), result.steps.end(),
                                    [](const TrainedStep& step) { return !std::isfinite(step.loss); });
    if (first == result.steps.end()) {
        return {};
    }
    return {
        fmt::format("the loss is {} in step {}: the model learns nothing from then on; use a smaller "
                    "--learning-rate, or check the model; times and memory are still right",
                    first->loss, first->step)};
}

// A layer may still compute long after the group of processes failed; the process ends without waiting for it.
constexpr std::chrono::milliseconds kEndAfter{500};

std::string newest_save(const TrainingOptions& options) {
    return options.saves == nullptr || options.saves->newest().empty() ? "none"
                                                                       : options.saves->newest().filename().string();
}

/// Digest of the TorchScript, Python or profile file that holds the model; "none" otherwise. Libraries have no digest:
/// a library may be built on each host, so equal libraries may differ in their bytes.
std::string digest_of_model_file(const std::string& model) {
    const std::optional<std::filesystem::path> path = file_of_model(model);
    std::error_code ignored;
    if (!path || path->extension() == ".so" || !std::filesystem::is_regular_file(*path, ignored)) {
        return "none";
    }
    std::ifstream file(*path, std::ios::binary);
    std::vector<char> buffer(1 << 20);
    std::uint64_t digest = 14695981039346656037U;  // FNV-1a
    while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) || file.gcount() > 0) {
        for (std::streamsize k = 0; k < file.gcount(); ++k) {
            digest = (digest ^ static_cast<unsigned char>(buffer[static_cast<std::size_t>(k)])) * 1099511628211U;
        }
    }
    return fmt::format("{:016x}", digest);
}

/// Throws ProcessError unless all processes got the same options, and UsageError if these do not suit their number.
void agree(const RunFlags& flags, const TrainingOptions& options) {
    options.processes->agree({{"the version of PipeScope", PIPESCOPE_VERSION},
                              {"--save", options.saves == nullptr ? "none" : flags.save.folder.string()},
                              {"--save-every", fmt::format("{}", flags.save.every.value_or(0))},
                              {"the model", flags.model},
                              {"--batch-from", flags.batch_from.empty() ? "none" : flags.batch_from},
                              {"the digest of the model's file", digest_of_model_file(flags.model)},
                              {"--batch", std::to_string(options.pipeline.batch)},
                              {"--replicas", std::to_string(options.pipeline.replicas)},
                              {"--steps", std::to_string(options.steps)},
                              {"--seed", std::to_string(options.seed)},
                              {"--optimizer", options.pipeline.optimizer},
                              {"--learning-rate", options.learning_rate ? fmt::format("{}", *options.learning_rate)
                                                                        : std::string("the default")},
                              {"--warmup", std::to_string(options.warmup)},
                              {"--balance", to_string(options.pipeline.balance)},
                              {"-m", std::to_string(options.pipeline.chunks)},
                              {"--schedule", to_string(options.pipeline.schedule)},
                              {"--update", to_string(options.pipeline.update)},
                              {"--checkpoint", to_string(options.pipeline.checkpoint)},
                              {"the number of lanes", std::to_string(num_lanes(options.pipeline))},
                              {"--device-messages", options.device_messages},
                              {"--trace", options.trace.empty() ? "none" : "given"},
                              {"the newest save", newest_save(options)}});
    replica_ranks(*options.processes, options.pipeline.replicas, num_lanes(options.pipeline));
}

/// Each replica's trace must be complete, so the first process of each replica stores the profile, which rank 0 has.
void share_profile(TrainingOptions& options) {
    const int replicas = options.pipeline.replicas;
    if (replicas == 1 || options.trace.empty()) {
        return;
    }
    const ReplicaRanks ranks = replica_ranks(*options.processes, replicas, num_lanes(options.pipeline));
    const std::vector<std::string> profiles =
        options.processes->gather(options.profile ? to_json(*options.profile) : std::string());
    if (options.processes->rank() == ranks.first && !profiles[0].empty()) {
        options.profile = parse_profile(profiles[0]);
    }
}

ExitCode run_model(const RunFlags& flags, TrainingOptions options, PythonModels* python);

/// Runs the lanes of this process. A failure here ends the other processes too.
ExitCode run_together(const RunFlags& flags, TrainingOptions options, PythonModels* python) {
    const std::shared_ptr<Processes> processes = options.processes;
    if (!options.trace.empty()) {
        options.trace = trace_of_rank(options.trace, processes->rank(), processes->options().attempt);
    }
    return processes->together([&] { return run_model(flags, std::move(options), python); });
}

ExitCode run_command(const RunFlags& flags, PythonModels* python) {
    const StopSignals signals;
    check_save_options(flags.save);
    TrainingOptions options = training_options(flags);
    if (auto place = processes_from(environment_variable)) {
        place->end_after = kEndAfter;
        place->while_waiting = throw_if_stopped;
        options.processes = Processes::join(*place);
        return run_together(flags, std::move(options), python);
    }
    if (options.pipeline.replicas > 1) {
        throw UsageError(fmt::format(
            "--replicas is {} in one process; each replica is a pipeline in its own processes; start them with "
            "'pipescope launch -n {} -- run ..', or leave --replicas out",
            options.pipeline.replicas, options.pipeline.replicas));
    }
    return run_model(flags, std::move(options), python);
}

ExitCode run_model(const RunFlags& flags, TrainingOptions options, PythonModels* python) {
    const bool is_first = !options.processes || options.processes->rank() == 0;
    CommandModel made = command_model(flags.model, model_use(flags, options), python);
    const ModelSpec model = std::move(made.spec);
    options.split = std::move(made.split);
    options.weight = std::move(made.weight);
    options.on_exception = std::move(made.on_exception);
    for (const SharedParameter& each : made.shared) {
        options.shared.push_back(each.keys);
    }
    const bool has_own_optimizer = made.make_optimizer && !flags.pipeline.optimizer;
    if (has_own_optimizer) {
        check_own_optimizer(flags);
        options.make_optimizer = std::move(made.make_optimizer);
        options.pipeline.optimizer = made.optimizer;
        options.learning_rate = made.learning_rate;
    }
    const std::vector<Assumption> assumptions =
        has_own_optimizer ? std::vector<Assumption>{} : assume(options, flags, model);
    check_training(model, options);
    if (!flags.trace.empty()) {
        check_trace_name(options.trace, flags.force);  // training also runs if the folder is not writable
        check_not_input(options.trace, file_of_model(flags.model).value_or(""));
        if (!flags.save.folder.empty() && is_in_step_of(flags.save.folder, options.trace)) {
            throw Error(
                fmt::format("--trace is {}, in a step of --save {}; only a save makes what is there; choose "
                            "another name",
                            options.trace.string(), flags.save.folder.string()));
        }
    }
    const std::unique_ptr<TrainingSaves> saves = open_saves(flags, options);
    const bool is_anything_left = !saves || saves->steps_done() < options.steps;
    if (is_first && is_anything_left) {
        options.profile = profile_for(flags, model, options, python);
    }
    if (options.processes) {
        agree(flags, options);  // and waits for the profile
        share_profile(options);
    }
    TrainingResult result;
    if (is_anything_left) {
        std::optional<ProgressBar> bar;
        if (is_first) {
            bar.emplace("training " + flags.model);
            options.progress = [&](double done) { bar->show(done); };
        }
        options.survive_trace_failure = true;
        result = train_recorded(model, options);
    }
    if (!is_first) {
        return result.interrupted ? stop_exit_code() : ExitCode::success;
    }
    const std::size_t micro_batches = micro_batch_sizes(options.pipeline).size();
    if (flags.json) {
        auto object = run_json(result, micro_batches);
        object["batch"] = options.pipeline.batch;
        object["optimizer"] = options.pipeline.optimizer;
        object["update"] = to_string(options.pipeline.update);
        if (saves) {
            add_saves(object, flags, *saves);
        }
        std::cout << dump(object);
    } else {
        std::cout << run_text(result, options.steps, options.processes ? options.processes->size() : 1)
                  << (saves ? saves_text(flags, *saves, options.steps) : "") << fewer_micro_batches(options.pipeline)
                  << assumptions_text(assumptions);
    }
    if (!result.loss.empty()) {
        print_warnings({result.loss});
    }
    if (options.update_parameters && options.profile && options.profile->model != flags.model) {
        const std::string& profiled = options.profile->model;
        print_warnings(
            {fmt::format("the profile {}, and the run is of {}; a prediction holds for the model that was "
                         "profiled",
                         profiled.empty() ? "does not name its model" : "is of " + printable(profiled), flags.model)});
    }
    print_warnings(diverged_warning(result));
    print_warnings(load_warnings(result.load, "it trained"));
    if (saves && !saves->failure().empty()) {
        throw SaveError("the training continued, and its last step is not saved: " + saves->failure());
    }
    if (!result.trace_failure.empty()) {
        throw TraceError("the training continued, and " + result.trace_failure);
    }
    return result.interrupted ? stop_exit_code() : ExitCode::success;
}

void add_training_options(CLI::App& command, RunFlags& flags) {
    add_option(command, "--steps", flags.steps, "Steps to train; default 10", "N", "Training");
    add_option(command, "--warmup", flags.warmup,
               "Number of initial steps excluded from the figures; default 2, or all but one of fewer than three steps",
               "N", "Training");
    add_option(
        command, "--optimizer", flags.pipeline.optimizer,
        "sgd, momentum (SGD with 0.9), adam or adamw; default: adam if the input is token numbers, otherwise sgd",
        "NAME", "Training");
    add_option(command, "--learning-rate", flags.learning_rate, "Default 0.05; 0.001 with adam and adamw", "X",
               "Training");
    add_seed_option(command, flags.seed, "Seed of initial weights, data and dropout")->group("Training");
    add_parsed(
        command, "--devices", flags.pipeline.options.hardware.devices,
        [](const std::string& text) { return parse_list(text, option_name("devices")); },
        "Device of each lane, such as cpu,cpu or cuda:0,cuda:1; default: every lane on the CPU", "LIST", "Hardware");
    add_option(command, "--cores", flags.pipeline.cores,
               "Cores that lanes on cpu share, one task at a time; 0 leaves lanes to the operating system; "
               "default: the cores of this process, or 0 for an emulated model",
               "N", "Hardware");
    add_option(command, "--device-messages", flags.device_messages,
               "How tensors go between GPUs of different processes: host, through the hosts' memory; nccl, from GPU to "
               "GPU; auto, by NCCL where both can; or the path of a plugin library; default host",
               "WAY", "Hardware");
}

void add_save_options(CLI::App& command, SaveOptions& options) {
    add_option(
        command, "--save", options.folder,
        "Save model and optimizer into this folder after the last step, in safetensors files; the newest two saves "
        "are kept",
        "DIR", "Output");
    add_option(command, "--save-every", options.every, "Also save after every N steps", "N", "Output");
    command.add_flag("--resume", options.resume, "Continue from the newest save in that folder, if there is one")
        ->group("Output");
}
}  // namespace

void add_run_command(Program& program, PythonModels* python) {
    const auto flags = std::make_shared<RunFlags>();
    CLI::App* command = program.add_command(
        "run", "Train a model through the pipeline and record it",
        "Example:\n"
        "  pipescope run transformer:layers=6 --balance 4,4 -m 8 --batch 32 --steps 10 --trace out.sqlite\n"
        "The data is made up, and the model can learn it. A model in Python (model.py:make) has its own data.\n"
        "A trace also holds the profile, which is measured first unless --profile gives one, so\n"
        "'pipescope compare out.sqlite' needs nothing else.");
    command
        ->add_option(
            "MODEL", flags->model,
            "Built-in model with options ('pipescope models' lists them), a .so or .pt file, a function in Python "
            "such as model.py:make, or emulated:PROFILE, whose layers wait as long as the profile says")
        ->required();
    flags->pipeline.runs = true;
    add_options(*command, [&](OptionTable& table) {
        add_balance_option(table, flags->pipeline);
        add_batch_options(table, flags->pipeline);
        add_replicas_option(table, flags->pipeline);
        add_schedule_options(table, flags->pipeline,
                             runnable_schedule_names(", ") +
                                 " (default gpipe); or a file that ends in .csv, as 'pipescope schedule' writes it");
        add_update_option(table, flags->pipeline);
        table.require({"balance", "batch"});
    });
    add_training_options(*command, *flags);
    add_batch_from_option(*command, flags->batch_from)->group("Training");
    add_option(*command, "--trace", flags->trace, "Record into this trace", "FILE", "Output");
    add_option(*command, "--profile", flags->profile, "Profile to store in the trace, instead of measuring one", "FILE",
               "Output");
    add_save_options(*command, flags->save);
    add_force_flag(*command, flags->force);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags, python, &program] {
        enter_python(flags->model, flags->batch_from, python, program.arguments());
        return run_command(*flags, python);
    });
}
}  // namespace pipescope
