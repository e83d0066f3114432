#pragma once

#include "balance/profile.h"
#include "schedule/task_graph.h"
#include "schedule/timeline.h"
#include "simulator/memory_composition.h"
#include "simulator/pipeline_options.h"
#include "simulator/task_costs.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
struct LaneMemoryUse {
    Bytes peak_bytes = 0;
    Nanoseconds peak_time{
        0};  ///< when the layer at whose peak it happened started, or when something changed meanwhile
    MemoryComposition peak;
    Bytes peak_reserved_bytes = 0;  ///< 0 on the host, and unless asked for
};

struct MemoryUse {
    std::vector<LaneMemoryUse> lanes;
    std::vector<MemorySample> samples;  ///< at time 0, then whenever a task ends that changed the lane
};

// The rules, to be held against the engine. They count what tensors allocate, in steady state: gradients and optimizer
// state exist. (i, j) is micro-batch i on partition j.
//
// One idea: storages come, move and go. A storage comes where a tape says so (partition_tape.h), is charged to one
// lane, and goes when the last slot or graph that has it lets go of it. Two slots may have the same storage: tensors
// that share one, an input that is handed through, a skip that is the output too, gradients of an addition. Where a
// layer has no recorded tape, one is made up from its bytes.
//
// parameters  Parameters and buffers of the lane's partitions, always. With pipedream as many versions of the
// parameters
//             as micro-batches are under way on the partition: n - j on partition j of n.
// gradients   Their gradients, always.
// optimizer   The optimizer's state: its factor times the bytes that have gradients, always.
// boundary    Inputs of partitions. On an accelerator partition 0 holds the whole input mini-batch throughout; on the
//             host ("cpu") its micro-batches are views of what the caller allocated, and not counted. The input of (i,
//             j) arrives when its copy starts; between lanes of one device the copy shares the sender's storage, and
//             the charge passes to the receiver when it ends. If (i, j) is checkpointed it lives until it is
//             recomputed. Then, or in forward if it is not checkpointed, it goes behind the last layer that works on
//             it, unless the graph keeps it.
// saved       The graph of (i, j): from the end of forward (i, j), or of recompute (i, j) if it is checkpointed, to the
//             end of backward (i, j), or of backward_weight (i, j) where the backward is split; then what the graph
//             keeps of inputs, and the gradients of the outputs, stay as long too.
// skip        A skip between lanes, from the forward that stashes it: it moves like an output, straight to the lane
// that
//             pops it, and its gradient the other way round. A skip within a partition is a storage of its graph, or a
//             transient one.
// transient   While a task runs: what its tape takes and lets go again. Layers take their shares of the task's time, so
//             that what arrives or leaves meanwhile meets what the layers behind it, or before it, need.
// copy        Outputs that wait for their copy to end, gradients of inputs likewise, gradients of outputs from their
//             copy's start (same device: end) to where the backward that takes them lets go of them. One that no output
//             needs goes when the backward starts.
// output      On the last lane: outputs of the last partition up to the loss; the gathered output while the loss runs
//             (if there are several micro-batches); the gradient of the output from the loss to where the last
//             partition's last backward lets go of it. A loss per micro-batch gathers nothing. What the loss itself
//             allocates, the profile's loss_transient_bytes, counts as transient.
//
// On an accelerator the same storages are blocks of its caching allocator (reserved_memory.h), which reserves more than
// tensors hold. Not modelled: memory of the framework.

/// Goes through the tasks in time; `with_reserved` also counts what the caching allocators reserve. Both spans
/// are as long as the graph has tasks; ns. Deterministic.
MemoryUse memory_use(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                     const TaskGraph& graph, std::span<const std::int64_t> starts, std::span<const std::int64_t> ends,
                     bool with_reserved = false);
}  // namespace pipescope
