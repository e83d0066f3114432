#include "trace/store/process_json.h"

#include "base/error.h"
#include "base/json_reader.h"
#include "trace/store/opened_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>
#include <utility>

namespace pipescope {
namespace {
using nlohmann::ordered_json;

ordered_json json_of(const ProcessFacts& facts) {
    ordered_json object{{"rank", facts.rank},
                        {"size", facts.size},
                        {"host", facts.host},
                        {"pid", facts.pid},
                        {"run", facts.run},
                        {"boot_id", facts.boot_id},
                        {"time_namespace", facts.time_namespace},
                        {"lanes", ordered_json::array()},
                        {"clock", ordered_json::array()}};
    for (const LaneId lane : facts.lanes) {
        object["lanes"].push_back(lane.value());
    }
    for (const ClockReading& reading : facts.clock) {
        object["clock"].push_back({{"at_ns", reading.at.count()},
                                   {"offset_ns", reading.offset.count()},
                                   {"bound_ns", reading.bound.count()}});
    }
    return object;
}

constexpr JsonKind kFactsJson{"a process's facts", "the trace is damaged", "the trace is damaged", throw_error<Error>};
using Value = JsonValue<Json>;
using Object = JsonObject<Json>;

int int_of(const Value& value) {
    constexpr std::int64_t kMost = std::numeric_limits<int>::max();
    return static_cast<int>(value.integer(-kMost, kMost));
}

std::string text_or_none(Object& object, const char* key) {
    const std::optional<Value> value = object.find(key);
    return value ? value->text() : std::string();
}

ProcessFacts facts_of(Object& object) {
    ProcessFacts facts;
    facts.rank = int_of(object.at("rank"));
    facts.size = int_of(object.at("size"));
    facts.host = text_or_none(object, "host");
    if (const std::optional<Value> pid = object.find("pid")) {
        facts.pid = pid->integer();
    }
    facts.run = text_or_none(object, "run");
    facts.boot_id = text_or_none(object, "boot_id");
    facts.time_namespace = text_or_none(object, "time_namespace");
    if (const std::optional<Value> lanes = object.find("lanes")) {
        facts.lanes = lanes->list("a list of lanes", [](const Value& lane) { return LaneId{int_of(lane)}; });
    }
    if (const std::optional<Value> clock = object.find("clock")) {
        facts.clock = clock->list("a list of readings", [](const Value& value) {
            Object reading = value.object();
            const auto time = [&](const char* key) { return Nanoseconds{reading.at(key).integer()}; };
            return ClockReading{time("at_ns"), time("offset_ns"), time("bound_ns")};
        });
    }
    return facts;
}

/// What read(value) makes of the entry. Empty if there is none, or if it is not as it must be.
template <class Read>
auto entry(const std::map<std::string, std::string>& run, std::string_view key, Read read)
    -> std::optional<decltype(read(std::declval<const Value&>()))> {
    const auto found = run.find(std::string(key));
    if (found == run.end()) {
        return std::nullopt;
    }
    try {
        const Json document = parse_json(found->second, kFactsJson);
        return read(Value(document, "", kFactsJson));
    } catch (const Error&) {
        return std::nullopt;
    }
}
}  // namespace

std::string to_json(const ProcessFacts& facts) {
    return json_of(facts).dump();
}

std::string to_json(const std::vector<MergedProcess>& processes) {
    ordered_json list = ordered_json::array();
    for (const MergedProcess& process : processes) {
        list.push_back(json_of(process));
        list.back()["bound_ns"] = process.bound ? ordered_json(process.bound->count()) : ordered_json();
        list.back()["cut_off"] = process.cut_off;
    }
    return list.dump();
}

std::optional<ProcessFacts> recording_process(const std::map<std::string, std::string>& run) {
    return entry(run, "process", [](const Value& value) {
        Object object = value.object();
        return facts_of(object);
    });
}

std::vector<MergedProcess> merged_processes(const std::map<std::string, std::string>& run) {
    const auto process_of = [](const Value& value) {
        Object object = value.object();
        const Value bound = object.at("bound_ns");
        const std::optional<Value> cut_off = object.find("cut_off");
        return MergedProcess{facts_of(object),
                             bound.json().is_null() ? std::nullopt : std::optional(Nanoseconds{bound.integer()}),
                             cut_off && cut_off->truth()};
    };
    return entry(run, "processes", [&](const Value& value) { return value.list("a list of processes", process_of); })
        .value_or(std::vector<MergedProcess>());
}

std::string MissingRanks::text() const {
    if (ranks.empty()) {
        return "another rank";
    }
    constexpr std::size_t kMostNamed = 8;
    const std::size_t named = std::min(ranks.size(), kMostNamed);
    const std::string why =
        without_steps.empty() ? ""
        : without_steps.size() == ranks.size()
            ? " (which names no steps although other ranks do)"
            : fmt::format(" ({} {} no steps although other ranks do)", fmt::join(without_steps, ", "),
                          without_steps.size() == 1 ? "names" : "name");
    return fmt::format("{} {}{} of {}{}", ranks.size() == 1 ? "rank" : "ranks",
                       fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                       ranks.size() > named ? " and more" : "", size, why);
}

std::string to_json(const MissingRanks& missing) {
    ordered_json object{{"ranks", missing.ranks}, {"size", missing.size}};
    if (!missing.without_steps.empty()) {
        object["without_steps"] = missing.without_steps;
    }
    return object.dump();
}

std::optional<MissingRanks> missing_ranks_entry(const std::map<std::string, std::string>& run) {
    return entry(run, kMissingRanksKey, [](const Value& value) {
        Object object = value.object();
        MissingRanks missing{object.at("ranks").list("a list of ranks", int_of), int_of(object.at("size"))};
        if (const std::optional<Value> without_steps = object.find("without_steps")) {
            missing.without_steps = without_steps->list("a list of ranks", int_of);
        }
        return missing;
    });
}

MissingRanks other_ranks(const ProcessFacts& process) {
    MissingRanks missing;
    missing.size = process.size;
    for (int rank = 0; rank < process.size; ++rank) {
        if (rank != process.rank) {
            missing.ranks.push_back(rank);
        }
    }
    return missing;
}

std::optional<Nanoseconds> clock_bound(const std::vector<MergedProcess>& processes) {
    if (processes.size() < 2) {
        return std::nullopt;
    }
    Nanoseconds most{0};  // the two largest errors may have opposite signs
    Nanoseconds next{0};
    const bool any_lanes =
        std::ranges::any_of(processes, [](const MergedProcess& process) { return !process.lanes.empty(); });
    for (const MergedProcess& process : processes) {
        if (any_lanes && process.lanes.empty()) {
            continue;  // its tasks are left out, as those of a replica
        }
        if (!process.bound) {
            return std::nullopt;
        }
        next = std::max(next, std::min(*process.bound, most));
        most = std::max(most, *process.bound);
    }
    return most + next;
}
}  // namespace pipescope
