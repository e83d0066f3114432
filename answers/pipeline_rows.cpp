#include "answers/pipeline_rows.h"

#include "base/error.h"
#include "base/number_text.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "hardware/links_file.h"
#include "simulator/schedule_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace pipescope {
OptionRow& add_balance_option(OptionTable& table, AskedPipeline& asked) {
    return table.add("--balance", asked.options.balance, parse_balance, "Layers per partition, in order, such as 2,2,3",
                     "LIST", "Pipeline");
}

void add_batch_options(OptionTable& table, AskedPipeline& asked) {
    asked.needs_chunks = true;
    table
        .add_number(
            "-m,--chunks", asked.chunks,
            "Micro-batches per mini-batch; a batch of fewer samples gives one micro-batch per sample. Required, "
            "unless --schedule is a file, which has its own",
            "N", "Pipeline")
        .use = OptionUse::lanes;
    add_mini_batch_option(table, asked);
    add_checkpoint_option(table, asked);
}

void add_checkpoint_option(OptionTable& table, AskedPipeline& asked) {
    table.add("--checkpoint", asked.checkpoint, parse_checkpoint,
              "Which micro-batches keep only their input and are recomputed before backward: always, except_last "
              "(default) or never",
              "MODE", "Pipeline");
}

void add_mini_batch_option(OptionTable& table, AskedPipeline& asked) {
    table.add_number("--batch", asked.options.batch, "Samples of one mini-batch, which is one step", "N", "Pipeline");
}

void add_algorithm_option(OptionTable& table, BalanceAlgorithm& algorithm) {
    table
        .add("--algorithm", algorithm, parse_balance_algorithm,
             "How to cut: optimal (default) for the shortest simulated step; minmax for the smallest largest "
             "partition; variance for partition costs with the least variance, as in the GPipe paper; block for "
             "torchgpipe's method, as a comparison",
             "NAME", "Pipeline")
        .use = OptionUse::lanes;
}

void add_schedule_option(OptionTable& table, AskedPipeline& asked, const std::string& help, bool* all) {
    const auto parse = [all, &asked](const std::string& name) {
        asked.schedule_given = true;
        const bool takes_all = all != nullptr && name == "all";
        if (takes_all) {
            *all = true;
        }
        if (asked.runs && !takes_all && name.find('.') == std::string::npos) {  // not a file
            const auto is_named = [&name](const Schedule& each) { return to_string(each) == name; };
            if (name != to_string(Schedule::automatic) && std::ranges::none_of(all_schedules(), is_named)) {
                throw UsageError(fmt::format("schedule '{}' is not known; it must be {}; use gpipe when unsure",
                                             printable(name), runnable_schedule_names(", ") + " or a .csv file"));
            }
        }
        return takes_all ? Schedule(Schedule::gpipe) : load_schedule(name);
    };
    table.add("--schedule", asked.options.schedule, parse, help, "NAME|FILE", "Pipeline");
}

void add_schedule_options(OptionTable& table, AskedPipeline& asked, const std::string& schedules, bool* all) {
    add_schedule_option(table, asked, "Order of the tasks: " + schedules, all);
    table
        .add("--placement", asked.options.placement, parse_placement,
             "Lane of each partition, such as 0,0,1; default: one lane per partition, or as the schedule needs it on "
             "the lanes of --devices, otherwise two on each lane",
             "LIST", "Pipeline")
        .use = OptionUse::lanes;
}

void add_hardware_options(OptionTable& table, AskedPipeline& asked) {
    Hardware& hardware = asked.options.hardware;
    const char* const group = "Hardware";
    const std::size_t before = table.rows().size();
    table.add_list("--devices", hardware.devices,
                   "Device of each lane, such as cpu,cpu; copies between lanes of one device are free. Default: all "
                   "cpu, as in 'run', if the profile was measured there or --cores is given, and no link is given; "
                   "otherwise one device per lane",
                   "LIST", group);
    table.add_number(
        "--cores", asked.cores,
        "Cores that lanes on 'cpu' share, one task at a time; default: the cores in the profile, otherwise "
        "one per lane",
        "N", group);
    table.add("--link-bandwidth", hardware.link.bytes_per_second, parse_bandwidth,
              "Bandwidth of the link between each two devices, such as 12GB/s; default: copies are free", "RATE",
              group);
    table.add("--link-latency", hardware.link.latency_ns, parse_duration_ns,
              "Latency of each copy, such as 10us; default 0", "TIME", group);
    table.add(
        "--links", hardware.link.times, [](const std::string& file) { return load_links(file); },
        "File with the measured times of messages by size (docs/links-format.md), instead of --link-bandwidth and "
        "--link-latency",
        "FILE", group);
    table.add("--link-sharing", hardware.link.sharing, parse_link_sharing,
              "Which copies share bandwidth: none (default; a link for each pair of lanes), sender (one port per "
              "device), host (a sending and a receiving port per host) or all (one bus)",
              "NAME", group);
    table.add("--link-protocol", hardware.link.protocol, parse_link_protocol,
              "How a copy starts: eager (default), the receive is posted ahead, as in run; rendezvous, the sender "
              "announces each copy and waits for the answer, which takes one more round trip; blocking, the "
              "receiving lane posts the receive right before the task that needs the copy; or in-turn, a lane "
              "handles one copy after the other, in the order of its tasks",
              "NAME", group);
    table.add_number("--processes", hardware.processes,
                     "Processes that run the lanes, each on its own host: lane k of L in process k * N / L. Copies "
                     "between them take the link, and each has its own --cores; default 1",
                     "N", group);
    table.add("--speed", hardware.speeds, parse_speeds,
              "Speed of each lane relative to the profiled device, such as 1,1,.5; default: all 1", "LIST", group);
    table.use_from(before, OptionUse::lanes);
    add_memory_limit_option(table, asked);
}

void add_memory_limit_option(OptionTable& table, AskedPipeline& asked) {
    const auto parse = [hardware = &asked.options.hardware](const std::string& text, const std::string& option) {
        parse_memory_limits(text, option, *hardware);
        return hardware->memory_limit;
    };
    table.add("--memory-limit", asked.options.hardware.memory_limit, parse,
              "Memory that the tensors of each lane may take, such as 16GiB, or 16GiB,24GiB if lanes differ; if a lane "
              "needs more, the answer is infeasible and the exit code 3. With --cluster: of each device, one size",
              "LIST", "Hardware");
}

void add_parameter_options(OptionTable& table, AskedPipeline& asked) {
    table.add_text("--optimizer", asked.optimizer,
                   "Optimizer whose state counts as memory: sgd, momentum, adam, adamw, amsgrad, adadelta, adagrad, "
                   "rmsprop (-momentum, -centered, -centered-momentum), or a number, the bytes of state per byte of "
                   "parameter; default: adam if the input is token numbers, otherwise sgd",
                   "NAME", "Pipeline");
    table.add_flag("--master-weights", asked.options.master_weights,
                   "The optimizer keeps a float32 copy of each bfloat16 or float16 parameter, and its state in float32",
                   "Pipeline");
    table.add_text(
        "--dtype", asked.dtype,
        "The profile's dtype; with --device-types also another one of the same size (float32 as tf32, "
        "float16 as bfloat16). For any other, profile the model with --dtype. A gpt: model takes any, bfloat16 "
        "by default, and for the products of its blocks float8, float8-rowwise, float8-mx and float4",
        "NAME", "Pipeline");
}

void add_replicas_option(OptionTable& table, AskedPipeline& asked) {
    table
        .add_number("--replicas", asked.options.replicas,
                    "Number of equal pipelines, each with an equal part of the mini-batch; their gradients are summed "
                    "at the end of the step; default 1",
                    "N", "Pipeline")
        .use = OptionUse::lanes;
}

void add_update_option(OptionTable& table, AskedPipeline& asked) {
    table
        .add("--update", asked.options.update, parse_update,
             "When lanes update their parameters: synchronous (default), after all lanes have finished the "
             "step; or staggered, each lane after its own last task, before its next step",
             "WHEN", "Pipeline")
        .use = OptionUse::lanes;
}

void add_pair_overlap_option(OptionTable& table, AskedPipeline& asked) {
    const auto parse = [](const std::string& text, const std::string& option) {
        const std::optional<double> share = number_in<double>(text);
        if (!share) {
            throw UsageError(option + " is '" + printable(text) +
                             "'; it is the share of a pair's shorter task that takes no time, from 0 to 1; change it");
        }
        return *share;
    };
    table
        .add("--pair-overlap", asked.options.pair_overlap, parse,
             "Share of the shorter task's time that a forward and a backward save if dualpipe or dualpipe-v pairs "
             "them, from 0 to 1; both then start and end together. Default: they run one after the other",
             "SHARE", "Pipeline")
        .use = OptionUse::lanes;
}

void add_device_type_options(OptionTable& table, AskedPipeline& asked, const std::string& help) {
    table.add_text("--device-types,--device-type", asked.device_types,
                   help +
                       ". Times are then estimated from the profile's flops; link and memory limit come from the "
                       "catalogue unless given. Default: the profiled device",
                   "LIST", "Hardware");
    table.add_text("--device-catalogue,--catalogue", asked.device_catalogue,
                   "File that describes device types (docs/device-catalogue.md); default: the built-in catalogue",
                   "FILE", "Hardware");
    table.add("--headroom", asked.headroom, parse_bytes,
              "Memory of each device of a type that tensors leave free for context, collectives and allocator, such as "
              "4GiB; default: the catalogue's, which is 5 % of the memory unless it says so",
              "SIZE", "Hardware");
}

void add_force_option(OptionTable& table, bool& force) {
    table.add_flag("--force", force, "Replace output files that exist", "Output");
}

namespace {
/// Adds options that only the simulator has.
void add_simulation_options(OptionTable& table, AskedPipeline& asked, bool knows_clusters) {
    table
        .add_flag("--expandable-segments", asked.options.hardware.expandable_segments,
                  "Compute reserved memory as with PyTorch's setting of that name", "Hardware")
        .use = OptionUse::lanes;
    table
        .add_number("--in-flight", asked.most_in_flight,
                    "Maximum number of micro-batches between first forward and last backward; default: no limit", "N",
                    "Pipeline")
        .use = OptionUse::lanes;
    add_pair_overlap_option(table, asked);
    table
        .add("--backward", asked.backward_order, parse_backward_order,
             "Order of gpipe's backwards: last-first (default) or first-first", "ORDER", "Pipeline")
        .use = OptionUse::lanes;
    table.add_text("--recompute", asked.recompute,
                   std::string("When to recompute: early (default), while the gradient is on its way, or ordinary, "
                               "once it has arrived") +
                       (knows_clusters ? "; with --cluster what: none (default), selective or full" : ""),
                   "WHEN", "Pipeline");
}
}  // namespace

void add_simulated_pipeline_options(OptionTable& table, AskedPipeline& asked, bool* all_schedules) {
    add_balance_option(table, asked);
    add_batch_options(table, asked);
    add_schedule_options(table, asked,
                         runnable_schedule_names(", ") +
                             " (default gpipe); only simulated: " + compared_schedule_names() +
                             "; or a file that ends in .csv, as 'pipescope schedule' writes it; or auto, "
                             "which finds the order with the shortest step" +
                             (all_schedules == nullptr ? "" : "; or all, which compares them in a table"),
                         all_schedules);
    add_update_option(table, asked);
    add_hardware_options(table, asked);
    add_device_type_options(table, asked, "Type of all devices, such as A100");
    add_replicas_option(table, asked);
    add_simulation_options(table, asked, all_schedules != nullptr);
    add_parameter_options(table, asked);
}
}  // namespace pipescope
