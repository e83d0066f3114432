#include "cli/profile_from_trace.h"
#include "answers/profile_again.h"
#include "cli/option_flags.h"

#include "analysis/calibration.h"
#include "analysis/trace_profile.h"
#include "answers/asked_pipeline.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/number_ranges.h"
#include "base/printable.h"
#include "cli/joined_trace.h"
#include "cli/output_file.h"
#include "profiler/profile/profile_file.h"
#include "simulator/option_texts.h"
#include "trace/open_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>

namespace pipescope {
namespace {
constexpr const char* kFromTrace = "--from-trace";
constexpr const char* kCalibrate = "--calibrate";

Nanoseconds whole_ns(double ns) {
    return Nanoseconds{std::llround(ns)};
}

/// Keeps only the named steps. Throws UsageError for a step that cannot be measured.
void keep_steps(const std::string& text, MeasuredSteps& steps) {
    const std::vector<std::int64_t> wanted = parse_whole_numbers(text, "--steps", 0);
    const std::vector<std::int32_t> all = steps.numbers();
    for (const std::int64_t number : wanted) {
        if (std::ranges::find(all, number) == all.end()) {
            throw UsageError(
                fmt::format("{} names step {}; a profile is measured from recorded steps without warm-up, which are "
                            "{}; choose among them",
                            option_name("steps"), number, fmt::join(all, ", ")));
        }
    }
    std::erase_if(steps.steps,
                  [&](const StepRecord& step) { return std::ranges::find(wanted, step.step) == wanted.end(); });
}

/// The command that simulates the recorded pipeline from the profile.
std::string simulate_command_of(const std::string& file, const PipelineOptions& options) {
    std::string line = "pipescope simulate " + shell_word(file);
    for (const OptionText& each : option_texts(options)) {
        line += command_words(each, shell_word);
    }
    return line;
}

std::string link_text(const Link& link) {
    if (link.is_free()) {
        return "free";
    }
    std::string text = fmt::format("latency {}", format_duration(whole_ns(link.latency_ns)));
    if (link.bytes_per_second > 0) {
        text += fmt::format(", bandwidth {:.4g} MB/s", link.bytes_per_second / 1e6);
    }
    return text;
}

std::string trace_profile_text(const TraceProfile& made, const TraceProfileFlags& flags) {
    const Profile& profile = made.profile;
    // The size of the run's micro-batches, or the nearest.
    const std::int64_t size = micro_batch_sizes(made.options).front();
    std::size_t last = 0;
    for (std::size_t k = 1; k < profile.samples.size(); ++k) {
        last = std::abs(profile.samples[k] - size) < std::abs(profile.samples[last] - size) ? k : last;
    }
    std::string text = fmt::format(
        "{}: measured from {} of {}, micro-batches of {}{}\n\n",
        profile.model.empty() ? "profile" : printable(profile.model), counted(made.steps.size(), "step", "steps"),
        flags.traces.front(), counted(size, "sample", "samples"),
        profile.samples[last] == size
            ? ""
            : fmt::format("; the table shows {}, the nearest size of the profile, whose times are scaled to the run",
                          profile.samples[last]));
    TextTable table({{"layer", Align::left}, {"forward"}, {"backward"}, {"backward of weights"}, {"output"}});
    const auto at = [&](const PerSize& values) {
        return values.empty() || values[last] == 0 ? std::string() : format_duration(whole_ns(values[last]));
    };
    for (const LayerProfile& layer : profile.layers) {
        table.add_row({layer.name, at(layer.forward_ns), at(layer.backward_ns), at(layer.backward_weight_ns),
                       layer.output_bytes.empty() || layer.output_bytes[last] == 0
                           ? ""
                           : format_bytes(std::llround(layer.output_bytes[last]))});
    }
    text += table.str();
    const PipelineOptions& options = made.options;
    text +=
        fmt::format("\nthe run: balance {}, batch of {} in {}, checkpoint {}, schedule {}\n",
                    to_string(options.balance), options.batch, counted(options.chunks, "micro-batch", "micro-batches"),
                    to_string(options.checkpoint), to_string(options.schedule));
    text +=
        fmt::format("its link: {}{}\n", link_text(options.hardware.link),
                    made.messages > 0 ? fmt::format(", from {}", counted(made.messages, "message", "messages")) : "");
    if (!flags.output.empty() && options.hardware.devices.empty()) {
        text += fmt::format("\n{}\n", simulate_command_of(flags.output, options));
    }
    return text;
}
}  // namespace

void add_trace_profile_options(CLI::App& command, TraceProfileFlags& flags) {
    constexpr const char* kGroup = "From a trace";
    add_option(command, kFromTrace, flags.traces,
               "Measure a profile from a recorded run instead of a model: a trace, the files of all its ranks, or a "
               "folder of them",
               "FILE", kGroup)
        ->expected(1, CLI::detail::expected_max_vector_size);
    add_option(
        command, kCalibrate, flags.runs,
        "Scale a profile so that partitions take the same time as in recorded runs of PipeScope: a trace for each "
        "run, or a folder with the files of its ranks",
        "RUN", kGroup)
        ->expected(1, CLI::detail::expected_max_vector_size);
    add_option(command, "--profile", flags.earlier,
               "With --calibrate: the profile to scale, of the same model; default: the first run's", "FILE", kGroup);
    add_option(command, "--steps", flags.steps,
               "With --from-trace: the steps to measure, such as 3,4,5; default: all without warm-up", "LIST", kGroup);
    add_option(command, "--micro-batch-size", flags.micro_batch_size,
               "With --from-trace: samples of a micro-batch; default: as the trace's messages show it, or 1", "N",
               kGroup);
    add_task_rules_option(command, flags.rules);
    command.get_option("--task-rules")->group(kGroup);
}

TraceProfile measured_profile(const TraceProfileFlags& flags) {
    if (flags.micro_batch_size && *flags.micro_batch_size < 1) {
        throw UsageError(fmt::format("{} is {}; a micro-batch has a sample or more; use 1 or more",
                                     option_name("micro-batch-size"), *flags.micro_batch_size));
    }
    const JoinedTrace joined(with_files_of_folders(flags.traces), flags.rules);
    const OpenedTrace trace = open_trace(joined.path(), {.tracks = false});
    const RecordedRun run = recorded_run(trace);
    if (flags.micro_batch_size && !run.of_another_program) {
        throw UsageError(fmt::format("{} is {} for a trace of PipeScope, which says its size; leave it out",
                                     option_name("micro-batch-size"), *flags.micro_batch_size));
    }
    if (!run.why_not_simulated.empty() && !run.of_another_program) {
        throw TraceFormatError(joined.name() + " " + run.why_not_simulated);
    }
    const RunCheck check = check_run(run, trace.measured);
    MeasuredSteps steps = steps_to_compare(run, {}, steps_in_time(trace.measured));
    if (!flags.steps.empty()) {
        keep_steps(flags.steps, steps);
    }
    keep_one_size(run, check, steps);
    leave_out_broken(check, trace.measured, steps);
    try {
        TraceProfile made = profile_of_trace(run, trace.measured, steps, flags.micro_batch_size);
        std::vector<std::string> warnings = texts_of(run.warnings);
        std::ranges::move(left_out_warnings(steps), std::back_inserter(warnings));
        made.notes.insert(made.notes.begin(), warnings.begin(), warnings.end());
        return made;
    } catch (const UsageError&) {
        throw;
    } catch (const Error& error) {
        throw TraceFormatError(joined.name() + " " + error.what());
    }
}

namespace {
class CalibrationTrace {
public:
    /// Throws TraceFormatError unless the trace is suitable for calibration.
    explicit CalibrationTrace(const std::string& file)
        : joined_(with_files_of_folders(std::vector<std::string>{file})),
          trace_(open_trace(joined_.path(), {.tracks = false})),
          run_(recorded_run(trace_)) {
        try {
            view_.emplace(calibration_run(run_, trace_));
        } catch (const Error& error) {
            throw TraceFormatError(joined_.name() + " " + error.what());
        }
    }
    CalibrationTrace(const CalibrationTrace&) = delete;
    CalibrationTrace& operator=(const CalibrationTrace&) = delete;

    const std::string& name() const { return joined_.name(); }
    const RecordedRun& run() const { return run_; }
    const CalibrationRun& view() const { return *view_; }

private:
    JoinedTrace joined_;
    OpenedTrace trace_;
    RecordedRun run_;
    std::optional<CalibrationRun> view_;
};

double pass_ns(const LayerProfile& layer, std::size_t size) {
    return layer.forward_ns[size] + layer.backward_ns[size];
}

std::string change(double before, double after) {
    return before > 0 ? fmt::format("{:+.1f} %", 100 * (after / before - 1)) : std::string();
}

std::string calibration_text(const Profile& earlier, const Profile& profile, std::size_t runs, std::size_t steps) {
    const std::size_t last = profile.samples.size() - 1;
    std::string text =
        fmt::format("{}: calibrated with {} of {}; per micro-batch of {}:\n\n",
                    profile.model.empty() ? "profile" : printable(profile.model), counted(steps, "step", "steps"),
                    counted(runs, "run", "runs"), counted(profile.samples[last], "sample", "samples"));
    TextTable table({{"layer", Align::left}, {"forward"}, {"backward"}, {"change"}});
    double before = 0;
    double after = 0;
    for (std::size_t l = 0; l < profile.layers.size(); ++l) {
        const LayerProfile& layer = profile.layers[l];
        before += pass_ns(earlier.layers[l], last);
        after += pass_ns(layer, last);
        table.add_row({layer.name, format_duration(whole_ns(layer.forward_ns[last])),
                       format_duration(whole_ns(layer.backward_ns[last])),
                       change(pass_ns(earlier.layers[l], last), pass_ns(layer, last))});
    }
    return text + table.str() + fmt::format("\nall layers: {}\n", change(before, after));
}

/// Warns of sizes of the run's micro-batches that the profile lacks.
void warn_of_sizes(const Profile& earlier, const CalibrationTrace& trace, std::vector<std::string>& warnings) {
    const std::vector<std::int64_t> sizes = micro_batch_sizes(*trace.run().options);
    for (const std::int64_t size : std::set(sizes.begin(), sizes.end())) {
        if (std::ranges::find(earlier.samples, size) == earlier.samples.end()) {
            warnings.push_back(fmt::format(
                "{} has micro-batches of {}, which the earlier profile does not hold: its times between or outside the "
                "sizes it holds are scaled; profile that size, too",
                trace.name(), counted(size, "sample", "samples")));
        }
    }
}

ExitCode calibrate(const TraceProfileFlags& flags) {
    for (const auto& [option, given] : {std::pair{"--from-trace", !flags.traces.empty()},
                                        {"--steps", !flags.steps.empty()},
                                        {"--micro-batch-size", flags.micro_batch_size.has_value()},
                                        {"--task-rules", !flags.rules.empty()}}) {
        if (given) {
            throw UsageError(
                fmt::format("{} is given with {}, which takes whole runs of PipeScope; leave one of the two out",
                            option, option_name("calibrate")));
        }
    }
    std::vector<std::unique_ptr<CalibrationTrace>> traces;
    std::vector<CalibrationRun> runs;
    std::vector<std::string> warnings;
    std::size_t steps = 0;
    for (const std::string& file : flags.runs) {
        traces.push_back(std::make_unique<CalibrationTrace>(file));
        runs.push_back(traces.back()->view());
        steps += runs.back().steps.size();
    }
    const CheckedProfile earlier = flags.earlier.empty() ? *traces.front()->run().profile : load_profile(flags.earlier);
    for (const auto& trace : traces) {
        if (const std::string why = why_not_of_one_model(earlier, *trace->run().profile); !why.empty()) {
            throw UsageError(fmt::format(
                "{} {}; a calibration scales the layers of the model that ran; give a run and a profile of one model",
                trace->name(), why));
        }
        const std::vector<std::string> of_trace = texts_of(trace->run().warnings);
        warnings.insert(warnings.end(), of_trace.begin(), of_trace.end());
        warn_of_sizes(earlier, *trace, warnings);
    }
    const CheckedProfile profile = calibrated_profile(earlier, runs);
    if (!flags.output.empty()) {
        write_output(flags.output, flags.force, to_json(profile));
    }
    std::cout << (flags.json ? to_json(profile) : calibration_text(earlier, profile, runs.size(), steps));
    print_warnings(warnings);
    return ExitCode::success;
}
}  // namespace

ExitCode profile_from_trace(const TraceProfileFlags& flags) {
    if (!flags.output.empty()) {
        check_output(flags.output, flags.force);
    }
    if (!flags.runs.empty()) {
        return calibrate(flags);
    }
    if (!flags.earlier.empty()) {
        throw UsageError(option_name("profile") + " is given without " + option_name("calibrate") +
                         "; it is the profile to calibrate; add " + option_name("calibrate") + " RUN");
    }
    const TraceProfile made = measured_profile(flags);
    if (!flags.output.empty()) {
        write_output(flags.output, flags.force, to_json(made.profile));
    }
    std::cout << (flags.json ? to_json(made.profile) : trace_profile_text(made, flags));
    print_warnings(made.notes);
    return ExitCode::success;
}

void add_trace_profile_command(Program& program) {
    const auto flags = std::make_shared<TraceProfileFlags>();
    CLI::App* command = program.add_command("profile", "Measure what each layer of a model costs in time and memory",
                                            "Example:\n  pipescope profile --from-trace traces/ -o p.json");
    add_trace_profile_options(*command, *flags);
    add_option(*command, "-o,--output", flags->output, "Profile file to write", "FILE", "Output");
    add_force_flag(*command, flags->force);
    command->add_flag("--json", flags->json, "Print the profile itself, as the file holds it")->group("Output");
    program.set_action(command, [flags] { return profile_from_trace(*flags); });
}

bool asks_for_trace_profile(const std::vector<std::string>& arguments) {
    return !arguments.empty() && arguments.front() == "profile" &&
           std::ranges::any_of(arguments, [](const std::string& word) {
               return std::ranges::any_of(std::array{kFromTrace, kCalibrate}, [&word](const std::string& option) {
                   return word == option || word.starts_with(option + "=");
               });
           });
}
}  // namespace pipescope
