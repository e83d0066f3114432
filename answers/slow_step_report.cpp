#include "answers/slow_step_report.h"

#include "answers/reports.h"
#include "answers/text_table.h"
#include "answers/units.h"
#include "base/printable.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

Json pair_json(const StepPair& pair) {
    return {{"step_ns", pair.step}, {"median_ns", pair.usual}};
}

/// As "load" of a run, and the time over which it was measured.
Json load_json_of(const StepLoad& load) {
    Json object = load_json(load.shares);
    object["over_ns"] = load.over.count();
    return object;
}

Json task_json(const TaskInStep& task) {
    Json object{{"task", to_string(task.task)}, {"lane", task.lane.value()}, {"start_ns", task.start}};
    object.update(pair_json(task.time));
    return object;
}

/// The cells of a pair: this step, the median one, the difference.
std::vector<std::string> cells_of(std::string name, const StepPair& pair) {
    return {std::move(name), format_duration(Nanoseconds{pair.step}), format_duration(Nanoseconds{pair.usual}),
            format_duration(Nanoseconds{pair.more()})};
}

std::string loads_text(const SlowStep::Loads& load) {
    TextTable table({{"load, of the cores' time", Align::left}, {"this step"}, {"median step"}});
    table.add_row(
        {"other programs", format_percent(load.step.shares.others), format_percent(load.usual.shares.others)});
    table.add_row({"host of the virtual machine", format_percent(load.step.shares.stolen),
                   format_percent(load.usual.shares.stolen)});
    if (load.step.shares.pressure && load.usual.shares.pressure) {
        table.add_row({"a task waited for a core", format_percent(*load.step.shares.pressure),
                       format_percent(*load.usual.shares.pressure)});
    }
    table.add_row({"measured over", format_duration(load.step.over), format_duration(load.usual.over)});
    return "\n" + table.str();
}

std::string kinds_text(const SlowStep& step) {
    TextTable table({{"on the critical path", Align::left}, {"this step"}, {"median step"}, {"difference"}});
    for (const KindInStep& kind : step.kinds) {
        if (kind.path.step > 0 || kind.path.usual > 0) {
            table.add_row(cells_of(std::string(to_string(kind.kind)), kind.path));
        }
    }
    table.add_row(cells_of("waits between tasks", step.waits));
    table.add_row(cells_of("the step", step.time));
    if (step.outside) {
        table.add_row(cells_of("outside the pipeline", *step.outside));
    }
    return table.str() + (step.load ? loads_text(*step.load) : "");
}

std::string lanes_text(const SlowStep& step) {
    TextTable table({{"lane", Align::left}, {"busy"}, {"median step"}, {"difference"}, {"its tasks, times as long"}});
    for (const LaneInStep& lane : step.lanes) {
        std::vector<std::string> cells = cells_of(fmt::format("lane {}", lane.lane.value()), lane.busy);
        cells.push_back(fmt::format("{:.2f}", lane.factor));
        table.add_row(std::move(cells));
    }
    return table.str();
}

std::string causes_text(const SlowStep& step) {
    TextTable table({{"bubbles by cause, all lanes", Align::left}, {"this step"}, {"median step"}, {"difference"}});
    for (std::size_t cause = 0; cause < step.causes.size(); ++cause) {
        if (step.causes[cause].step > 0 || step.causes[cause].usual > 0) {
            table.add_row(cells_of(std::string(describe(static_cast<BubbleCause>(cause))), step.causes[cause]));
        }
    }
    return table.str();
}

std::string tasks_text(const SlowStep& step) {
    TextTable table({{"largest differences", Align::left}, {"this step"}, {"median step"}, {"difference"}});
    for (const TaskInStep& task : step.largest) {
        table.add_row(cells_of(to_string(task.task), task.time));
    }
    return table.str();
}
}  // namespace

Json slow_step_json(const SlowStep& step, const std::vector<TraceWarning>& warnings) {
    Json object{
        {"step", step.step},
        {"median_step", step.usual_step},
        {"step_ns", step.time.step},
        {"median_ns", step.time.usual},
        {"change", step.change()},
        {"text", slow_step_text(step)},
        {"factor", step.factor},
        {"waits", pair_json(step.waits)},
        {"outside", step.outside ? pair_json(*step.outside) : Json(nullptr)},
        {"load", step.load ? Json{{"step", load_json_of(step.load->step)}, {"median", load_json_of(step.load->usual)}}
                           : Json(nullptr)}};
    object["kinds"] = Json::array();
    for (const KindInStep& kind : step.kinds) {
        object["kinds"].push_back({{"kind", to_string(kind.kind)},
                                   {"tasks", kind.tasks},
                                   {"all", pair_json(kind.time)},
                                   {"critical_path", pair_json(kind.path)}});
    }
    object["lanes"] = Json::array();
    for (const LaneInStep& lane : step.lanes) {
        object["lanes"].push_back({{"lane", lane.lane.value()},
                                   {"busy", pair_json(lane.busy)},
                                   {"idle", pair_json(lane.idle)},
                                   {"factor", lane.factor}});
    }
    object["causes"] = Json::array();
    for (std::size_t cause = 0; cause < step.causes.size(); ++cause) {
        Json each{{"cause", to_string(static_cast<BubbleCause>(cause))}};
        each.update(pair_json(step.causes[cause]));
        object["causes"].push_back(std::move(each));
    }
    object["first"] = step.first ? task_json(*step.first) : Json(nullptr);
    object["largest"] = Json::array();
    for (const TaskInStep& task : step.largest) {
        object["largest"].push_back(task_json(task));
    }
    object["warnings"] = texts_of(warnings);
    return object;
}

std::string slow_step_report(const SlowStep& step, const std::vector<TraceWarning>& warnings) {
    std::string text = slow_step_text(step) + "\n";
    for (const TraceWarning& warning : warnings) {
        text += fmt::format("warning: {}\n", printable(warning.text));
    }
    text += "\n" + kinds_text(step) + "\n" + lanes_text(step) + "\n" + causes_text(step);
    return step.largest.empty() ? text : text + "\n" + tasks_text(step);
}
}  // namespace pipescope
