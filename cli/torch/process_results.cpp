#include "cli/torch/process_results.h"

#include "cli/torch/unsplit_layers.h"
#include "engine/processes/lane_channels.h"

#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using Json = nlohmann::ordered_json;

Json to_json(const TrainedLane& lane) {
    Json peak = nullptr;
    if (lane.peak.known()) {
        peak = Json::array();
        for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
            peak.push_back(lane.peak[static_cast<MemoryCategory>(k)]);
        }
    }
    Json busy = Json::array();
    for (const Nanoseconds time : lane.busy) {
        busy.push_back(time.count());
    }
    return {{"peak_bytes", lane.peak_bytes}, {"peak", std::move(peak)}, {"busy_ns", std::move(busy)}};
}

TrainedLane lane_of(const Json& object) {
    TrainedLane lane;
    lane.peak_bytes = object.at("peak_bytes");
    if (const Json& peak = object.at("peak"); !peak.is_null()) {
        for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
            lane.peak[static_cast<MemoryCategory>(k)] = peak.at(k);
        }
    }
    for (const Json& busy : object.at("busy_ns")) {
        lane.busy.emplace_back(busy.get<std::int64_t>());
    }
    return lane;
}
}  // namespace

ProcessFacts process_facts(const Processes& processes, const std::vector<LaneId>& lanes_here,
                           const ProcessClock& clock) {
    std::vector<LaneId> lanes = lanes_here;  // one for each partition
    std::ranges::sort(lanes);
    lanes.erase(std::ranges::unique(lanes).begin(), lanes.end());
    return {.rank = processes.rank(),
            .size = processes.size(),
            .host = processes.host_of(processes.rank()),
            .pid = ::getpid(),
            .run = processes.run_id(),
            .boot_id = clock.boot_id,
            .time_namespace = clock.time_namespace,
            .lanes = std::move(lanes),
            .clock = {}};
}

std::filesystem::path trace_of_rank(const std::filesystem::path& trace, int rank, int attempt) {
    const std::string restart = attempt > 0 ? fmt::format(".restart{}", attempt) : "";
    return trace.parent_path() /
           fmt::format("{}{}.rank{}{}", trace.stem().string(), restart, rank, trace.extension().string());
}

void share_lanes(TrainingResult& result, const std::vector<LaneId>& lanes_here, const RankClock& clock,
                 Processes& processes, int replicas) {
    Json own{{"lanes", Json::object()}, {"steps", Json::array()}};
    for (const LaneId lane : lanes_here) {
        own["lanes"][std::to_string(lane.value())] = to_json(result.lanes.at(lane.index()));
    }
    for (TrainedStep& step : result.steps) {
        step.start = clock.to_rank_0(step.start);
        step.end = clock.to_rank_0(step.end);
        own["steps"].push_back({step.start.count(), step.end.count()});
    }
    if (result.unsplit_layers) {
        own["unsplit_layers"] = unsplit_json(*result.unsplit_layers);
    }
    const std::vector<std::string> all = processes.gather(own.dump());
    const ReplicaRanks ranks = replica_ranks(processes, replicas, static_cast<int>(result.lanes.size()));
    for (int rank = ranks.first; rank < ranks.first + ranks.count; ++rank) {
        const Json other = Json::parse(all[static_cast<std::size_t>(rank)]);
        for (const auto& [lane, object] : other.at("lanes").items()) {
            result.lanes.at(std::stoul(lane)) = lane_of(object);
        }
        if (result.unsplit_layers && rank != processes.rank()) {
            std::ranges::copy(parse_unsplit(other.at("unsplit_layers").get<std::string>()),
                              std::back_inserter(*result.unsplit_layers));
        }
        const Json& steps = other.at("steps");
        for (std::size_t k = 0; k < std::min(result.steps.size(), steps.size()); ++k) {
            const Json& step = steps.at(k);
            result.steps[k].start = std::min(result.steps[k].start, Nanoseconds(step.at(0).get<std::int64_t>()));
            result.steps[k].end = std::max(result.steps[k].end, Nanoseconds(step.at(1).get<std::int64_t>()));
        }
    }
    if (result.unsplit_layers) {
        std::ranges::sort(*result.unsplit_layers, {}, &UnsplitLayer::id);
    }
}
}  // namespace pipescope
