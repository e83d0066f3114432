#pragma once

#include "balance/profile.h"
#include "schedule/ids.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <optional>
#include <vector>

namespace pipescope {
/// The tapes of a partition's layers played one after the other, as one tape: what a layer hands to the next becomes a
/// block of the partition's own, let go where the last of caller and graphs lets go of it.
struct PartitionTape {
    LayerTape tape;
    std::size_t input_needed_forward =
        0;  ///< events of `tape.forward` up to where no layer works on the input any more
    std::size_t input_needed_recompute = 0;  ///< the same of `tape.recompute`
    // How many events are over when each layer is, in the order the layers run.
    std::vector<std::size_t> forward_ends;
    std::vector<std::size_t> checkpointed_ends;
    std::vector<std::size_t> recompute_ends;
    std::vector<std::size_t> backward_ends;
};

/// A layer's tape at the sized profile's size: the one recorded there, or one between two recorded sizes whose events
/// are equal, with block sizes between theirs. Nothing if there is none.
std::optional<LayerTape> recorded_tape(const Profile& profile, const SizedProfile& sized, LayerId layer);
/// One made up from the layer's bytes: an output, a block that is saved, one that is not.
LayerTape tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerId layer);

/// From recorded tapes alone. Nothing if a layer has none, or two neighbours disagree on how many storages pass between
/// them: the k-th output or passed block of a layer is the k-th input or passed block of the next.
std::optional<PartitionTape> recorded_partition_tape(const Profile& profile, const SizedProfile& sized,
                                                     LayerRange layers);
/// From the recorded tapes, or else from the layers' bytes.
PartitionTape partition_tape(const Profile& profile, const SizedProfile& sized, LayerRange layers);
}  // namespace pipescope
