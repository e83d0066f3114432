#include "analysis/trace_warnings.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/printable.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "hardware/links_file.h"
#include "schedule/placement.h"
#include "simulator/pipeline_options.h"
#include "trace/foreign/rule_suggestion.h"
#include "trace/merge/merge_traces.h"
#include "trace/open_trace.h"
#include "trace/store/process_json.h"
#include "trace/store/trace_reader.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
struct MergeFlags {
    std::vector<std::string> traces;
    std::string output;
    std::string rules;
    std::vector<int> ranks;
    bool suggest = false;
    Link link{.sharing = LinkSharing::host};
    bool force = false;
    bool json = false;
};

nlohmann::ordered_json merge_json(const MergedTrace& merged, const std::string& output) {
    nlohmann::ordered_json object{{"trace", output},
                                  {"tasks", merged.tasks},
                                  {"copies", merged.copies},
                                  {"clock_bound_ns", nullptr},
                                  {"largest_shift_ns", merged.largest_shift.count()},
                                  {"processes", nlohmann::ordered_json::array()},
                                  {"warnings", merged.warnings}};
    if (const auto bound = clock_bound(merged.processes)) {
        object["clock_bound_ns"] = bound->count();
    }
    for (const MergedProcess& process : merged.processes) {
        nlohmann::ordered_json each{{"rank", process.rank}, {"host", process.host},
                                    {"pid", process.pid},   {"lanes", nlohmann::ordered_json::array()},
                                    {"bound_ns", nullptr},  {"cut_off", process.cut_off}};
        for (const LaneId lane : process.lanes) {
            each["lanes"].push_back(lane.value());
        }
        if (process.bound) {
            each["bound_ns"] = process.bound->count();
        }
        object["processes"].push_back(std::move(each));
    }
    return object;
}

/// The drift between the first and the last comparison of the clocks.
std::string drift_text(const MergedProcess& process) {
    if (process.clock.size() < 2) {
        return "";
    }
    const ClockReading& first = process.clock.front();
    const ClockReading& last = process.clock.back();
    const auto ns = [](Nanoseconds time) { return static_cast<double>(time.count()); };
    return fmt::format("{:.2f} ppm", 1e6 * ns(last.offset - first.offset) / ns(last.at - first.at));
}

std::string merge_text(const MergedTrace& merged, const std::string& output) {
    TextTable table({{"rank"},
                     {"host", Align::left},
                     {"lanes", Align::left},
                     {"clock offset"},
                     {"drift"},
                     {"bound"},
                     {"", Align::left}});
    for (const MergedProcess& process : merged.processes) {
        table.add_row({std::to_string(process.rank), process.host, placement_text(process.lanes),
                       process.clock.empty() ? "" : format_duration(process.clock.front().offset), drift_text(process),
                       process.bound ? format_duration(*process.bound) : "unknown", process.cut_off ? "cut off" : ""});
    }
    std::string text = table.str() + "\n";
    if (const auto bound = clock_bound(merged.processes)) {
        text += fmt::format("times of different processes agree within {}", format_duration(*bound));
        text += merged.largest_shift.count() == 0
                    ? "\n"
                    : fmt::format("; clocks were shifted by up to {}, so that no copy arrives before it was sent\n",
                                  format_duration(merged.largest_shift));
    } else if (merged.processes.size() > 1) {
        text += "the error between times of different processes is unknown\n";
    }
    return text + fmt::format("{}: {}, {} between processes\n", printable(output),
                              counted(merged.tasks, "task", "tasks"), counted(merged.copies, "copy", "copies"));
}

/// The run's configuration with the network between its processes; empty if no links are given.
std::string configuration_with(const MergeFlags& flags, const std::vector<std::filesystem::path>& inputs) {
    if (flags.link.times.empty()) {
        return {};
    }
    const std::optional<TraceReader> reader = TraceReader::open(inputs.front());
    const auto run = reader ? reader->run() : std::map<std::string, std::string>();
    const auto configuration = run.find("configuration");
    if (configuration == run.end()) {
        throw UsageError(fmt::format("'{}' does not say what was run, so --links changes nothing; leave it out",
                                     inputs.front().string()));
    }
    PipelineOptions options = parse_pipeline_options(configuration->second);
    options.hardware.link = flags.link;
    if (const std::optional<ProcessFacts> process = rank_of_trace(inputs.front())) {
        options.hardware.processes = process->size / options.replicas;
    }
    return to_json(options);
}

/// A warning if the written trace holds only one of several ranks.
std::vector<std::string> one_rank_warnings(const std::string& output) {
    const std::optional<TraceReader> reader = TraceReader::open(output);
    OpenedTrace trace;
    trace.run = reader ? reader->run() : std::map<std::string, std::string>();
    const std::optional<TraceWarning> warning = one_rank_warning(trace);
    return warning ? std::vector{warning->text} : std::vector<std::string>();
}

ExitCode merge_command(const MergeFlags& flags) {
    std::vector<std::filesystem::path> inputs;
    for (const std::string& trace : with_files_of_folders(flags.traces)) {
        check_not_input(flags.output, trace);
        inputs.emplace_back(trace);
    }
    MergedTrace merged;
    replace_trace(flags.output, flags.force, [&](const std::filesystem::path& beside) {
        ProgressBar bar("reading files");
        merged = merge_any(inputs, beside, IfExists::replace, configuration_with(flags, inputs), flags.rules,
                           {flags.ranks, [&](double done) { bar.show(done); }});
    });
    if (merged.tasks == 0) {
        merged.warnings.emplace_back(
            "the files hold no task of a pipeline, so the trace holds their ranges only; --task-rules finds tasks "
            "among ranges (docs/task-rules.md)");
    }
    std::ranges::move(one_rank_warnings(flags.output), std::back_inserter(merged.warnings));
    print_warnings(merged.warnings);
    std::cout << (flags.json ? dump(merge_json(merged, flags.output)) : merge_text(merged, flags.output));
    return ExitCode::success;
}

nlohmann::ordered_json suggestions_json(const std::vector<SuggestedRule>& rules) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const SuggestedRule& each : rules) {
        list.push_back({{"rule", rule_json(each)}, {"matches", each.matches}, {"example", each.example}});
    }
    return {{"suggested", std::move(list)}};
}

/// Prints rules that may fit the files' ranges, or writes them to --output.
ExitCode suggest_command(const MergeFlags& flags) {
    const TaskRules known = flags.rules.empty() ? TaskRules() : TaskRules::load(flags.rules);
    std::vector<OpenedTrace> traces;
    std::vector<std::string> warnings;
    const std::vector<std::string> files = with_files_of_folders(flags.traces);
    for (const std::string& file : files) {
        OpenOptions options;
        options.find_tasks = false;
        try {
            traces.push_back(open_trace(file, options));
        } catch (const Error& fault) {
            if (files.size() == 1) {
                throw;
            }
            warnings.push_back(fmt::format("{} is left out: {}", printable(file), fault.what()));
        }
    }
    const std::vector<SuggestedRule> rules = suggest_rules(traces, known);
    print_warnings(warnings);
    if (flags.json) {
        std::cout << dump(suggestions_json(rules));
        return ExitCode::success;
    }
    if (rules.empty()) {
        std::cout
            << "no range has a name that tells a task, such as 'forward mb 3 stage 1'; name the program's ranges, or "
               "write rules (docs/task-rules.md)\n";
        return ExitCode::success;
    }
    TextTable table({{"ranges"}, {"kind", Align::left}, {"such as", Align::left}});
    for (const SuggestedRule& each : rules) {
        std::string kinds = each.kind;
        for (const auto& [word, kind] : each.kinds) {
            kinds += (kinds.empty() ? "" : ", ") + kind;
        }
        table.add_row({std::to_string(each.matches), kinds, each.example});
    }
    std::cout << table.str();
    if (flags.output.empty()) {
        std::cout << "\n" << rules_file(rules);
    } else {
        write_output(flags.output, flags.force, rules_file(rules));
        std::cout << fmt::format("\n{}: {} for --task-rules\n", printable(flags.output),
                                 counted(rules.size(), "rule", "rules"));
    }
    return ExitCode::success;
}

ExitCode import_or_suggest(const MergeFlags& flags) {
    if (flags.suggest) {
        return suggest_command(flags);
    }
    if (flags.output.empty()) {
        throw UsageError("--output is required, unless --suggest-rules is given; see 'pipescope import --help'");
    }
    return merge_command(flags);
}

/// Adds the options that `merge` and `import` share, and returns --output. The caller describes its traces.
CLI::Option* add_merging_command(Program& program, CLI::App* command, const std::shared_ptr<MergeFlags>& flags) {
    add_task_rules_option(*command, flags->rules);
    add_ranks_option(*command, flags->ranks);
    CLI::Option* output = add_option(*command, "-o,--output", flags->output, "The trace to write", "FILE", "Output");
    add_force_flag(*command, flags->force);
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return import_or_suggest(*flags); });
    return output;
}
}  // namespace

void add_merge_command(Program& program) {
    const auto flags = std::make_shared<MergeFlags>();
    CLI::App* command =
        program.add_command("merge", "Join the traces of a run's processes into one, on one timeline",
                            "Examples:\n"
                            "  pipescope merge out.rank*.sqlite -o out.sqlite\n"
                            "  pipescope merge out.rank*.sqlite --links links.json -o out.sqlite\n"
                            "Times are those of rank 0. The error of the others' clocks is bounded, and stated.\n"
                            "'pipescope import' does this for traces of other programs.");
    command
        ->add_option("TRACE", flags->traces,
                     "Traces of all ranks of one run: of 'pipescope launch', or of PyTorch's profiler; or their folder")
        ->required();
    add_parsed(
        *command, "--links", flags->link.times, [](const std::string& file) { return load_links(file); },
        "Measured times of messages between the processes (docs/links-format.md), for the simulation that compare and "
        "view show; default: copies are free",
        "FILE", "Simulation");
    add_parsed(*command, "--link-sharing", flags->link.sharing, parse_link_sharing,
               "Which copies share bandwidth: none, sender, host (default) or all; as in simulate", "NAME",
               "Simulation")
        ->needs("--links");
    add_merging_command(program, command, flags)->required();
}

void add_import_command(Program& program) {
    const auto flags = std::make_shared<MergeFlags>();
    CLI::App* command =
        program.add_command("import", "Turn the traces of another program's ranks into one trace, on one timeline",
                            "Examples:\n"
                            "  pipescope import traces/ -o run.sqlite\n"
                            "  pipescope import traces/rank*_trace.json.gz -o run.sqlite\n"
                            "Then 'pipescope compare run.sqlite', 'pipescope advise run.sqlite' or 'pipescope view "
                            "run.sqlite'.\n"
                            "Tasks are those of torch.distributed.pipelining; --task-rules finds others.");
    command
        ->add_option(
            "TRACE", flags->traces,
            "Files that PyTorch's profiler wrote for each rank of one run, or their folder; or one trace of another "
            "program")
        ->required();
    command->add_flag("--suggest-rules", flags->suggest,
                      "Print task rules that may fit the names of the ranges, and how many ranges each matches; with "
                      "--output, write them as a file for --task-rules. Imports nothing");
    add_merging_command(program, command, flags);
}
}  // namespace pipescope
