#pragma once

#include "base/ids.h"
#include "engine/layer.h"
#include "schedule/task_key.h"

#include <cstddef>
#include <cstdint>
#include <vector>

// Changes in place that torch would notice in the plain model, but cannot notice across a cut.
//
// Autograd compares the versions of the tensors that it saved. It never sees the inputs of a checkpointed micro-batch,
// a skip's two ends, which are different tensors of one storage, a buffer that another lane still reads, a buffer that
// keeps what another lane changes, or a parameter that a recompute will read. Each class here notes a version and
// compares it later. InputVersions does the same for the caller's input.

namespace pipescope {
class Partition;

/// The inputs from which a checkpointed micro-batch is recomputed. The memory is the caller's, or a layer's.
class RecomputeInputs {
public:
    RecomputeInputs() = default;
    /// `trains`: true if the model is in training mode.
    RecomputeInputs(Tensors inputs, bool trains);

    /// Returns the inputs of `partition`, once. Throws EngineError if one was changed in place since the forward, or if
    /// the model has switched its mode.
    Tensors take(const Partition& partition, bool trains);

private:
    Tensors inputs_;
    std::vector<std::uint32_t> versions_;
    bool trains_ = false;
};

/// The trained parameters after a forward of which a backward will compute micro-batches again.
///
/// A recompute with other values, such as those after an optimizer's step, would be another function than the forward.
/// Costs a few comparisons for each parameter, once a forward and once a backward.
class ParameterVersions {
public:
    ParameterVersions() = default;
    explicit ParameterVersions(const std::vector<Partition>& partitions);

    /// Throws EngineError, with the parameter's name, if one was changed in place since, or was given other memory.
    void check(const std::vector<Partition>& partitions) const;

private:
    struct Seen {
        at::Tensor parameter;
        const void* storage;
        std::uint32_t version;
    };
    std::vector<Seen> seen_;
};

/// The version of a skip when its partition passed it on.
///
/// In plain torch, a layer between stash and pop may change the tensor in place, and both gradients pass through the
/// change. Here the popping lane would see the changed values without autograd knowing. If the skip was copied, it has
/// another storage, and nothing is compared.
class StashedVersion {
public:
    StashedVersion();
    explicit StashedVersion(const at::Tensor& tensor);

    /// With gradients on, throws EngineError if the tensor still has the same storage and was changed since.
    void check(const at::Tensor& popped, const SkipName& name) const;

private:
    c10::weak_intrusive_ptr<c10::StorageImpl> storage_;  // weak: holds no bytes, but its address is not reused
    std::uint32_t version_ = 0;
};

/// Inputs from another process that share memory there with what went elsewhere, such as a skip that is also the
/// output.
///
/// In plain torch a change in place would change both. Here each has a copy, so the change is refused, with gradients
/// or without.
class SharedElsewhere {
public:
    SharedElsewhere() = default;
    /// `shares`: by input.
    SharedElsewhere(const Tensors& inputs, const std::vector<char>& shares);

    /// Call after the partition's forward. Throws EngineError if one was changed.
    void check(const Partition& partition) const;
    /// True if the tensor is one of them, or a view of one.
    bool holds(const at::Tensor& tensor) const;

private:
    struct Input {
        std::size_t place;
        at::Tensor tensor;
        std::uint32_t version;
    };
    std::vector<Input> inputs_;
};

/// The tensors that a partition has passed on for the micro-batches so far: outputs, or gradients of its inputs.
///
/// Problem: a layer, or the backward of a Function, may return a buffer of its own and refill it for the next
/// micro-batch. The plain model has used the values by then; here another lane may still compute on them. Idea: reject
/// memory that was passed on for an earlier micro-batch and has changed since, as far as torch counts changes. Only a
/// tensor that something else still refers to can come again.
/// This costs a few comparisons and keeps no memory alive. Threading: one thread at a time, that of the partition's
/// lane.
class OutputReuse {
public:
    /// Call between two steps of a staggered training. Other lanes may still read what the last step passed on, but
    /// nothing older.
    void begin_step();
    /// Throws LayerError if one tensor was used for two micro-batches. `by`: what returned them, a forward or a
    /// backward.
    void check(const Partition& partition, MicroBatchId micro_batch, const Tensors& tensors, TaskKind by);

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
    std::size_t num_of_last_step_ = 0;  // the first of them
};

/// Outputs whose memory is that of a buffer or parameter of their own partition, as of a buffer that keeps the last
/// output.
///
/// Problem: if the next layer changes such an output in place, or the layer itself changes the buffer later, plain
/// torch has an order for this. Here two lanes compute at the same time, and which of them sees the change would depend
/// on time. Idea: note the versions of both, and refuse the mini-batch if one has changed at its end. Cost: only an
/// output that something else refers to is compared with buffers. Threading: note() from one thread at a time.
class KeptOutputs {
public:
    /// Call after each forward, before the outputs are passed on.
    void note(const Partition& partition, MicroBatchId micro_batch, const Tensors& outputs);
    /// Call once all that take the outputs have run. Forgets them. Throws LayerError if one has changed.
    void check(const Partition& partition);

private:
    struct Entry {
        MicroBatchId micro_batch;
        c10::weak_intrusive_ptr<c10::TensorImpl> keeper;
        c10::VariableVersion counter;
        std::uint32_t version;
    };
    std::vector<Entry> entries_;
};
}  // namespace pipescope
