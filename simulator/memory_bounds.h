#pragma once

#include "balance/profile.h"
#include "simulator/partition_memory.h"
#include "simulator/pipeline_options.h"
#include "simulator/sized_profile.h"

#include <memory>
#include <vector>

namespace pipescope {
/// What the lane of one partition holds at its peak of a GPipe step, without knowing the other partitions: between what
/// it holds even if every tensor arrives and leaves in the nick of time, and what it holds if everything waits on it
/// that can. memory_model.h counts the same things in time; its peak lies between the two. Partition j is alone on lane
/// j. Threading: one thread at a time; results are remembered.
class MemoryBounds {
public:
    /// Precondition: check_profile() passes; `options` name devices, batch, chunks, checkpoint, optimizer and link of
    /// `partitions` lanes.
    MemoryBounds(const Profile& profile, const PipelineOptions& options, int partitions);

    Bytes at_least(PartitionId partition, LayerRange layers);
    Bytes at_most(PartitionId partition, LayerRange layers);

private:
    /// A range of layers: its constants, and the smaller and larger of each number over the micro-batch sizes.
    struct Range {
        Bytes constant = 0;
        PartitionMemory low;
        PartitionMemory high;
    };
    const Range& range(LayerRange layers);
    bool shares(int lane, int other) const;
    Bytes kept_graphs_at_loss() const;

    const Profile& profile_;
    PipelineOptions options_;
    int partitions_;
    int m_;
    double optimizer_factor_;
    Bytes mini_batch_input_ = 0;  // that lane 0 holds
    Bytes loss_transient_ = 0;
    Bytes skips_ = 0;  // of the whole mini-batch, both ways
    std::vector<SizedProfile> sized_;
    std::vector<std::unique_ptr<const Range>> ranges_;  // by first layer and end; filled as they are asked for
};
}  // namespace pipescope
