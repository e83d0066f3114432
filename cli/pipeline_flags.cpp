#include "cli/pipeline_flags.h"

#include "cli/units.h"
#include "schedule/error.h"
#include "schedule/micro_batches.h"
#include "schedule/placement.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace pipescope {
namespace {
template <class Number>
Number parse_number(const std::string& text, const std::string& item, const std::string& option,
                    std::string_view example) {
    Number value{};
    const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), value);
    if (error != std::errc{} || end != item.data() + item.size()) {
        throw UsageError(fmt::format("{} is '{}'; '{}' is not a number; write it as {}", option, text, item, example));
    }
    return value;
}

std::vector<double> parse_speeds(const std::string& text) {
    std::vector<double> speeds;
    for (const std::string& item : parse_list(text, "--speed")) {
        const double speed = parse_number<double>(text, item, "--speed", "1,1,.5");
        if (!std::isfinite(speed) || speed <= 0) {
            throw UsageError(
                fmt::format("--speed is '{}'; {} is not a valid speed; each must be above 0, 1 being the profiled "
                            "device's",
                            text, item));
        }
        speeds.push_back(speed);
    }
    return speeds;
}
}  // namespace

void add_balance_option(CLI::App& command, PipelineFlags& flags) {
    command.add_option("--balance", flags.balance, "Layers per partition, in order, such as 2,2,3")
        ->required()
        ->type_name("LIST")
        ->group("Pipeline");
}

void add_batch_options(CLI::App& command, PipelineFlags& flags) {
    command
        .add_option("-m,--chunks", flags.chunks,
                    "Micro-batches each mini-batch is cut into; with fewer samples than that, one sample each")
        ->required()
        ->type_name("N")
        ->group("Pipeline");
    add_mini_batch_option(command, flags);
    command
        .add_option("--checkpoint", flags.checkpoint,
                    "Which micro-batches keep only their input and run again before backward: always, except_last "
                    "(default) or never")
        ->type_name("MODE")
        ->group("Pipeline");
}

void add_mini_batch_option(CLI::App& command, PipelineFlags& flags) {
    command.add_option("--batch", flags.batch, "Samples of one mini-batch, which is one step")
        ->required()
        ->type_name("N")
        ->group("Pipeline");
}

void add_algorithm_option(CLI::App& command, std::string& algorithm) {
    command
        .add_option("--algorithm", algorithm,
                    "optimal (default): the shortest simulated step; minmax: the smallest largest partition; "
                    "variance: the GPipe paper's, costs that vary least; block: torchgpipe's method, to compare with")
        ->type_name("NAME")
        ->group("Pipeline");
}

void add_schedule_options(CLI::App& command, PipelineFlags& flags, const std::string& schedules) {
    command.add_option("--schedule", flags.schedule, "Order of the tasks: " + schedules)
        ->type_name("NAME")
        ->group("Pipeline");
    command
        .add_option("--placement", flags.placement, "Lane of each partition, such as 0,0,1; default: a lane for each")
        ->type_name("LIST")
        ->group("Pipeline");
}

void add_hardware_options(CLI::App& command, PipelineFlags& flags) {
    command
        .add_option("--devices", flags.devices,
                    "Device of each lane, such as cpu,cpu; lanes of one device exchange data for nothing. Default: all "
                    "different")
        ->type_name("LIST")
        ->group("Hardware");
    command
        .add_option("--cores", flags.cores,
                    "Cores that lanes on 'cpu' take in turns, a task at a time; default: a core for each such lane")
        ->type_name("N")
        ->group("Hardware");
    command
        .add_option("--link-bandwidth", flags.link_bandwidth,
                    "Of the link from each device to each other, such as 12GB/s; default: copies are free")
        ->type_name("RATE")
        ->group("Hardware");
    command.add_option("--link-latency", flags.link_latency, "Of each copy, such as 10us; default 0")
        ->type_name("TIME")
        ->group("Hardware");
    command
        .add_option("--link-sharing", flags.link_sharing,
                    "Which copies share a link's bandwidth: none (default; a link for each pair of lanes), sender (one "
                    "port for each device) or all (one bus)")
        ->type_name("NAME")
        ->group("Hardware");
    command
        .add_option("--speed", flags.speed,
                    "Speed of each lane against the profiled device, such as 1,1,.5; default: all 1")
        ->type_name("LIST")
        ->group("Hardware");
    command
        .add_option("--memory-limit", flags.memory_limit,
                    "What each lane can hold, such as 16GiB, or 16GiB,24GiB where lanes differ; above it the answer is "
                    "infeasible and the exit code 3")
        ->type_name("LIST")
        ->group("Hardware");
}

void add_optimizer_option(CLI::App& command, PipelineFlags& flags) {
    command
        .add_option(
            "--optimizer", flags.optimizer,
            "Whose state is counted as memory: sgd (default), momentum, adam, adamw, amsgrad, adadelta, adagrad, "
            "rmsprop (-momentum, -centered, -centered-momentum), or bytes of state per byte of parameter")
        ->type_name("NAME")
        ->group("Pipeline");
}

void add_json_flag(CLI::App& command, bool& json) {
    command.add_flag("--json", json, "Print one JSON object instead of text; times in ns, sizes in bytes")
        ->group("Output");
}

CLI::Option* add_seed_option(CLI::App& command, std::uint64_t& seed, const std::string& of) {
    // CLI11 would wrap negative numbers round and cut large ones off.
    const CLI::Validator is_seed{[](const std::string& text) {
                                     std::uint64_t value = 0;
                                     const char* end = text.data() + text.size();
                                     const auto [stop, error] = std::from_chars(text.data(), end, value);
                                     return error == std::errc{} && stop == end
                                                ? std::string()
                                                : "'" + text +
                                                      "' is not a seed; it is a whole number from 0 to 2^64 - 1";
                                 },
                                 ""};
    return command.add_option("--seed", seed, of + "; default 0")->check(is_seed)->type_name("SEED");
}

void add_force_flag(CLI::App& command, bool& force) {
    command.add_flag("--force", force, "Replace output files that exist")->group("Output");
}

std::vector<std::int64_t> parse_whole_numbers(const std::string& text, const std::string& option, std::int64_t least) {
    std::vector<std::int64_t> numbers;
    for (const std::string& item : parse_list(text, option)) {
        const auto number = parse_number<std::int64_t>(text, item, option, "1,2,4");
        if (number < least) {
            throw UsageError(
                fmt::format("{} is '{}'; each number must be at least {}; change {}", option, text, least, item));
        }
        numbers.push_back(number);
    }
    return numbers;
}

PipelineOptions pipeline_options(const PipelineFlags& flags) {
    PipelineOptions options;
    if (!flags.balance.empty()) {
        options.balance = parse_balance(flags.balance);
    }
    micro_batch_sizes(flags.batch, flags.chunks);  // refuses what cannot be cut, in the words of the flags
    options.chunks = flags.chunks;
    options.batch = flags.batch;
    options.checkpoint = parse_checkpoint(flags.checkpoint);
    options.schedule = flags.schedule;
    if (!flags.placement.empty()) {
        options.placement = checked_placement(parse_whole_numbers(flags.placement, "--placement", 0));
    }
    if (!flags.devices.empty()) {
        options.devices = parse_list(flags.devices, "--devices");
    }
    if (!flags.speed.empty()) {
        options.speeds = parse_speeds(flags.speed);
    }
    if (!flags.link_bandwidth.empty()) {
        options.link.bytes_per_second = parse_bandwidth(flags.link_bandwidth, "--link-bandwidth");
    }
    if (!flags.link_latency.empty()) {
        options.link.latency_ns = parse_duration_ns(flags.link_latency, "--link-latency");
    }
    options.link.sharing = parse_link_sharing(flags.link_sharing);
    if (!flags.memory_limit.empty()) {
        const std::vector<std::string> sizes = parse_list(flags.memory_limit, "--memory-limit");
        for (std::size_t lane = 0; sizes.size() > 1 && lane < sizes.size(); ++lane) {
            options.memory_limits.push_back(parse_bytes(sizes[lane], "--memory-limit"));
        }
        if (sizes.size() == 1) {
            options.memory_limit = parse_bytes(sizes.front(), "--memory-limit");
        }
    }
    options.optimizer = flags.optimizer;
    options.host_cores = flags.cores;
    return options;
}
}  // namespace pipescope
