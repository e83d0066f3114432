#include "answers/advice_report.h"

#include "answers/or_null.h"
#include "answers/profile_again.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "schedule/schedules.h"
#include "simulator/memory/memory_fit.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace pipescope {
namespace {
Nanoseconds saved_by(const Advice& advice, const Move& move) {
    const auto [before, after] = comparable_figures(advice.base, move.simulation);
    return before.step - after.step;
}

std::vector<std::string> row_of(std::size_t rank, const Advice& advice, const Move& move) {
    const StepFigures figures = expected_figures(move.simulation);
    return {std::to_string(rank),           move.title,
            format_duration(figures.step),  format_error_percent(relative_change(advice, move)),
            format_percent(figures.bubble), peak_text(move.simulation, highest_peak(move.simulation)),
            effect_text(advice, move),      options_text(move.changes)};
}

std::string base_text(const Simulation& base) {
    const PipelineOptions& options = base.options;
    const StepFigures figures = expected_figures(base);
    return fmt::format(
        "balance {}, batch of {} in {}, checkpoint {}, schedule {}{}\n{}\nstep time {}, bubble {}, peak memory of the "
        "fullest lane {}\n",
        to_string(options.balance), options.batch, counted(base.micro_batches, "micro-batch", "micro-batches"),
        to_string(options.checkpoint), to_string(options.schedule),
        options.update == Update::staggered ? ", staggered updates" : "", basis_text(base.dtype, options),
        format_duration(figures.step), format_percent(figures.bubble), peak_text(base, highest_peak(base)));
}

/// Summarizes the list: how many moves help, or what to do if none does.
std::string verdict_text(const Advice& advice) {
    const auto helpful = std::ranges::count_if(advice.moves, [](const Move& move) { return helps(move.effect); });
    if (!advice.base.feasible) {
        return helpful > 0 ? fmt::format("{} it fit\n", counted(helpful, "single change makes", "single changes make"))
                           : "no single change makes it fit; plan tries several at once\n";
    }
    std::string text =
        helpful > 0 ? fmt::format("{} it faster\n", counted(helpful, "single change makes", "single changes make"))
                    : "no single change makes it faster; plan tries several at once\n";
    return advice.model_error ? text + model_error_text(*advice.model_error) + "\n" : text;
}

std::string reasons_text(const Advice& advice) {
    std::string text;
    for (std::size_t k = 0; k < advice.moves.size() && helps(advice.moves[k].effect); ++k) {
        const Move& move = advice.moves[k];
        text += fmt::format("{}. {}{}\n", k + 1, move.why, move.note.empty() ? "" : fmt::format(" ({})", move.note));
    }
    return text.empty() ? "" : "\n" + text;
}

nlohmann::ordered_json model_error_json(const std::optional<ModelError>& error) {
    using Json = nlohmann::ordered_json;
    return error ? Json{{"error", error->error},
                        {"standard_error", or_null(error->standard_error)},
                        {"steps", error->steps},
                        {"least_change", error->least_change()}}
                 : Json(nullptr);
}
}  // namespace

std::string effect_text(const Advice& advice, const Move& move) {
    switch (move.effect) {
        case MoveEffect::fits: return "fits";
        case MoveEffect::faster:
            return is_within_model_error(advice, move).value_or(false) ? "faster, within the error" : "faster";
        case MoveEffect::over_limit: return "over the limit";
        case MoveEffect::none: break;
    }
    const std::string gain = is_within_noise(advice, move) ? "within noise" : "no gain";
    return move.simulation.feasible ? gain : gain + ", over the limit";
}

std::string options_text(const std::vector<OptionText>& changes) {
    std::string text;
    for (const auto& [option, value] : changes) {
        const std::string name = option == "chunks" ? "-m" : "--" + option;
        text += text.empty() ? "" : " ";
        text += value.empty() ? "no " + name : fmt::format("{} {}", name, value);
    }
    return text;
}

nlohmann::ordered_json advice_json(const Advice& advice, const std::vector<std::string>& commands, bool batch_known) {
    using Json = nlohmann::ordered_json;
    Json object{{"base", simulation_json(advice.base, batch_known)},
                {"situation", advice.situation},
                {"model_error", model_error_json(advice.model_error)},
                {"moves", Json::array()}};
    for (std::size_t k = 0; k < advice.moves.size(); ++k) {
        const Move& move = advice.moves[k];
        Json each{{"kind", to_string(move.kind)},
                  {"title", move.title},
                  {"effect", to_string(move.effect)},
                  {"step_change", relative_change(advice, move)},
                  {"saved_ns", saved_by(advice, move).count()},
                  {"highest_peak_bytes", bytes_json(move.simulation, highest_peak(move.simulation))},
                  {"hypothetical", move.hypothetical},
                  {"why", move.why},
                  {"note", move.note}};
        const std::optional<bool> hidden = is_within_model_error(advice, move);
        each["within_model_error"] = or_null(hidden);
        each["changes"] = Json::object();
        for (const auto& [option, value] : move.changes) {
            each["changes"][option] = text_or_null(value);
        }
        each["command"] = commands.empty() ? Json(nullptr) : Json(commands[k]);
        each["simulation"] = simulation_json(move.simulation, batch_known);
        object["moves"].push_back(std::move(each));
    }
    return object;
}

std::string advice_text(const Advice& advice, const std::vector<std::string>& commands) {
    TextTable table({{""},
                     {"change", Align::left},
                     {"step time"},
                     {"difference"},
                     {"bubble"},
                     {"peak memory"},
                     {"effect", Align::left},
                     {"options", Align::left}});
    for (std::size_t k = 0; k < advice.moves.size(); ++k) {
        table.add_row(row_of(k + 1, advice, advice.moves[k]));
    }
    std::string text = base_text(advice.base) + advice.situation + "\n\n" + verdict_text(advice) + "\n";
    text += advice.moves.empty() ? "no single change can run\n" : table.str();
    text += reasons_text(advice);
    if (!advice.moves.empty() && helps(advice.moves.front().effect)) {
        text += commands.empty() ? "\nthe options replace those of the recorded run\n"
                                 : fmt::format("\nto simulate the first: {}\n", commands.front());
    }
    if (advice.base.options.update == Update::staggered) {
        text += kStaggeredNote;
    }
    if (advice.base.noise) {
        text += "\nstep times and bubbles: means of steps with the profile's noise\n";
    }
    return text;
}

namespace {
bool is_option_of_run(const OptionText& each) {
    constexpr std::array<std::string_view, 10> kOptionsOfRun{
        "balance", "chunks", "batch", "checkpoint", "schedule", "update", "placement", "optimizer", "devices", "cores"};
    return std::ranges::find(kOptionsOfRun, each.option) != kOptionsOfRun.end();
}
}  // namespace

std::vector<std::string> run_words(const std::string& model, const PipelineOptions& options) {
    std::vector<std::string> words{model};
    for (const OptionText& each : option_texts(options)) {
        if (is_option_of_run(each) && !each.value.empty()) {
            words.push_back(each.option == "chunks" ? "-m" : "--" + each.option);
            words.push_back(each.value);
        }
    }
    return words;
}

std::string check_command(const Advice& advice, const Move& move, const std::string& model, const std::string& trace) {
    std::vector<OptionText> changes = move.changes;
    std::erase_if(changes, [](const OptionText& each) { return !is_option_of_run(each); });
    const Schedule& schedule = move.simulation.options.schedule;
    const bool runs = schedule != Schedule::automatic && !is_for_comparison_only(schedule);
    if (changes.empty() || !runs) {
        return {};
    }
    const std::string present = trace.empty() ? shell_words(run_words(model, advice.base.options)) : shell_word(trace);
    std::string line = "pipescope check " + present + " --";
    const bool leaves_out = std::ranges::any_of(changes, [](const OptionText& each) { return each.value.empty(); });
    if (leaves_out) {  // no option says so, and the other run has options of its own
        return line + " " + shell_words(run_words(model, move.simulation.options));
    }
    for (const OptionText& each : changes) {
        line += command_words(each, shell_word);
    }
    return line;
}
}  // namespace pipescope
