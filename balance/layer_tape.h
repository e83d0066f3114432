#pragma once

#include "schedule/ids.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace pipescope {
/// One storage that a layer allocates, or that is handed to it. Whoever runs the layer holds inputs, outputs and
/// gradients too, as long as it needs them; a tape says what the layer and its graph do.
struct TapeBlock {
    enum class Role : std::uint8_t {
        own,              ///< allocated by the layer: a temporary, or saved for the backward
        input,            ///< handed in; let go in backward if the graph keeps it, else never mentioned
        output,           ///< taken in forward and handed on; let go in backward if the graph keeps it
        passed,           ///< an input's storage that is an output's too (a view, or a tuple's part handed through)
        output_gradient,  ///< handed to the backward; let go there at the latest when it ends
        input_gradient,   ///< taken in backward and handed to the layer below
        passed_gradient,  ///< an output's gradient whose storage is handed to the layer below as an input's
        skip,             ///< stashed or popped here, and nothing else; or its gradient
    };
    Role role = Role::own;
    Bytes bytes = 0;

    friend bool operator==(const TapeBlock&, const TapeBlock&) = default;
};

/// What one layer allocates and frees for one micro-batch, in its order. Blocks are numbered from 1 as they stand in
/// `blocks`; an event k takes block k, an event -k lets it go. In steady state: parameters' gradients exist.
///
///     blocks: 1 input, 2 output, 3 own 4 kB, 4 own 1 kB, 5 output_gradient, 6 input_gradient
///     forward: 3 4 2 -4      the layer saves block 3 and needs 4 for a while
///     backward: 6 -3 -5 -1   the graph kept the input too
///
/// Invariant (check_tape): events name blocks; an own block is taken before it is let go and not twice; outputs are
/// taken once in each kind of forward; `recompute` leaves what `forward` leaves, and `backward` lets it go.
struct LayerTape {
    std::vector<TapeBlock> blocks;
    std::vector<std::int32_t> forward;               ///< one that keeps its graph
    std::vector<std::int32_t> checkpointed_forward;  ///< one that keeps nothing
    std::vector<std::int32_t> recompute;
    std::vector<std::int32_t> backward;
    // Blocks by tensor, in the order of the layer's tensors, which may share one. Empty: those of the roles, as they
    // stand in `blocks`.
    std::vector<std::int32_t> inputs;            ///< else input and passed
    std::vector<std::int32_t> outputs;           ///< else output and passed
    std::vector<std::int32_t> output_gradients;  ///< of outputs that want one; else output_gradient and passed_gradient
    std::vector<std::int32_t> input_gradients;   ///< 0: none arrived; else input_gradient and passed_gradient
    /// A skip's storage and that of its gradient, which may be blocks of other roles too; 0: there is none.
    struct Skip {
        std::int32_t value = 0;
        std::int32_t gradient = 0;

        friend bool operator==(const Skip&, const Skip&) = default;
    };
    std::map<std::string, Skip> stash;  ///< by name, as LayerProfile has them
    std::map<std::string, Skip> pop;
    /// One entry, if it differs: the tape where the gradients of the model's outputs are contiguous parts of those of a
    /// gathered mini-batch. Other micro-batches hold their storages too, so nothing is added to them in place.
    std::vector<LayerTape> gathered;

    /// Nothing was recorded.
    bool empty() const { return blocks.empty() && forward.empty(); }
    friend bool operator==(const LayerTape&, const LayerTape&) = default;
};

std::string to_string(TapeBlock::Role role);

// The list of the tape, or else the blocks of the roles.
std::vector<std::int32_t> inputs_of(const LayerTape& tape);
std::vector<std::int32_t> outputs_of(const LayerTape& tape);
std::vector<std::int32_t> output_gradients_of(const LayerTape& tape);
std::vector<std::int32_t> input_gradients_of(const LayerTape& tape);

/// `forward`, and what it leaves of its own let go behind it: the checkpointed forward of a tape that has none.
std::vector<std::int32_t> forward_that_keeps_nothing(const LayerTape& tape);

/// Throws ProfileError that starts with `path`, the tape's own, unless the invariant holds.
void check_tape(const LayerTape& tape, const std::string& path);
}  // namespace pipescope
