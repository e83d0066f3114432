#pragma once

#include "schedule/task_graph.h"
#include "simulator/skip_memory.h"
#include "simulator/step_memories.h"

#include <cstddef>

namespace pipescope {
/// Who holds a storage that two tasks or two lanes use, and so until when it lives: the part of memory_model.h's rules
/// that does not depend on time. (i, j) is micro-batch i on partition j. Threading: immutable.
class StorageOwners {
public:
    /// The arguments must outlive it.
    StorageOwners(const StepMemories& memories, const SkipMemory& skips) : memories_(memories), skips_(skips) {}

    /// Whether the storage of a kept output stays charged to this lane: not if another lane of the device gets it.
    bool keeps_own_output(int j) const;
    bool output_is_kept_by_graph_too(int i, int j) const;
    /// Whether the graph of (i, j) holds on to the storage that (i, j + 1) got as its input.
    bool outlives_receiver(int i, int j) const;
    /// Whether the input of (i, j) is its lane's to let go: not the mini-batch, nor what the sender's graph keeps.
    bool owns_input(int i, int j) const { return j > 0 && !outlives_receiver(i, j - 1); }
    /// What the gradient of (i, j)'s output holds on its lane: the storage it was made in, or a copy of its own.
    Bytes received_gradient(int i, int j) const;
    /// Whether nothing keeps a popped skip behind the layer that pops it, where a graph is built.
    bool pops_for_good(int i, std::size_t skip) const;
    /// What the sender holds for a copy's sake: of a gradient the storage, which may be more than what is copied.
    Bytes held_for(const Task& copy) const;

private:
    bool shares_storage_with_next(int j) const;

    const StepMemories& memories_;
    const SkipMemory& skips_;
};
}  // namespace pipescope
