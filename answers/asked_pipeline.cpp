#include "answers/asked_pipeline.h"

#include "base/error.h"
#include "base/number_ranges.h"
#include "base/printable.h"
#include "base/quantities.h"
#include "hardware/links_file.h"
#include "schedule/micro_batches.h"
#include "simulator/schedule_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace pipescope {
OptionRow& add_balance_option(OptionTable& table, PipelineFlags& flags) {
    return table.add("--balance", flags.options.balance, parse_balance, "Layers per partition, in order, such as 2,2,3",
                     "LIST", "Pipeline");
}

void add_batch_options(OptionTable& table, PipelineFlags& flags) {
    flags.needs_chunks = true;
    table
        .add_number(
            "-m,--chunks", flags.chunks,
            "Micro-batches per mini-batch; a batch of fewer samples gives one micro-batch per sample. Required, "
            "unless --schedule is a file, which has its own",
            "N", "Pipeline")
        .use = OptionUse::lanes;
    add_mini_batch_option(table, flags);
    add_checkpoint_option(table, flags);
}

void add_checkpoint_option(OptionTable& table, PipelineFlags& flags) {
    table.add("--checkpoint", flags.checkpoint, parse_checkpoint,
              "Which micro-batches keep only their input and are recomputed before backward: always, except_last "
              "(default) or never",
              "MODE", "Pipeline");
}

void add_mini_batch_option(OptionTable& table, PipelineFlags& flags) {
    table.add_number("--batch", flags.options.batch, "Samples of one mini-batch, which is one step", "N", "Pipeline");
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

void add_schedule_option(OptionTable& table, PipelineFlags& flags, const std::string& help, bool* all) {
    const auto parse = [all, &flags](const std::string& name) {
        flags.schedule_given = true;
        const bool takes_all = all != nullptr && name == "all";
        if (takes_all) {
            *all = true;
        }
        if (flags.runs && !takes_all && name.find('.') == std::string::npos) {  // no file
            const auto is_named = [&name](const Schedule& each) { return to_string(each) == name; };
            if (name != to_string(Schedule::automatic) && std::ranges::none_of(all_schedules(), is_named)) {
                throw UsageError(fmt::format("schedule '{}' is not known; it must be {}; use gpipe when unsure",
                                             printable(name), runnable_schedule_names(", ") + " or a .csv file"));
            }
        }
        return takes_all ? Schedule(Schedule::gpipe) : load_schedule(name);
    };
    table.add("--schedule", flags.options.schedule, parse, help, "NAME|FILE", "Pipeline");
}

void add_schedule_options(OptionTable& table, PipelineFlags& flags, const std::string& schedules, bool* all) {
    add_schedule_option(table, flags, "Order of the tasks: " + schedules, all);
    table
        .add("--placement", flags.options.placement, parse_placement,
             "Lane of each partition, such as 0,0,1; default: one lane per partition, or as the schedule needs it on "
             "the lanes of --devices, otherwise two on each lane",
             "LIST", "Pipeline")
        .use = OptionUse::lanes;
}

void add_hardware_options(OptionTable& table, PipelineFlags& flags) {
    Hardware& hardware = flags.options.hardware;
    const char* const group = "Hardware";
    const std::size_t before = table.rows().size();
    table.add_list("--devices", hardware.devices,
                   "Device of each lane, such as cpu,cpu; copies between lanes of one device are free. Default: all "
                   "cpu, as in 'run', if the profile was measured there or --cores is given, and no link is given; "
                   "otherwise one device per lane",
                   "LIST", group);
    table.add_number(
        "--cores", flags.cores,
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
              "announces each copy and waits for the answer, which takes one more round trip; or blocking, the "
              "receiving lane posts the receive right before the task that needs the copy",
              "NAME", group);
    table.add_number("--processes", hardware.processes,
                     "Processes that run the lanes, each on its own host: lane k of L in process k * N / L. Copies "
                     "between them take the link, and each has its own --cores; default 1",
                     "N", group);
    table.add("--speed", hardware.speeds, parse_speeds,
              "Speed of each lane relative to the profiled device, such as 1,1,.5; default: all 1", "LIST", group);
    table.use_from(before, OptionUse::lanes);
    add_memory_limit_option(table, flags);
}

void add_memory_limit_option(OptionTable& table, PipelineFlags& flags) {
    const auto parse = [hardware = &flags.options.hardware](const std::string& text, const std::string& option) {
        parse_memory_limits(text, option, *hardware);
        return hardware->memory_limit;
    };
    table.add("--memory-limit", flags.options.hardware.memory_limit, parse,
              "Memory that the tensors of each lane may take, such as 16GiB, or 16GiB,24GiB if lanes differ; if a lane "
              "needs more, the answer is infeasible and the exit code 3. With --cluster: of each device, one size",
              "LIST", "Hardware");
}

void add_parameter_options(OptionTable& table, PipelineFlags& flags) {
    table.add_text("--optimizer", flags.optimizer,
                   "Optimizer whose state counts as memory: sgd, momentum, adam, adamw, amsgrad, adadelta, adagrad, "
                   "rmsprop (-momentum, -centered, -centered-momentum), or a number, the bytes of state per byte of "
                   "parameter; default: adam if the input is token numbers, otherwise sgd",
                   "NAME", "Pipeline");
    table.add_flag("--master-weights", flags.options.master_weights,
                   "The optimizer keeps a float32 copy of each bfloat16 or float16 parameter, and its state in float32",
                   "Pipeline");
    table.add_text("--dtype", flags.dtype,
                   "The profile's dtype; with --device-types also another one of the same size (float32 as tf32, "
                   "float16 as bfloat16). For any other, profile the model with --dtype",
                   "NAME", "Pipeline");
}

void add_replicas_option(OptionTable& table, PipelineFlags& flags) {
    table
        .add_number("--replicas", flags.options.replicas,
                    "Number of equal pipelines, each with an equal part of the mini-batch; their gradients are summed "
                    "at the end of the step; default 1",
                    "N", "Pipeline")
        .use = OptionUse::lanes;
}

void add_update_option(OptionTable& table, PipelineFlags& flags) {
    table
        .add("--update", flags.options.update, parse_update,
             "When lanes update their parameters: synchronous (default), after all lanes have finished the "
             "step; or staggered, each lane after its own last task, before its next step",
             "WHEN", "Pipeline")
        .use = OptionUse::lanes;
}

void add_device_type_options(OptionTable& table, PipelineFlags& flags, const std::string& help) {
    table.add_text("--device-types,--device-type", flags.device_types,
                   help +
                       ". Times are then estimated from the profile's flops; link and memory limit come from the "
                       "catalogue unless given. Default: the profiled device",
                   "LIST", "Hardware");
    table.add_text("--device-catalogue,--catalogue", flags.device_catalogue,
                   "File that describes device types (docs/device-catalogue.md); default: the built-in catalogue",
                   "FILE", "Hardware");
    table.add("--headroom", flags.headroom, parse_bytes,
              "Memory of each device of a type that tensors leave free for context, collectives and allocator, such as "
              "4GiB; default: the catalogue's, which is 5 % of the memory unless it says so",
              "SIZE", "Hardware");
}

void add_force_option(OptionTable& table, bool& force) {
    table.add_flag("--force", force, "Replace output files that exist", "Output");
}

PipelineOptions pipeline_options(const PipelineFlags& flags) {
    PipelineOptions options = flags.options;
    if (flags.needs_chunks && !flags.chunks && !options.schedule.file()) {
        throw UsageError(option_name("chunks") + " is required; it is the number of micro-batches; give it, such as " +
                         option_name("m,chunks=8"));
    }
    options.chunks = flags.chunks.value_or(options.chunks);
    options.checkpoint = flags.checkpoint.value_or(options.checkpoint);
    follow_file(options, {flags.chunks, flags.checkpoint, !options.placement.empty()});
    options.optimizer = flags.optimizer.value_or(options.optimizer);
    options.hardware.host_cores = flags.cores.value_or(0);
    check_micro_batches(options.batch, options.chunks);
    check_replicas(options);
    check_update(options);
    check_link(options.hardware.link);
    check_cores(options.hardware.host_cores);
    check_processes(options.hardware.processes);
    return options;
}

std::vector<DeviceType> named_device_types(const PipelineFlags& flags) {
    if (flags.device_types.empty()) {
        if (!flags.device_catalogue.empty()) {
            throw UsageError(option_name("device-catalogue") + " is given without " + option_name("device-types") +
                             "; it describes those; name some");
        }
        if (flags.headroom) {
            throw UsageError(option_name("headroom") + " is given without " + option_name("device-types") +
                             "; it is a part of their memory; name some, or set a lower " +
                             option_name("memory-limit"));
        }
        return {};
    }
    const std::vector<DeviceType> catalogue =
        flags.device_catalogue.empty() ? device_catalogue() : load_device_catalogue(flags.device_catalogue);
    std::vector<DeviceType> types;
    for (const std::string& name : parse_list(flags.device_types, option_name("device-types"))) {
        const DeviceType& type = find_device(catalogue, name);
        if (std::ranges::find(types, type.name, &DeviceType::name) != types.end()) {
            throw UsageError(fmt::format("{} is '{}'; {} appears twice; name each type once",
                                         option_name("device-types"), flags.device_types, type.name));
        }
        types.push_back(type);
        if (flags.headroom) {
            set_headroom(types.back(), *flags.headroom);
        }
    }
    return types;
}

namespace {
/// For a command that accepts at most one type.
std::optional<DeviceType> named_device_type(const PipelineFlags& flags) {
    const std::vector<DeviceType> types = named_device_types(flags);
    if (types.size() > 1) {
        throw UsageError(
            fmt::format("{} is '{}'; here all lanes are of one type; name one, or use plan, which compares them",
                        option_name("device-types"), flags.device_types));
    }
    if (!types.empty() && !(flags.options.hardware.devices.empty() && flags.options.hardware.speeds.empty())) {
        throw UsageError(option_name("devices") + " or " + option_name("speed") + " is given with " +
                         option_name("device-types") +
                         "; all lanes are devices of that type; leave out one or the other");
    }
    return types.empty() ? std::nullopt : std::optional(types.front());
}
}  // namespace

EstimatedPipeline estimated_pipeline(const PipelineFlags& flags, PipelineOptions options, Profile profile,
                                     const std::string& file, int lanes) {
    const std::optional<DeviceType> type = named_device_type(flags);
    std::string again = profile_command_of(profile, file, {micro_batch_sizes(options), {}});
    EstimatedPipeline pipeline{in_dtype(std::move(profile), flags, file), std::move(options), {}, std::move(again)};
    pipeline.assumptions = assume(pipeline.options, pipeline.profile, lanes, flags.given());
    if (type) {
        pipeline.profile = retimed(pipeline.profile, *type);
        pipeline.options.hardware = hardware_on(*type, std::move(pipeline.options.hardware));
    }
    return pipeline;
}

std::string assumptions_text(const std::vector<Assumption>& assumptions) {
    std::string text;
    for (const Assumption& each : assumptions) {
        text +=
            fmt::format("assumed: {} {}, {}; --{} overrides it\n", each.option, each.value, each.because, each.option);
    }
    return text.empty() ? "" : "\n" + text;
}

nlohmann::ordered_json assumptions_json(const std::vector<Assumption>& assumptions) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (const Assumption& each : assumptions) {
        object[each.option] = each.value;
    }
    return object;
}

std::string shell_word(const std::string& text) {
    constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+@%-";
    if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) {
        return text;
    }
    std::string word = "\"";
    for (const char c : printable(text)) {
        word += std::string_view("\\\"$`").find(c) == std::string_view::npos ? "" : "\\";
        word += c;
    }
    return word + "\"";
}

namespace {
/// "out/p.json" in bfloat16: "out/p-bfloat16.json".
std::string name_for_dtype(const std::filesystem::path& file, const std::string& dtype) {
    std::filesystem::path name = file.stem();
    name += "-" + dtype;
    name += file.extension();
    return (file.parent_path() / name).string();
}
}  // namespace

std::string profile_command_of(const Profile& profile, const std::string& file, const ProfileChange& change) {
    std::string command = "pipescope profile " + (profile.model.empty() ? "MODEL" : shell_word(profile.model));
    if (profile.estimated) {
        command += " --device meta" + (profile.device == "cpu" ? "" : " --device-type " + shell_word(profile.device));
    } else if (profile.device != "cpu") {
        command += " --device " + shell_word(profile.device);
    }
    const std::string& dtype = change.dtype.empty() ? profile.dtype : change.dtype;
    const bool is_emulated = profile.model.starts_with(kEmulatedPrefix);  // holds its profile's bytes; takes no dtype
    if (!is_emulated && (!change.dtype.empty() || dtype != Profile{}.dtype)) {
        command += " --dtype " + dtype;
    }
    std::set<std::int64_t> sizes(profile.samples.begin(), profile.samples.end());
    sizes.insert(change.sizes.begin(), change.sizes.end());
    command += fmt::format(" --micro-batch-sizes {}", fmt::join(sizes, ","));
    for (const std::string& word : profile.command_options) {
        command += " " + shell_word(word);
    }
    return command + (change.dtype.empty() ? " -o " + shell_word(file) + " --force"
                                           : " -o " + shell_word(name_for_dtype(file, change.dtype)));
}

Profile in_dtype(Profile profile, const PipelineFlags& flags, const std::string& file) {
    if (flags.dtype.empty() || flags.dtype == profile.dtype) {
        return profile;
    }
    const bool is_rate = flags.dtype == "tf32";  // of float32 tensors, which can only be estimated
    const std::string again =
        fmt::format("profile again: '{}'", profile_command_of(profile, file, {{}, is_rate ? "float32" : flags.dtype}));
    if (dtype_bytes(flags.dtype) != dtype_bytes(profile.dtype)) {
        throw UsageError(
            fmt::format("{} is {} for a profile of {}; its bytes are of tensors of another size; leave it out to "
                        "simulate {}, or {}",
                        option_name("dtype"), flags.dtype, profile.dtype, profile.dtype, again));
    }
    if (flags.device_types.empty()) {
        throw UsageError(fmt::format(
            "{} is {} for a profile of {}; its times are of that dtype; name {}, for which times are estimated, or {}",
            option_name("dtype"), flags.dtype, profile.dtype, option_name("device-types"),
            is_rate ? "leave it out to simulate " + profile.dtype : again));
    }
    profile.dtype = flags.dtype;
    return profile;
}
}  // namespace pipescope
