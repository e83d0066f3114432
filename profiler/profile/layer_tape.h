#pragma once

#include "base/ids.h"

#include <compare>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// A storage that a layer allocates or receives. The caller also holds inputs, outputs and gradients as long as it
/// needs them; a tape describes only the layer and its graph.
struct TapeBlock {
    enum class Role : std::uint8_t {
        own,              ///< allocated by the layer: a temporary, or saved for the backward
        input,            ///< received; freed in backward if the graph keeps it, otherwise never mentioned
        output,           ///< allocated in forward and passed on; freed in backward if the graph keeps it
        passed,           ///< an input's storage that is also an output's (a view, or part of a tuple passed through)
        output_gradient,  ///< received by the backward; freed there, at its end at the latest
        input_gradient,   ///< allocated in backward and passed to the layer below
        passed_gradient,  ///< an output's gradient whose storage is passed to the layer below as an input's
        skip,             ///< only stashed or popped here; or its gradient
    };
    Role role = Role::own;
    Bytes bytes = 0;

    friend bool operator==(const TapeBlock&, const TapeBlock&) = default;
};

/// Allocations and frees of one layer for one micro-batch, in order. Blocks are numbered from 1 by their position in
/// `blocks`. Event k allocates block k, event -k frees it. Steady state: the parameters' gradients exist already.
///
///     blocks: 1 input, 2 output, 3 own 4 kB, 4 own 1 kB, 5 output_gradient, 6 input_gradient
///     forward: 3 4 2 -4      the layer saves block 3 and needs 4 temporarily
///     backward: 6 -3 -5 -1   the graph kept the input too
///
/// Invariant (check_tape): events name blocks; an own block is allocated before it is freed, and only once; outputs are
/// allocated once in each kind of forward; `recompute` leaves what `forward` leaves, and `backward` frees it, or both
/// halves of a split one do.
struct PlainTape {
    std::vector<TapeBlock> blocks;
    std::vector<std::int32_t> forward;               ///< forward that keeps its graph
    std::vector<std::int32_t> checkpointed_forward;  ///< forward that keeps nothing
    std::vector<std::int32_t> recompute;
    std::vector<std::int32_t> backward;
    std::vector<std::int32_t> backward_weight;  ///< in an entry of LayerTape::halves only
    // Blocks by tensor, in the order of the layer's tensors, which may share one. Empty: the blocks of the given roles,
    // as ordered in `blocks`.
    std::vector<std::int32_t> inputs;            ///< else input and passed
    std::vector<std::int32_t> outputs;           ///< else output and passed
    std::vector<std::int32_t> output_gradients;  ///< 0: not needed; else output_gradient and passed_gradient
    std::vector<std::int32_t> input_gradients;   ///< 0: none arrived; else input_gradient and passed_gradient
    /// Storages of a skip and of its gradient. They may be blocks of other roles too; 0 if there is none.
    struct Skip {
        std::int32_t value = 0;
        std::int32_t gradient = 0;

        friend bool operator==(const Skip&, const Skip&) = default;
    };
    std::map<std::string, Skip> stash;  ///< by name, as in LayerProfile
    std::map<std::string, Skip> pop;

    /// True if nothing was recorded.
    bool empty() const { return blocks.empty() && forward.empty(); }
    friend bool operator==(const PlainTape&, const PlainTape&) = default;
};

/// A layer's tape with its variants, which differ in what surrounds the layer or in how its backward runs.
struct LayerTape : PlainTape {
    /// One entry, if it differs: the tape if the gradients of the model's outputs are contiguous parts of a gathered
    /// mini-batch's. Other micro-batches hold their storages too, so nothing is added to them in place.
    std::vector<LayerTape> gathered;
    /// One entry, if it differs: the tape if every floating-point input requires a gradient. A forward that keeps no
    /// graph cannot know which outputs would require one, so all do: partitions above a checkpointed one compute
    /// gradients that it then drops. May have its own `gathered`.
    std::vector<LayerTape> all_gradients;
    /// One entry, if it differs or the layer trains: the tape if the backward is split. Then `backward` is the half
    /// that computes gradients of activations, and `backward_weight` the other. Tensors that the second half needs stay
    /// until then, so a gradient that it needs is never added to in place: blocks and roles of gradients may differ
    /// too.
    std::vector<LayerTape> halves;

    friend bool operator==(const LayerTape&, const LayerTape&) = default;
};

/// Selects one of a layer's tapes for a micro-batch. A layer without that variant uses the next simpler one.
struct TapeVariant {
    bool gathered = false;       ///< LayerTape::gathered
    bool all_gradients = false;  ///< LayerTape::all_gradients
    bool halves = false;         ///< LayerTape::halves

    friend auto operator<=>(const TapeVariant&, const TapeVariant&) = default;
};
const LayerTape& variant_of(const LayerTape& tape, TapeVariant variant);

std::string to_string(TapeBlock::Role role);

// The tape's list, or else the blocks of the given roles.
std::vector<std::int32_t> inputs_of(const PlainTape& tape);
std::vector<std::int32_t> outputs_of(const PlainTape& tape);
std::vector<std::int32_t> output_gradients_of(const PlainTape& tape);
std::vector<std::int32_t> input_gradients_of(const PlainTape& tape);

/// The checkpointed forward for a tape without one: `forward`, then its own leftover blocks freed.
std::vector<std::int32_t> forward_that_keeps_nothing(const PlainTape& tape);

/// Throws ProfileError whose message starts with `path`, the tape's path, unless the invariant holds.
void check_tape(const LayerTape& tape, const std::string& path);
}  // namespace pipescope
