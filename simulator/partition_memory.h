#pragma once

#include "balance/profile.h"
#include "schedule/ids.h"
#include "simulator/sized_profile.h"

namespace pipescope {
/// The highest point of a task above what its lane held when it started, split by what holds it.
struct WorkPeak {
    Bytes boundary = 0;   ///< negative once the partition's input is let go
    Bytes saved = 0;      ///< kept for the backward so far; negative in a backward, which frees while it goes
    Bytes gradient = 0;   ///< the output's gradient; negative once the partition's last layer is through with it
    Bytes transient = 0;  ///< everything else that is gone when the task ends
    Bytes skip = 0;       ///< negative once gradients of stashed skips are used

    Bytes total() const { return boundary + saved + gradient + transient + skip; }
};

/// What one micro-batch of one size holds on one partition, in totals: what a search over ranges of layers asks for.
///
/// Tensors and storages: T(l) is the output of layer l, T(first - 1) the partition's input. A layer that aliases its
/// input makes no new storage. A storage is kept for the backward if some T in it is kept: T(l) by keeps_output of l,
/// or by keeps_input of l + 1. The input's storage is not counted here.
/// Gradients have storages too: that of T(l - 1) is a new one, unless layer l passes_gradient or aliases_input; then it
/// lives as long as the last of those that share it, the gradients of popped skips included.
struct PartitionMemory {
    Bytes input = 0;           ///< T(first - 1)
    bool input_kept = false;   ///< the graph keeps its storage
    Bytes output = 0;          ///< T(last); counted as a storage of its own even if it aliases the input
    Bytes graph = 0;           ///< kept from forward, or recompute, to backward: saved tensors and kept storages
    bool output_kept = false;  ///< the graph keeps the output's storage too; it is not in `graph`
    WorkPeak checkpointed_forward;
    WorkPeak forward;               ///< of one that keeps its graph, or recompute without the copies of running
                                    ///< statistics, where the input stays
    WorkPeak forward_of_own_input;  ///< the same where the input goes when no layer needs it any more
    WorkPeak backward;          ///< relative to a lane that holds the graph, the kept output and the output's gradient
    WorkPeak backward_of_view;  ///< where that gradient is a view of a larger one, which stays
    Bytes input_gradient = 0;   ///< storage of the gradient of T(first - 1); 0 where a skip's gradient holds the same
};

/// Where every layer has an allocation tape, `graph`, what is kept and the peaks come from playing them in order, which
/// is exact; else from the layers' bytes by the rules above. Precondition: `sized` was read off from `profile`, the
/// range is one of its layers. Cost: O(layers).
PartitionMemory partition_memory(const Profile& profile, const SizedProfile& sized, LayerRange layers);
}  // namespace pipescope
