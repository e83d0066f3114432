#include "cli/profile_from_trace.h"

#include "analysis/trace_profile.h"
#include "balance/profile_file.h"
#include "cli/joined_trace.h"
#include "cli/output_file.h"
#include "cli/pipeline_flags.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "schedule/error.h"
#include "schedule/printable.h"
#include "simulator/number_ranges.h"
#include "trace/open_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>

namespace pipescope {
namespace {
constexpr const char* kFromTrace = "--from-trace";

Nanoseconds whole_ns(double ns) {
    return Nanoseconds{std::llround(ns)};
}

/// Keeps the named steps. Throws UsageError for one that cannot be measured.
void keep_steps(const std::string& text, MeasuredSteps& steps) {
    const std::vector<std::int64_t> wanted = parse_whole_numbers(text, "--steps", 0);
    const std::vector<std::int32_t> all = steps.numbers();
    for (const std::int64_t number : wanted) {
        if (std::ranges::find(all, number) == all.end()) {
            throw UsageError(fmt::format(
                "--steps names step {}; a profile is measured from recorded steps without warm-up, which are {}; "
                "choose among them",
                number, fmt::join(all, ", ")));
        }
    }
    std::erase_if(steps.steps,
                  [&](const StepRecord& step) { return std::ranges::find(wanted, step.step) == wanted.end(); });
}

/// The command that simulates the recorded pipeline from the profile.
std::string simulate_command_of(const std::string& file, const PipelineOptions& options) {
    std::string line =
        fmt::format("pipescope simulate {} --balance {} -m {} --batch {} --checkpoint {} --schedule {}",
                    shell_word(file), fmt::join(options.balance.layers_per_partition(), ","), options.chunks,
                    options.batch, to_string(options.checkpoint), to_string(options.schedule));
    if (options.schedule == Schedule::gpipe && options.backward_order == BackwardOrder::first_first) {
        line += " --backward first-first";
    }
    if (!options.placement.empty()) {
        std::vector<std::int32_t> lanes;
        for (const LaneId lane : options.placement) {
            lanes.push_back(lane.value());
        }
        line += fmt::format(" --placement {}", fmt::join(lanes, ","));
    }
    const Link& link = options.hardware.link;
    if (link.bytes_per_second > 0) {
        line += fmt::format(" --link-bandwidth {:.0f}kB/s", link.bytes_per_second / 1e3);
    }
    if (link.latency_ns > 0) {
        line += fmt::format(" --link-latency {:.0f}ns", link.latency_ns);
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
    // The size that the run's micro-batches have, or the nearest.
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
            : fmt::format("; the table shows {}, the nearest size of the profile, whose times "
                          "are scaled to the run",
                          profile.samples[last]));
    TextTable table({{"layer", Align::left}, {"forward"}, {"backward"}, {"of it weights"}, {"output"}});
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
        throw UsageError(fmt::format("--micro-batch-size is {}; a micro-batch has a sample or more; use 1 or more",
                                     *flags.micro_batch_size));
    }
    const JoinedTrace joined(with_files_of_folders(flags.traces), flags.rules);
    const OpenedTrace trace = open_trace(joined.path(), {.tracks = false});
    const RecordedRun run = recorded_run(trace);
    if (flags.micro_batch_size && !run.of_another_program) {
        throw UsageError(
            fmt::format("--micro-batch-size is {} for a trace of PipeScope, which says its size; leave it out",
                        *flags.micro_batch_size));
    }
    if (!run.why_not_simulated.empty() && !run.of_another_program) {
        throw TraceFormatError(joined.name() + " " + run.why_not_simulated);
    }
    MeasuredSteps steps = steps_to_compare(run, steps_in_time(trace.measured));
    if (!flags.steps.empty()) {
        keep_steps(flags.steps, steps);
    }
    try {
        TraceProfile made = profile_of_trace(run, trace.measured, steps, flags.micro_batch_size);
        const std::vector<std::string> warnings = texts_of(run.warnings);
        made.notes.insert(made.notes.begin(), warnings.begin(), warnings.end());
        return made;
    } catch (const UsageError&) {
        throw;
    } catch (const Error& error) {
        throw TraceFormatError(joined.name() + " " + error.what());
    }
}

ExitCode profile_from_trace(const TraceProfileFlags& flags) {
    if (!flags.output.empty()) {
        check_output(flags.output, flags.force);
        for (const std::string& trace : flags.traces) {
            check_not_input(flags.output, trace);
        }
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
               return word == kFromTrace || word.starts_with(std::string(kFromTrace) + "=");
           });
}
}  // namespace pipescope
