#include "answers/change_check.h"

#include "analysis/trace_warnings.h"
#include "answers/or_null.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/sample_statistics.h"
#include "profiler/profile/profile_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;
using Value = double CheckedTurn::*;

std::vector<double> values_of(const CheckedSide& side, Value value) {
    std::vector<double> values;
    for (const CheckedTurn& turn : side.turns) {
        values.push_back(turn.*value);
    }
    return values;
}

/// Spread of the turns' means, relative to their mean; empty for one turn.
std::optional<double> spread_of(const std::vector<double>& values) {
    return values.size() < 2 ? std::nullopt : std::optional(standard_deviation(values) / mean_of(values));
}

/// The mean of the turns that have the value; empty if none has.
template <class Get>
std::optional<double> mean_known(const CheckedSide& side, Get&& get) {
    std::vector<double> values;
    for (const CheckedTurn& turn : side.turns) {
        if (const std::optional<double> value = get(turn)) {
            values.push_back(*value);
        }
    }
    return values.empty() ? std::nullopt : std::optional(mean_of(values));
}
std::optional<double> bubble_of(const CheckedSide& side) {
    return mean_known(side, [](const CheckedTurn& turn) { return turn.bubble; });
}
std::optional<double> loss_of(const CheckedSide& side) {
    return mean_known(side, [](const CheckedTurn& turn) { return turn.loss; });
}
Bytes peak_of(const CheckedSide& side) {
    return std::ranges::max(side.turns, {}, &CheckedTurn::peak).peak;
}
std::optional<double> taken_of(const CheckedSide& side) {
    return mean_known(side, [](const CheckedTurn& turn) {
        return turn.load ? std::optional(turn.load->others + turn.load->stolen) : std::nullopt;
    });
}

Json side_json(const CheckedSide& side) {
    const std::vector<double> steps = values_of(side, &CheckedTurn::step);
    const std::vector<double> walls = values_of(side, &CheckedTurn::wall_step);
    Json object{{"command", side.command},
                {"batch", side.batch},
                {"step_mean_ns", std::llround(mean_of(steps))},
                {"step_spread", or_null(spread_of(steps))},
                {"wall_step_mean_ns", std::llround(mean_of(walls))},
                {"wall_step_spread", or_null(spread_of(walls))},
                {"bubble_fraction", or_null(bubble_of(side))},
                {"highest_peak_bytes", peak_of(side)},
                {"loss", or_null(loss_of(side))},
                {"turns", Json::array()}};
    for (const CheckedTurn& turn : side.turns) {
        object["turns"].push_back({{"steps", turn.steps},
                                   {"step_mean_ns", std::llround(turn.step)},
                                   {"step_deviation_ns", std::llround(turn.step_deviation)},
                                   {"wall_step_mean_ns", std::llround(turn.wall_step)},
                                   {"bubble_fraction", or_null(turn.bubble)},
                                   {"peak_bytes", turn.peak},
                                   {"loss", or_null(turn.loss)},
                                   {"load", load_json(turn.load)}});
    }
    return object;
}

Json ratio_json(const PairedRatio& ratio) {
    const bool known = ratio.pairs > 1;
    return {{"ratio", ratio.ratio},
            {"low", known ? Json(ratio.low) : Json(nullptr)},
            {"high", known ? Json(ratio.high) : Json(nullptr)},
            {"distinct", ratio.is_distinct()}};
}

std::string spread_text(const std::vector<double>& values) {
    const std::optional<double> spread = spread_of(values);
    return spread ? " +- " + format_percent(*spread) : "";
}

std::string interval_text(const PairedRatio& ratio) {
    return ratio.pairs < 2
               ? "unknown"
               : fmt::format("{} to {}", format_error_percent(ratio.low - 1), format_error_percent(ratio.high - 1));
}

std::vector<std::string> time_row(const ChangeCheck& check, std::string name, Value value, const PairedRatio& ratio) {
    const auto cell = [value](const CheckedSide& side) {
        const std::vector<double> values = values_of(side, value);
        return format_duration(Nanoseconds{std::llround(mean_of(values))}) + spread_text(values);
    };
    return {std::move(name), cell(check.before), cell(check.after),
            format_error_percent(ratio.ratio - 1) + (check.per_sample ? " per sample" : ""), interval_text(ratio)};
}

template <class Format>
std::string known_text(const std::optional<double>& value, Format&& format) {
    return value ? format(*value) : "unknown";
}

std::string figures_text(const ChangeCheck& check) {
    TextTable table({{"", Align::left}, {"before"}, {"after"}, {"change"}, {"95 % interval"}});
    table.add_row(time_row(check, "step time", &CheckedTurn::step, check.step));
    table.add_row(time_row(check, "wall step time", &CheckedTurn::wall_step, check.wall_step));
    const std::optional<double> before = bubble_of(check.before);
    const std::optional<double> after = bubble_of(check.after);
    table.add_row({"bubble", known_text(before, format_percent), known_text(after, format_percent),
                   before && after ? format_points(*after - *before) : "", ""});
    const double peak = static_cast<double>(peak_of(check.before));
    table.add_row({"highest peak memory", format_bytes(peak_of(check.before)), format_bytes(peak_of(check.after)),
                   peak > 0 ? format_error_percent(static_cast<double>(peak_of(check.after)) / peak - 1) : "", ""});
    const auto four_digits = [](double loss) { return fmt::format("{:.4f}", loss); };
    table.add_row({"loss of the last step", known_text(loss_of(check.before), four_digits),
                   known_text(loss_of(check.after), four_digits), "", ""});
    return table.str();
}

std::string judged_name(const ChangeCheck& check) {
    const std::string name = check.judged == CheckedTime::step ? "step" : "wall step";
    return check.per_sample ? name + ", per sample," : name;
}

/// The verdict as a sentence, and what would decide.
std::string verdict_text(const ChangeCheck& check) {
    const PairedRatio& ratio = check.judgement();
    const double change = ratio.ratio - 1;
    const std::string size = fmt::format("the {} takes {} {}", judged_name(check), format_percent(std::abs(change)),
                                         change < 0 ? "less time" : "more time");
    if (ratio.pairs < 2) {
        return fmt::format("not decided: {} in one round, and the noise of one round is not known; run two or more\n",
                           size);
    }
    if (ratio.is_distinct()) {
        return fmt::format("the change is {}: {} (95 % interval of the change: {})\n", check.verdict(), size,
                           interval_text(ratio));
    }
    std::string text = fmt::format("cannot be told apart: {}, and the 95 % interval, {}, includes no change\n", size,
                                   interval_text(ratio));
    if (const std::optional<std::int64_t> more = check.more_rounds()) {
        const std::int64_t steps = *more * check.steps_per_turn();
        text += fmt::format(
            "about {} ({} of each after the warm-up) would decide, if the difference and the noise stay: --rounds {}\n",
            counted(*more, "more round", "more rounds"), counted(steps, "more step", "more steps"),
            check.rounds + *more);
    } else {
        text += fmt::format(
            "no practical number of rounds would decide: the difference is too small for the noise; a difference of "
            "{} or more would have shown\n",
            format_percent(ratio.least_change()));
    }
    return text;
}

std::string cautions_text(const ChangeCheck& check) {
    std::string text;
    const std::optional<double> before = taken_of(check.before);
    const std::optional<double> after = taken_of(check.after);
    if (before && after && std::max(*before, *after) > kNotableLoad) {
        text += fmt::format(
            "other programs and the host took {} of the cores' time before and {} after; that noise widens the "
            "interval\n",
            format_percent(*before), format_percent(*after));
    }
    if (check.judged == CheckedTime::wall_step) {
        text +=
            "the wall step decides: staggered steps include the update of the parameters, and synchronous ones do "
            "not\n";
    }
    if (check.per_sample) {
        text += fmt::format("the batch was {} and is {}; the time per sample decides\n",
                            counted(check.before.batch, "sample", "samples"),
                            counted(check.after.batch, "sample", "samples"));
    }
    return text;
}
}  // namespace

void add_turn(CheckedSide& side, const nlohmann::json& output) {
    CheckedTurn turn;
    std::vector<double> steps;
    std::vector<double> walls;
    for (const nlohmann::json& step : output.at("steps")) {
        if (!step.at("warmup").get<bool>()) {
            steps.push_back(step.at("step_ns").get<double>());
            walls.push_back(step.at("wall_step_ns").get<double>());
        }
    }
    if (steps.empty()) {
        throw Error(side.command +
                    " measured no step after its warm-up; a check compares those steps; run more with --steps");
    }
    turn.steps = static_cast<std::int64_t>(steps.size());
    turn.step = mean_of(steps);
    turn.step_deviation = standard_deviation(steps);
    turn.wall_step = mean_of(walls);
    if (!(turn.step > 0 && turn.wall_step > 0)) {
        throw Error(side.command + " measured steps of no length; a check compares times; use a larger model or batch");
    }
    if (const nlohmann::json& bubble = output.at("bubble_fraction"); !bubble.is_null()) {
        turn.bubble = bubble.get<double>();
    }
    for (const nlohmann::json& lane : output.at("lanes")) {
        turn.peak = std::max(turn.peak, lane.at("peak_bytes").get<Bytes>());
    }
    // Layers that only wait have no loss, which is recorded as 0.
    if (const nlohmann::json& loss = output.at("steps").back().at("loss"); !loss.is_null() && loss != 0) {
        turn.loss = loss.get<double>();
    }
    if (const nlohmann::json& load = output.at("load"); !load.is_null()) {
        turn.load = parse_load(load.dump());
    }
    side.batch = output.at("batch").get<std::int64_t>();
    side.update = output.at("update").get<std::string>();
    side.turns.push_back(turn);
}

std::string ChangeCheck::verdict() const {
    return !judgement().is_distinct() ? "cannot be told apart" : judgement().ratio < 1 ? "faster" : "slower";
}

std::optional<std::int64_t> ChangeCheck::more_rounds() const {
    const std::optional<int> all = judgement().pairs_to_decide();
    return all ? std::optional(*all - rounds) : std::nullopt;
}

std::int64_t ChangeCheck::steps_per_turn() const {
    std::int64_t most = 0;
    for (const CheckedSide* side : {&before, &after}) {
        for (const CheckedTurn& turn : side->turns) {
            most = std::max(most, turn.steps);
        }
    }
    return most;
}

ChangeCheck checked_change(CheckedSide before, CheckedSide after) {
    ChangeCheck check{std::move(before), std::move(after)};
    check.rounds = static_cast<std::int64_t>(check.before.turns.size());
    check.judged = check.before.update == check.after.update ? CheckedTime::step : CheckedTime::wall_step;
    check.per_sample = check.before.batch != check.after.batch;
    const auto ratio = [&check](Value value) {
        std::vector<double> then = values_of(check.before, value);
        std::vector<double> now = values_of(check.after, value);
        for (double& each : then) {
            each /= static_cast<double>(check.before.batch);
        }
        for (double& each : now) {
            each /= static_cast<double>(check.after.batch);
        }
        return paired_ratio(then, now);
    };
    check.step = ratio(&CheckedTurn::step);
    check.wall_step = ratio(&CheckedTurn::wall_step);
    return check;
}

Json change_check_json(const ChangeCheck& check) {
    const std::optional<std::int64_t> more = check.more_rounds();
    Json object{{"before", side_json(check.before)},
                {"after", side_json(check.after)},
                {"rounds", check.rounds},
                {"judged_by", check.judged == CheckedTime::step ? "step_ns" : "wall_step_ns"},
                {"per_sample", check.per_sample},
                {"step", ratio_json(check.step)},
                {"wall_step", ratio_json(check.wall_step)},
                {"verdict", check.verdict()},
                {"more_rounds", or_null(more)},
                {"more_steps", more ? Json(*more * check.steps_per_turn()) : Json(nullptr)},
                {"least_change", check.rounds > 1 ? Json(check.judgement().least_change()) : Json(nullptr)}};
    if (check.interrupted) {
        object["interrupted"] = true;
    }
    return object;
}

std::string change_check_text(const ChangeCheck& check) {
    return fmt::format("before: {}\nafter:  {}\n{}, each of both runs in turns, {} after the warm-up in a run\n\n",
                       check.before.command, check.after.command, counted(check.rounds, "round", "rounds"),
                       counted(check.steps_per_turn(), "step", "steps")) +
           figures_text(check) + "\n" + verdict_text(check) + cautions_text(check) +
           (check.interrupted ? "interrupted: the rounds so far\n" : "") +
           "test: paired t-test of the logarithms of the rounds' ratios; +- is the standard deviation of the runs' "
           "means\n";
}
}  // namespace pipescope
