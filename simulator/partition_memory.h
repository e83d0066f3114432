#pragma once

#include "balance/profile.h"
#include "schedule/ids.h"
#include "simulator/sized_profile.h"

namespace pipescope {
/// A task's highest point above what its lane held when it started, by category.
struct WorkPeak {
    Bytes boundary = 0;   ///< negative once the partition's input is freed
    Bytes saved = 0;      ///< kept for the backward so far; negative in a backward, which frees it
    Bytes gradient = 0;   ///< the output's gradient; negative once the partition's last layer has used it
    Bytes transient = 0;  ///< everything else that the task frees by its end
    Bytes skip = 0;       ///< negative once gradients of stashed skips are used

    Bytes total() const { return boundary + saved + gradient + transient + skip; }
};

/// Memory of one micro-batch of one size on one partition, in totals, for a search over ranges of layers.
///
/// Tensors and storages: T(l) is the output of layer l, T(first - 1) the partition's input. A layer that aliases its
/// input makes no new storage. A storage is kept for the backward if any T in it is kept: T(l) by keeps_output of l, or
/// by keeps_input of l + 1. The input's storage is not counted here.
/// Gradients have storages too. That of T(l - 1) is a new one, unless layer l passes_gradient or aliases_input. A
/// shared storage lives as long as the last gradient in it, gradients of popped skips included.
struct PartitionMemory {
    Bytes input = 0;           ///< T(first - 1)
    bool input_kept = false;   ///< the graph keeps its storage
    Bytes output = 0;          ///< T(last); counted as a storage of its own even if it aliases the input
    Bytes graph = 0;           ///< kept from forward, or recompute, to backward: saved tensors and kept storages
    bool output_kept = false;  ///< the graph keeps the output's storage too; it is not in `graph`
    WorkPeak checkpointed_forward;
    /// A forward that keeps its graph, or a recompute without its copies of running statistics. The input stays.
    WorkPeak forward;
    WorkPeak forward_of_own_input;  ///< likewise, but the input is freed once no layer needs it
    WorkPeak backward;              ///< above a lane that holds the graph, the kept output and the output's gradient
    WorkPeak backward_of_view;      ///< likewise, if that gradient is a view of a larger one, which stays
    Bytes input_gradient = 0;       ///< storage of the gradient of T(first - 1); 0 if a skip's gradient shares it
};

/// If every layer has an allocation tape, plays the tapes in order to get `graph`, the kept tensors and the peaks,
/// which is exact. Otherwise uses the layers' bytes by the rules above. Precondition: `sized` was read from `profile`,
/// which has all layers of the range. Cost: O(layers).
PartitionMemory partition_memory(const Profile& profile, const SizedProfile& sized, LayerRange layers);
}  // namespace pipescope
