#pragma once

#include "simulator/step_memories.h"

#include <cstddef>
#include <vector>

namespace pipescope {
/// Whose skips are where, and until when: memory_model.h's rules for them. k is a skip's index, (i, j) micro-batch i on
/// partition j. Threading: immutable.
class SkipMemory {
public:
    /// The arguments must outlive it.
    SkipMemory(const Profile& profile, const PipelineOptions& options, const StepMemories& memories);

    Bytes bytes(int i, std::size_t k) const { return memories_.costs().sized(i).skips[k]; }
    /// What the gradient of a popped skip holds where it was made.
    Bytes gradient(int i, std::size_t k) const;
    /// And where the skip was stashed.
    Bytes received_gradient(int i, std::size_t k) const;

    /// What is stashed and popped within the partition, where the graph does not keep the same storage anyway.
    Bytes inside(int i, int j) const;
    /// Stashes that the partition's graph keeps, but whose storage is charged to another lane of the device, which pops
    /// them. What a recompute makes again stays here.
    Bytes given_away(int i, int j) const;
    /// Whether the storage that the popping lane holds lives until the backward that stashed it, whose graph has it
    /// too.
    bool is_kept_by_stasher(int i, std::size_t k) const;
    /// Whether it lives until the backward that popped it: a layer that passes its gradient through needs no values.
    bool is_kept_by_popper(std::size_t k) const { return kept_by_popper_[k]; }

    /// Calls each(k, from, to) for the skips between different partitions.
    template <class Each>
    void for_each_between_partitions(Each each) const {
        const std::vector<SkipRoute>& skips = memories_.shape().skips;
        for (std::size_t k = 0; k < skips.size(); ++k) {
            if (skips[k].from != skips[k].to) {
                each(k, skips[k].from.value(), skips[k].to.value());
            }
        }
    }

private:
    bool shares_storage(std::size_t k) const;

    const StepMemories& memories_;
    std::vector<bool> kept_as_value_;  // by skip: whether a layer of the stash's partition keeps its storage anyway
    std::vector<bool> kept_by_popper_;
};
}  // namespace pipescope
