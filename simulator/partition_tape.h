#pragma once

#include "balance/profile.h"
#include "schedule/ids.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace pipescope {
/// The tapes of a partition's layers played one after the other, as one tape: what a layer hands to the next becomes a
/// block of the partition's own, let go where the last of caller and graphs lets go of it.
///
/// What crosses the partition's border are slots, one for each tensor, with the number of its block, or 0 for none; two
/// slots may name the same one, since tensors share storages. Skips are named by their index. An input block that is an
/// output too is handed through.
struct PartitionTape {
    LayerTape tape;
    // In the order in which the partition before, or behind, has them. A gradient that arrives at a slot without a
    // block is not wanted.
    std::vector<std::int32_t> inputs;
    std::vector<std::int32_t> outputs;
    std::vector<std::int32_t> output_gradients;
    std::vector<std::int32_t> input_gradients;
    std::map<std::size_t, std::int32_t> popped;  ///< skips that come in
    std::map<std::size_t, std::int32_t> stashed;
    std::map<std::size_t, std::int32_t> stash_gradients;
    std::map<std::size_t, std::int32_t> pop_gradients;
    Bytes statistics = 0;  ///< copies of running statistics, from a recompute's start to its end
    /// How many events of each phase are over when no layer works on a block that came in any more.
    std::map<std::int32_t, std::size_t> needed_forward;
    std::map<std::int32_t, std::size_t> needed_recompute;
    // How many events are over when each layer is, in the order the layers run.
    std::vector<std::size_t> forward_ends;
    std::vector<std::size_t> checkpointed_ends;
    std::vector<std::size_t> recompute_ends;
    std::vector<std::size_t> backward_ends;
};

/// A layer's tape at the sized profile's size: the one recorded there, or one between two recorded sizes, or on the
/// line through the two nearest, whose events are equal. Nothing if there is none.
std::optional<LayerTape> recorded_tape(const Profile& profile, const SizedProfile& sized, LayerId layer,
                                       TapeVariant variant = {});
/// One made up from the layer's bytes: an output, a block that is saved, one that is not; and its skips.
LayerTape tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerId layer);

/// From recorded tapes alone. Nothing if a layer has none, or two neighbours disagree on how many storages pass between
/// them: the k-th output or passed block of a layer is the k-th input or passed block of the next.
std::optional<PartitionTape> recorded_partition_tape(const Profile& profile, const SizedProfile& sized,
                                                     LayerRange layers, TapeVariant variant = {});
/// From the layers' bytes alone.
PartitionTape partition_tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerRange layers);
}  // namespace pipescope
