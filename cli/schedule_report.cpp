#include "cli/schedule_report.h"

#include "cli/reports.h"
#include "cli/text_table.h"
#include "cli/units.h"
#include "simulator/planner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>

namespace pipescope {
namespace {
/// Remarks beyond the figures: an asynchronous update, and a peak above the limit.
std::string remarks(const ComparedSchedule& compared) {
    std::string text = compared.simulation.feasible ? "" : "above the memory limit";
    if (!compared.note.empty()) {
        text += (text.empty() ? "" : "; ") + compared.note;
    }
    return text;
}
}  // namespace

nlohmann::ordered_json schedules_json(const ScheduleComparison& comparison) {
    nlohmann::ordered_json object{{"schedules", nlohmann::ordered_json::array()},
                                  {"left_out", nlohmann::ordered_json::array()}};
    for (const ComparedSchedule& compared : comparison.schedules) {
        nlohmann::ordered_json each{{"name", compared.name}};
        each.update(simulation_json(compared.simulation));
        each["synchronous"] = compared.synchronous;
        each["communicated_bytes"] = compared.communicated_bytes;
        each["note"] = compared.note;
        object["schedules"].push_back(std::move(each));
    }
    for (const LeftOutSchedule& each : comparison.left_out) {
        object["left_out"].push_back({{"name", each.name}, {"because", each.because}});
    }
    return object;
}

std::string schedules_text(const ScheduleComparison& comparison) {
    TextTable table({{"schedule", Align::left},
                     {"step time"},
                     {"bubble"},
                     {"utilization"},
                     {"speedup"},
                     {"samples/s"},
                     {"peak memory"},
                     {"sent per step"},
                     {"", Align::left}});
    for (const ComparedSchedule& compared : comparison.schedules) {
        const Simulation& each = compared.simulation;
        const StepFigures figures = expected_figures(each);
        table.add_row({compared.name, format_duration(figures.step), format_percent(figures.bubble),
                       format_percent(figures.utilization), fmt::format("{:.2f}", figures.speedup),
                       fmt::format("{:.2f}", figures.samples_per_second), format_bytes(highest_peak(each)),
                       format_bytes(compared.communicated_bytes), remarks(compared)});
    }
    std::string text;
    if (!comparison.schedules.empty()) {
        const Simulation& first = comparison.schedules.front().simulation;
        text = basis_text(first.dtype, first.options) + "\n";
    }
    text += table.str();
    if (std::ranges::any_of(comparison.schedules,
                            [](const ComparedSchedule& each) { return each.simulation.step_mean.has_value(); })) {
        text += "\nmeans of noisy steps, as the profile's layers vary\n";
    }
    for (const LeftOutSchedule& each : comparison.left_out) {
        text += fmt::format("\nleft out: {}: {}\n", each.name, each.because);
    }
    return text;
}
}  // namespace pipescope
