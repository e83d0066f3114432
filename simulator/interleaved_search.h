#pragma once

#include "balance/profile.h"
#include "simulator/balance_search.h"
#include "simulator/pipeline_options.h"
#include "simulator/search_tables.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace pipescope {
/// Partitions that a planned lane has with schedule interleaved.
constexpr int kInterleavedPartitions = 2;

/// What can_interleave() asks for, to be read after "it needs".
extern const std::string kInterleavedNeeds;

/// Whether the interleaved schedule, with so many partitions a lane, can run `layers` layers on so many lanes.
bool can_interleave(int lanes, std::int64_t micro_batches, std::size_t layers);

/// The options with kInterleavedPartitions for each lane, dealt out in turn (Megatron-LM, arXiv 2104.04473, section
/// 2.2), and the balance that is best where each partition has a lane of its own: what the exact search knows of a
/// schedule it has no closed form for. A memory limit is told, not sought to keep.
/// Throws as find_balance() does. Precondition: can_interleave().
PipelineOptions interleaved_options(const Profile& profile, const PipelineOptions& options, int lanes,
                                    BalanceAlgorithm algorithm, const SearchEffort& effort, const SearchTables& tables);
}  // namespace pipescope
