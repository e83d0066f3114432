#include "schedule/error.h"
#include "simulator/pipeline_options.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::string& key, const Json& value, const std::string& wanted) {
    throw UsageError(key + " is " + value.dump(-1, ' ', false, Json::error_handler_t::replace) + "; it must be " +
                     wanted + "; correct it");
}

double number_of(const Json& value, const std::string& key) {
    if (!value.is_number()) {
        refuse(key, value, "a number");
    }
    return value.get<double>();
}

std::int64_t whole_number_of(const Json& value, const std::string& key) {
    const bool fits =
        value.is_number_integer() &&
        (!value.is_number_unsigned() ||
         value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits) {
        refuse(key, value, "a whole number");
    }
    return value.get<std::int64_t>();
}

std::string text_of(const Json& value, const std::string& key) {
    if (!value.is_string()) {
        refuse(key, value, "a string");
    }
    return value.get<std::string>();
}

/// Calls `each` with every element and its path.
template <class Each>
void for_each(const Json& value, const std::string& key, Each each) {
    if (!value.is_array()) {
        refuse(key, value, "an array");
    }
    for (std::size_t k = 0; k < value.size(); ++k) {
        each(value[k], key + "[" + std::to_string(k) + "]");
    }
}

int small_number_of(const Json& value, const std::string& key) {
    const std::int64_t number = whole_number_of(value, key);
    if (number < 0 || number > 1'000'000) {
        refuse(key, value, "a whole number from 0 to 1000000");
    }
    return static_cast<int>(number);
}

void read_lanes(const Json& json, PipelineOptions& options) {
    if (json.contains("placement")) {
        for_each(json["placement"], "placement", [&](const Json& each, const std::string& path) {
            options.placement.emplace_back(small_number_of(each, path));
        });
    }
    if (json.contains("devices")) {
        for_each(json["devices"], "devices",
                 [&](const Json& each, const std::string& path) { options.devices.push_back(text_of(each, path)); });
    }
    if (json.contains("speeds")) {
        for_each(json["speeds"], "speeds",
                 [&](const Json& each, const std::string& path) { options.speeds.push_back(number_of(each, path)); });
    }
    if (json.contains("link")) {
        const Json& link = json["link"];
        if (!link.is_object()) {
            refuse("link", link, "an object");
        }
        if (link.contains("bytes_per_second")) {
            options.link.bytes_per_second = number_of(link["bytes_per_second"], "link.bytes_per_second");
        }
        if (link.contains("latency_ns")) {
            options.link.latency_ns = number_of(link["latency_ns"], "link.latency_ns");
        }
        if (link.contains("sharing")) {
            options.link.sharing = parse_link_sharing(text_of(link["sharing"], "link.sharing"));
        }
    }
}

void read_schedule_details(const Json& json, PipelineOptions& options) {
    if (json.contains("backward_order")) {
        options.backward_order = parse_backward_order(text_of(json["backward_order"], "backward_order"));
    }
    if (json.contains("recompute_start")) {
        options.recompute_start = parse_recompute_start(text_of(json["recompute_start"], "recompute_start"));
    }
    if (json.contains("replicas")) {
        options.replicas = small_number_of(json["replicas"], "replicas");
    }
    if (json.contains("most_in_flight")) {
        options.most_in_flight = small_number_of(json["most_in_flight"], "most_in_flight");
    }
    if (json.contains("expandable_segments")) {
        if (!json["expandable_segments"].is_boolean()) {
            refuse("expandable_segments", json["expandable_segments"], "true or false");
        }
        options.expandable_segments = json["expandable_segments"].get<bool>();
    }
    if (json.contains("master_weights")) {
        if (!json["master_weights"].is_boolean()) {
            refuse("master_weights", json["master_weights"], "true or false");
        }
        options.master_weights = json["master_weights"].get<bool>();
    }
}
}  // namespace

std::string to_json(const PipelineOptions& options) {
    Json json;
    json["balance"] = options.balance.layers_per_partition();
    json["chunks"] = options.chunks;
    json["batch"] = options.batch;
    json["checkpoint"] = to_string(options.checkpoint);
    json["schedule"] = to_string(options.schedule);
    json["placement"] = Json::array();
    for (const LaneId lane : options.placement) {
        json["placement"].push_back(lane.value());
    }
    json["devices"] = options.devices;
    json["speeds"] = options.speeds;
    json["link"]["bytes_per_second"] = options.link.bytes_per_second;
    json["link"]["latency_ns"] = options.link.latency_ns;
    json["link"]["sharing"] = to_string(options.link.sharing);
    json["memory_limit"] = options.memory_limit ? Json(*options.memory_limit) : Json(nullptr);
    json["memory_limits"] = options.memory_limits;
    json["optimizer"] = options.optimizer;
    json["master_weights"] = options.master_weights;
    json["host_cores"] = options.host_cores;
    json["backward_order"] = to_string(options.backward_order);
    json["recompute_start"] = to_string(options.recompute_start);
    json["replicas"] = options.replicas;
    json["most_in_flight"] = options.most_in_flight;
    json["expandable_segments"] = options.expandable_segments;
    return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

PipelineOptions parse_pipeline_options(const std::string& text) {
    const Json json = Json::parse(text, nullptr, false);
    if (!json.is_object()) {
        throw UsageError(
            "the configuration is not a JSON object; it must be one as a trace keeps it, with balance, "
            "chunks, batch; record the run again");
    }
    PipelineOptions options;
    if (json.contains("balance")) {
        std::vector<std::int64_t> layers;
        for_each(json["balance"], "balance",
                 [&](const Json& each, const std::string& path) { layers.push_back(whole_number_of(each, path)); });
        options.balance = Balance(layers);
    }
    if (json.contains("chunks")) {
        options.chunks = whole_number_of(json["chunks"], "chunks");
    }
    if (json.contains("batch")) {
        options.batch = whole_number_of(json["batch"], "batch");
    }
    if (json.contains("checkpoint")) {
        options.checkpoint = parse_checkpoint(text_of(json["checkpoint"], "checkpoint"));
    }
    if (json.contains("schedule")) {
        options.schedule = parse_schedule(text_of(json["schedule"], "schedule"));
    }
    read_lanes(json, options);
    if (json.contains("memory_limit") && !json["memory_limit"].is_null()) {
        options.memory_limit = whole_number_of(json["memory_limit"], "memory_limit");
    }
    if (json.contains("memory_limits")) {
        for_each(json["memory_limits"], "memory_limits", [&](const Json& each, const std::string& path) {
            options.memory_limits.push_back(whole_number_of(each, path));
        });
    }
    if (json.contains("optimizer")) {
        options.optimizer = text_of(json["optimizer"], "optimizer");
    }
    if (json.contains("host_cores")) {
        options.host_cores = small_number_of(json["host_cores"], "host_cores");
    }
    read_schedule_details(json, options);
    return options;
}
}  // namespace pipescope
