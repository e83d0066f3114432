#pragma once

#include "balance/profile.h"
#include "simulator/partition_memory.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace pipescope {
/// What a range of layers holds, as PartitionMemory has it; of each peak the total.
struct RangePeaks {
    Bytes input = 0;
    bool input_kept = false;
    Bytes output = 0;
    bool output_kept = false;
    Bytes graph = 0;
    Bytes checkpointed_forward = 0;
    Bytes forward = 0;
    Bytes forward_of_own_input = 0;
    Bytes backward = 0;
    Bytes backward_of_view = 0;
    Bytes input_gradient = 0;

    friend bool operator==(const RangePeaks&, const RangePeaks&) = default;
};

/// partition_memory() of every range of layers, for a search that asks about millions of them.
///
/// Idea: a forward keeps the same things whether or not its range goes on behind a layer, and a backward finds the same
/// things at a layer whether or not its range goes on below. So one walk up from a layer knows the forwards of all
/// ranges that begin there, and one walk down those of all backwards that end there. Invariant: the input's storage is
/// not counted in any range; where layers at a range's beginning alias it, their peaks are put right apart. Cost: each
/// walk O(layers), made when a range of it is first asked for; then O(1), and O(layers that alias in a row). Ranges
/// whose layers all have allocation tapes are played one by one, O(layers). Threading: one thread at a time.
class RangeTable {
public:
    /// Precondition: `sized` was read off from the profile. Borrows both.
    RangeTable(const Profile& profile, const SizedProfile& sized);

    /// Precondition: the range is not empty, and one of the profile's layers.
    RangePeaks at(LayerRange layers);

private:
    struct Forward {  // of layers first .. l, in the row of `first`
        Bytes graph = 0;
        Bytes checkpointed = 0;
        Bytes input_stays = 0;
        Bytes input_goes = 0;
        bool input_kept = false;
        bool output_kept = false;
    };
    struct Backward {  // of layers l .. end - 1, in the column of `end`
        Bytes handed_stays = 0;
        Bytes handed_goes = 0;
        Bytes input_gradient = 0;
    };

    void find_storages();
    std::vector<Forward> forwards_from(std::size_t first) const;
    std::vector<Backward> backwards_to(std::size_t end) const;
    RangePeaks played(LayerRange layers);
    Bytes before(std::size_t layer) const { return layer == 0 ? sized_.input : sized_.output[layer - 1]; }

    const Profile& profile_;
    const SizedProfile& sized_;
    std::vector<std::size_t> without_tape_;       // of all layers before
    std::vector<std::size_t> storage_;            // of each layer's output; 0 is the model's input
    std::vector<std::size_t> keeper_;             // of each storage: the first layer that keeps it; layers: none does
    std::vector<Bytes> bytes_;                    // of each storage
    std::vector<std::size_t> own_output_from_;    // by layer: the first from there on that makes a storage
    std::vector<Bytes> let_go_;                   // by layer: of kept storages, in its backward
    std::vector<std::vector<Forward>> rows_;      // by first layer; empty until asked for
    std::vector<std::vector<Backward>> columns_;  // by end; likewise
    std::vector<std::unique_ptr<const RangePeaks>> played_;  // by first layer and end
};
}  // namespace pipescope
