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
// parameters  Parameters and buffers of the lane's partitions, always. With pipedream as many versions of the
// parameters
//             as micro-batches are under way on the partition: n - j on partition j of n.
// gradients   Their gradients, always.
// optimizer   The optimizer's state: its factor times the bytes that have gradients, always.
// boundary    Inputs of partitions. On an accelerator partition 0 holds the whole input mini-batch throughout; on the
//             host ("cpu") its micro-batches are views of what the caller allocated, and not counted. The input of (i,
//             j) arrives when its copy starts; between lanes of one device the copy shares the sender's storage, and
//             the charge passes to the receiver when it ends. If (i, j) is checkpointed it lives until it is
//             recomputed. Then, or in forward if it is not checkpointed, it is freed behind the first layer, unless the
//             graph keeps it, to the end of backward (i, j).
// saved       The graph of (i, j) (partition_memory.h): from the end of forward (i, j), or of recompute (i, j) if it is
//             checkpointed, to the end of backward (i, j), or of backward_weight (i, j) where the backward is split;
//             then the kept input and the gradient of the output stay as long too. A kept output that was handed to a
//             lane of the same device stays charged to that lane, as boundary, to the end of this backward.
// skip        A skip between lanes: on the stashing lane from its forward's end to the end of its copy, on the popping
//             lane from the copy's start (same device: end) until the layer that pops it is through, in the recompute
//             of what is checkpointed and in the forward of what is not; to the end of the backward if that layer needs
//             it there (it does not if it passes_gradient); to the end of the stashing partition's backward if the
//             graph there keeps the same storage. Its gradient the other way round, to the backward of the layer that
//             stashed it. A gradient that is a view holds the whole storage, also of a lane of the same device; a copy
//             to another device does not. A skip inside a partition counts as saved, one between partitions of one lane
//             lives on that lane from forward to backward.
// transient   While a task runs: layer inputs and outputs that nothing keeps, gradients inside the partition, and the
//             layers' own transient_bytes. Layers take their shares of the task's time, so that what arrives or leaves
//             meanwhile meets what the layers behind it, or before it, need.
// copy        Outputs that wait for their copy to end, gradients of inputs likewise, gradients of outputs from their
//             copy's start (same device: end) to the end of the backward that takes them.
// output      On the last lane: outputs of the last partition up to the loss; the gathered output while the loss runs
//             (if there are several micro-batches); the gradient of the output from the loss to the end of the last
//             partition's last backward. A loss per micro-batch gathers nothing and keeps each gradient to its
//             backward. What the loss itself allocates, the profile's loss_transient_bytes, counts as transient.
//
// Not modelled: tensors that layers hand on in a tuple and an earlier lane's graph keeps are charged to the lane that
// made them, where the engine on one host charges the receiver (their sum agrees); what the allocator reserves beyond
// what tensors hold; the order of frees inside a task beyond the walk through its layers; memory of the framework.

/// Goes through the tasks in time; `with_reserved` also through the caching allocators (reserved_memory.h). Both spans
/// are as long as the graph has tasks; ns. Deterministic.
MemoryUse memory_use(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                     const TaskGraph& graph, std::span<const std::int64_t> starts, std::span<const std::int64_t> ends,
                     bool with_reserved = false);
}  // namespace pipescope
