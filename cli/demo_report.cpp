#include "cli/demo_report.h"

#include "cli/or_null.h"
#include "cli/units.h"
#include "schedule/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

/// Lines of the report outside the table.
std::vector<std::string> remarks_of(const DemoPart& part) {
    std::vector<std::string> remarks;
    if (part.loss_before && part.loss_after) {
        remarks.push_back(fmt::format("loss {:.4f} before, {:.4f} after", *part.loss_before, *part.loss_after));
    }
    if (part.repeat_spread) {
        remarks.push_back(fmt::format("two equal runs differ by {}", format_percent(*part.repeat_spread)));
    }
    if (part.in_turns) {
        remarks.emplace_back(
            "second run: its layers were profiled again between its steps, so profile and steps had the same machine "
            "speed; in the first run that speed may have changed after the profile, which adds to the error");
    }
    const Comparison& comparison = part.compared.comparison;
    remarks.push_back(fmt::format("{} compared, {} matched, {} unmatched",
                                  counted(comparison.steps.size(), "step", "steps"),
                                  counted(comparison.tasks_matched, "task", "tasks"), comparison.tasks_unmatched));
    if (const auto& noise = part.compared.simulation.noise) {
        remarks.push_back(fmt::format("90 % of steps were predicted to take {} to {}", format_duration(noise->low),
                                      format_duration(noise->high)));
    }
    for (const TraceWarning& warning : part.compared.warnings) {
        remarks.push_back("warning: " + printable(warning.text));
    }
    return remarks;
}
}  // namespace

TextTable demo_table(const DemoPart& part) {
    const Comparison& comparison = part.compared.comparison;
    const bool lossy = part.compared.lossy();
    TextTable table({{"", Align::left}, {"measured"}, {"predicted"}, {"error"}});
    const JudgedStep judged = comparison.judged();
    table.add_row({judged.is_mean ? "mean step time" : "step time", format_duration(judged.measured),
                   format_duration(judged.simulated), format_error_percent(comparison.step_error)});
    if (part.in_turns) {
        table.add_row({"second run, profiled between steps", format_duration(part.in_turns->measured),
                       format_duration(part.in_turns->simulated), format_error_percent(part.in_turns->step_error())});
    }
    table.add_row({"bubble fraction", lossy ? "" : format_percent(judged.measured_bubble),
                   format_percent(judged.simulated_bubble),
                   lossy ? "" : format_points(judged.simulated_bubble - judged.measured_bubble)});
    for (std::size_t lane = 0; lane < comparison.lanes.size(); ++lane) {
        const ComparedLane& each = comparison.lanes[lane];
        const auto& measured = each.measured_peak_bytes;
        table.add_row({fmt::format("lane {} peak memory", lane), measured ? format_bytes(*measured) : "",
                       format_bytes(each.simulated_peak_bytes),
                       measured ? format_error_percent(relative_error(static_cast<double>(each.simulated_peak_bytes),
                                                                      static_cast<double>(*measured)))
                                : ""});
    }
    return table;
}

std::string demo_text(const DemoPart& part) {
    std::string text = part.title + "\n\n" + demo_table(part).str() + "\n";
    for (const std::string& remark : remarks_of(part)) {
        text += remark + "\n";
    }
    return text;
}

std::string demo_markdown(const std::vector<DemoPart>& parts, const std::string& environment) {
    std::string text = "# PipeScope: predicted against measured\n";
    for (const DemoPart& part : parts) {
        text += "\n## " + part.title + "\n\n" + demo_table(part).markdown() + "\n";
        for (const std::string& remark : remarks_of(part)) {
            text += "- " + remark + "\n";
        }
        if (part.picture) {
            text += fmt::format("\n![measured timeline above the simulated one]({})\n", *part.picture);
        }
        text += "\nTo repeat it by hand:\n\n";
        for (const std::string& command : part.commands) {
            text += "    " + command + "\n";
        }
    }
    text += "\n## Machine\n\n";
    const Json machine = Json::parse(environment);  // items() borrows from it
    for (const auto& [key, value] : machine.items()) {
        text += fmt::format("- {}: {}\n", key, value.is_string() ? value.get<std::string>() : value.dump());
    }
    return text;
}

Json demo_json(const DemoPart& part) {
    Json object{{"title", part.title},
                {"loss_before", or_null(part.loss_before)},
                {"loss_after", or_null(part.loss_after)},
                {"repeat_spread", or_null(part.repeat_spread)}};
    object["in_turns"] = nullptr;
    if (part.in_turns) {
        object["in_turns"] = {{"measured_step_mean_ns", part.in_turns->measured.count()},
                              {"simulated_step_mean_ns", part.in_turns->simulated.count()},
                              {"step_error", part.in_turns->step_error()}};
    }
    object.update(comparison_json(part.compared));
    return object;
}
}  // namespace pipescope
