#include "answers/balance_answer.h"
#include "answers/cluster_plan_answer.h"
#include "answers/layout_answer.h"
#include "answers/option_table.h"
#include "answers/plan_answer.h"
#include "answers/schedule_answer.h"
#include "answers/simulate_answer.h"
#include "cli/output_file.h"
#include "cli/simulate_outputs.h"
#include "python/src/core/core_module.h"
#include "python/src/core/long_call.h"
#include "python/src/core/python_function.h"
#include "python/src/json_text.h"
#include "schedule/schedules.h"
#include "simulator/pipeline_options.h"

#include <Python.h>
#include <nlohmann/json.hpp>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Values = std::vector<OptionValue>;
/// Schedules that Python made, by name and CSV. The values name all others.
using Tables = std::vector<std::pair<std::string, std::string>>;

std::vector<Schedule> schedules_of(const Tables& tables) {
    std::vector<Schedule> schedules;
    for (const auto& [name, csv] : tables) {
        schedules.push_back(Schedule::from_csv(name, csv));
    }
    return schedules;
}

/// For a question about one schedule.
void take_schedule(const Tables& tables, AskedPipeline& asked) {
    for (const Schedule& schedule : schedules_of(tables)) {
        asked.options.schedule = schedule;
        asked.schedule_given = true;
    }
}

/// For a question about several: those of the values, if they name any, and of the tables.
void take_schedules(const Tables& tables, const OptionTable& options, std::vector<Schedule>& schedules) {
    if (tables.empty()) {
        return;
    }
    if (!options.is_given("schedule")) {
        schedules.clear();  // the default
    }
    const std::vector<Schedule> more = schedules_of(tables);
    schedules.insert(schedules.end(), more.begin(), more.end());
}

void take(OptionTable& options, const Values& values) {
    options.take(values);
    check_named_outputs(options);
}

std::string balance(ProfileArgument profile, const std::string& file, const Values& values, const Tables& tables) {
    OptionTable options;
    BalanceQuestion question;
    question.profile = file;
    add_balance_options(options, question);
    take(options, values);
    take_schedule(tables, question.pipeline);
    return json_text(to_json(balance_answer(question, *profile.profile)));
}

/// The JSON, and the columns of timeline and memory, which are None for --schedule all.
using Simulated = std::tuple<std::string, std::optional<TaskColumns>, std::optional<MemoryColumns>>;

Simulated simulate_pipeline(ProfileArgument profile, const std::string& file, const Values& values,
                            const Tables& tables) {
    OptionTable options;
    SimulateQuestion question;
    SimulateOutputs outputs;
    question.profile = file;
    add_simulate_options(options, question);
    options.require({"balance"});
    add_simulate_outputs(options, outputs);
    take(options, values);
    take_schedule(tables, question.pipeline);
    check_outputs(question, outputs);
    SimulateAnswer answer = simulate_answer(question, *profile.profile);
    write_outputs(outputs, answer);
    Simulated simulated{json_text(to_json(answer)), std::nullopt, std::nullopt};
    if (answer.simulation) {
        std::get<1>(simulated) = {std::move(answer.simulation->timeline)};
        std::get<2>(simulated) = {std::move(answer.simulation->memory)};
    }
    return simulated;
}

/// Calls the Python function, and stops what the calling thread waits for. Python's error stays set in the thread.
bool tell(PythonArgument function, double done) {
    if (!LongCall::goes_on()) {
        throw ComputationStopped();
    }
    if (function != Py_None) {
        const GilHere gil;
        PyObject* answer = PyObject_CallFunction(function, "d", done);
        Py_XDECREF(answer);
        if (answer == nullptr) {
            throw ComputationStopped();
        }
    }
    return true;
}

/// The JSON, and the notes about prices.
std::tuple<std::string, std::vector<std::string>> plan_pipelines(ProfileArgument profile, const std::string& file,
                                                                 const Values& values, const Tables& tables,
                                                                 PythonArgument progress) {
    OptionTable options;
    PlanQuestion question;
    question.profile = file;
    add_plan_options(options, question);
    take(options, values);
    take_schedules(tables, options, question.request.schedules);
    const PlanAnswer answer =
        plan_answer(question, *profile.profile, [progress](double done) { return tell(progress, done); });
    return {json_text(to_json(answer)), answer.price_notes};
}

/// The JSON, and the columns of timeline and memory. `profile`: null for a model, or a profile's file, of that name.
Simulated simulate_layout_on(std::optional<ProfileArgument> given, const std::string& name, const Values& values,
                             const Tables& tables) {
    const ModelOrProfile what{name, given ? given->profile : nullptr};
    OptionTable options;
    SimulateQuestion question;
    LayoutQuestion layout;
    SimulateOutputs outputs;
    question.profile = name;
    add_simulate_options(options, question);
    add_layout_options(options, layout);
    add_simulate_outputs(options, outputs);
    take(options, values);
    options.check_use(layout.given());
    check_model_options(options, what, layout.given());
    take_program(options, layout.layout);
    take_schedule(tables, question.pipeline);
    const std::optional<MeasuredAnswer> measured = take_measured(what, question, layout, outputs);
    LayoutAnswer answer = simulate_layout_answer(what, question, layout, outputs);
    std::string json = json_text(with_measured(to_json(answer), measured));
    Simulation& simulation = answer.step.simulation;
    return {std::move(json), TaskColumns{std::move(simulation.timeline)}, MemoryColumns{std::move(simulation.memory)}};
}

std::string plan_cluster_for(std::optional<ProfileArgument> given, const std::string& name, const Values& values,
                             const Tables& tables, PythonArgument progress) {
    const ModelOrProfile what{name, given ? given->profile : nullptr};
    AskedPlan asked;
    take(asked.options, values);
    asked.check(what);
    take_schedules(tables, asked.options, asked.cluster.request.schedules);
    const std::optional<MeasuredAnswer> measured = fit_measured(what, asked.cluster, asked.lanes.pipeline);
    const ClusterPlan plan = cluster_plan_of(what, asked, [progress](double done) { return tell(progress, done); });
    return json_text(with_measured(to_json(plan), measured));
}

/// The JSON of `pipescope schedule --json`, and the table as CSV.
using Table = std::tuple<std::string, std::string>;

Table schedule_of(const TaskGraph& graph, std::string csv) {
    return {json_text(to_json(graph, schedule_table(graph))), std::move(csv)};
}

Table schedule(const std::string& name, const Values& values) {
    OptionTable options;
    ScheduleQuestion question;
    question.schedule = name;
    add_schedule_shape_options(options, question);
    take(options, values);
    const TaskGraph graph = schedule_answer(question);
    return schedule_of(graph, schedule_csv(question, graph));
}

Table schedule_from_csv(const std::string& name, const std::string& csv) {
    const Schedule schedule = Schedule::from_csv(name, csv);
    const TaskGraph graph = make_schedule(schedule, schedule.file()->shape);
    return schedule_of(graph, to_csv(schedule.file()->table));  // its cells, such as pairs, which a graph may not have
}

std::vector<std::string> named_schedules(bool runnable) {
    std::vector<std::string> names;
    for (const Schedule& each : runnable ? runnable_schedules() : all_schedules()) {
        names.push_back(to_string(each));
    }
    return names;
}

void check_optimizer_name(const std::string& name) {
    optimizer_state_factor(name);
}

void write_text(const std::string& path, const std::string& text, bool force) {
    check_output(path, force);
    write_output(path, force, text);
}
}  // namespace

std::span<PyMethodDef> answer_functions() {
    static std::array functions{
        python_function<&balance>("balance"),
        python_function<&simulate_pipeline>("simulate"),
        python_function<&plan_pipelines>("plan"),
        python_function<&simulate_layout_on>("simulate_layout"),
        python_function<&plan_cluster_for>("plan_cluster"),
        python_function<&schedule>("schedule"),
        python_function<&schedule_from_csv>("schedule_from_csv"),
        python_function<&named_schedules>("schedule_names"),
        python_function<&check_optimizer_name>("check_optimizer"),
        python_function<&write_text>("write_text"),
        PyMethodDef{},
    };
    return functions;
}
}  // namespace pipescope
