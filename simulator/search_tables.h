#pragma once

#include "balance/partition_table.h"
#include "balance/profile.h"
#include "simulator/memory_bounds.h"
#include "simulator/pipeline_options.h"
#include "simulator/sized_profile.h"

#include <memory>
#include <vector>

namespace pipescope {
/// What a balance search reads off a profile for one way to cut the mini-batch into micro-batches. Searches that differ
/// only in partitions and checkpoint mode share one, which is most of their work.
/// Threading: one thread at a time: what ranges of layers hold is remembered.
struct SearchTables {
    /// Preconditions: check_profile() passes; `options` name batch, chunks, optimizer and the speeds of all lanes that
    /// will be asked for. Borrows the profile.
    SearchTables(const Profile& profile, const PipelineOptions& options);

    std::vector<std::int64_t> sizes;  ///< of the micro-batches, the larger first
    SizedProfile large;
    SizedProfile small;
    std::shared_ptr<RangeMemories> ranges;
    // Of every range of layers, with the larger and the smaller micro-batches, and with whichever is quicker; null for
    // more layers than the exact search takes.
    std::shared_ptr<const IntervalTable> intervals_large, intervals_small, intervals_least;
};

/// Each time the smaller of the two.
SizedProfile least_of(const SizedProfile& a, const SizedProfile& b);
}  // namespace pipescope
