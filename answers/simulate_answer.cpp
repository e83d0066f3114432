#include "answers/simulate_answer.h"

#include "answers/pipeline_rows.h"
#include "answers/reports.h"
#include "answers/schedule_answer.h"
#include "base/error.h"
#include "schedule/placement.h"
#include "simulator/search/automatic_schedule.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
/// Refuses options that --schedule all sets itself, by row.
void check_for_all_schedules(const SimulateQuestion& question) {
    const auto refuse = [](const std::string& option, const std::string& value, const std::string& because) {
        throw UsageError(fmt::format("{} is {} with {} all, which {}; name one schedule, or leave out {}", option,
                                     value, option_name("schedule"), because, option));
    };
    const PipelineOptions& options = question.pipeline.options;
    if (!options.placement.empty()) {
        refuse(option_name("placement"), placement_text(options.placement), "runs partition j on lane j");
    }
    if (options.replicas != 1) {
        refuse(option_name("replicas"), std::to_string(options.replicas), "compares its own numbers of replicas");
    }
    if (question.pipeline.backward_order == BackwardOrder::first_first) {
        refuse(option_name("backward"), to_string(*question.pipeline.backward_order),
               "runs the last micro-batch's backward first");
    }
}

}  // namespace

PipelineOptions checked_options(const SimulateQuestion& question) {
    PipelineOptions options = simulated_pipeline_options(question.pipeline);
    if (question.all_schedules) {
        check_for_all_schedules(question);
    }
    return options;
}

std::string order_csv(const Simulation& simulation) {
    const Schedule& found = simulation.options.schedule;
    if (!needs_loss_inside(found) && simulation.micro_batches > 1) {
        throw UsageError(
            "the order found is " + to_string(found) +
            ", which computes one loss of the whole mini-batch; a file computes that of each micro-batch and takes "
            "another time; leave out " +
            option_name("schedule-output") + ", and use " + option_name("schedule") + " " + to_string(found));
    }
    if (found.file() != nullptr) {
        return to_csv(found.file()->table);
    }
    return schedule_csv(found, {.num_partitions = static_cast<int>(simulation.options.balance.num_partitions()),
                                .num_micro_batches = static_cast<int>(simulation.micro_batches),
                                .checkpoint = simulation.options.checkpoint,
                                .placement = simulation.options.placement});
}

SimulateAnswer simulate_answer(const SimulateQuestion& question, const CheckedProfile& profile) {
    const PipelineOptions options = checked_options(question);
    const bool all = question.all_schedules;
    if (!all) {
        check_options(options, profile->layers.size());
    }
    const int lanes = all ? static_cast<int>(options.balance.num_partitions()) : num_lanes(options);
    SimulateAnswer answer{simulated_pipeline(question.pipeline, options, profile, question.profile, lanes),
                          std::nullopt, std::nullopt};
    if (all) {
        answer.comparison = compare_schedules(answer.pipeline.profile, answer.pipeline.options);
    } else {
        answer.simulation = find_and_simulate(answer.pipeline.profile, answer.pipeline.options,
                                              {.noise = true, .memory = true, .reserved = true});
        add_lower_bound(answer.pipeline.profile, *answer.simulation);
    }
    return answer;
}

nlohmann::ordered_json to_json(const SimulateAnswer& answer) {
    auto object = answer.simulation ? simulation_json(*answer.simulation) : schedules_json(*answer.comparison);
    object["assumed"] = assumptions_json(answer.pipeline.assumptions);
    return object;
}

std::string to_text(const SimulateAnswer& answer) {
    const EstimatedPipeline& pipeline = answer.pipeline;
    const auto note = [&](bool extrapolated) {
        return extrapolated ? extrapolation_text(pipeline.profile_command) : "";
    };
    if (answer.simulation) {
        return simulation_text(*answer.simulation) + note(answer.simulation->extrapolated) +
               assumptions_text(pipeline.assumptions);
    }
    const std::vector<ComparedSchedule>& schedules = answer.comparison->schedules;
    return schedules_text(*answer.comparison) + note(!schedules.empty() && schedules.front().simulation.extrapolated) +
           fewer_micro_batches(pipeline.options) + assumptions_text(pipeline.assumptions);
}

bool any_fits(const SimulateAnswer& answer) {
    return answer.simulation ? answer.simulation->feasible
                             : std::ranges::any_of(answer.comparison->schedules, [](const ComparedSchedule& each) {
                                   return each.simulation.feasible;
                               });
}

void add_simulate_options(OptionTable& table, SimulateQuestion& question) {
    add_simulated_pipeline_options(table, question.pipeline, &question.all_schedules);
    table.require({"batch"});
}
}  // namespace pipescope
