#pragma once

#include "schedule/ids.h"

#include <cstdint>
#include <memory>

namespace pipescope {
/// Random numbers inside layers do not depend on balance, devices or timing.
///
/// Problem: with one generator per process, which numbers a dropout draws depends on which lane came first; and a
/// recomputed forward must draw the same numbers again. Idea: each layer's forward of a micro-batch draws from a
/// generator of its own, seeded by what it computes; recomputing seeds again. How a plain at::dropout() deep inside a
/// layer finds that generator: DispatchKey::TESTING_ONLY_GenericMode takes part in dispatch only where a thread
/// includes it. All operators fall through it, save those whose schema has a Generator argument: there one boxed kernel
/// fills in the thread's generator, if none was given, and goes on to the next key. Cost: none for layers that draw
/// nothing, since a generator is only seeded at the first draw.
///
/// A layer may compute a part of itself again in its backward, as torch.utils.checkpoint does: it keeps the state of
/// torch's default CPU generator in forward and sets it before it draws again. So the default generator's state has to
/// be that of the thread's generator while there is one. Its handle gets a generator that looks there first; a handle
/// copied before the first model was built stays without it. Accelerators have no such place to look: there a layer
/// that draws while it computes again in its backward is refused.

/// The seed of one layer's forward of one micro-batch.
std::uint64_t random_seed(std::uint64_t seed, std::int64_t step, MicroBatchId micro_batch, LayerId layer);
/// The seed of what is drawn while a micro-batch goes backward through a partition.
std::uint64_t backward_seed(std::uint64_t seed, std::int64_t step, MicroBatchId micro_batch, PartitionId partition);

/// Lets threads have generators of their own; once per process, and before lanes run. SeededRandom calls it too.
void prepare_random();

/// While it lives, what this thread draws without naming a generator comes from one with that seed. An inner one takes
/// the outer one's place until it ends.
/// Threading: belongs to the thread that made it.
/// Errors: EngineError out of an operator that draws on an accelerator while a layer computes again in its backward.
class SeededRandom {
public:
    explicit SeededRandom(std::uint64_t seed);
    ~SeededRandom();
    SeededRandom(const SeededRandom&) = delete;
    SeededRandom& operator=(const SeededRandom&) = delete;

    /// The generators of a thread.
    struct Generators;

private:
    std::unique_ptr<Generators> outer_;  // null where this is the outermost
    const bool included_before_;
};
}  // namespace pipescope
