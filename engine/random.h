#pragma once

#include "schedule/ids.h"

#include <cstdint>

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

/// The seed of one layer's forward of one micro-batch.
std::uint64_t random_seed(std::uint64_t seed, std::int64_t step, MicroBatchId micro_batch, LayerId layer);

/// While it lives, what this thread draws without naming a generator comes from one with that seed. Does not nest.
/// Threading: belongs to the thread that made it. The first one of the process installs the kernels.
class SeededRandom {
public:
    explicit SeededRandom(std::uint64_t seed);
    ~SeededRandom();
    SeededRandom(const SeededRandom&) = delete;
    SeededRandom& operator=(const SeededRandom&) = delete;
};
}  // namespace pipescope
