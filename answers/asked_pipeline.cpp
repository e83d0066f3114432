#include "answers/asked_pipeline.h"

#include "answers/profile_again.h"
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
PipelineOptions pipeline_options(const AskedPipeline& asked) {
    PipelineOptions options = asked.options;
    if (asked.needs_chunks && !asked.chunks && !options.schedule.file()) {
        throw UsageError(option_name("chunks") + " is required; it is the number of micro-batches; give it, such as " +
                         option_name("m,chunks=8"));
    }
    options.chunks = asked.chunks.value_or(options.chunks);
    options.checkpoint = asked.checkpoint.value_or(options.checkpoint);
    follow_file(options, {asked.chunks, asked.checkpoint, !options.placement.empty()});
    options.optimizer = asked.optimizer.value_or(options.optimizer);
    options.hardware.host_cores = asked.cores.value_or(0);
    check_micro_batches(options.batch, options.chunks);
    check_replicas(options);
    check_update(options);
    check_link(options.hardware.link);
    check_cores(options.hardware.host_cores);
    check_processes(options.hardware.processes);
    return options;
}

std::vector<DeviceType> named_device_types(const AskedPipeline& asked) {
    if (asked.device_types.empty()) {
        if (!asked.device_catalogue.empty()) {
            throw UsageError(option_name("device-catalogue") + " is given without " + option_name("device-types") +
                             "; it describes those; name some");
        }
        if (asked.headroom) {
            throw UsageError(option_name("headroom") + " is given without " + option_name("device-types") +
                             "; it is a part of their memory; name some, or set a lower " +
                             option_name("memory-limit"));
        }
        return {};
    }
    const std::vector<DeviceType> catalogue =
        asked.device_catalogue.empty() ? device_catalogue() : load_device_catalogue(asked.device_catalogue);
    std::vector<DeviceType> types;
    for (const std::string& name : parse_list(asked.device_types, option_name("device-types"))) {
        const DeviceType& type = find_device(catalogue, name);
        if (std::ranges::find(types, type.name, &DeviceType::name) != types.end()) {
            throw UsageError(fmt::format("{} is '{}'; {} appears twice; name each type once",
                                         option_name("device-types"), asked.device_types, type.name));
        }
        types.push_back(type);
        if (asked.headroom) {
            set_headroom(types.back(), *asked.headroom);
        }
    }
    return types;
}

namespace {
/// For a command that accepts at most one device type.
std::optional<DeviceType> named_device_type(const AskedPipeline& asked) {
    const std::vector<DeviceType> types = named_device_types(asked);
    if (types.size() > 1) {
        throw UsageError(
            fmt::format("{} is '{}'; here all lanes are of one type; name one, or use plan, which compares them",
                        option_name("device-types"), asked.device_types));
    }
    if (!types.empty() && !(asked.options.hardware.devices.empty() && asked.options.hardware.speeds.empty())) {
        throw UsageError(option_name("devices") + " or " + option_name("speed") + " is given with " +
                         option_name("device-types") +
                         "; all lanes are devices of that type; leave out one or the other");
    }
    return types.empty() ? std::nullopt : std::optional(types.front());
}
}  // namespace

EstimatedPipeline estimated_pipeline(const AskedPipeline& asked, PipelineOptions options, const CheckedProfile& profile,
                                     const std::string& file, int lanes) {
    const std::optional<DeviceType> type = named_device_type(asked);
    std::string again = profile_command_of(profile, file, {micro_batch_sizes(options), {}});
    EstimatedPipeline pipeline{in_dtype(profile, asked, file), std::move(options), {}, std::move(again)};
    pipeline.assumptions = assume(pipeline.options, pipeline.profile, lanes, asked.given());
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

CheckedProfile in_dtype(const CheckedProfile& profile, const AskedPipeline& asked, const std::string& file) {
    if (asked.dtype.empty() || asked.dtype == profile->dtype) {
        return profile;
    }
    const bool is_rate = asked.dtype == "tf32";  // a rate for float32 tensors, which can only be estimated
    const std::string again =
        fmt::format("profile again: '{}'", profile_command_of(profile, file, {{}, is_rate ? "float32" : asked.dtype}));
    if (dtype_bytes(asked.dtype) != dtype_bytes(profile->dtype)) {
        throw UsageError(
            fmt::format("{} is {} for a profile of {}; its bytes are of tensors of another size; leave it out to "
                        "simulate {}, or {}",
                        option_name("dtype"), asked.dtype, profile->dtype, profile->dtype, again));
    }
    if (asked.device_types.empty()) {
        throw UsageError(fmt::format(
            "{} is {} for a profile of {}; its times are of that dtype; name {}, for which times are estimated, or {}",
            option_name("dtype"), asked.dtype, profile->dtype, option_name("device-types"),
            is_rate ? "leave it out to simulate " + profile->dtype : again));
    }
    Profile changed = profile;
    changed.dtype = asked.dtype;
    return changed;
}

PipelineOptions simulated_pipeline_options(const AskedPipeline& asked) {
    PipelineOptions options = pipeline_options(asked);
    if (asked.most_in_flight && *asked.most_in_flight < 1) {
        throw UsageError(fmt::format("{} is {}; at least one micro-batch must be in flight; leave it out for no limit",
                                     option_name("in-flight"), *asked.most_in_flight));
    }
    options.most_in_flight = asked.most_in_flight.value_or(0);
    if (options.most_in_flight > 0 && options.schedule.file()) {
        throw UsageError(
            fmt::format("{} is {} with schedule {}, a file that gives the order of all tasks; leave it out",
                        option_name("in-flight"), options.most_in_flight, to_string(options.schedule)));
    }
    if (asked.backward_order && !takes_backward_order(options.schedule)) {
        throw UsageError(
            fmt::format("{} is {} with schedule {}, which fixes the order of its backwards; leave it out, or use gpipe",
                        option_name("backward"), to_string(*asked.backward_order), to_string(options.schedule)));
    }
    options.backward_order = asked.backward_order.value_or(options.backward_order);
    if (!asked.recompute.empty()) {
        options.recompute_start = parse_recompute_start(asked.recompute);
    }
    place(options);
    return options;
}

EstimatedPipeline simulated_pipeline(const AskedPipeline& asked, const PipelineOptions& options,
                                     const CheckedProfile& profile, const std::string& file, int lanes) {
    EstimatedPipeline pipeline = estimated_pipeline(asked, options, profile, file, lanes);
    for (int lane = 0; lane < lanes && !asked.device_types.empty(); ++lane) {
        pipeline.options.hardware.devices.push_back(pipeline.profile->device + " " + std::to_string(lane));
    }
    return pipeline;
}
}  // namespace pipescope
