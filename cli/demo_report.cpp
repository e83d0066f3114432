#include "cli/demo_report.h"

#include "answers/or_null.h"
#include "answers/units.h"
#include "base/printable.h"

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
    if (!part.is_judged()) {
        remarks.push_back(
            fmt::format("not judged: other programs or the host took {} of the cores' time, more than {}; repeat the "
                        "demo on a quiet machine",
                        format_percent(taken_share(*part.load)), format_percent(kMostTaken)));
    }
    if (part.in_turns) {
        remarks.emplace_back(
            "mean step time: predicted from layers that were profiled between the steps, so profile and steps met the "
            "same machine");
    }
    if (part.beforehand) {
        remarks.emplace_back(
            "before the training: predicted from the profile that the balance was cut with; the machine's speed may "
            "have changed since, which adds to the error");
    }
    if (part.uncertainty) {
        remarks.push_back(
            fmt::format("the measured mean is uncertain by {} (standard error)", format_percent(*part.uncertainty)));
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

double taken_share(const MachineLoad& load) {
    return load.others + load.stolen;
}

TextTable demo_table(const DemoPart& part) {
    const Comparison& comparison = part.compared.comparison;
    const bool lossy = part.compared.lossy();
    const auto judged_error = [&](const std::string& error) { return part.is_judged() ? error : "not judged"; };
    TextTable table({{"", Align::left}, {"measured"}, {"predicted"}, {"error"}});
    const JudgedStep judged = comparison.judged();
    table.add_row({judged.is_mean ? "mean step time" : "step time", format_duration(judged.measured),
                   format_duration(judged.simulated), judged_error(format_error_percent(comparison.step_error))});
    if (part.beforehand) {
        table.add_row({"predicted before the training", format_duration(judged.measured),
                       format_duration(*part.beforehand),
                       judged_error(format_error_percent(relative_error(*part.beforehand, judged.measured)))});
    }
    table.add_row({"bubble fraction", lossy ? "" : format_percent(judged.measured_bubble),
                   format_percent(judged.simulated_bubble),
                   lossy ? "" : judged_error(format_points(judged.simulated_bubble - judged.measured_bubble))});
    for (std::size_t lane = 0; lane < comparison.lanes.size(); ++lane) {
        add_peaks(lane, comparison, table);
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
                {"in_turns", nullptr},
                {"beforehand", nullptr},
                {"uncertainty", or_null(part.uncertainty)},
                {"judged", part.is_judged()}};
    const JudgedStep judged = part.compared.comparison.judged();
    if (part.in_turns) {
        object["in_turns"] = {{"measured_step_mean_ns", judged.measured.count()},
                              {"simulated_step_mean_ns", judged.simulated.count()},
                              {"step_error", part.compared.comparison.step_error}};
    }
    if (part.beforehand) {
        object["beforehand"] = {{"simulated_step_mean_ns", part.beforehand->count()},
                                {"step_error", or_null(relative_error(*part.beforehand, judged.measured))}};
    }
    object.update(comparison_json(part.compared));
    return object;
}
}  // namespace pipescope
