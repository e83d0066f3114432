#pragma once

#include "base/ids.h"
#include "engine/engine_options.h"

#include <cstdint>
#include <string>
#include <vector>

namespace pipescope {
/// Counts in-place changes of a mini-batch's input separately for each micro-batch.
///
/// Problem: the micro-batches are views of one tensor, so torch counts a change of one as a change of all. A first
/// layer that works in place would invalidate what the previous micro-batch saved. Idea: each part has its own version
/// counter. After the forward, changes by layers are added to the caller's tensor. Before the backward, changes by the
/// caller are added to the parts. So torch rejects what it rejects in the plain model. Parts that may share memory with
/// other parts keep their input's counter.
/// Ownership: holds counters, no memory.
/// Threading: watched(), check(), note_history() and update_parts() from any lane, the middle two from one lane at a
/// time for each micro-batch; the others while no lane runs.
class InputVersions {
public:
    InputVersions() = default;
    /// `parts[i][k]` is micro-batch i's part of `input[k]`, cut as `how` says. `trains`: a backward may follow.
    InputVersions(const Tensors& input, const std::vector<Tensors>& parts, const std::vector<TensorSplit>& how,
                  bool trains);

    /// Call after a micro-batch's forward task. Throws EngineError if a layer changed an input in place that must not
    /// change: one that torch protects, or one whose micro-batches may share memory.
    void check(MicroBatchId micro_batch) const;
    /// The tensors among a partition's inputs that note_history() needs. First partition: all. Others: those without a
    /// gradient that lie in the caller's memory, because earlier partitions passed them on.
    Tensors watched(PartitionId partition, const Tensors& inputs) const;
    /// Call after the partition ran on inputs of which watched() returned `watched`. A change in place may have made
    /// one require a gradient.
    void note_history(MicroBatchId micro_batch, PartitionId partition, const Tensors& watched);
    /// Call after the forward: adds the layers' changes to the caller's tensors.
    void update_input();
    /// Call before a backward: adds the caller's changes since the forward to the parts.
    void update_parts() const;
    /// Call after the forward, once the caller's edges to the input were taken. Only the lanes' graphs know how a layer
    /// changed an input, so a gradient that reaches the input another way would be wrong. From now on that throws
    /// EngineError in the caller's backward.
    void guard(const Tensors& input) const;

private:
    struct Input {
        std::size_t place;  // in the caller's list
        c10::VariableVersion counter;
        std::uint32_t before;
        std::vector<c10::VariableVersion> parts;  // by micro-batch; the input's own counter if memory may be shared
        std::uint32_t parts_before;
        bool has_own_parts;
        bool needs_gradient;
        std::string must_stay;          // reason why it must not change; empty: it may
        std::vector<char> has_history;  // by micro-batch
        bool changed = false;
    };
    std::vector<Input> inputs_;                           // those whose changes torch counts
    std::vector<const c10::StorageImpl*> storages_ = {};  // of the caller's tensors, to recognise them; not owned
};
}  // namespace pipescope
