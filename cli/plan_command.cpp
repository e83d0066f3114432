#include "balance/profile_file.h"
#include "cli/commands.h"
#include "cli/pipeline_flags.h"
#include "cli/plan_report.h"
#include "cli/program.h"
#include "cli/progress_bar.h"
#include "cli/reports.h"
#include "schedule/error.h"
#include "simulator/number_ranges.h"
#include "simulator/planner.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>

namespace pipescope {
namespace {
constexpr const char* kChunks = "1..64";

struct PlanFlags {
    std::string profile;
    PipelineFlags pipeline;
    std::string partitions = "1..8";
    std::optional<std::string> chunks;  ///< else kChunks, as far as there are samples
    std::string checkpoints = "never,except_last,always";
    std::string schedules = "gpipe";
    std::string device_types;
    std::string device_catalogue;
    std::string algorithm = "optimal";
    std::string price = "1";
    std::int64_t most = 10;
    bool json = false;
};

std::vector<Checkpoint> checkpoints_of(const PlanFlags& flags) {
    std::vector<Checkpoint> checkpoints;
    for (const std::string& name : parse_list(flags.checkpoints, "--checkpoint")) {
        const Checkpoint mode = parse_checkpoint(name);
        if (std::find(checkpoints.begin(), checkpoints.end(), mode) == checkpoints.end()) {
            checkpoints.push_back(mode);
        }
    }
    return checkpoints;
}

double parse_price(const std::string& text, const std::string& all) {
    double price = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), price);
    if (error != std::errc{} || end != text.data() + text.size() || !(price >= 0) || !std::isfinite(price)) {
        throw UsageError(
            fmt::format("--price-per-lane-hour is '{}'; '{}' is no price; write it as 2.5, or by device "
                        "type as A100=1.5,H100=3",
                        all, text));
    }
    return price;
}

/// "2.5" for all lanes, or "A100=1.5,H100=3".
void read_prices(const std::string& text, PlanRequest& request) {
    for (const std::string& item : parse_list(text, "--price-per-lane-hour")) {
        const std::size_t equals = item.find('=');
        if (equals == std::string::npos) {
            request.price_per_lane_hour = parse_price(item, text);
            continue;
        }
        const std::string name = item.substr(0, equals);
        const auto named = std::find_if(request.device_types.begin(), request.device_types.end(),
                                        [&](const DeviceType& type) { return type.name == name; });
        if (named == request.device_types.end()) {
            throw UsageError(
                fmt::format("--price-per-lane-hour is '{}'; '{}' is none of the --device-types; name those "
                            "that are planned, as the catalogue spells them",
                            text, name));
        }
        request.prices[name] = parse_price(item.substr(equals + 1), text);
    }
}

void read_device_types(const PlanFlags& flags, PlanRequest& request) {
    if (flags.device_types.empty()) {
        if (!flags.device_catalogue.empty()) {
            throw UsageError("--device-catalogue is given without --device-types; it is for those; name some");
        }
        return;
    }
    const std::vector<DeviceType> catalogue =
        flags.device_catalogue.empty() ? device_catalogue() : load_device_catalogue(flags.device_catalogue);
    for (const std::string& name : parse_list(flags.device_types, "--device-types")) {
        request.device_types.push_back(find_device(catalogue, name));
    }
}

/// All but what depends on the profile: wrong flags are refused before it is read.
PlanRequest request_of(const PlanFlags& flags) {
    PlanRequest request;
    request.options = pipeline_options(flags.pipeline);
    request.chunks = chunks_to_try(parse_ranges(flags.chunks.value_or(kChunks), "--chunks"), request.options.batch);
    request.checkpoints = checkpoints_of(flags);
    request.algorithm = parse_balance_algorithm(flags.algorithm);
    request.schedules = parse_list(flags.schedules, "--schedule");
    read_device_types(flags, request);
    read_prices(flags.price, request);
    if (flags.most < 1) {
        throw UsageError(fmt::format("--most is {}; a table has at least 1 row; write it as 10", flags.most));
    }
    return request;
}

/// Of the most micro-batches asked for, where somebody asked.
std::string fewer_than_asked(const PlanFlags& flags) {
    std::int64_t most = 0;
    for (const NumberRange& range : parse_ranges(flags.chunks.value_or("1"), "--chunks")) {
        most = std::max(most, range.last);
    }
    return fewer_micro_batches(most, flags.pipeline.batch);
}

ExitCode plan_command(const PlanFlags& flags) {
    PlanRequest request = request_of(flags);
    const std::vector<NumberRange> partitions = parse_ranges(flags.partitions, "--partitions");
    const Profile profile = load_profile(flags.profile);
    request.partitions = partitions_to_try(partitions, profile.layers.size());
    Plan found;
    {
        ProgressBar bar("planning " + profile.model);
        request.progress = [&bar](double done) {
            bar.show(done);
            return true;
        };
        found = plan(profile, request);
    }
    std::cout << (flags.json ? dump(plan_json(found))
                             : plan_text(found, static_cast<std::size_t>(flags.most)) + fewer_than_asked(flags));
    return found.best ? ExitCode::success : ExitCode::infeasible;
}

void add_choices(CLI::App& command, PlanFlags& flags) {
    command
        .add_option("-n,--partitions", flags.partitions,
                    "How many partitions to try, one lane for each: 4, 1,2,4 or 1..8 (default), which are all eight. "
                    "More than the model has layers are left out")
        ->type_name("RANGE")
        ->group("Pipeline");
    command
        .add_option("-m,--chunks", flags.chunks,
                    "Micro-batches to try: 8, 4,8,12 or 1..64 (default); of a range its ends, the powers of two and "
                    "the divisors of the batch. More than the batch has samples count as one sample each")
        ->type_name("RANGE")
        ->group("Pipeline");
    add_mini_batch_option(command, flags.pipeline);
    command
        .add_option("--checkpoint", flags.checkpoints,
                    "Modes to try: which micro-batches keep only their input and run again before backward; default: "
                    "never,except_last,always")
        ->type_name("LIST")
        ->group("Pipeline");
    command.add_option("--schedule", flags.schedules, "Orders of the tasks to try: gpipe (default), 1f1b, ..")
        ->type_name("LIST")
        ->group("Pipeline");
}
}  // namespace

void add_plan_command(Program& program) {
    const auto flags = std::make_shared<PlanFlags>();
    CLI::App* command = program.add_command(
        "plan", "Choose partitions, balance, micro-batches and checkpointing that fit and are quickest",
        "Example:\n  pipescope plan p.json -n 1..8 -m 1..64 --batch 64 --memory-limit 16GiB\n"
        "  pipescope plan p.json --batch 64 --device-types A100,H100 --price-per-lane-hour A100=1.5,H100=3\n"
        "Every number of partitions, micro-batches and checkpoint mode is simulated with its best balance. The\n"
        "quickest that keeps --memory-limit is best; of equally quick ones that with fewest lanes.\n"
        "Exit code 3 says that none keeps it; the candidates are printed all the same.");
    command->add_option("PROFILE", flags->profile, "Profile file, as 'pipescope profile' writes it")->required();
    add_choices(*command, *flags);
    add_algorithm_option(*command, flags->algorithm);
    add_hardware_options(*command, flags->pipeline);
    command
        ->add_option(
            "--device-types", flags->device_types,
            "Kinds of device to try, such as A100,H100: the profile's times are then estimated from its flops, "
            "the link and the memory limit come from the catalogue unless given. Default: the profiled device")
        ->type_name("LIST")
        ->group("Hardware");
    command
        ->add_option("--device-catalogue", flags->device_catalogue,
                     "Where device types are described (docs/device-catalogue.md); default: the built-in catalogue")
        ->type_name("FILE")
        ->group("Hardware");
    command
        ->add_option(
            "--price-per-lane-hour", flags->price,
            "What an hour of one lane costs, in any currency, or of each device type: A100=1.5,H100=3; default "
            "1, which makes the cost lane-hours")
        ->type_name("N")
        ->group("Hardware");
    add_optimizer_option(*command, flags->pipeline);
    command
        ->add_option("--most", flags->most,
                     "Rows of the table (default 10): the best, then as many Pareto candidates that rank lower. "
                     "--json holds all candidates")
        ->type_name("N")
        ->group("Output");
    add_json_flag(*command, flags->json);
    program.set_action(command, [flags] { return plan_command(*flags); });
}
}  // namespace pipescope
