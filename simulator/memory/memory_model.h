#pragma once

#include "profiler/profile/profile.h"
#include "schedule/task_graph.h"
#include "schedule/timeline.h"
#include "simulator/clock/task_costs.h"
#include "simulator/pipeline_options.h"

#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
struct LaneMemoryUse {
    Bytes peak_bytes = 0;
    MemoryBreakdown peak;
    Bytes peak_reserved_bytes = 0;  ///< 0 on the host, or if not requested
};

struct MemoryUse {
    std::vector<LaneMemoryUse> lanes;
    std::vector<MemorySample> samples;  ///< at time 0, then at the end of each task that changed the lane
};

// The rules, as tests compare them with the engine. They count the bytes that tensors allocate in steady state:
// gradients and optimizer state exist. (i, j) is micro-batch i on partition j.
//
// Idea: storages are allocated, move and are freed. A tape (partition_tape.h) says where a storage is allocated. It is
// charged to one lane, and freed when the last slot or graph that holds it releases it. Two slots may hold the same
// storage: tensors that share one, an input that is passed through, a skip that is also the output, gradients of an
// addition. If a layer has no recorded tape, one is made up from its bytes.
//
// parameters  Parameters and buffers of the lane's partitions, always. pipedream holds one version of the
//             parameters for each micro-batch in flight on the partition: n - j on partition j of n.
// gradients   Their gradients, always.
//             A lane that uses shared parameters of another lane has a copy of them, unless both lanes share storage;
//             a shared_forward's values replace it at the first forward that uses them. Its gradients live from the
//             end of its first backward until the shared_backward ends, and then on the holder's lane until the
//             shared_sum ends (another device: from the start of the shared_backward).
// optimizer   The optimizer's state: its factor times the bytes that have gradients, always.
// boundary    Inputs of partitions. On an accelerator, partition 0 holds the whole input mini-batch throughout. On the
//             host ("cpu") its micro-batches are views of the caller's tensor and are not counted. The input of (i, j)
//             arrives when its copy starts. Between lanes of one device the copy shares the sender's storage, and the
//             charge passes to the receiver when the copy ends. If (i, j) is checkpointed, the input lives until the
//             recompute. In the recompute, or in the forward without checkpointing, it is freed after the last layer
//             that works on it, unless the graph keeps it.
// saved       The graph of (i, j): from the end of forward (i, j), or of recompute (i, j) if checkpointed, to the
//             end of backward (i, j). If the backward is split, what the second half needs stays to the end of
//             backward_weight (i, j): a part of the graph, inputs among it, and gradients, such as those of outputs.
// skip        A skip between lanes, from the forward that stashes it. It moves like an output, straight to the lane
//             that pops it, and its gradient moves the other way. A skip within a partition is a storage of its graph,
//             or a transient one.
// transient   Bytes that a running task's tape allocates and frees again. Each layer takes its share of the task's
//             time, so a tensor that arrives meanwhile counts in the peaks of the layers after it, and one that leaves
//             in those of the layers before it.
// copy        Outputs that wait for their copy to end; likewise gradients of inputs. Gradients of outputs from their
//             copy's start (same device: end) until the backward that takes them releases them. One that no output
//             needs is freed when the backward starts.
// output      On the last lane: outputs of the last partition up to the loss; the gathered output while the loss runs
//             (if there are several micro-batches); the gradient of the output from the loss until the last
//             partition's last backward releases it. A loss per micro-batch gathers nothing. The loss's own
//             allocations, the profile's loss_transient_bytes, count as transient.
//
//             An all_reduce of replicas takes a bucket of host memory (schedule/all_reduce.h), which does not count for
//             lanes of accelerators.
//
// On an accelerator the same storages are blocks of its caching allocator (reserved_memory.h), which reserves more than
// tensors hold. Not modelled: memory of the framework.

/// Walks the tasks in time order. `with_reserved` also counts the bytes that the caching allocators reserve; without
/// `with_samples` only the lanes are filled in. Both spans have one entry per task, in ns. Deterministic.
MemoryUse memory_use(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                     const TaskGraph& graph, std::span<const std::int64_t> starts, std::span<const std::int64_t> ends,
                     bool with_reserved = false, bool with_samples = true);
}  // namespace pipescope
