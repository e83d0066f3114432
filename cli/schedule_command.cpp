#include "answers/reports.h"
#include "answers/schedule_answer.h"
#include "answers/units.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "cli/commands.h"
#include "cli/option_flags.h"
#include "cli/output_file.h"
#include "cli/program.h"
#include "schedule/schedules.h"
#include "simulator/schedule_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iostream>
#include <memory>
#include <string>

namespace pipescope {
namespace {
struct ScheduleOutputs {
    bool check = false;
    bool json = false;
    std::string output;
    bool force = false;
};

ExitCode schedule_command(const ScheduleQuestion& flags, const ScheduleOutputs& outputs) {
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
    const std::string csv = schedule_csv(flags, graph);
    if (to_file) {
        write_output(outputs.output, outputs.force, csv);
    }
    if (outputs.json) {
        std::cout << dump(to_json(graph, table));
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

void add_schedule_command(Program& program) {
    const auto flags = std::make_shared<ScheduleQuestion>();
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
