#include "answers/two_runs_report.h"

#include "answers/kernel_report.h"
#include "answers/or_null.h"
#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "trace/store/process_json.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <utility>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

constexpr std::size_t kMostNames = 10;
constexpr std::size_t kMostGroups = 10;  // in the text

/// The relative change; empty if there was nothing before.
std::optional<double> relative(double was, double is) {
    return was > 0 ? std::optional(is / was - 1) : std::nullopt;
}
std::optional<double> relative(Nanoseconds was, Nanoseconds is) {
    return relative(static_cast<double>(was.count()), static_cast<double>(is.count()));
}

Json run_json(const ComparedRun& run) {
    const std::optional<RunFigures>& figures = run.figures;
    const bool bubbles = figures && !run.lossy();
    const bool steps = figures && run.why_no_step_times().empty();
    const auto of_steps = [&](auto value) { return steps ? Json(value(*figures)) : Json(nullptr); };
    Json object{{"name", run.name},
                {"model", text_or_null(run.run.model)},
                {"steps", figures ? Json(figures->steps) : Json::array()}};
    object["step_ns"] = of_steps([](const RunFigures& each) { return each.step_time.count(); });
    object["step_mean_ns"] = of_steps([](const RunFigures& each) { return each.step_mean.count(); });
    object["pipeline_ns"] = steps ? or_null(figures->pipeline_time) : Json(nullptr);
    object["step_deviation_ns"] = or_null(run.step_deviation);
    object["wall_step_ns"] = figures ? or_null(figures->wall_step_time) : Json(nullptr);
    object["bubble_fraction"] = bubbles ? Json(figures->bubble_fraction) : Json(nullptr);
    object["bubble_mean"] = bubbles ? Json(figures->bubble_mean) : Json(nullptr);
    object["samples_per_second"] = or_null(run.samples_per_second);
    object["lanes"] = Json::array();
    for (const RunLane& lane : figures ? figures->lanes : std::vector<RunLane>{}) {
        object["lanes"].push_back({{"busy_ns", lane.recorded ? Json(lane.busy.count()) : Json(nullptr)},
                                   {"bubble_fraction", bubbles ? Json(lane.bubble_fraction) : Json(nullptr)},
                                   {"peak_bytes", or_null(lane.peak_bytes)}});
    }
    object["bubbles"] = bubbles ? bubbles_json(run.bubbles) : Json(nullptr);
    object["load"] = load_json(run.run.load);
    object["processes"] = std::max<std::size_t>(1, run.run.processes.size());
    object["clock_bound_ns"] = or_null(clock_bound(run.run.processes));
    object["warnings"] = texts_of(run.warnings);
    return object;
}

Json step_json(const std::optional<MeanDifference>& mean) {
    if (!mean) {
        return nullptr;
    }
    const auto ns = [](double value) { return Json(std::llround(value)); };
    const bool known = mean->noise_is_known;
    return {{"difference_ns", ns(mean->difference())},
            {"change", mean->before > 0 ? Json(mean->after / mean->before - 1) : Json(nullptr)},
            {"standard_error_ns", known ? ns(mean->standard_error) : Json(nullptr)},
            {"limit_ns", known ? ns(mean->limit) : Json(nullptr)},
            {"exceeds_noise", known ? Json(mean->exceeds_noise()) : Json(nullptr)}};
}

Json bubble_json(const std::optional<MeanDifference>& mean) {
    if (!mean) {
        return nullptr;
    }
    const bool known = mean->noise_is_known;
    return {{"difference", mean->difference()},
            {"standard_error", known ? Json(mean->standard_error) : Json(nullptr)},
            {"limit", known ? Json(mean->limit) : Json(nullptr)},
            {"exceeds_noise", known ? Json(mean->exceeds_noise()) : Json(nullptr)}};
}

Json group_json(const TaskGroup& group) {
    return {{"kind", to_string(group.kind)},
            {"half", half_json(group.half)},
            {"partition", group.partition < 0 ? Json(nullptr) : Json(group.partition)},
            {"layers", group.layers ? Json{group.layers->first.value(), group.layers->end.value() - 1} : Json(nullptr)},
            {"tasks_before", group.tasks_before},
            {"tasks_after", group.tasks_after},
            {"before_ns", group.before.count()},
            {"after_ns", group.after.count()}};
}

Json names_json(const std::optional<NameJoin>& names) {
    Json list = Json::array();
    for (std::size_t k = 0; names && k < std::min(kMostNames, names->names.size()); ++k) {
        const NamedRanges& each = names->names[k];
        list.push_back({{"track", each.track},
                        {"name", each.name},
                        {"matched", each.matched},
                        {"only_before", each.only_before},
                        {"only_after", each.only_after},
                        {"before_ns", each.before.count()},
                        {"after_ns", each.after.count()},
                        {"only_before_ns", each.before_alone.count()},
                        {"only_after_ns", each.after_alone.count()}});
    }
    return list;
}

Json losses_json(const std::optional<LossComparison>& losses) {
    if (!losses) {
        return nullptr;
    }
    Json first = nullptr;
    if (losses->first) {
        const auto number = [](double loss) { return std::isfinite(loss) ? Json(loss) : Json(nullptr); };
        first = {{"step", losses->first->step},
                 {"before", number(losses->first->before)},
                 {"after", number(losses->first->after)}};
    }
    return {{"steps", losses->steps},
            {"equal", losses->equal},
            {"without_number", losses->without_number},
            {"first_difference", std::move(first)}};
}

std::string change_text(const std::optional<double>& change) {
    return change ? format_error_percent(*change) : "";
}

std::string verdict(const MeanDifference& step) {
    if (!step.noise_is_known) {
        return "noise unknown: it takes two steps or more of both runs\n";
    }
    if (step.difference() == 0) {
        return "the mean step times are equal\n";
    }
    const auto time = [](double ns) { return format_duration(Nanoseconds{std::llround(ns)}); };
    return fmt::format("the mean step time {} by {}, {} the noise of the steps ({}, standard error {})\n",
                       step.difference() < 0 ? "fell" : "rose", time(std::abs(step.difference())),
                       step.exceeds_noise() ? "more than" : "within", time(step.limit), time(step.standard_error));
}

std::string bubble_text(bool known, double fraction) {
    return known ? format_percent(fraction) : "lost";
}

void add_lanes(const TwoRuns& runs, TextTable& table) {
    const std::vector<RunLane>& old_run = runs.before.figures->lanes;
    const std::vector<RunLane>& new_run = runs.after.figures->lanes;
    for (std::size_t lane = 0; lane < std::max(old_run.size(), new_run.size()); ++lane) {
        const RunLane* then = lane < old_run.size() ? &old_run[lane] : nullptr;
        const RunLane* now = lane < new_run.size() ? &new_run[lane] : nullptr;
        const auto busy = [](const RunLane* of) {
            return of == nullptr ? "no lane" : of->recorded ? format_duration(of->busy) : "not recorded";
        };
        const bool both = then != nullptr && now != nullptr && then->recorded && now->recorded;
        table.add_row({fmt::format("lane {} busy", lane), busy(then), busy(now),
                       both ? change_text(relative(then->busy, now->busy)) : ""});
        const auto peak = [](const RunLane* of) { return of != nullptr ? of->peak_bytes : std::nullopt; };
        const std::optional<Bytes> was = peak(then);
        const std::optional<Bytes> is = peak(now);
        if (was || is) {
            table.add_row(
                {fmt::format("lane {} peak memory", lane), was ? format_bytes(*was) : "", is ? format_bytes(*is) : "",
                 was && is ? change_text(relative(static_cast<double>(*was), static_cast<double>(*is))) : ""});
        }
    }
}

std::string figures_text(const TwoRuns& runs) {
    const RunFigures& old_run = *runs.before.figures;
    const RunFigures& new_run = *runs.after.figures;
    TextTable table({{"", Align::left}, {"before"}, {"after"}, {"change"}});
    const auto add_time = [&](const char* name, Nanoseconds was, Nanoseconds is) {
        table.add_row({name, format_duration(was), format_duration(is), change_text(relative(was, is))});
    };
    const auto add_step = [&](const char* name, Nanoseconds was, Nanoseconds is) {
        const auto text = [](const ComparedRun& run, Nanoseconds time) {
            return run.why_no_step_times().empty() ? format_duration(time) : "unknown";
        };
        table.add_row({name, text(runs.before, was), text(runs.after, is),
                       runs.changes.step ? change_text(relative(was, is)) : ""});
    };
    add_step("step time, mean", old_run.step_mean, new_run.step_mean);
    add_step("step time, median", old_run.step_time, new_run.step_time);
    if (old_run.pipeline_time || new_run.pipeline_time) {
        add_time("its pipeline, median", old_run.pipeline_time.value_or(old_run.step_time),
                 new_run.pipeline_time.value_or(new_run.step_time));
    }
    if (old_run.wall_step_time && new_run.wall_step_time) {
        add_time("wall step time, median", *old_run.wall_step_time, *new_run.wall_step_time);
    }
    if (runs.before.samples_per_second && runs.after.samples_per_second) {
        table.add_row({"samples per second", fmt::format("{:.4g}", *runs.before.samples_per_second),
                       fmt::format("{:.4g}", *runs.after.samples_per_second),
                       change_text(relative(*runs.before.samples_per_second, *runs.after.samples_per_second))});
    }
    table.add_row({"bubble fraction, mean", bubble_text(!runs.before.lossy(), old_run.bubble_mean),
                   bubble_text(!runs.after.lossy(), new_run.bubble_mean),
                   runs.changes.bubble ? format_points(runs.changes.bubble->difference()) : ""});
    add_lanes(runs, table);
    return table.str();
}

std::string causes_text(const TwoRuns& runs) {
    TextTable table({{"bubbles by cause, mean", Align::left}, {"before"}, {"after"}, {"change"}});
    for (int cause = 0; cause < kNumBubbleCauses; ++cause) {
        const auto index = static_cast<std::size_t>(cause);
        const double was = runs.before.bubbles.causes[index].share;
        const double is = runs.after.bubbles.causes[index].share;
        if (was > 0 || is > 0) {
            table.add_row({std::string(describe(static_cast<BubbleCause>(cause))), format_percent(was),
                           format_percent(is), format_points(is - was)});
        }
    }
    return table.str() + "\n";
}

std::string group_name(const TaskGroup& group) {
    std::string name(shown_name(group.kind, group.half));
    if (group.partition >= 0) {
        name += fmt::format(" on partition {}", group.partition);
    }
    if (group.layers) {
        name += fmt::format(" (layers {}-{})", group.layers->first.value(), group.layers->end.value() - 1);
    }
    return name;
}

std::string groups_text(const char* title, const std::vector<TaskGroup>& groups, std::size_t most) {
    TextTable table({{title, Align::left}, {"tasks"}, {"before"}, {"after"}, {"difference"}, {"change"}});
    for (std::size_t k = 0; k < std::min(most, groups.size()); ++k) {
        const TaskGroup& each = groups[k];
        const std::string tasks = each.tasks_before == each.tasks_after
                                      ? std::to_string(each.tasks_after)
                                      : fmt::format("{}, {}", each.tasks_before, each.tasks_after);
        table.add_row({group_name(each), tasks, format_duration(each.before), format_duration(each.after),
                       format_duration(each.after - each.before), change_text(relative(each.before, each.after))});
    }
    return groups.empty() ? "" : table.str() + "\n";
}

std::string tasks_text(const TwoRuns& runs) {
    std::string text = groups_text("tasks of a step by kind", runs.kinds, runs.kinds.size());
    if (!runs.why_no_tasks.empty()) {
        return text;
    }
    text += groups_text("largest differences by kind and partition", runs.groups, kMostGroups);
    TextTable worst({{"largest differences of medians by task", Align::left}, {"before"}, {"after"}, {"difference"}});
    for (const ComparedTask& task : runs.worst) {
        TaskKey key = task.task;
        key.step = -1;
        worst.add_row({shown_name(key, task.half), format_duration(task.simulated), format_duration(task.measured),
                       format_duration(task.measured - task.simulated)});
    }
    text += worst.str();
    return text +
           fmt::format("{} of a typical step matched, {} only before, {} only after\n",
                       counted(runs.tasks_matched, "task", "tasks"), runs.tasks_only_before, runs.tasks_only_after) +
           "\n";
}

std::string names_text(const NameJoin& names) {
    TextTable table({{"ranges by name", Align::left},
                     {"thread or stream", Align::left},
                     {"matched"},
                     {"before"},
                     {"after"},
                     {"difference"}});
    for (std::size_t k = 0; k < std::min(kMostNames, names.names.size()); ++k) {
        const NamedRanges& each = names.names[k];
        if (each.matched > 0) {
            table.add_row({each.name, each.track, std::to_string(each.matched), format_duration(each.before),
                           format_duration(each.after), format_duration(each.after - each.before)});
        } else {  // times of ranges without a twin have no difference
            table.add_row({each.name, each.track, "0",
                           each.only_before > 0 ? "only here: " + format_duration(each.before_alone) : "-",
                           each.only_after > 0 ? "only here: " + format_duration(each.after_alone) : "-", "-"});
        }
    }
    return table.str() + fmt::format("{} matched, {} only before, {} only after\n",
                                     counted(names.matched, "range", "ranges"), names.only_before, names.only_after);
}

std::string losses_text(const std::optional<LossComparison>& losses) {
    if (!losses) {
        return "";
    }
    const std::int64_t unknown = losses->without_number;
    const std::string rest = unknown == 0 ? "\n"
                                          : fmt::format("; {} no number in both\n",
                                                        counted(unknown, "further step has", "further steps have"));
    if (!losses->first) {
        return fmt::format("losses are equal in {} that both runs recorded{}", counted(losses->equal, "step", "steps"),
                           rest);
    }
    return fmt::format("losses differ in {} of {} that both runs recorded, first in step {}: {} before, {} after{}",
                       losses->steps - losses->equal - unknown, counted(losses->steps - unknown, "step", "steps"),
                       losses->first->step, shortest(losses->first->before), shortest(losses->first->after), rest);
}

std::string configuration_text(const std::vector<ConfigurationDifference>& differences) {
    if (differences.empty()) {
        return "configuration and environment are equal, as far as the files say\n";
    }
    TextTable table({{"different configuration", Align::left}, {"before", Align::left}, {"after", Align::left}});
    for (const ConfigurationDifference& each : differences) {
        table.add_row({each.what, each.before, each.after});
    }
    return table.str();
}
}  // namespace

Json two_runs_json(const TwoRuns& runs) {
    Json object{{"before", run_json(runs.before)},
                {"after", run_json(runs.after)},
                {"step", step_json(runs.changes.step)},
                {"bubble", bubble_json(runs.changes.bubble)},
                {"joined_by", runs.names                  ? Json("name")
                              : runs.why_no_tasks.empty() ? Json("task")
                                                          : Json(nullptr)},
                {"why_no_tasks", text_or_null(runs.why_no_tasks)},
                {"why_no_kinds", text_or_null(runs.why_no_kinds)}};
    const NameJoin none;
    const NameJoin& names = runs.names ? *runs.names : none;
    object["matched"] = runs.tasks_matched + names.matched;
    object["only_before"] = runs.tasks_only_before + names.only_before;
    object["only_after"] = runs.tasks_only_after + names.only_after;
    object["worst"] = Json::array();
    for (const ComparedTask& task : runs.worst) {
        TaskKey key = task.task;
        key.step = -1;
        object["worst"].push_back({{"task", to_string(key)},
                                   {"half", half_json(task.half)},
                                   {"before_ns", task.simulated.count()},
                                   {"after_ns", task.measured.count()}});
    }
    for (const auto& [key, groups] : {std::pair("groups", &runs.groups), {"kinds", &runs.kinds}}) {
        object[key] = Json::array();
        for (const TaskGroup& group : *groups) {
            object[key].push_back(group_json(group));
        }
    }
    object["ranges"] = names_json(runs.names);
    object["losses"] = losses_json(runs.losses);
    object["differences"] = Json::array();
    for (const ConfigurationDifference& each : runs.differences) {
        object["differences"].push_back(
            {{"what", each.what}, {"before", text_or_null(each.before)}, {"after", text_or_null(each.after)}});
    }
    object["kernels"] = kernels_json(runs.kernels);
    object["warnings"] = texts_of(runs.warnings);
    return object;
}

std::string two_runs_text(const TwoRuns& runs) {
    std::string text;
    for (const auto& [who, warnings] : {std::pair(runs.before.name + ": ", &runs.before.warnings),
                                        {runs.after.name + ": ", &runs.after.warnings},
                                        {std::string(), &runs.warnings}}) {
        for (const TraceWarning& warning : *warnings) {
            text += fmt::format("warning: {}\n", printable(who + warning.text));
        }
    }
    const auto steps = [](const ComparedRun& run) {
        return fmt::format("{} ({})", run.name,
                           run.figures ? counted(run.figures->steps.size(), "step", "steps") : "no step");
    };
    text += printable(fmt::format("before: {}, after: {}", steps(runs.before), steps(runs.after))) + "\n";
    if (runs.before.figures && runs.after.figures) {
        text += runs.changes.step ? verdict(*runs.changes.step)
                                  : "the step times are not compared, since those of a run are not known\n";
        text += figures_text(runs) + "\n";
        text += runs.changes.bubble ? causes_text(runs) : "";
        text += tasks_text(runs);
    }
    if (runs.names) {
        text += names_text(*runs.names) + "\n";
    }
    const std::string kernels = kernels_text(runs.kernels);
    return text + (kernels.empty() ? "" : kernels + "\n") + losses_text(runs.losses) +
           configuration_text(runs.differences);
}
}  // namespace pipescope
