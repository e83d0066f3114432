#pragma once

#include "balance/profile.h"
#include "simulator/partition_memory.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace pipescope {
/// Memory of a range of layers: PartitionMemory with each peak as a total.
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
/// Idea: a forward keeps the same tensors whether or not its range continues behind a layer, and a backward finds the
/// same gradients at a layer whether or not its range continues below. So one walk up from a layer gives the forwards
/// of all ranges that begin there, and one walk down gives the backwards of all ranges that end there. Invariant: no
/// range counts its input's storage; peaks of layers at a range's beginning that alias the input are corrected
/// separately. Cost: each walk O(layers), made on first use; then O(1), plus O(consecutive layers that alias). Ranges
/// whose layers all have allocation tapes are played one by one, O(layers). Threading: one thread at a time.
class RangeTable {
public:
    /// Precondition: `sized` was read from the profile. Borrows both.
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
    std::vector<std::size_t> without_tape_;  // number of such layers before each layer
    std::vector<std::size_t> storage_;       // by layer: of its output; 0 is the model's input
    std::vector<std::size_t> keeper_;        // by storage: the first layer that keeps it; number of layers: none does
    std::vector<Bytes> bytes_;               // by storage
    std::vector<std::size_t> own_output_from_;    // by layer: the first one from there on that makes a storage
    std::vector<Bytes> let_go_;                   // by layer: kept bytes that its backward frees
    std::vector<std::vector<Forward>> rows_;      // by first layer; empty until first use
    std::vector<std::vector<Backward>> columns_;  // by end; likewise
    std::vector<std::unique_ptr<const RangePeaks>> played_;  // by first layer and end
};
}  // namespace pipescope
