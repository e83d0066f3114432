#include "benchmarks/experiments/validation_report.h"

#include "answers/or_null.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

Json mean_and_max(const MeanAndMax& errors) {
    return {{"mean", errors.mean}, {"max", errors.max}};
}

Json candidate_json(const ValidatedCandidate& candidate) {
    const CandidateErrors errors = errors_of(candidate);
    const PipelineOptions& options = candidate.options;
    return {{"balance", options.balance.layers_per_partition()},
            {"chunks", options.chunks},
            {"batch", options.batch},
            {"checkpoint", to_string(options.checkpoint)},
            {"schedule", to_string(options.schedule)},
            {"runs", candidate.runs.size()},
            {"measured_step_ns", errors.measured_step_time.count()},
            {"simulated_step_ns", errors.simulated_step_time.count()},
            {"means", errors.is_mean},
            {"step_error", errors.step_error},
            {"bubble_error", errors.bubble_error},
            {"peak_error", or_null(errors.peak_error)},
            {"replayed_peak_error", or_null(errors.replayed_peak_error)},
            {"band_coverage", or_null(errors.band_coverage)},
            {"replay_error", or_null(errors.replay_error)},
            {"replay_with_gaps_error", or_null(errors.replay_with_gaps_error)},
            {"spread", or_null(errors.spread)},
            {"uncertainty", or_null(errors.uncertainty)}};
}

std::string percent_or_nothing(const std::optional<double>& fraction) {
    return fraction ? format_percent(*fraction) : "";
}

/// A goal's name in the verdict, and the format of its numbers.
struct GoalWords {
    const char* subject;
    const char* how;
    enum class Unit { percent, points, plain } unit = Unit::percent;
};
GoalWords words_of(const std::string& goal) {
    using enum GoalWords::Unit;
    static const std::map<std::string, GoalWords> words{
        {"step_error_mean", {"step time error", "in the mean"}},
        {"step_error_max", {"step time error", "at worst"}},
        {"bubble_error_mean", {"bubble error", "in the mean", points}},
        {"peak_error_mean", {"peak memory error", "in the mean"}},
        {"rank_correlation", {"rank correlation", "of predicted and measured throughput", plain}},
        {"regret", {"regret", "of the pipeline predicted quickest"}},
        {"replayed_peak_error_mean", {"peak memory error", "at the measured instants in the mean"}},
        {"replay_error_max", {"replay error of measured durations", "at worst"}},
        {"replay_with_gaps_error_max", {"replay error with measured gaps", "at worst"}}};
    return words.at(goal);
}

std::string number_of(double value, GoalWords::Unit unit) {
    switch (unit) {
        case GoalWords::Unit::points: return fmt::format("{:.2f} points", 100 * value);
        case GoalWords::Unit::plain: return fmt::format("{:.3f}", value);
        default: return format_percent(value);
    }
}

/// One line for each part of the goal, with the number of results of each kind.
std::string verdict(const std::vector<JudgedGoal>& goals) {
    std::string text;
    std::map<std::string, int> counts;
    for (const JudgedGoal& each : goals) {
        const GoalWords words = words_of(each.name);
        const std::string allowed =
            fmt::format("{} {}", each.at_least ? "at least" : "at most", number_of(each.allowed, words.unit));
        const char* result = !each.is_judged() ? "not judged" : each.reached() ? "reached" : "not reached";
        ++counts[result];
        text += fmt::format("{} of {} {}: {}, {}\n", words.subject, number_of(each.found, words.unit), words.how,
                            result, each.is_judged() ? "the goal is " + allowed : each.not_judged);
    }
    return text + fmt::format("goals: {} reached, {} not reached, {} not judged\n", counts["reached"],
                              counts["not reached"], counts["not judged"]);
}
}  // namespace

Json validation_json(std::span<const ValidatedCandidate> all, const ValidationGoal& goal) {
    const std::vector<ValidatedCandidate> candidates = candidates_that_ran(all);
    const ValidationSummary summary = summarize(candidates);
    Json object{{"candidates", Json::array()}};
    for (const ValidatedCandidate& each : candidates) {
        object["candidates"].push_back(candidate_json(each));
    }
    object["step_error"] = mean_and_max(summary.step_error);
    object["bubble_error"] = mean_and_max(summary.bubble_error);
    object["peak_error"] = summary.peak_error ? mean_and_max(*summary.peak_error) : Json(nullptr);
    const auto errors_or_null = [](const std::optional<MeanAndMax>& errors) {
        return errors ? mean_and_max(*errors) : Json(nullptr);
    };
    object["replayed_peak_error"] = errors_or_null(summary.replayed_peak_error);
    object["replay_error"] = errors_or_null(summary.replay_error);
    object["replay_with_gaps_error"] = errors_or_null(summary.replay_with_gaps_error);
    object["spread"] = or_null(summary.spread);
    object["uncertainty"] = or_null(summary.uncertainty);
    object["rank_correlation"] = summary.rank_correlation;
    object["regret"] = summary.regret;
    object["band_coverage"] = or_null(summary.band_coverage);
    object["load"] = load_json(summary.load);
    object["allowed_step_error"] = goal.step_error;
    const std::vector<JudgedGoal> goals = judge(summary, goal);
    object["goals"] = Json::array();
    for (const JudgedGoal& each : goals) {
        object["goals"].push_back({{"name", each.name},
                                   {"allowed", each.allowed},
                                   {"found", each.found},
                                   {"reached", each.is_judged() ? Json(each.reached()) : Json(nullptr)},
                                   {"not_judged", each.is_judged() ? Json(nullptr) : Json(each.not_judged)}});
    }
    object["reached"] = or_null(all_reached(goals));
    return object;
}

std::string validation_text(std::span<const ValidatedCandidate> all, const ValidationGoal& goal, bool markdown) {
    const std::vector<ValidatedCandidate> candidates = candidates_that_ran(all);
    TextTable rows({{"balance", Align::left},
                    {"m"},
                    {"checkpoint", Align::left},
                    {"measured step"},
                    {"simulated step"},
                    {"step error"},
                    {"bubble error"},
                    {"peak error"},
                    {"in band"},
                    {"spread"}});
    for (const ValidatedCandidate& each : candidates) {
        const CandidateErrors errors = errors_of(each);
        rows.add_row({to_string(each.options.balance), std::to_string(each.options.chunks),
                      to_string(each.options.checkpoint), format_duration(errors.measured_step_time),
                      format_duration(errors.simulated_step_time), format_error_percent(errors.step_error),
                      format_points(errors.bubble_error),
                      errors.peak_error ? format_error_percent(*errors.peak_error) : "",
                      percent_or_nothing(errors.band_coverage), percent_or_nothing(errors.spread)});
    }
    const ValidationSummary summary = summarize(candidates);
    TextTable overall({{"overall", Align::left}, {"mean"}, {"worst"}});
    overall.add_row(
        {"step time error", format_percent(summary.step_error.mean), format_percent(summary.step_error.max)});
    overall.add_row(
        {"bubble error", format_points(summary.bubble_error.mean), format_points(summary.bubble_error.max)});
    if (summary.peak_error) {
        overall.add_row(
            {"peak memory error", format_percent(summary.peak_error->mean), format_percent(summary.peak_error->max)});
    }
    const auto add_replay = [&](const std::string& title, const std::optional<MeanAndMax>& errors) {
        if (errors) {
            overall.add_row({title, format_percent(errors->mean), format_percent(errors->max)});
        }
    };
    add_replay("peak memory error at the measured instants", summary.replayed_peak_error);
    add_replay("replay of measured durations", summary.replay_error);
    add_replay("replay with measured gaps", summary.replay_with_gaps_error);
    if (summary.spread) {
        overall.add_row({"spread of equal runs", format_percent(*summary.spread), ""});
        overall.add_row({"uncertainty of the medians", format_percent(*summary.uncertainty), ""});
    }
    const auto str = [markdown](const TextTable& table) { return markdown ? table.markdown() : table.str(); };
    const ValidatedCandidate& first = candidates.front();
    return basis_text(first.runs.front().dtype, first.options) + "\n" + str(rows) + "\n" + str(overall) + "\n" +
           fmt::format(
               "rank correlation {:.3f}, regret {}{}\n", summary.rank_correlation, format_percent(summary.regret),
               summary.band_coverage
                   ? fmt::format(", {} of measured steps in the 5 to 95 % band", format_percent(*summary.band_coverage))
                   : "") +
           verdict(judge(summary, goal));
}
}  // namespace pipescope
