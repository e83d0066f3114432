#include "cli/plan_report.h"

#include "cli/reports.h"
#include "cli/text_table.h"
#include "cli/units.h"

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

std::vector<std::string> row_of(std::size_t rank, const PlanCandidate& candidate) {
    const Simulation& simulation = candidate.simulation;
    std::string lanes = std::to_string(simulation.lanes.size());
    return {std::to_string(rank),
            candidate.device_type.empty() ? lanes : lanes + " " + candidate.device_type,
            to_string(simulation.options.balance),
            std::to_string(simulation.micro_batches),
            to_string(simulation.options.checkpoint) +
                (simulation.options.schedule == "gpipe" ? "" : " " + simulation.options.schedule),
            format_duration(simulation.step_time),
            fmt::format("{:.2f}", simulation.samples_per_second),
            format_percent(simulation.bubble_fraction),
            format_bytes(highest_peak(simulation)),
            fmt::format("{:.4g}", candidate.cost),
            notes_of(candidate)};
}

std::string name_of(const PlanCandidate& candidate) {
    const PipelineOptions& options = candidate.simulation.options;
    return fmt::format("{} lane{}{}, {} micro-batches, checkpoint {}{}", candidate.simulation.lanes.size(),
                       candidate.simulation.lanes.size() == 1 ? "" : "s",
                       candidate.device_type.empty() ? "" : " of " + candidate.device_type,
                       candidate.simulation.micro_batches, to_string(options.checkpoint),
                       options.schedule == "gpipe" ? "" : ", " + options.schedule);
}

double mean_busy(const Simulation& simulation) {
    double busy = 0;
    for (const SimulatedLane& lane : simulation.lanes) {
        busy += static_cast<double>(lane.busy.count());
    }
    return simulation.lanes.empty() ? 0 : busy / static_cast<double>(simulation.lanes.size());
}

/// A step is a lane's mean work over the share of the step it works: what is slower does more of one, or less of the
/// other.
std::string cause(const Simulation& best, const Simulation& next) {
    const double work = mean_busy(best) > 0 ? mean_busy(next) / mean_busy(best) : 1;
    const double points = (next.bubble_fraction - best.bubble_fraction) * 100;
    std::string text;
    if (work > 1.0005) {
        text = fmt::format("its lanes work {:.1f} % longer", (work - 1) * 100);
        if (next.lanes.size() < best.lanes.size()) {
            text += ", being fewer";
        } else if (next.options.checkpoint != best.options.checkpoint) {
            text += ", on recompute";
        }
    }
    if (points > 0.05) {
        text += fmt::format("{}its bubble is {:.1f} points larger", text.empty() ? "" : ", and ", points);
    }
    return text.empty() ? "" : ": " + text;
}

/// The quickest that would have won, had it fitted.
std::string quicker_over_the_limit(const Plan& plan) {
    const Simulation& best = plan.candidates[*plan.best].simulation;
    const PlanCandidate* quicker = nullptr;
    for (const PlanCandidate& each : plan.candidates) {
        if (!each.simulation.feasible && each.simulation.samples_per_second > best.samples_per_second &&
            (quicker == nullptr || each.simulation.samples_per_second > quicker->simulation.samples_per_second)) {
            quicker = &each;
        }
    }
    if (quicker == nullptr) {
        return "";
    }
    const Simulation& over = quicker->simulation;
    const std::vector<Bytes> limits = memory_limits_of(over.options, static_cast<int>(over.lanes.size()));
    std::size_t fullest = 0;  // against its limit
    for (std::size_t lane = 0; lane < limits.size(); ++lane) {
        if (over.lanes[lane].peak_bytes - limits[lane] > over.lanes[fullest].peak_bytes - limits[fullest]) {
            fullest = lane;
        }
    }
    return fmt::format(
        "{} would train {:.1f} % more samples a second, but needs {} on one lane, above the limit of {}\n",
        name_of(*quicker), (over.samples_per_second / best.samples_per_second - 1) * 100,
        format_bytes(over.lanes[fullest].peak_bytes), format_bytes(limits[fullest]));
}
}  // namespace

// In the order of the ranking: throughput, lanes, memory.
std::string why_next_loses(const Plan& plan) {
    if (plan.candidates.size() < 2 || !plan.candidates[1].simulation.feasible) {
        return "no other candidate keeps the limits";
    }
    const Simulation& best = plan.candidates[0].simulation;
    const Simulation& next = plan.candidates[1].simulation;
    if (next.samples_per_second < best.samples_per_second) {
        return fmt::format("the next ({}) trains {:.2f} % fewer samples a second{}", name_of(plan.candidates[1]),
                           (1 - next.samples_per_second / best.samples_per_second) * 100, cause(best, next));
    }
    if (next.lanes.size() > best.lanes.size()) {
        return fmt::format("the next is as quick, on {} lanes instead of {}", next.lanes.size(), best.lanes.size());
    }
    if (highest_peak(next) > highest_peak(best)) {
        return fmt::format("the next is as quick on as many lanes, and needs {} a lane instead of {}",
                           format_bytes(highest_peak(next)), format_bytes(highest_peak(best)));
    }
    return "the next is as good in throughput, lanes and memory";
}

namespace {
std::string first_line(const Plan& plan) {
    if (!plan.best) {
        return "infeasible: " + plan.infeasible_because.value_or("there is no candidate") + "\n\n";
    }
    const Simulation& best = plan.candidates[*plan.best].simulation;
    return fmt::format("best: balance {}, {}{}\n{}\n{}\n", to_string(best.options.balance),
                       name_of(plan.candidates[*plan.best]),
                       plan.candidates[*plan.best].balance_is_optimal ? "; no balance of so many lanes is faster" : "",
                       why_next_loses(plan), quicker_over_the_limit(plan));
}
}  // namespace

nlohmann::ordered_json plan_json(const Plan& plan) {
    using Json = nlohmann::ordered_json;
    Json object{{"candidates", Json::array()}};
    for (const PlanCandidate& each : plan.candidates) {
        Json candidate = simulation_json(each.simulation);
        candidate["device_type"] = each.device_type.empty() ? Json(nullptr) : Json(each.device_type);
        candidate["balance_is_optimal"] = each.balance_is_optimal;
        candidate["lower_bound_ns"] = each.lower_bound_ns;
        candidate["pareto"] = each.pareto;
        candidate["cost"] = each.cost;
        object["candidates"].push_back(std::move(candidate));
    }
    object["best"] = plan.best ? Json(*plan.best) : Json(nullptr);
    object["next_loses_because"] = plan.best ? Json(why_next_loses(plan)) : Json(nullptr);
    object["infeasible_because"] = plan.infeasible_because ? Json(*plan.infeasible_because) : Json(nullptr);
    return object;
}

std::string plan_text(const Plan& plan, std::size_t most) {
    TextTable table({{"rank"},
                     {"lanes"},
                     {"balance", Align::left},
                     {"micro-batches"},
                     {"checkpoint", Align::left},
                     {"step time"},
                     {"samples/s"},
                     {"bubble"},
                     {"peak memory"},
                     {"cost"},
                     {"", Align::left}});
    std::size_t shown = 0;
    std::size_t lower = 0;
    for (std::size_t rank = 0; rank < plan.candidates.size(); ++rank) {
        const bool is_lower = rank >= most;
        if (is_lower && (!plan.candidates[rank].pareto || lower == most)) {
            continue;
        }
        table.add_row(row_of(rank + 1, plan.candidates[rank]));
        ++shown;
        lower += is_lower ? 1 : 0;
    }
    std::string text = first_line(plan) + table.str();
    text += fmt::format("\n{} of {} candidates; --most shows more, --json all\n", shown, plan.candidates.size());
    text +=
        "pareto: none is at least as good in samples/s, lanes, memory and cost, and better in one\n"
        "cost: of the lanes for a million samples; optimizer and host outside\n";
    if (!plan.candidates.empty() && plan.candidates.front().simulation.estimated) {
        text += "estimated: the profile's times were not measured\n";
    }
    return text;
}
}  // namespace pipescope
