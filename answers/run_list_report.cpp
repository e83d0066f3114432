#include "answers/run_list_report.h"

#include "answers/or_null.h"
#include "answers/profile_again.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/printable.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cmath>
#include <map>
#include <vector>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

std::optional<double> relative(const MeanDifference& change) {
    return change.before > 0 ? std::optional(change.after / change.before - 1) : std::nullopt;
}

std::string files_text(const ListedRun& run) {
    std::string text;
    for (const std::filesystem::path& file : run.files) {
        text += (text.empty() ? "" : " ") + shell_word(file.string());
    }
    return text;
}

std::string compare_text(const RunList& list) {
    if (list.runs.size() < 2) {
        return "";
    }
    const ListedRun& before = list.runs[list.runs.size() - 2];
    const ListedRun& after = list.runs.back();
    const bool single = before.files.size() == 1 && after.files.size() == 1;
    return "\nto compare the last two: pipescope compare " +
           (single ? files_text(before) + " " + files_text(after)
                   : files_text(after) + " --baseline " + files_text(before)) +
           "\n";
}

std::string reasons_text(const RunList& list) {
    std::string text;
    for (const ListedRun& run : list.runs) {
        if (!run.why_no_change.empty()) {
            text +=
                fmt::format("{}: not compared with the run before: {}\n", printable(run.run.name), run.why_no_change);
        }
        if (const std::string why = run.run.why_no_step_times(); !why.empty()) {
            text += fmt::format("{}: no step time: {}\n", printable(run.run.name), why);
        }
    }
    std::map<std::string, std::vector<std::string>> names;  // by reason
    for (const LeftOutFile& file : list.left_out) {
        names[file.why].push_back(printable(file.name));
    }
    for (const auto& [why, files] : names) {
        text += fmt::format("left out: {}: {}\n", fmt::join(files, ", "), printable(why));
    }
    return text.empty() ? "" : "\n" + text;
}
}  // namespace

std::string recorded_text(const ListedRun& run) {
    if (!run.utc_ns || run.simulated) {
        return "";
    }
    const std::chrono::sys_time<std::chrono::nanoseconds> at{std::chrono::nanoseconds{*run.utc_ns}};
    const auto day = std::chrono::floor<std::chrono::days>(at);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::minutes>(at - day)};
    return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}", static_cast<int>(date.year()),
                       static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), time.hours().count(),
                       time.minutes().count());
}

std::string change_text(const ListedRun& run) {
    if (!run.step_change) {
        return run.why_no_change.empty() ? "" : "not compared";
    }
    const MeanDifference& change = *run.step_change;
    return format_error_percent(relative(change)) + (!change.noise_is_known    ? ", noise unknown"
                                                     : !change.exceeds_noise() ? ", within the noise"
                                                                               : "");
}

Json run_list_json(const RunList& list) {
    Json object{{"runs", Json::array()}, {"left_out", Json::array()}};
    for (const ListedRun& run : list.runs) {
        const RunFigures& figures = *run.run.figures;
        const bool timed = run.run.why_no_step_times().empty();
        Json files = Json::array();
        for (const std::filesystem::path& file : run.files) {
            files.push_back(file.string());
        }
        Json each{{"name", run.run.name},
                  {"files", std::move(files)},
                  {"recorded", text_or_null(recorded_text(run))},
                  {"simulated", run.simulated},
                  {"model", text_or_null(run.run.run.model)},
                  {"steps", figures.steps.size()},
                  {"step_mean_ns", timed ? Json(figures.step_mean.count()) : Json(nullptr)},
                  {"bubble_mean", run.run.lossy() ? Json(nullptr) : Json(figures.bubble_mean)},
                  {"loss", or_null(run.loss)}};
        each["step_change"] = run.step_change ? or_null(relative(*run.step_change)) : Json(nullptr);
        each["exceeds_noise"] =
            run.step_change && run.step_change->noise_is_known ? Json(run.step_change->exceeds_noise()) : Json(nullptr);
        each["why_no_change"] = text_or_null(run.why_no_change);
        object["runs"].push_back(std::move(each));
    }
    for (const LeftOutFile& file : list.left_out) {
        object["left_out"].push_back({{"name", file.name}, {"why", file.why}});
    }
    return object;
}

std::string run_list_text(const RunList& list) {
    TextTable table({{"run", Align::left},
                     {"recorded (UTC)", Align::left},
                     {"model", Align::left},
                     {"steps"},
                     {"step time, mean"},
                     {"bubble, mean"},
                     {"loss"},
                     {"step against the run before", Align::left}});
    for (const ListedRun& run : list.runs) {
        const RunFigures& figures = *run.run.figures;
        table.add_row({run.run.name, run.simulated ? "simulated" : recorded_text(run), run.run.run.model,
                       std::to_string(figures.steps.size()),
                       run.run.why_no_step_times().empty() ? format_duration(figures.step_mean) : "not certain",
                       run.run.lossy() ? "not certain" : format_percent(figures.bubble_mean),
                       run.loss ? fmt::format("{:.4g}", *run.loss) : "", change_text(run)});
    }
    return (list.runs.empty() ? "no run with steps to compare\n" : table.str()) + reasons_text(list) +
           compare_text(list);
}
}  // namespace pipescope
