#include "simulator/interleaved_search.h"

#include "schedule/schedules.h"

#include <utility>

namespace pipescope {
const std::string kInterleavedNeeds =
    "2 lanes or more, 2 layers for each, and a multiple of the lanes as micro-batches";

bool can_interleave(int lanes, std::int64_t micro_batches, std::size_t layers) {
    return lanes > 1 && layers >= static_cast<std::size_t>(kInterleavedPartitions * lanes) &&
           micro_batches % lanes == 0;
}

PipelineOptions interleaved_options(const Profile& profile, const PipelineOptions& options, int lanes,
                                    BalanceAlgorithm algorithm, const SearchEffort& effort,
                                    const SearchTables& tables) {
    const int partitions = kInterleavedPartitions * lanes;
    PipelineOptions apart = options;
    apart.schedule = Schedule::gpipe;
    apart.placement.clear();
    apart.hardware.devices.clear();
    apart.hardware.memory_limit.reset();
    apart.hardware.memory_limits.clear();
    apart.most_in_flight = 0;
    PipelineOptions interleaved = options;
    interleaved.schedule = Schedule::interleaved_1f1b;
    interleaved.placement.clear();
    for (int j = 0; j < partitions; ++j) {
        const int lane = j % lanes;
        interleaved.placement.emplace_back(lane);
        if (!options.hardware.speeds.empty() && j >= lanes) {
            apart.hardware.speeds.push_back(options.hardware.speeds[static_cast<std::size_t>(lane)]);
        }
    }
    interleaved.balance = search_balance(profile, apart, partitions, algorithm, effort, tables).found.balance;
    return interleaved;
}
}  // namespace pipescope
