#pragma once

#include "balance/profile.h"
#include "simulator/balance_search.h"
#include "simulator/pipeline_options.h"
#include "simulator/search_tables.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace pipescope {
/// Partitions per lane that a plan gives the interleaved schedule.
constexpr int kInterleavedPartitions = 2;

/// The requirements of can_interleave(), worded to follow "it needs".
extern const std::string kInterleavedNeeds;

/// True if the interleaved schedule, with kInterleavedPartitions per lane, can run `layers` layers on so many lanes.
bool can_interleave(int lanes, std::int64_t micro_batches, std::size_t layers);

/// Gives each lane kInterleavedPartitions, dealt out in turn (Megatron-LM, arXiv 2104.04473, section 2.2). The balance
/// is the best one for partitions with a lane each, since the exact search has no closed form for this schedule.
/// Reports a memory limit that is exceeded, but does not search for a balance that keeps it.
/// Throws as find_balance() does. Precondition: can_interleave().
PipelineOptions interleaved_options(const Profile& profile, const PipelineOptions& options, int lanes,
                                    BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables);
}  // namespace pipescope
