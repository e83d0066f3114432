#include "analysis/load_run.h"
#include "analysis/trace_comparison.h"
#include "analysis/trace_profile.h"
#include "answers/advice_report.h"
#include "answers/asked_pipeline.h"
#include "answers/pipeline_rows.h"
#include "answers/profile_again.h"
#include "answers/reports.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/joined_trace.h"
#include "cli/option_flags.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "profiler/profile/profile_file.h"
#include "schedule/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
struct AdviseFlags {
    std::vector<std::string> files;
    AskedPipeline pipeline;
    bool json = false;
};

/// Changes, and options that the command left to assumptions, which the changes may invalidate.
std::vector<OptionText> pinned_options(const EstimatedPipeline& pipeline, const Move& move, bool has_device_type) {
    std::vector<OptionText> options = move.changes;
    const Hardware& hardware = move.simulation.options.hardware;
    const auto pin = [&](const std::string& option, const std::string& value) {
        if (std::ranges::find(options, option, &OptionText::option) == options.end()) {
            options.push_back({option, value});
        }
    };
    const PipelineOptions& moved = move.simulation.options;
    if (pipeline.options.schedule.file() && !moved.schedule.file()) {  // which says these
        pin("chunks", std::to_string(moved.chunks));
        pin("checkpoint", to_string(moved.checkpoint));
    }
    for (const Assumption& each : pipeline.assumptions) {
        pin(each.option, each.option == "devices" ? fmt::format("{}", fmt::join(hardware.devices, ",")) : each.value);
    }
    if (has_device_type) {
        std::erase_if(options, [](const OptionText& each) { return each.option == "devices"; });
        // Without a link, that of the device type would be assumed.
        for (OptionText& each : options) {
            each.value = each.option == "link-bandwidth" && each.value.empty() ? "1000000000GB/s" : each.value;
        }
    } else if (hardware.devices.empty() && measured_on_host(pipeline.profile)) {
        // Without a link, the lanes would be assumed on the host's cores.
        std::string devices;
        for (int lane = 0; lane < num_lanes(move.simulation.options); ++lane) {
            devices += (lane == 0 ? "" : ",") + device_of(hardware, LaneId{lane});
        }
        pin("devices", devices);
    }
    return options;
}

/// The command that simulates the move: the options as given, with its changes.
std::string command_of(const OptionTable& table, const std::string& file, const std::vector<OptionText>& changes) {
    std::string line = "pipescope simulate " + shell_word(file);
    for (const OptionRow& row : table.rows()) {
        if (row.given && std::ranges::find(changes, row.name, &OptionText::option) == changes.end()) {
            line += (row.short_name.empty() ? " --" + row.name : " -" + row.short_name) +
                    (row.is_flag() ? "" : " " + shell_word(*row.given));
        }
    }
    for (const OptionText& each : changes) {
        line += command_words(each, shell_word);
    }
    return line;
}

void require_pipeline(const OptionTable& table, const Schedule& schedule) {
    for (const std::string_view name : {"balance", "chunks", "batch"}) {
        const bool is_in_file = name == "chunks" && schedule.file() != nullptr;
        if (!table.is_given(name) && !is_in_file) {
            throw UsageError(fmt::format(
                "{} is missing; a profile holds the costs of layers and no pipeline; give {}, {} and {}, or a trace of "
                "'pipescope run --trace'",
                option_name(name), option_name("balance"), option_name("m,chunks"), option_name("batch")));
        }
    }
}

/// With noise, which takes hundreds of simulations for each move.
Advice complete_advice(const Profile& profile, const PipelineOptions& options) {
    ProgressBar bar("trying changes of " + profile.model);
    const auto show = [&bar](double done) {
        bar.show(done);
        return false;
    };
    Advice advice = advise(profile, options, [&show] { return show(0); });
    double tried = 0;
    add_noise(profile, advice, [&] { return show(tried++ / static_cast<double>(advice.moves.size())); });
    return advice;
}

ExitCode advise_on_profile(const AdviseFlags& flags, const OptionTable& table) {
    require_pipeline(table, flags.pipeline.options.schedule);
    const std::string& file = flags.files.front();
    const PipelineOptions options = simulated_pipeline_options(flags.pipeline);
    Profile profile = load_profile(file);
    check_options(options, profile.layers.size());
    const EstimatedPipeline pipeline =
        simulated_pipeline(flags.pipeline, options, std::move(profile), file, num_lanes(options));
    const Advice advice = complete_advice(pipeline.profile, pipeline.options);
    std::vector<std::string> commands;
    for (const Move& move : advice.moves) {
        const bool has_device_type = !flags.pipeline.device_types.empty();
        commands.push_back(command_of(table, file, pinned_options(pipeline, move, has_device_type)));
    }
    if (flags.json) {
        auto object = advice_json(advice, commands);
        object["assumed"] = assumptions_json(pipeline.assumptions);
        std::cout << dump(object);
    } else {
        std::cout << advice_text(advice, commands)
                  << (advice.base.extrapolated ? extrapolation_text(pipeline.profile_command) : "")
                  << assumptions_text(pipeline.assumptions);
    }
    return advice.base.feasible ? ExitCode::success : ExitCode::infeasible;
}

/// What `compare` says of the run. `base` has the noise. Without measured tasks, only the run's own warnings.
RunComparison compared_with(LoadedRun& loaded, const Simulation& base) {
    std::optional<Simulation> simulation = simulate_run(loaded.run, false);
    if (!simulation || loaded.trace.measured.slices.empty()) {
        return {std::nullopt, 0, loaded.run.warnings, {}};
    }
    simulation->noise = base.noise;
    return compare_run(loaded.tasks(), &*simulation);
}

ExitCode advise_on_trace(const AdviseFlags& flags, const OptionTable& table, LoadedRun loaded) {
    for (const OptionRow& row : table.rows()) {
        if (row.given && row.name != "memory-limit") {
            throw UsageError(
                fmt::format("{} is given with a trace, which says what was run; leave it out, or give the "
                            "profile and all options of the pipeline",
                            option_name(row.short_name.empty() ? row.name : row.short_name + "," + row.name)));
        }
    }
    const RecordedRun& run = loaded.run;
    if (!run.why_not_simulated.empty()) {
        throw TraceFormatError(flags.files.front() + " " + run.why_not_simulated);
    }
    PipelineOptions options = options_as_recorded(run);
    if (table.is_given("memory-limit")) {
        options.hardware.memory_limit = flags.pipeline.options.hardware.memory_limit;
        options.hardware.memory_limits = flags.pipeline.options.hardware.memory_limits;
    }
    Advice advice = complete_advice(*run.profile, options);
    const RunComparison compared = compared_with(loaded, advice.base);
    print_warnings(texts_of(compared.warnings));
    advice.model_error = judged_model_error(compared);
    if (!advice.model_error && !loaded.trace.measured.slices.empty()) {
        const std::string why = why_no_bubbles(compared.warnings);
        print_warnings({"the error of the simulation on this run is not known, and no change is judged by it: " +
                        (why.empty() ? "the file " + compared.why_none : why)});
    }
    if (run.on_cluster) {
        add_rest_of_step(advice, *run.on_cluster, *run.options);
        advice.base.options = as_counted(run, std::move(advice.base.options));
        for (Move& move : advice.moves) {
            move.simulation.options = as_counted(run, std::move(move.simulation.options));
        }
        print_warnings(
            {"the trace holds " + part_text(*run.on_cluster) +
             "; steps and rates are those of whole steps, in which what follows the pipeline is kept; bubbles are "
             "those of the pipeline"});
        leave_out_unknown(advice, *run.on_cluster, *run.options, *run.profile);
    }
    if (flags.json) {
        auto object = advice_json(advice, {}, !is_batch_unknown(run));
        object["assumed"] = nlohmann::ordered_json::object();
        std::cout << dump(object);
    } else {
        std::cout << advice_text(advice, {});
    }
    return advice.base.feasible ? ExitCode::success : ExitCode::infeasible;
}

ExitCode advise_command(const AdviseFlags& flags, const OptionTable& table) {
    const JoinedTrace joined(with_files_of_folders(flags.files));
    LoadedRun loaded = load_run(joined.path());
    return loaded.run.origin == TraceOrigin::profile ? advise_on_profile(flags, table)
                                                     : advise_on_trace(flags, table, std::move(loaded));
}
}  // namespace

void add_advise_command(Program& program) {
    const auto flags = std::make_shared<AdviseFlags>();
    CLI::App* command = program.add_command(
        "advise", "Rank the single changes that would make a pipeline faster or make it fit",
        "Examples:\n"
        "  pipescope advise out.sqlite\n"
        "  pipescope advise p.json --balance 3,3 -m 8 --batch 32 --memory-limit 16GiB\n"
        "A trace of 'pipescope run --trace' says what was run. A profile needs --balance, -m and --batch.\n"
        "Exit code 3: a lane of the pipeline itself needs more than --memory-limit.");
    command
        ->add_option("FILE", flags->files,
                     "Trace of 'pipescope run --trace', the traces of all its processes, or a profile file")
        ->required();
    const auto table =
        add_options(*command, [&](OptionTable& rows) { add_simulated_pipeline_options(rows, flags->pipeline); });
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags, table] { return advise_command(*flags, *table); });
}
}  // namespace pipescope
