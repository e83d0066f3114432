#include "trace/store/process_json.h"

#include "trace/store/opened_trace.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>

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

ProcessFacts facts_of(const ordered_json& object) {
    ProcessFacts facts;
    facts.rank = object.at("rank");
    facts.size = object.at("size");
    facts.host = object.value("host", "");
    facts.pid = object.value("pid", std::int64_t{0});
    facts.run = object.value("run", "");
    facts.boot_id = object.value("boot_id", "");
    facts.time_namespace = object.value("time_namespace", "");
    for (const ordered_json& lane : object.value("lanes", ordered_json::array())) {
        facts.lanes.emplace_back(lane.get<std::int32_t>());
    }
    for (const ordered_json& reading : object.value("clock", ordered_json::array())) {
        const auto time = [&](const char* key) { return Nanoseconds{reading.at(key).get<std::int64_t>()}; };
        facts.clock.push_back({time("at_ns"), time("offset_ns"), time("bound_ns")});
    }
    return facts;
}

/// The entry as JSON; null if it is missing or not JSON.
ordered_json entry(const std::map<std::string, std::string>& run, const char* key) {
    const auto found = run.find(key);
    ordered_json value = found == run.end() ? ordered_json() : ordered_json::parse(found->second, nullptr, false);
    return value.is_discarded() ? ordered_json() : value;
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
    const ordered_json object = entry(run, "process");
    try {
        return object.is_null() ? std::nullopt : std::optional(facts_of(object));
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
}

std::vector<MergedProcess> merged_processes(const std::map<std::string, std::string>& run) {
    std::vector<MergedProcess> processes;
    try {
        for (const ordered_json& object : entry(run, "processes")) {
            const ordered_json& bound = object.at("bound_ns");
            processes.push_back({facts_of(object),
                                 bound.is_null() ? std::nullopt : std::optional(Nanoseconds{bound.get<std::int64_t>()}),
                                 object.value("cut_off", false)});
        }
    } catch (const nlohmann::json::exception&) {
        processes.clear();
    }
    return processes;
}

std::string MissingRanks::text() const {
    if (ranks.empty()) {
        return "another rank";
    }
    constexpr std::size_t kMostNamed = 8;
    const std::size_t named = std::min(ranks.size(), kMostNamed);
    return fmt::format("{} {}{} of {}", ranks.size() == 1 ? "rank" : "ranks",
                       fmt::join(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(named), ", "),
                       ranks.size() > named ? " and more" : "", size);
}

std::string to_json(const MissingRanks& missing) {
    return ordered_json{{"ranks", missing.ranks}, {"size", missing.size}}.dump();
}

std::optional<MissingRanks> missing_ranks_entry(const std::map<std::string, std::string>& run) {
    const auto found = run.find(std::string(kMissingRanksKey));
    const ordered_json object =
        found == run.end() ? ordered_json() : ordered_json::parse(found->second, nullptr, false);
    try {
        return object.is_object() ? std::optional(MissingRanks{object.at("ranks").get<std::vector<int>>(),
                                                               object.at("size").get<int>()})
                                  : std::nullopt;
    } catch (const nlohmann::json::exception&) {
        return std::nullopt;
    }
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
    for (const MergedProcess& process : processes) {
        if (!process.bound) {
            return std::nullopt;
        }
        next = std::max(next, std::min(*process.bound, most));
        most = std::max(most, *process.bound);
    }
    return most + next;
}
}  // namespace pipescope
