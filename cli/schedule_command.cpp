#include "answers/reports.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/printable.h"
#include "cli/answers.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "schedule/placement.h"
#include "schedule/schedule_table.h"
#include "schedule/schedules.h"
#include "simulator/schedule_file.h"
#include "simulator/search/schedule_search.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
struct ScheduleOutputs {
    bool check = false;
    bool json = false;
    std::string output;
    bool force = false;
};

TaskGraph graph_of_file(const ScheduleFlags& flags) {
    const Schedule schedule = load_schedule(flags.schedule);
    for (const auto& [given, option] :
         {std::pair{flags.lanes, "n,lanes"}, {flags.micro_batches, "m,chunks"}, {flags.partitions, "partitions"}}) {
        if (given) {
            throw UsageError(fmt::format("{} is {}; {} says that itself; leave it out", option_name(option), *given,
                                         flags.schedule));
        }
    }
    return make_schedule(schedule, schedule.file()->shape);
}

/// The order that is best if all tasks take the same time and copies take none.
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

TaskGraph graph_of_name(const ScheduleFlags& flags) {
    const Schedule schedule = parse_schedule(flags.schedule);
    if (!flags.lanes || !flags.micro_batches) {
        throw UsageError(fmt::format("schedule '{}' needs {} LANES and {} MICRO-BATCHES, such as {} {}", flags.schedule,
                                     option_name("n,lanes"), option_name("m,chunks"), option_name("n,lanes=4"),
                                     option_name("m,chunks=8")));
    }
    if (*flags.lanes < 1 || *flags.lanes > kMostPartitions) {
        throw UsageError(fmt::format("{} is {}; it must be from 1 to {}; change it", option_name("n,lanes"),
                                     *flags.lanes, kMostPartitions));
    }
    const auto lanes = static_cast<std::size_t>(*flags.lanes);
    PipelineShape shape{
        .num_partitions = flags.partitions.value_or(static_cast<int>(usual_partitions(schedule, lanes))),
        .num_micro_batches = *flags.micro_batches,
        .checkpoint = Checkpoint::never};
    if (shape.num_partitions < *flags.lanes || shape.num_partitions > kMostPartitions) {
        throw UsageError(fmt::format("{} is {}; it must be from {}, one for each lane, to {}; change it",
                                     option_name("partitions"), shape.num_partitions, *flags.lanes, kMostPartitions));
    }
    constexpr std::int64_t kMostForwards = 1'000'000;
    if (const std::int64_t forwards = std::int64_t{shape.num_partitions} * shape.num_micro_batches;
        forwards > kMostForwards) {
        throw UsageError(
            fmt::format("{} on {} partitions with {} micro-batches has {} forwards; a table of at most {} is written; "
                        "give fewer lanes ({}), {} or micro-batches ({})",
                        flags.schedule, shape.num_partitions, shape.num_micro_batches, forwards, kMostForwards,
                        option_name("n,lanes"), option_name("partitions"), option_name("m,chunks")));
    }
    const auto partitions = static_cast<std::size_t>(shape.num_partitions);
    if (schedule == Schedule::automatic) {
        shape.placement = placement_in_turn(partitions, lanes);
        return graph_for_equal_times(shape);
    }
    shape.placement = placement_of(schedule, partitions, lanes);
    if (shape.placement.size() != partitions) {  // none of its own, or of another number of partitions
        shape.placement = placement_in_turn(partitions, lanes);
    }
    return make_schedule(schedule, shape);
}

/// Share of the lanes' slots in which they run nothing.
double idle_share(const ScheduleTable& table) {
    std::size_t slots = 0;
    std::size_t idle = 0;
    for (const auto& row : table.rows) {
        slots += row.size();
        idle += static_cast<std::size_t>(std::ranges::count(row, ScheduleTable::Cell{}));
    }
    return slots == 0 ? 0 : static_cast<double>(idle) / static_cast<double>(slots);
}

}  // namespace

TaskGraph schedule_answer(const ScheduleFlags& flags) {
    return is_schedule_file(flags.schedule) ? graph_of_file(flags) : graph_of_name(flags);
}

nlohmann::ordered_json schedule_answer_json(const TaskGraph& graph, const ScheduleTable& table) {
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

namespace {
ExitCode schedule_command(const ScheduleFlags& flags, const ScheduleOutputs& outputs) {
    const bool from_file = is_schedule_file(flags.schedule);
    const bool to_file = !outputs.output.empty() && outputs.output != "-";
    if (to_file) {
        check_schedule_output(outputs.output, outputs.force);
    }
    if (outputs.json && outputs.output == "-") {
        throw UsageError(option_name("output") + " is - with " + option_name("json") +
                         "; both print to stdout; leave one out");
    }
    const TaskGraph graph = schedule_answer(flags);
    const ScheduleTable table = schedule_table(graph);
    const Schedule schedule = from_file ? load_schedule(flags.schedule) : Schedule();
    const std::size_t communication = from_file ? schedule.file()->communication_cells : 0;
    const std::string csv = to_csv(from_file ? schedule.file()->table : table);
    if (to_file) {
        write_output(outputs.output, outputs.force, csv);
    }
    if (outputs.json) {
        std::cout << dump(schedule_answer_json(graph, table));
    } else if (outputs.output.empty() ? from_file || outputs.check : to_file) {
        std::cout << fmt::format(
            "{}: {}, {}, {}; every task once, and no deadlock\n"
            "{}, {} idle, if each task took one slot and copies none\n",
            printable(to_file ? "wrote " + outputs.output : flags.schedule),
            counted(graph.num_lanes(), "lane", "lanes"),
            counted(graph.shape().num_partitions, "partition", "partitions"),
            counted(graph.shape().num_micro_batches, "micro-batch", "micro-batches"),
            counted(table.rows.front().size(), "slot", "slots"), format_percent(idle_share(table)));
        if (communication > 0) {
            std::cout << fmt::format("{} left out: messages follow from the tasks\n",
                                     counted(communication, "cell of communication is", "cells of communication are"));
        }
    } else {
        std::cout << csv;
    }
    return ExitCode::success;
}
}  // namespace

void add_schedule_shape_options(OptionTable& table, ScheduleFlags& flags) {
    table.add_number("-n,--lanes", flags.lanes, "Lanes of a named schedule", "N");
    table.add_number("-m,--chunks", flags.micro_batches, "Micro-batches of a named schedule", "N");
    table.add_number("--partitions", flags.partitions,
                     "Partitions of a named schedule, placed on the lanes in turn; default: one per lane, or two for "
                     "schedules that need several",
                     "N");
}

void add_schedule_command(Program& program) {
    const auto flags = std::make_shared<ScheduleFlags>();
    const auto outputs = std::make_shared<ScheduleOutputs>();
    CLI::App* command = program.add_command(
        "schedule", "Write a schedule as a table of lanes and slots, or check one",
        "Examples:\n"
        "  pipescope schedule 1f1b -n 4 -m 8 -o 1f1b.csv\n"
        "  pipescope schedule 1f1b.csv --check\n"
        "The file is the compute-only CSV of torch.distributed.pipelining: a row per lane, cells such as 3F0 for the\n"
        "forward of micro-batch 0 on partition 3; B is a backward, I and W its halves for inputs and weights.");
    command
        ->add_option("SCHEDULE", flags->schedule,
                     "Name of a schedule; auto, the best order of equal tasks; or a file that ends in .csv. Names: " +
                         runnable_schedule_names(", ") + ", " + compared_schedule_names())
        ->required();
    add_options(*command, [&](OptionTable& table) { add_schedule_shape_options(table, *flags); });
    command->add_flag("--check", outputs->check,
                      "Check, and print no table: every task runs once, in an order without a deadlock");
    add_option(*command, "-o,--output", outputs->output,
               "CSV file to write; a table from a file keeps its cells. Default: stdout; of a file, none", "FILE",
               "Output");
    add_force_flag(*command, outputs->force);
    add_json_flag(*command, outputs->json);
    program.set_action(command, [flags, outputs] { return schedule_command(*flags, *outputs); });
}
}  // namespace pipescope
