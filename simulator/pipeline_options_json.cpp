#include "base/error.h"
#include "base/json_reader.h"
#include "simulator/pipeline_options.h"

#include <optional>
#include <string>
#include <type_traits>
#include <vector>

namespace pipescope {
namespace {
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
    each("pair_overlap", options.pair_overlap);
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

constexpr JsonKind kOptionsJson{"the configuration", "correct it", "record the run again", throw_error<UsageError>};
using Value = JsonValue<Json>;

// read(value, into) sets `into`. Throws UsageError that starts with the path, such as "speeds[1]".

void read(const Value& value, double& into) {
    into = value.number();
}
void read(const Value& value, std::int64_t& into) {
    into = value.integer();
}
void read(const Value& value, int& into) {
    into = static_cast<int>(value.integer(0, 1'000'000, "a whole number from 0 to 1000000"));
}
void read(const Value& value, LaneId& into) {
    int lane = 0;
    read(value, lane);
    into = LaneId{lane};
}
void read(const Value& value, bool& into) {
    into = value.truth();
}
void read(const Value& value, std::string& into) {
    into = value.text();
}
void read(const Value& value, Checkpoint& into) {
    into = parse_checkpoint(value.text());
}
void read(const Value& value, Schedule& into) {
    into = parse_schedule(value.text());
}
void read(const Value& value, Update& into) {
    into = parse_update(value.text());
}
void read(const Value& value, BackwardOrder& into) {
    into = parse_backward_order(value.text());
}
void read(const Value& value, RecomputeStart& into) {
    into = parse_recompute_start(value.text());
}
void read(const Value& value, LinkSharing& into) {
    into = parse_link_sharing(value.text());
}
void read(const Value& value, Sends& into) {
    into = parse_sends(value.text());
}
void read(const Value& value, LinkPlace& into) {
    into = parse_link_place(value.text());
}
void read(const Value& value, LinkProtocol& into) {
    into = parse_link_protocol(value.text());
}
void read(const Value& value, LinkTime& into);
void read(const Value& value, Link& into);
void read(const Value& value, LinkTier& into);
void read(const Value& value, PairLink& into);

template <class Element>
void read(const Value& value, std::vector<Element>& into) {
    into = value.list("an array", [](const Value& each) {
        Element element{};
        read(each, element);
        return element;
    });
}

template <class Inner>
void read(const Value& value, std::optional<Inner>& into) {
    if (!value.json().is_null()) {
        read(value, into.emplace());
    }
}

void read(const Value& value, Balance& into) {
    std::vector<std::int64_t> layers;
    read(value, layers);
    into = Balance(layers);
}

/// Sets the field under each key that is there.
auto reader_of(JsonObject<Json>& object) {
    return [&object](const char* key, auto& field) {
        if (const std::optional<Value> value = object.find(key)) {
            read(*value, field);
        }
    };
}

void read(const Value& value, LinkTime& into) {
    JsonObject<Json> object = value.object();
    for_each_key_of_time(into, reader_of(object));
}
void read(const Value& value, Link& into) {
    JsonObject<Json> object = value.object();
    for_each_key_of_link(into, reader_of(object));
}
void read(const Value& value, LinkTier& into) {
    JsonObject<Json> object = value.object();
    for_each_key_of_tier(into, reader_of(object));
}
void read(const Value& value, PairLink& into) {
    JsonObject<Json> object = value.object();
    for_each_key_of_pair(into, reader_of(object));
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
    const Json json = parse_json(text, kOptionsJson);
    if (!json.is_object()) {
        throw UsageError(
            "the configuration is not a JSON object; it must be one as a trace keeps it, with balance, "
            "chunks, batch; record the run again");
    }
    JsonObject<Json> object = Value(json, "", kOptionsJson).object();
    PipelineOptions options;
    if (const std::optional<Value> csv = object.find(kScheduleCsv); csv && object.contains("schedule")) {
        options.schedule = Schedule::from_csv(object.at("schedule").text(), csv->text());
    }
    for_each_key(options, [&](const std::string& key, auto& field) {
        const bool is_read = key == "schedule" && options.schedule.file() != nullptr;
        if (const std::optional<Value> value = object.find(key); value && !is_read) {
            read(*value, field);
        }
    });
    return options;
}
}  // namespace pipescope
