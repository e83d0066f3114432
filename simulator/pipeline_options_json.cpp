#include "base/error.h"
#include "simulator/pipeline_options.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <type_traits>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

constexpr const char* kScheduleCsv = "schedule_csv";  // the cells of a schedule from a file

/// Calls each(key, value) for every key of the object, in its order.
template <class Options, class Each>
void for_each_key(Options& options, Each each) {
    each("balance", options.balance);
    each("chunks", options.chunks);
    each("batch", options.batch);
    each("checkpoint", options.checkpoint);
    each("schedule", options.schedule);
    each("update", options.update);
    each("placement", options.placement);
    each("devices", options.hardware.devices);
    each("speeds", options.hardware.speeds);
    each("link", options.hardware.link);
    each("nearer", options.hardware.nearer);
    each("pairs", options.hardware.pairs);
    each("replica_link", options.hardware.replica_link);
    each("memory_limit", options.hardware.memory_limit);
    each("memory_limits", options.hardware.memory_limits);
    each("optimizer", options.optimizer);
    each("master_weights", options.master_weights);
    each("host_cores", options.hardware.host_cores);
    each("backward_order", options.backward_order);
    each("recompute_start", options.recompute_start);
    each("replicas", options.replicas);
    each("weight_copies", options.weight_copies);
    each("expert_copies", options.experts.copies);
    each("expert_links", options.experts.links);
    each("expert_state", options.experts.state);
    each("gradient_bucket", options.gradient_bucket);
    each("most_in_flight", options.most_in_flight);
    each("expandable_segments", options.hardware.expandable_segments);
    each("processes", options.hardware.processes);
}

template <class AnyLink, class Each>
void for_each_key_of_link(AnyLink& link, Each each) {
    each("bytes_per_second", link.bytes_per_second);
    each("latency_ns", link.latency_ns);
    each("sharing", link.sharing);
    each("times", link.times);
    each("protocol", link.protocol);
    each("sends", link.sends);
    each("place", link.place);
}

template <class AnyTier, class Each>
void for_each_key_of_tier(AnyTier& tier, Each each) {
    each("lanes", tier.lanes);
    each("link", tier.link);
}

template <class AnyPair, class Each>
void for_each_key_of_pair(AnyPair& pair, Each each) {
    each("a", pair.a);
    each("b", pair.b);
    each("link", pair.link);
}

template <class AnyTime, class Each>
void for_each_key_of_time(AnyTime& time, Each each) {
    each("bytes", time.bytes);
    each("ns", time.ns);
    each("exchange_ns", time.exchange_ns);
}

template <class Value>
Json json_of(const Value& value) {
    if constexpr (std::is_enum_v<Value>) {
        return to_string(value);
    } else {
        return value;
    }
}
Json json_of(const Schedule& schedule) {
    return to_string(schedule);
}
Json json_of(const LaneId& lane) {
    return lane.value();
}
Json json_of(const Balance& balance) {
    return balance.layers_per_partition();
}
Json json_of(const LinkTime& time) {
    Json json;
    for_each_key_of_time(time, [&](const char* key, const auto& value) { json[key] = value; });
    return json;
}
Json json_of(const Link& link);
Json json_of(const LinkTier& tier) {
    Json json;
    for_each_key_of_tier(tier, [&](const char* key, const auto& value) { json[key] = json_of(value); });
    return json;
}
Json json_of(const PairLink& pair) {
    Json json;
    for_each_key_of_pair(pair, [&](const char* key, const auto& value) { json[key] = json_of(value); });
    return json;
}
template <class Value>
Json json_of(const std::optional<Value>& value) {
    return value ? json_of(*value) : Json(nullptr);
}
template <class Value>
Json json_of(const std::vector<Value>& values) {
    Json json = Json::array();
    for (const Value& value : values) {
        json.push_back(json_of(value));
    }
    return json;
}

Json json_of(const Link& link) {
    Json json;
    for_each_key_of_link(link, [&](const char* key, const auto& value) { json[key] = json_of(value); });
    if (link.place == LinkPlace::unknown) {
        json.erase("place");
    }
    return json;
}

[[noreturn]] void refuse(const std::string& key, const Json& json, const std::string& wanted) {
    throw UsageError(key + " is " + json.dump(-1, ' ', false, Json::error_handler_t::replace) + "; it must be " +
                     wanted + "; correct it");
}

// read(json, key, value) sets the value. Throws UsageError that names the key, which is a path such as "speeds[1]".

void read(const Json& json, const std::string& key, double& value) {
    if (!json.is_number()) {
        refuse(key, json, "a number");
    }
    value = json.get<double>();
}

void read(const Json& json, const std::string& key, std::int64_t& value) {
    const bool fits =
        json.is_number_integer() &&
        (!json.is_number_unsigned() ||
         json.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()));
    if (!fits) {
        refuse(key, json, "a whole number");
    }
    value = json.get<std::int64_t>();
}

void read(const Json& json, const std::string& key, int& value) {
    std::int64_t number = 0;
    read(json, key, number);
    if (number < 0 || number > 1'000'000) {
        refuse(key, json, "a whole number from 0 to 1000000");
    }
    value = static_cast<int>(number);
}

void read(const Json& json, const std::string& key, LaneId& value) {
    int lane = 0;
    read(json, key, lane);
    value = LaneId{lane};
}

void read(const Json& json, const std::string& key, bool& value) {
    if (!json.is_boolean()) {
        refuse(key, json, "true or false");
    }
    value = json.get<bool>();
}

const std::string& text_of(const Json& json, const std::string& key) {
    if (!json.is_string()) {
        refuse(key, json, "a string");
    }
    return json.get_ref<const std::string&>();
}

void read(const Json& json, const std::string& key, std::string& value) {
    value = text_of(json, key);
}
void read(const Json& json, const std::string& key, Checkpoint& value) {
    value = parse_checkpoint(text_of(json, key));
}
void read(const Json& json, const std::string& key, Schedule& value) {
    value = parse_schedule(text_of(json, key));
}
void read(const Json& json, const std::string& key, Update& value) {
    value = parse_update(text_of(json, key));
}
void read(const Json& json, const std::string& key, BackwardOrder& value) {
    value = parse_backward_order(text_of(json, key));
}
void read(const Json& json, const std::string& key, RecomputeStart& value) {
    value = parse_recompute_start(text_of(json, key));
}
void read(const Json& json, const std::string& key, LinkSharing& value) {
    value = parse_link_sharing(text_of(json, key));
}

void read(const Json& json, const std::string& key, Sends& value) {
    value = parse_sends(text_of(json, key));
}

void read(const Json& json, const std::string& key, LinkPlace& value) {
    value = parse_link_place(text_of(json, key));
}

void read(const Json& json, const std::string& key, LinkProtocol& value) {
    value = parse_link_protocol(text_of(json, key));
}

void read(const Json& json, const std::string& key, Link& link);
template <class Value>
void read(const Json& json, const std::string& key, std::vector<Value>& values);

/// Sets the fields whose keys are there; for_each(object, each) calls each(key, field).
template <class Object, class ForEach>
void read_object(const Json& json, const std::string& key, Object& object, ForEach for_each) {
    if (!json.is_object()) {
        refuse(key, json, "an object");
    }
    for_each(object, [&](const std::string& name, auto& value) {
        if (json.contains(name)) {
            read(json[name], key + "." + name, value);
        }
    });
}

void read(const Json& json, const std::string& key, LinkTime& time) {
    read_object(json, key, time, [](auto& object, auto each) { for_each_key_of_time(object, each); });
}

void read(const Json& json, const std::string& key, Link& link) {
    read_object(json, key, link, [](auto& object, auto each) { for_each_key_of_link(object, each); });
}

void read(const Json& json, const std::string& key, LinkTier& tier) {
    read_object(json, key, tier, [](auto& object, auto each) { for_each_key_of_tier(object, each); });
}

void read(const Json& json, const std::string& key, PairLink& pair) {
    read_object(json, key, pair, [](auto& object, auto each) { for_each_key_of_pair(object, each); });
}

template <class Value>
void read(const Json& json, const std::string& key, std::optional<Value>& value) {
    if (!json.is_null()) {
        read(json, key, value.emplace());
    }
}

template <class Value>
void read(const Json& json, const std::string& key, std::vector<Value>& values) {
    if (!json.is_array()) {
        refuse(key, json, "an array");
    }
    for (std::size_t k = 0; k < json.size(); ++k) {
        Value value{};
        read(json[k], key + "[" + std::to_string(k) + "]", value);
        values.push_back(std::move(value));
    }
}

void read(const Json& json, const std::string& key, Balance& balance) {
    std::vector<std::int64_t> layers;
    read(json, key, layers);
    balance = Balance(layers);
}
}  // namespace

std::string to_json(const PipelineOptions& options) {
    Json json;
    for_each_key(options, [&](const char* key, const auto& value) { json[key] = json_of(value); });
    if (const Schedule::File* file = options.schedule.file()) {
        json[kScheduleCsv] = to_csv(file->table);
    }
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
    if (const auto csv = json.find(kScheduleCsv); csv != json.end() && json.contains("schedule")) {
        options.schedule = Schedule::from_csv(text_of(json["schedule"], "schedule"), text_of(*csv, kScheduleCsv));
    }
    for_each_key(options, [&](const std::string& key, auto& value) {
        const bool is_read = key == "schedule" && options.schedule.file() != nullptr;
        if (json.contains(key) && !is_read) {
            read(json[key], key, value);
        }
    });
    return options;
}
}  // namespace pipescope
