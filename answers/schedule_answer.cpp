#include "answers/schedule_answer.h"

#include "base/error.h"
#include "schedule/placement.h"
#include "schedule/schedules.h"
#include "simulator/schedule_file.h"
#include "simulator/search/schedule_search.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace pipescope {
namespace {
TaskGraph graph_of_file(const ScheduleQuestion& question) {
    const Schedule schedule = load_schedule(question.schedule);
    for (const auto& [given, option] : {std::pair{question.lanes, "n,lanes"},
                                        {question.micro_batches, "m,chunks"},
                                        {question.partitions, "partitions"}}) {
        if (given) {
            throw UsageError(fmt::format("{} is {}; {} says that itself; leave it out", option_name(option), *given,
                                         question.schedule));
        }
    }
    return make_schedule(schedule, schedule.file()->shape);
}

/// The best order if all tasks take equally long and copies take no time.
TaskGraph graph_for_equal_times(PipelineShape shape) {
    ScheduleCosts costs;
    costs.micro_batches = shape.num_micro_batches;
    for (const LaneId lane : shape.placement) {
        costs.partitions.push_back(
            {.lane = lane, .forward = 1, .recompute = 0, .backward = 1, .backward_weight = 1, .saved = 1});
    }
    shape.loss = LossScope::micro_batch;
    shape.check();
    return TaskGraph(shape, find_schedule(costs).programs);
}

TaskGraph graph_of_name(const ScheduleQuestion& question) {
    const Schedule schedule = parse_schedule(question.schedule);
    if (!question.lanes || !question.micro_batches) {
        throw UsageError(fmt::format("schedule '{}' needs {} LANES and {} MICRO-BATCHES, such as {} {}",
                                     question.schedule, option_name("n,lanes"), option_name("m,chunks"),
                                     option_name("n,lanes=4"), option_name("m,chunks=8")));
    }
    if (*question.lanes < 1 || *question.lanes > kMostPartitions) {
        throw UsageError(fmt::format("{} is {}; it must be from 1 to {}; change it", option_name("n,lanes"),
                                     *question.lanes, kMostPartitions));
    }
    const auto lanes = static_cast<std::size_t>(*question.lanes);
    PipelineShape shape{
        .num_partitions = question.partitions.value_or(static_cast<int>(usual_partitions(schedule, lanes))),
        .num_micro_batches = *question.micro_batches,
        .checkpoint = Checkpoint::never};
    if (shape.num_partitions < *question.lanes || shape.num_partitions > kMostPartitions) {
        throw UsageError(fmt::format("{} is {}; it must be from {}, one for each lane, to {}; change it",
                                     option_name("partitions"), shape.num_partitions, *question.lanes,
                                     kMostPartitions));
    }
    constexpr std::int64_t kMostForwards = 1'000'000;
    if (const std::int64_t forwards = std::int64_t{shape.num_partitions} * shape.num_micro_batches;
        forwards > kMostForwards) {
        throw UsageError(
            fmt::format("{} on {} partitions with {} micro-batches has {} forwards; a table of at most {} is written; "
                        "give fewer lanes ({}), {} or micro-batches ({})",
                        question.schedule, shape.num_partitions, shape.num_micro_batches, forwards, kMostForwards,
                        option_name("n,lanes"), option_name("partitions"), option_name("m,chunks")));
    }
    const auto partitions = static_cast<std::size_t>(shape.num_partitions);
    if (schedule == Schedule::automatic) {
        shape.placement = placement_in_turn(partitions, lanes);
        return graph_for_equal_times(shape);
    }
    shape.placement = placement_of(schedule, partitions, lanes);
    if (shape.placement.size() != partitions) {  // no placement, or one for another number of partitions
        shape.placement = placement_in_turn(partitions, lanes);
    }
    return make_schedule(schedule, shape);
}

}  // namespace

double idle_share(const ScheduleTable& table) {
    std::size_t slots = 0;
    std::size_t idle = 0;
    for (const auto& row : table.rows) {
        slots += row.size();
        idle += static_cast<std::size_t>(std::ranges::count(row, ScheduleTable::Cell{}));
    }
    return slots == 0 ? 0 : static_cast<double>(idle) / static_cast<double>(slots);
}

TaskGraph schedule_answer(const ScheduleQuestion& question) {
    return is_schedule_file(question.schedule) ? graph_of_file(question) : graph_of_name(question);
}

std::string schedule_csv(const Schedule& schedule, PipelineShape shape) {
    shape.joins_pairs = true;
    return to_csv(schedule_table(make_schedule(schedule, std::move(shape))));
}

std::string schedule_csv(const ScheduleQuestion& question, const TaskGraph& answer) {
    if (is_schedule_file(question.schedule)) {
        return to_csv(load_schedule(question.schedule).file()->table);
    }
    const Schedule schedule = parse_schedule(question.schedule);
    return schedule == Schedule::automatic ? to_csv(schedule_table(answer)) : schedule_csv(schedule, answer.shape());
}

nlohmann::ordered_json to_json(const TaskGraph& graph, const ScheduleTable& table) {
    nlohmann::ordered_json object;
    object["lanes"] = graph.num_lanes();
    object["partitions"] = graph.shape().num_partitions;
    object["micro_batches"] = graph.shape().num_micro_batches;
    object["placement"] = nlohmann::ordered_json::array();
    for (int j = 0; j < graph.shape().num_partitions; ++j) {
        object["placement"].push_back(graph.shape().lane_of(PartitionId{j}).value());
    }
    object["splits_backward"] = splits_backward(table);
    object["slots"] = table.rows.empty() ? 0 : table.rows.front().size();
    object["idle_fraction"] = idle_share(table);
    return object;
}

void add_schedule_shape_options(OptionTable& table, ScheduleQuestion& question) {
    table.add_number("-n,--lanes", question.lanes, "Lanes of a named schedule", "N");
    table.add_number("-m,--chunks", question.micro_batches, "Micro-batches of a named schedule", "N");
    table.add_number("--partitions", question.partitions,
                     "Partitions of a named schedule, placed on the lanes in turn; default: one per lane, or two for "
                     "schedules that need several",
                     "N");
}
}  // namespace pipescope
