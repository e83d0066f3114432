#pragma once

#include "engine/layer.h"
#include "schedule/ids.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pipescope {
class Partition;

/// The tensors that a partition has passed on for the micro-batches so far.
///
/// Problem: a layer may return a buffer of its own and refill it for the next micro-batch. The plain model has used the
/// values by then; here another lane may still compute on them. Idea: reject an output in memory that was passed on for
/// an earlier micro-batch and has changed since. This costs a few comparisons and keeps no memory alive.
/// Threading: one thread at a time, that of the partition's lane.
class OutputReuse {
public:
    /// Throws LayerError if a layer used one tensor for two micro-batches.
    void check(const Partition& partition, MicroBatchId micro_batch, const Tensors& outputs);

private:
    struct Entry {
        MicroBatchId micro_batch;
        c10::weak_intrusive_ptr<c10::StorageImpl> storage;
        const void* begin;
        const void* end;
        c10::VariableVersion counter;
        std::uint32_t version;
    };
    std::vector<Entry> entries_;
};
}  // namespace pipescope
