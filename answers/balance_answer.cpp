#include "answers/balance_answer.h"

#include "answers/pipeline_rows.h"
#include "answers/reports.h"
#include "base/error.h"
#include "base/quantities.h"
#include "schedule/schedules.h"
#include "simulator/search/automatic_schedule.h"
#include "simulator/search/balanced_pipeline.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <functional>
#include <utility>

namespace pipescope {
namespace {
/// As given, or as the schedule's file says.
int partitions_of(const BalanceQuestion& question, const PipelineOptions& options) {
    if (const Schedule::File* file = options.schedule.file()) {
        const int own = file->shape.num_partitions;
        if (question.partitions && *question.partitions != own) {
            throw UsageError(fmt::format("{} is {}; the schedule {} has {}; leave {} out, or use another schedule",
                                         option_name("partitions"), *question.partitions, file->name,
                                         counted(own, "partition", "partitions"), option_name("partitions")));
        }
        return own;
    }
    if (!question.partitions) {
        throw UsageError(option_name("partitions") +
                         " is required; it is the number of lanes to cut for; give it, such as " +
                         option_name("n,partitions=4"));
    }
    if (!runs_one_partition_a_lane(options.schedule)) {
        throw UsageError(option_name("schedule") + " is " + to_string(options.schedule) +
                         "; balance gives each partition its own lane; use plan, which gives each lane two partitions");
    }
    return *question.partitions;
}

/// The named schedules, but the default one, whose partitions have a lane each.
std::vector<Schedule> schedules_compared() {
    std::vector<Schedule> all = all_schedules();
    std::erase_if(all, [](const Schedule& each) { return each == Schedule() || !runs_one_partition_a_lane(each); });
    return all;
}
}  // namespace

BalanceAnswer balance_answer(const BalanceQuestion& question, const CheckedProfile& profile) {
    PipelineOptions options = pipeline_options(question.pipeline);
    const int partitions = partitions_of(question, options);
    const int lanes = options.schedule.file() ? options.schedule.file()->shape.num_lanes() : partitions;
    options.placement.clear();  // follows from the schedule
    const auto layers = static_cast<int>(std::min<std::size_t>(profile->layers.size(), kMostPartitions));
    EstimatedPipeline pipeline =
        estimated_pipeline(question.pipeline, options, profile, question.profile, std::clamp(lanes, 1, layers));
    PipelineOptions chosen = pipeline.options;
    const bool in_order = runs_one_partition_a_lane(options.schedule);
    FoundBalance found =
        options.schedule == Schedule::automatic
            ? find_automatic_balance(pipeline.profile, pipeline.options, partitions, question.algorithm)
        : in_order ? find_balance(pipeline.profile, pipeline.options, partitions, question.algorithm)
                   : find_placed_balance(pipeline.profile, pipeline.options, lanes, question.algorithm);
    chosen.balance = found.balance;
    chosen.placement = placement_of(options.schedule, found.balance.num_partitions(), static_cast<std::size_t>(lanes));
    Simulation simulation = find_and_simulate(pipeline.profile, chosen, {.noise = true, .memory = false});
    return {std::move(found), std::move(simulation), std::move(pipeline)};
}

nlohmann::ordered_json to_json(const BalanceAnswer& answer) {
    auto object = balance_json(answer.found, answer.simulation);
    object["micro_batches"] = answer.simulation.micro_batches;
    object["dtype"] = answer.pipeline.profile->dtype;
    object["optimizer"] = answer.pipeline.options.optimizer;
    object["estimated"] = answer.pipeline.profile->estimated;
    object["extrapolated"] = answer.simulation.extrapolated;
    object["assumed"] = assumptions_json(answer.pipeline.assumptions);
    return object;
}

void check_balance(const BalanceQuestion& question) {
    partitions_of(question, pipeline_options(question.pipeline));
}

std::vector<std::string> warnings_of(const BalanceQuestion& question) {
    const std::vector<double>& speeds = question.pipeline.options.hardware.speeds;
    const bool all_equal = std::ranges::adjacent_find(speeds, std::not_equal_to<>()) == speeds.end();
    if (question.algorithm == BalanceAlgorithm::optimal || all_equal) {
        return {};
    }
    return {fmt::format(
        "--algorithm {} cuts as if all lanes were equally fast, as in torchgpipe; only the step time follows --speed; "
        "use optimal to cut for these speeds",
        to_string(question.algorithm))};
}

std::string to_text(const BalanceAnswer& answer) {
    const PipelineOptions& options = answer.pipeline.options;
    return balance_text(answer.found, answer.simulation) + "\n" + basis_text(answer.pipeline.profile->dtype, options) +
           (answer.simulation.extrapolated ? extrapolation_text(answer.pipeline.profile_command) : "") +
           fewer_micro_batches(options) + assumptions_text(answer.pipeline.assumptions);
}

void add_balance_options(OptionTable& table, BalanceQuestion& question) {
    table.add_number("-n,--partitions", question.partitions,
                     "Number of partitions, one lane each. Required, unless --schedule is a file, which has its own",
                     "N", "Pipeline");
    add_algorithm_option(table, question.algorithm);
    add_batch_options(table, question.pipeline);
    add_schedule_option(
        table, question.pipeline,
        "Order of the tasks: " + to_string(Schedule()) + " (default), whose best balance is proved; " +
            schedule_names(schedules_compared()) +
            ", whose balances are compared by simulation; auto, which finds balance and order together; or a file that "
            "ends in .csv, as 'pipescope schedule' writes it");
    add_update_option(table, question.pipeline);
    add_hardware_options(table, question.pipeline);
    add_device_type_options(table, question.pipeline, "Type of all devices, such as A100");
    add_replicas_option(table, question.pipeline);
    add_parameter_options(table, question.pipeline);
    table.require({"batch"});
}
}  // namespace pipescope
