#include "answers/plan_report.h"

#include "answers/or_null.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "simulator/plan/plan_ranking.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace pipescope {
namespace {
std::string notes_of(const PlanCandidate& candidate) {
    std::string notes = !candidate.simulation.feasible ? "over the limit" : candidate.pareto ? "pareto" : "";
    if (candidate.simulation.extrapolated) {
        notes += notes.empty() ? "extrapolated" : ", extrapolated";
    }
    return notes;
}

/// "8 A100", or "2 x 4 A100" for two replicas.
std::string lanes_text(const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    const int replicas = simulation.options.replicas;
    return fmt::format("{}{}{}", replicas > 1 ? fmt::format("{} x ", replicas) : "", simulation.lanes.size(),
                       candidate.device_type.empty() ? "" : " " + candidate.device_type);
}

std::vector<std::string> row_of(std::size_t rank, const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    const StepFigures figures = expected_figures(simulation);
    return {std::to_string(rank),
            lanes_text(candidate),
            short_balance(simulation.options.balance),
            std::to_string(simulation.micro_batches),
            to_string(simulation.options.schedule),
            to_string(simulation.options.checkpoint),
            format_duration(figures.step),
            fmt::format("{:.2f}", figures.samples_per_second),
            format_percent(figures.waiting()),
            peak_text(simulation, highest_peak(simulation)),
            fmt::format("{:.4g}", expected_cost(candidate)),
            notes_of(candidate)};
}

std::string name_of(const PlanCandidate& candidate) {
    const PipelineOptions& options = candidate.simulation.options;
    return fmt::format("{}{}{}, {}, checkpoint {}, {}",
                       options.replicas > 1 ? fmt::format("{} replicas of ", options.replicas) : "",
                       counted(candidate.simulation.lanes.size(), "lane", "lanes"),
                       candidate.device_type.empty() ? "" : " of " + candidate.device_type,
                       counted(candidate.simulation.micro_batches, "micro-batch", "micro-batches"),
                       to_string(options.checkpoint), to_string(options.schedule));
}

/// Explains why a candidate is slower: more work, or a larger bubble. A step is a lane's mean work divided by the share
/// of the step in which it works.
std::string cause(const Simulation& best, const Simulation& next) {
    const auto [work, bubble] = step_change(best, next);
    const double points = bubble * 100;
    std::string text;
    if (work > 1.0005) {
        text = fmt::format("its lanes work {:.1f} % longer", (work - 1) * 100);
        if (num_devices(next) < num_devices(best)) {
            text += ", because they are fewer";
        } else if (next.options.checkpoint != best.options.checkpoint) {
            text += ", because of recompute";
        }
    }
    if (points > 0.05) {
        text += fmt::format("{}its bubble is {:.1f} points larger", text.empty() ? "" : ", and ", points);
    }
    return text.empty() ? "" : ": " + text;
}

/// The fastest candidate that exceeds the limit but would otherwise have won.
std::string quicker_over_the_limit(const Plan& plan) {
    const Simulation& best = plan.candidates[*plan.best].simulation;
    const PlanCandidate* quicker = nullptr;
    for (const PlanCandidate& each : plan.candidates) {
        if (!each.simulation.feasible && relative_throughput(each.simulation, best) > 1 + kPlanTie &&
            (quicker == nullptr || relative_throughput(each.simulation, quicker->simulation) > 1)) {
            quicker = &each;
        }
    }
    if (quicker == nullptr) {
        return "";
    }
    const Simulation& over = quicker->simulation;
    const Shortfall worst = shortfalls(over).front();
    return fmt::format(
        "{} would train {:.1f} % more samples per second, but needs {} on one lane, above the limit of {}\n",
        name_of(*quicker), (relative_throughput(over, best) - 1) * 100, format_bytes(worst.peak),
        format_bytes(worst.limit));
}
}  // namespace

namespace {
std::string slower_text(const PlanCandidate& best, const PlanCandidate& next) {
    const double less = 1 - relative_throughput(next.simulation, best.simulation);
    return fmt::format("the next ({}) trains {:.2f} % fewer samples per second{}", name_of(next), less * 100,
                       cause(best.simulation, next.simulation));
}
}  // namespace

// Criteria in the order of the ranking: cost if that is the goal, throughput, lanes, cost, memory.
std::string why_next_loses(const Plan& plan) {
    if (plan.candidates.size() < 2) {
        return "it is the only candidate";
    }
    const PlanCandidate& best_candidate = plan.candidates[0];
    const PlanCandidate& next_candidate = plan.candidates[1];
    const Simulation& best = best_candidate.simulation;
    const Simulation& next = next_candidate.simulation;
    if (!next.feasible) {
        return "no other candidate keeps the limits";
    }
    const double dearer = relative_cost(next_candidate, best_candidate) - 1;
    if (plan.goal == PlanGoal::cost && dearer > kPlanTie) {
        return fmt::format("the next ({}) costs {:.2f} % more per sample", name_of(next_candidate), dearer * 100);
    }
    if (relative_throughput(best, next) > 1 + kPlanTie) {
        return slower_text(best_candidate, next_candidate);
    }
    if (num_devices(next) > num_devices(best)) {
        return fmt::format("the next is as fast, on {} instead of {}", counted(num_devices(next), "lane", "lanes"),
                           num_devices(best));
    }
    if (dearer > kPlanTie) {
        return fmt::format("the next ({}) is as fast, and costs {:.2f} % more per sample", name_of(next_candidate),
                           dearer * 100);
    }
    if (highest_peak(next) > highest_peak(best)) {
        return fmt::format("the next is as fast on as many lanes, and needs {} per lane instead of {}",
                           format_bytes(highest_peak(next)), format_bytes(highest_peak(best)));
    }
    const bool equal = num_devices(next) == num_devices(best) && highest_peak(next) == highest_peak(best);
    return equal ? (best.memory_unknown ? "the next is as good in throughput and lanes"
                                        : "the next is as good in throughput, lanes and memory")
                 : fmt::format("the next ({}) is worse by less than 0.05 %", name_of(next_candidate));
}

namespace {
std::string first_line(const Plan& plan) {
    if (!plan.best) {
        return "infeasible: " + plan.infeasible_because.value_or("there is no candidate") + "\n\n";
    }
    const Simulation& best = plan.candidates[*plan.best].simulation;
    return fmt::format(
        "best: balance {}, {}{}\n{}\n{}\n", to_string(best.options.balance), name_of(plan.candidates[*plan.best]),
        plan.candidates[*plan.best].balance_is_optimal ? "; no faster balance exists for this many lanes" : "",
        why_next_loses(plan), quicker_over_the_limit(plan));
}
}  // namespace

nlohmann::ordered_json plan_json(const Plan& plan) {
    using Json = nlohmann::ordered_json;
    Json object{{"candidates", Json::array()}};
    for (const PlanCandidate& each : plan.candidates) {
        Json candidate = simulation_json(each.simulation);
        candidate["device_type"] = text_or_null(each.device_type);
        candidate["balance_is_optimal"] = each.balance_is_optimal;
        candidate["lower_bound_ns"] = bound_json(each.lower_bound_ns);
        candidate.erase("gap_above_bound");  // relative to another bound
        candidate["pareto"] = each.pareto;
        candidate["cost"] = each.cost;
        if (each.simulation.noise) {
            candidate["cost_mean"] = expected_cost(each);
        }
        candidate["num_devices"] = num_devices(each.simulation);
        object["candidates"].push_back(std::move(candidate));
    }
    object["best"] = or_null(plan.best);
    object["next_loses_because"] = plan.best ? Json(why_next_loses(plan)) : Json(nullptr);
    object["infeasible_because"] = or_null(plan.infeasible_because);
    object["remedies"] = plan.remedies;
    object["rank_by"] = to_string(plan.goal);
    object["sizes_to_profile"] = plan.sizes_to_profile;
    return object;
}

std::string short_balance(const Balance& balance) {
    constexpr std::size_t kMost = 22;
    std::string text = to_string(balance);
    if (text.size() <= kMost) {
        return text;
    }
    const std::vector<std::int64_t>& layers = balance.layers_per_partition();
    text.clear();
    for (std::size_t k = 0; k < layers.size();) {
        std::size_t end = k;
        while (end < layers.size() && layers[end] == layers[k]) {
            ++end;
        }
        text +=
            fmt::format("{}{}{}", text.empty() ? "" : ",", layers[k], end - k > 1 ? fmt::format(" x{}", end - k) : "");
        k = end;
    }
    if (text.size() > kMost) {
        const std::size_t head = text.rfind(',', kMost - 10);
        const std::size_t tail = text.find(',', text.size() - 8);
        text = text.substr(0, head + 1) + ".." + text.substr(tail);
    }
    return text;
}

namespace {
/// Explains terms and figures of the table.
std::string notes_text(const Plan& plan, const PlanTableOptions& options) {
    std::string text =
        "pareto: no other is at least as good in samples/s, lanes, memory and cost, and better in one\n" +
        fmt::format("cost: {}, of the lanes; excluding optimizer and host\n", options.cost_unit);
    if (plan.candidates.empty()) {
        return text;
    }
    const Simulation& first = plan.candidates.front().simulation;
    if (first.noise) {
        text +=
            "step time, samples/s, bubble and cost: means of steps with the profile's noise; lower ranks "
            "and pareto are found without noise\n";
    }
    if (first.estimated) {
        text += "estimated: the profile's times were not measured\n";
    }
    if (first.memory_unknown) {
        text += std::string(kMemoryUnknown) + "\n";
    }
    if (!plan.sizes_to_profile.empty()) {
        text += fmt::format(
            "extrapolated: the best has micro-batches of a size outside the profile; '{}' would include it\n",
            options.profile_command);
    }
    return text;
}
}  // namespace

std::string plan_text(const Plan& plan, const PlanTableOptions& options) {
    TextTable table({{"rank"},
                     {"lanes"},
                     {"balance", Align::left},
                     {"m"},
                     {"schedule", Align::left},
                     {"checkpoint", Align::left},
                     {"step time"},
                     {"samples/s"},
                     {"bubble"},
                     {"peak memory"},
                     {"cost"},
                     {"", Align::left}});
    const std::vector<std::size_t> shown = shown_candidates(plan, options.most);
    for (const std::size_t rank : shown) {
        table.add_row(row_of(rank + 1, plan.candidates[rank]));
    }
    std::string text = first_line(plan);
    if (!plan.candidates.empty()) {
        const Simulation& first = plan.candidates.front().simulation;
        text += basis_text(first.dtype, first.options) + "\n";
    }
    text += table.str();
    text += fmt::format("\n{} of {}; --most shows more, --json all\n", shown.size(),
                        counted(plan.candidates.size(), "candidate", "candidates"));
    return text + "m: micro-batches\n" + notes_text(plan, options);
}
}  // namespace pipescope
