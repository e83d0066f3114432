#include "answers/advise_answer.h"

#include "analysis/trace_comparison.h"
#include "analysis/two_runs.h"
#include "answers/advice_report.h"
#include "answers/pipeline_rows.h"
#include "answers/profile_again.h"
#include "answers/reports.h"
#include "base/error.h"
#include "schedule/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace pipescope {
AdviseQuestion::AdviseQuestion() {
    add_simulated_pipeline_options(options, pipeline);
}

namespace {
/// The move's changes, plus options that the command left to assumptions and that the changes may invalidate.
std::vector<OptionText> pinned_options(const EstimatedPipeline& pipeline, const Move& move, bool has_device_type) {
    std::vector<OptionText> options = move.changes;
    const Hardware& hardware = move.simulation.options.hardware;
    const auto pin = [&](const std::string& option, const std::string& value) {
        if (std::ranges::find(options, option, &OptionText::option) == options.end()) {
            options.push_back({option, value});
        }
    };
    const PipelineOptions& moved = move.simulation.options;
    if (pipeline.options.schedule.file() && !moved.schedule.file()) {  // only the file has these
        pin("chunks", std::to_string(moved.chunks));
        pin("checkpoint", to_string(moved.checkpoint));
    }
    for (const Assumption& each : pipeline.assumptions) {
        pin(each.option, each.option == "devices" ? fmt::format("{}", fmt::join(hardware.devices, ",")) : each.value);
    }
    if (has_device_type) {
        std::erase_if(options, [](const OptionText& each) { return each.option == "devices"; });
        // Without a link, the device type's link would be assumed.
        for (OptionText& each : options) {
            each.value = each.option == "link-bandwidth" && each.value.empty() ? "1000000000GB/s" : each.value;
        }
    } else if (hardware.devices.empty() && measured_on_host(pipeline.profile)) {
        // A move may drop the link; without it, the lanes would be assumed to be on the host's cores.
        std::string devices;
        for (int lane = 0; lane < num_lanes(move.simulation.options); ++lane) {
            devices += (lane == 0 ? "" : ",") + device_of(hardware, LaneId{lane});
        }
        pin("devices", devices);
    }
    return options;
}

/// The command that simulates the move: the given options with its changes.
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
Advice complete_advice(const CheckedProfile& profile, const PipelineOptions& options, const AdviceProgress& progress) {
    const auto show = [&progress](double done) {
        progress(done);
        return false;
    };
    Advice advice = advise(profile, options, [&show] { return show(0); });
    double tried = 0;
    add_noise(profile, advice, [&] { return show(tried++ / static_cast<double>(advice.moves.size())); });
    return advice;
}

/// The command that checks the first move by runs; empty if that is no real one, or does not help.
std::string first_check(const Advice& advice, const std::string& model, const std::string& trace) {
    const bool is_real = !advice.moves.empty() && helps(advice.moves.front().effect) &&
                         !advice.moves.front().hypothetical && !model.empty();
    return is_real ? check_command(advice, advice.moves.front(), model, trace) : "";
}
}  // namespace

AdviseAnswer advise_answer(const AdviseQuestion& question, const std::string& file, const CheckedProfile& profile,
                           const AdviceProgress& progress) {
    require_pipeline(question.options, question.pipeline.options.schedule);
    const PipelineOptions options = simulated_pipeline_options(question.pipeline);
    check_options(options, profile->layers.size());
    const EstimatedPipeline pipeline =
        simulated_pipeline(question.pipeline, options, profile, file, num_lanes(options));
    AdviseAnswer answer;
    answer.advice = complete_advice(pipeline.profile, pipeline.options, progress);
    for (const Move& move : answer.advice.moves) {
        const bool has_device_type = !question.pipeline.device_types.empty();
        answer.commands.push_back(command_of(question.options, file, pinned_options(pipeline, move, has_device_type)));
    }
    answer.assumptions = pipeline.assumptions;
    answer.profile_command = pipeline.profile_command;
    return answer;
}

namespace {
/// Compares the run as `compare` does. `base` has the noise. Without measured tasks, has only the run's warnings.
RunComparison compared_with(LoadedRun& loaded, const Simulation& base) {
    std::optional<Simulation> simulation = simulate_run(loaded.run, false);
    if (!simulation || loaded.trace.measured.slices.empty()) {
        return {std::nullopt, 0, loaded.run.warnings, {}};
    }
    simulation->noise = base.noise;
    return compare_run(loaded.tasks(), &*simulation);
}
}  // namespace

AdviseAnswer advise_answer(const AdviseQuestion& question, const std::string& name, LoadedRun loaded,
                           const AdviceProgress& progress) {
    for (const OptionRow& row : question.options.rows()) {
        if (row.given && row.name != "memory-limit") {
            throw UsageError(
                fmt::format("{} is given with a trace, which says what was run; leave it out, or give the "
                            "profile and all options of the pipeline",
                            option_name(row.short_name.empty() ? row.name : row.short_name + "," + row.name)));
        }
    }
    const RecordedRun& run = loaded.run;
    if (!run.why_not_simulated.empty()) {
        throw TraceFormatError(name + " " + run.why_not_simulated);
    }
    PipelineOptions options = options_as_recorded(run);
    if (question.options.is_given("memory-limit")) {
        options.hardware.memory_limit = question.pipeline.options.hardware.memory_limit;
        options.hardware.memory_limits = question.pipeline.options.hardware.memory_limits;
    }
    AdviseAnswer answer;
    answer.batch_known = !is_batch_unknown(run);
    Advice& advice = answer.advice;
    advice = complete_advice(*run.profile, options, progress);
    const bool is_measured = !loaded.trace.measured.slices.empty();
    const RunComparison compared = compared_with(loaded, advice.base);
    answer.warnings = texts_of(compared.warnings);
    advice.model_error = judged_model_error(compared);
    if (!advice.model_error && is_measured) {
        const std::string why = why_no_bubbles(compared.warnings);
        answer.warnings.push_back(
            "the error of the simulation on this run is not known, and no change is judged by it: " +
            (why.empty() ? "the file " + compared.why_none : why));
    }
    if (is_measured && !run.on_cluster && !run.of_another_program && number_of_processes(loaded) == 1) {
        answer.check_command = first_check(advice, run.model, name);
    }
    if (run.on_cluster) {
        add_rest_of_step(advice, *run.on_cluster, *run.options);
        advice.base.options = as_counted(run, std::move(advice.base.options));
        for (Move& move : advice.moves) {
            move.simulation.options = as_counted(run, std::move(move.simulation.options));
        }
        answer.warnings.push_back(
            "the trace holds " + part_text(*run.on_cluster) +
            "; steps and rates are those of whole steps, in which what follows the pipeline is kept; bubbles are "
            "those of the pipeline");
        leave_out_unknown(advice, *run.on_cluster, *run.options, *run.profile);
    }
    return answer;
}

nlohmann::ordered_json to_json(const AdviseAnswer& answer) {
    nlohmann::ordered_json object = advice_json(answer.advice, answer.commands, answer.batch_known);
    object["assumed"] = assumptions_json(answer.assumptions);
    return object;
}

std::string to_text(const AdviseAnswer& answer) {
    const bool is_outside = answer.advice.base.extrapolated && !answer.profile_command.empty();
    return advice_text(answer.advice, answer.commands) +
           (answer.check_command.empty() ? "" : "to check the first by runs: " + answer.check_command + "\n") +
           (is_outside ? extrapolation_text(answer.profile_command) : "") + assumptions_text(answer.assumptions);
}
}  // namespace pipescope
