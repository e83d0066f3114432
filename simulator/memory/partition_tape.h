#pragma once

#include "base/ids.h"
#include "profiler/profile/profile.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace pipescope {
/// Joins the tapes of a partition's layers into one. A tensor between two layers becomes a block of the partition,
/// freed when the caller and all graphs have released it.
///
/// Tensors that cross the partition's border are slots, each with the number of its block, or 0 for none. Two slots may
/// name the same block, since tensors share storages. Skips are named by their index. An input block that is also an
/// output is passed through.
struct PartitionTape {
    PlainTape tape;
    // In the neighbouring partition's order. A gradient that arrives at a slot without a block is not needed.
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> outputs;
    std::vector<std::int32_t> output_gradients;
    std::vector<std::int32_t> input_gradients;
    std::map<std::size_t, std::int32_t> popped;  ///< skips that this partition receives
    std::map<std::size_t, std::int32_t> stashed;
    std::map<std::size_t, std::int32_t> stash_gradients;
    std::map<std::size_t, std::int32_t> pop_gradients;
    Bytes statistics = 0;  ///< copies of running statistics, from a recompute's start to its end
    /// By incoming block: number of events of each phase after which no layer works on it.
    std::map<std::int32_t, std::size_t> needed_forward;
    std::map<std::int32_t, std::size_t> needed_recompute;
    // Number of events completed by the end of each layer, in the order the layers run.
    std::vector<std::size_t> forward_ends;
    std::vector<std::size_t> checkpointed_ends;
    std::vector<std::size_t> recompute_ends;
    std::vector<std::size_t> backward_ends;
    std::vector<std::size_t> backward_weight_ends;  ///< of a split backward; otherwise empty
};

/// A layer's tape at the sized profile's size: recorded there, or interpolated between two recorded sizes, or
/// extrapolated from the two nearest. The two need equal events. Empty if there is none. The halves
/// of a split backward are estimated from the whole one if they were not recorded.
std::optional<PlainTape> recorded_tape(const Profile& profile, const SizedProfile& sized, LayerId layer,
                                       TapeVariant variant = {});
/// A tape made up from the layer's bytes: its output, a saved block, a block that is not saved, and its skips.
/// `split`: with a backward in halves.
PlainTape tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerId layer, bool split = false);

/// Joins recorded tapes only. Empty if a layer has none, or if two neighbours disagree on the number of storages
/// between them: the k-th output or passed block of a layer is the k-th input or passed block of the next. If the
/// backward is split (`variant.halves`), a layer without such a tape gets an estimate: the graph of a layer with
/// weights stays until the second half, and so does the gradient of its output.
std::optional<PartitionTape> recorded_partition_tape(const Profile& profile, const SizedProfile& sized,
                                                     LayerRange layers, TapeVariant variant = {});
/// Uses the layers' bytes only. `split`: with a backward in halves, by the same estimate.
PartitionTape partition_tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                                        bool split = false);
}  // namespace pipescope
