#pragma once

#include "profiler/profile/profile.h"
#include "simulator/sized_profile.h"

#include <cstddef>
#include <memory>
#include <vector>

namespace pipescope {
/// Memory of one micro-batch of one size on a range of layers as a partition, for a search over ranges. Peaks count
/// from what the lane held when the task started.
///
/// Tensors and storages: T(l) is the output of layer l, T(first - 1) the range's input. A layer that aliases its input
/// makes no new storage. A storage is kept for the backward if any T in it is kept: T(l) by keeps_output of l, or by
/// keeps_input of l + 1. The input's storage is not counted here.
/// Gradients have storages too. That of T(l - 1) is a new one, unless layer l passes_gradient or aliases_input. A
/// shared storage lives as long as the last gradient in it, gradients of popped skips included.
struct RangePeaks {
    Bytes input = 0;                 ///< T(first - 1)
    bool input_kept = false;         ///< the graph keeps its storage
    Bytes output = 0;                ///< T(last); counted as a storage of its own even if it aliases the input
    bool output_kept = false;        ///< the graph keeps the output's storage too; it is not in `graph`
    Bytes graph = 0;                 ///< kept from forward, or recompute, to backward: saved tensors and kept storages
    Bytes checkpointed_forward = 0;  ///< peak of a forward that keeps nothing
    /// Peak of a forward that keeps its graph, or of a recompute without its copies of running statistics. The input
    /// stays.
    Bytes forward = 0;
    Bytes forward_of_own_input = 0;  ///< likewise, but the input is freed once no layer needs it
    Bytes backward = 0;          ///< peak above a lane that holds the graph, the kept output and the output's gradient
    Bytes backward_of_view = 0;  ///< likewise, if that gradient is a view of a larger one, which stays
    Bytes input_gradient = 0;    ///< storage of the gradient of T(first - 1); 0 if a skip's gradient shares it

    friend bool operator==(const RangePeaks&, const RangePeaks&) = default;
};

/// RangePeaks of every range of layers, for a search that asks about millions of them. If every layer of a range has an
/// allocation tape, plays the tapes in order to get the graph, the kept tensors and the peaks, which is exact.
/// Otherwise uses the layers' bytes by the rules above.
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
    RangePeaks from_bytes(LayerRange layers);
    RangePeaks played(LayerRange layers);
    Bytes before(std::size_t layer) const { return layer == 0 ? sized_.input : sized_.output[layer - 1]; }

    const Profile& profile_;
    const SizedProfile& sized_;
    std::vector<std::size_t> without_tape_;  // number of such layers before each layer
    bool has_gathered_ = false;              // some tape has a variant for a gathered gradient
    std::vector<std::size_t> storage_;       // by layer: of its output; 0 is the model's input
    std::vector<std::size_t> keeper_;        // by storage: the first layer that keeps it; number of layers: none does
    std::vector<Bytes> bytes_;               // by storage
    std::vector<std::size_t> own_output_from_;    // by layer: the first one from there on that makes a storage
    std::vector<Bytes> released_;                 // by layer: kept bytes that its backward frees
    std::vector<std::vector<Forward>> rows_;      // by first layer; empty until first use
    std::vector<std::vector<Backward>> columns_;  // by end; likewise
    std::vector<std::unique_ptr<const RangePeaks>> played_;  // by first layer and end
};
}  // namespace pipescope
