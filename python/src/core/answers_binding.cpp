#include "cli/answers.h"
#include "cli/cluster_plan_command.h"
#include "cli/layout_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "python/src/core/core_module.h"
#include "python/src/core/long_call.h"
#include "python/src/json_text.h"
#include "schedule/schedules.h"
#include "simulator/pipeline_options.h"

#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace pipescope {
namespace py = pybind11;
namespace {
using Words = std::vector<std::string>;
/// Schedules that Python made, by name and CSV. The words name all others.
using Tables = std::vector<std::pair<std::string, std::string>>;

std::vector<Schedule> schedules_of(const Tables& tables) {
    std::vector<Schedule> schedules;
    for (const auto& [name, csv] : tables) {
        schedules.push_back(Schedule::from_csv(name, csv));
    }
    return schedules;
}

/// For a command that takes one schedule.
void take_schedule(const Tables& tables, PipelineFlags& flags) {
    for (const Schedule& schedule : schedules_of(tables)) {
        flags.options.schedule = schedule;
        flags.schedule_given = true;
    }
}

/// For a command that takes several: those of the words, if they name any, and of the tables.
void take_schedules(const Tables& tables, const CLI::App& command, std::vector<Schedule>& schedules) {
    if (tables.empty()) {
        return;
    }
    if (command.get_option("--schedule")->count() == 0) {
        schedules.clear();  // the default
    }
    const std::vector<Schedule> more = schedules_of(tables);
    schedules.insert(schedules.end(), more.begin(), more.end());
}

/// A command that only parses options.
class Parser {
public:
    explicit Parser(const std::string& name) : command_("", name) { command_.set_help_flag(); }

    CLI::App& command() { return command_; }
    void parse(const Words& words) { parse_words(command_, words); }

private:
    CLI::App command_;
};

std::string balance(const Profile& profile, const std::string& file, const Words& words, const Tables& tables) {
    Parser parser("balance");
    BalanceFlags flags;
    flags.profile = file;
    add_balance_options(parser.command(), flags);
    parser.parse(words);
    take_schedule(tables, flags.pipeline);
    return json_text(balance_answer_json(balance_answer(flags, profile)));
}

/// The JSON, and the columns of timeline and memory, which are empty for --schedule all.
py::tuple simulate_pipeline(const Profile& profile, const std::string& file, const Words& words, const Tables& tables) {
    std::string json;
    SimulateAnswer answer;
    {
        const LongCall no_gil;
        Parser parser("simulate");
        SimulateFlags flags;
        SimulateOutputs outputs;
        flags.profile = file;
        add_simulate_options(parser.command(), flags);
        add_simulate_outputs(parser.command(), outputs);
        parser.parse(words);
        take_schedule(tables, flags.simulated.pipeline);
        check_outputs(flags, outputs);
        answer = simulate_answer(flags, profile);
        write_outputs(outputs, answer);
        json = json_text(simulate_answer_json(answer));
    }
    if (!answer.simulation) {
        return py::make_tuple(json, py::none(), py::none());
    }
    return py::make_tuple(json, timeline_columns(answer.simulation->timeline),
                          memory_columns(answer.simulation->memory));
}

/// Calls the Python function, and stops what the calling thread waits for. Python's error stays set in the thread.
bool tell(const py::object& function, double done) {
    if (!LongCall::goes_on()) {
        throw ComputationStopped();
    }
    const py::gil_scoped_acquire gil;
    if (!function.is_none()) {
        try {
            function(done);
        } catch (py::error_already_set& error) {
            error.restore();
            throw ComputationStopped();
        }
    }
    return true;
}

/// The JSON, and the notes about prices.
py::tuple plan_pipelines(const Profile& profile, const std::string& file, const Words& words, const Tables& tables,
                         const py::object& progress) {
    PlanAnswer answer;
    std::string json;
    {
        const LongCall no_gil;
        Parser parser("plan");
        PlanFlags flags;
        flags.profile = file;
        add_plan_options(parser.command(), flags);
        parser.parse(words);
        take_schedules(tables, parser.command(), flags.request.schedules);
        answer = plan_answer(flags, profile, [&progress](double done) { return tell(progress, done); });
        json = json_text(plan_answer_json(answer));
    }
    return py::make_tuple(json, answer.price_notes);
}

/// The JSON, and the columns of timeline and memory. `profile`: null for a model, or a profile's file, of that name.
py::tuple simulate_layout_on(const Profile* profile, const std::string& name, const Words& words,
                             const Tables& tables) {
    std::string json;
    LayoutAnswer answer;
    {
        const LongCall no_gil;
        Parser parser("simulate");
        SimulateFlags flags;
        LayoutFlags layout;
        SimulateOutputs outputs;
        flags.profile = name;
        add_simulate_options(parser.command(), flags);
        add_layout_options(parser.command(), layout);
        add_simulate_outputs(parser.command(), outputs);
        parser.command().get_option("--balance")->required(false);
        parser.parse(words);
        check_layout_options(parser.command(), layout);
        check_model_options(parser.command(), {name, profile}, layout.given());
        take_schedule(tables, flags.simulated.pipeline);
        answer = simulate_layout_answer(flags, layout, outputs, profile);
        json = json_text(layout_answer_json(answer));
    }
    const Simulation& simulation = answer.step.simulation;
    return py::make_tuple(json, timeline_columns(simulation.timeline), memory_columns(simulation.memory));
}

std::string plan_cluster_for(const Profile* profile, const std::string& name, const Words& words, const Tables& tables,
                             const py::object& progress) {
    const LongCall no_gil;
    Parser parser("plan");
    PlanFlags flags;
    ClusterPlanFlags cluster;
    add_plan_options(parser.command(), flags);
    add_cluster_plan_options(parser.command(), cluster);
    parser.parse(words);
    check_cluster_plan_options(parser.command(), cluster);
    check_model_options(parser.command(), {name, profile}, cluster.given());
    if (parser.command().get_option("--schedule")->count() > 0) {
        cluster.request.schedules = flags.request.schedules;
    }
    take_schedules(tables, parser.command(), cluster.request.schedules);
    return json_text(cluster_plan_json(cluster_plan_of({name, profile}, cluster, flags.pipeline, flags.rank_by,
                                                       [&progress](double done) { return tell(progress, done); })));
}

/// The JSON of `pipescope schedule --json`, and the table as CSV.
py::tuple schedule_of(const TaskGraph& graph) {
    const ScheduleTable table = schedule_table(graph);
    return py::make_tuple(json_text(schedule_answer_json(graph, table)), to_csv(table));
}

py::tuple schedule(const std::string& name, const Words& words) {
    Parser parser("schedule");
    ScheduleFlags flags;
    flags.schedule = name;
    add_schedule_shape_options(parser.command(), flags);
    parser.parse(words);
    return schedule_of(schedule_answer(flags));
}

py::tuple schedule_from_csv(const std::string& name, const std::string& csv) {
    const Schedule schedule = Schedule::from_csv(name, csv);
    return schedule_of(make_schedule(schedule, schedule.file()->shape));
}

std::vector<std::string> schedule_names(bool runnable) {
    std::vector<std::string> names;
    for (const Schedule& each : runnable ? runnable_schedules() : all_schedules()) {
        names.push_back(to_string(each));
    }
    return names;
}
}  // namespace

void bind_answers(py::module_& module) {
    module.def("balance", &balance, py::call_guard<LongCall>(), py::arg("profile"), py::arg("file"), py::arg("words"),
               py::arg("tables"));
    module.def("simulate", &simulate_pipeline, py::arg("profile"), py::arg("file"), py::arg("words"),
               py::arg("tables"));
    module.def("plan", &plan_pipelines, py::arg("profile"), py::arg("file"), py::arg("words"), py::arg("tables"),
               py::arg("progress"));
    module.def("simulate_layout", &simulate_layout_on, py::arg("profile"), py::arg("name"), py::arg("words"),
               py::arg("tables"));
    module.def("plan_cluster", &plan_cluster_for, py::arg("profile"), py::arg("name"), py::arg("words"),
               py::arg("tables"), py::arg("progress"));
    module.def("schedule", &schedule, py::arg("name"), py::arg("words"));
    module.def("schedule_from_csv", &schedule_from_csv, py::arg("name"), py::arg("csv"));
    module.def(
        "check_optimizer", [](const std::string& name) { optimizer_state_factor(name); }, py::arg("name"));
    module.def(
        "write_text",
        [](const std::string& path, const std::string& text, bool force) {
            check_output(path, force);
            write_output(path, force, text);
        },
        py::call_guard<LongCall>(), py::arg("path"), py::arg("text"), py::arg("force"));
    module.def("schedule_names", &schedule_names, py::arg("runnable"));
}
}  // namespace pipescope
