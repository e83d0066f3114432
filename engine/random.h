#pragma once

#include "base/ids.h"

#include <cstdint>
#include <memory>

namespace pipescope {
/// Makes random numbers inside layers independent of balance, devices and timing.
///
/// Problem: with one generator per process, the numbers that a dropout draws depend on which lane came first; and a
/// recomputed forward must draw the same numbers again. Idea: each layer's forward of a micro-batch draws from its own
/// generator, whose seed depends on what it computes; recomputing seeds again. A plain at::dropout() deep inside a
/// layer finds that generator by DispatchKey::TESTING_ONLY_GenericMode, which takes part in dispatch only if the thread
/// includes it. All operators fall through it, except those whose schema has a Generator argument: one boxed kernel
/// fills in the thread's generator, if none was given, and continues to the next key. Cost: none for layers that draw
/// nothing, since a generator is only seeded at the first draw.
///
/// A layer may recompute a part of itself in its backward, as torch.utils.checkpoint does: it saves the state of
/// torch's default CPU generator in forward and sets it before it draws again. So the default generator must have the
/// state of the thread's generator while there is one. Its handle gets a generator that looks there first; a handle
/// copied before the first model was built does not. Accelerators offer no such hook, so there a layer that draws while
/// it recomputes in its backward is refused.

/// The seed of one layer's forward of one micro-batch.
std::uint64_t random_seed(std::uint64_t seed, std::int64_t step, MicroBatchId micro_batch, LayerId layer);
/// The seed for numbers drawn while a micro-batch goes backward through a partition.
std::uint64_t backward_seed(std::uint64_t seed, std::int64_t step, Cell task);
/// The seed for the second half of a split backward whose first half has drawn too: no number is drawn twice.
std::uint64_t second_half_seed(std::uint64_t backward_seed);

/// Enables per-thread generators; once per process, before lanes run. SeededRandom also calls it.
void prepare_random();

/// While it lives, draws on this thread without a named generator use one with that seed. An inner scope replaces the
/// outer one until it ends.
/// Threading: belongs to the thread that made it.
/// Errors: EngineError out of an operator that draws on an accelerator while a layer recomputes in its backward.
class SeededRandom {
public:
    explicit SeededRandom(std::uint64_t seed);
    ~SeededRandom();
    SeededRandom(const SeededRandom&) = delete;
    SeededRandom& operator=(const SeededRandom&) = delete;

    /// True if something has drawn since this was made. Call from within the innermost scope.
    bool has_drawn() const noexcept;

    /// The generators of a thread.
    struct Generators;

private:
    std::unique_ptr<Generators> outer_;  // null for the outermost scope
    const bool included_before_;
};
}  // namespace pipescope
