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
    return {std::to_string(rank),
            std::to_string(simulation.lanes.size()),
            to_string(simulation.options.balance),
            std::to_string(simulation.micro_batches),
            to_string(simulation.options.checkpoint),
            format_duration(simulation.step_time),
            fmt::format("{:.2f}", simulation.samples_per_second),
            format_percent(simulation.bubble_fraction),
            format_bytes(highest_peak(simulation)),
            fmt::format("{:.4g}", candidate.cost),
            notes_of(candidate)};
}

/// In the order of the ranking: throughput, lanes, memory.
std::string why_next_loses(const Plan& plan) {
    if (plan.candidates.size() < 2 || !plan.candidates[1].simulation.feasible) {
        return "no other candidate keeps the limits";
    }
    const Simulation& best = plan.candidates[0].simulation;
    const Simulation& next = plan.candidates[1].simulation;
    if (next.samples_per_second < best.samples_per_second) {
        return fmt::format("the next trains {:.2f} % fewer samples a second",
                           (1 - next.samples_per_second / best.samples_per_second) * 100);
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

std::string first_line(const Plan& plan) {
    if (!plan.best) {
        return "infeasible: " + plan.infeasible_because.value_or("there is no candidate") + "\n\n";
    }
    const Simulation& best = plan.candidates[*plan.best].simulation;
    return fmt::format("best: balance {}, {} micro-batches, checkpoint {}; {}\n\n", to_string(best.options.balance),
                       best.micro_batches, to_string(best.options.checkpoint), why_next_loses(plan));
}
}  // namespace

nlohmann::ordered_json plan_json(const Plan& plan) {
    using Json = nlohmann::ordered_json;
    Json object{{"candidates", Json::array()}};
    for (const PlanCandidate& each : plan.candidates) {
        Json candidate = simulation_json(each.simulation);
        candidate["pareto"] = each.pareto;
        candidate["cost"] = each.cost;
        object["candidates"].push_back(std::move(candidate));
    }
    object["best"] = plan.best ? Json(*plan.best) : Json(nullptr);
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
        "pareto: none is at least as good in samples/s, lanes and memory, and better in one\n"
        "cost: of the lanes for a million samples; optimizer and host outside\n";
    if (!plan.candidates.empty() && plan.candidates.front().simulation.estimated) {
        text += "estimated: the profile's times were not measured\n";
    }
    return text;
}
}  // namespace pipescope
