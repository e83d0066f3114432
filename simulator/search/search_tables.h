#pragma once

#include "balance/partition_table.h"
#include "profiler/profile/profile.h"
#include "simulator/memory/memory_bounds.h"
#include "simulator/pipeline_options.h"
#include "simulator/sized_profile.h"

#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// Times of a search's layers.
struct SearchTimes {
    SizedProfile large;  ///< of the larger micro-batches; `forward` is `kept_forward` if the first one keeps its graph
    SizedProfile small;
    // Tables of every range of layers: for the larger micro-batches, the smaller ones, and the minimum of both. Null if
    // there are more layers than the exact search takes.
    std::shared_ptr<const IntervalTable> intervals_large, intervals_small, intervals_least;
};

/// Profile data of a balance search for one way to cut the mini-batch into micro-batches. Searches that differ only in
/// partitions and checkpoint mode share it, which saves most of their work.
/// Threading: one thread at a time; it caches the memory of ranges.
struct SearchTables {
    /// Preconditions: the profile was checked; `options` name batch, chunks, optimizer and the speeds of all lanes used
    /// later. Borrows the profile.
    SearchTables(const Profile& profile, const PipelineOptions& options);

    std::vector<std::int64_t> sizes;  ///< of the micro-batches, the larger first
    std::shared_ptr<RangeMemories> ranges;

    /// The reference stays valid as long as the tables live.
    const SearchTimes& times(Checkpoint checkpoint) const;

private:
    const Profile& profile_;
    std::vector<double> speeds_;
    mutable std::optional<SearchTimes> checkpointed_, kept_;  // made when first asked for
};

/// The minimum of both, time by time.
SizedProfile least_of(const SizedProfile& a, const SizedProfile& b);
}  // namespace pipescope
