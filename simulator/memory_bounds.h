#pragma once

#include "balance/profile.h"
#include "simulator/pipeline_options.h"
#include "simulator/range_maxima.h"
#include "simulator/range_table.h"
#include "simulator/sized_profile.h"

#include <memory>
#include <vector>

namespace pipescope {
/// What ranges of layers hold, whichever partition they become: the part of MemoryBounds that numbers of partitions and
/// checkpoint modes share. Threading: one thread at a time; results are remembered.
class RangeMemories {
public:
    /// Precondition: check_profile() passes; large and small were read off from it. Borrows the profile.
    RangeMemories(const Profile& profile, const SizedProfile& large, const SizedProfile& small,
                  double optimizer_factor);
    RangeMemories(const RangeMemories&) = delete;
    RangeMemories& operator=(const RangeMemories&) = delete;

    /// A range of layers: its constants, and the smaller and larger of each number over the micro-batch sizes.
    struct Range {
        Bytes constant = 0;
        RangePeaks low;
        RangePeaks high;
    };
    Range range(LayerRange layers);

    // At once, from running sums. With the larger micro-batches unless said otherwise.
    Bytes constant(LayerRange layers) const {
        return constants_[layers.end.index()] - constants_[layers.first.index()];
    }
    /// Copies of running statistics that a recompute holds.
    Bytes statistics(LayerRange layers) const {
        return statistics_[layers.end.index()] - statistics_[layers.first.index()];
    }
    Bytes saved(LayerRange layers) const { return saved_[layers.end.index()] - saved_[layers.first.index()]; }
    Bytes outputs(LayerRange layers) const { return outputs_[layers.end.index()] - outputs_[layers.first.index()]; }
    /// Saved tensors of the smaller micro-batches.
    Bytes least_saved(LayerRange layers) const {
        return least_saved_[layers.end.index()] - least_saved_[layers.first.index()];
    }
    /// At least what any layer of the range works on at once: input, output and transient bytes.
    Bytes largest_work(LayerRange layers) const;
    Bytes input(LayerRange layers) const { return inputs_[layers.first.index()]; }
    Bytes output(LayerRange layers) const { return inputs_[layers.end.index()]; }
    /// What the gradient of the tensor before a layer may hold, others that share its storage included.
    Bytes most_gradient(LayerId layer) const { return gradients_[layer.index()]; }
    /// Stashes of the range that are popped beyond it: their storages may be charged to the lane that pops them.
    Bytes given_away(LayerRange layers) const;
    /// Whether the range's output is its input's storage.
    bool hands_through(LayerRange layers) const;
    /// Whether the range's input may be the storage of a skip past it, which is charged to the lane that pops that.
    bool input_may_be_elsewhere(LayerRange layers) const;
    /// Whether the gradient that comes back for the range's output may be part of what a skip's gradient holds.
    bool gradient_may_be_elsewhere(LayerRange layers) const;
    /// Of all skips, each way once: what their values and gradients can hold.
    Bytes skips() const;

private:
    const Profile& profile_;
    const SizedProfile large_;
    const SizedProfile small_;
    std::vector<Bytes> constants_, statistics_, saved_, outputs_, least_saved_;  // of all layers before
    std::vector<Bytes> inputs_;     // of each layer; the model's output at the end
    std::vector<Bytes> gradients_;  // the same of their gradients: at most, with all they may share a storage with
    RangeTable table_large_, table_small_;
    RangeMaxima work_;  // of input, output and transient bytes
};

/// What the lane of one partition holds at its peak of a GPipe step, without knowing the other partitions: between what
/// it holds even if every tensor arrives and leaves in the nick of time, and what it holds if everything waits on it
/// that can. memory_model.h counts the same things in time; its peak lies between the two. Partition j is alone on lane
/// j. Threading: one thread at a time; results are remembered.
class MemoryBounds {
public:
    /// Precondition: check_profile() passes; `options` name devices, batch, chunks, checkpoint, optimizer and link of
    /// `partitions` lanes. `ranges`, if given, are those of the same profile, micro-batches and optimizer.
    MemoryBounds(const Profile& profile, const PipelineOptions& options, int partitions,
                 std::shared_ptr<RangeMemories> ranges = nullptr);

    Bytes at_least(PartitionId partition, LayerRange layers);
    Bytes at_most(PartitionId partition, LayerRange layers);

    // Quick ones, at a glance: no more than at_least(), and growing with the range; no less than it.
    Bytes below_at_least(LayerRange layers) const;
    Bytes above_at_least(PartitionId partition, LayerRange layers) const;

private:
    using Range = RangeMemories::Range;
    bool shares(int lane, int other) const;
    Bytes kept_graphs_at_loss() const;
    Bytes copied_statistics(LayerRange layers) const;

    PipelineOptions options_;
    int partitions_;
    int m_;
    Bytes mini_batch_input_ = 0;  // that lane 0 holds
    Bytes loss_transient_ = 0;
    Bytes skips_ = 0;  // of the whole mini-batch, both ways
    std::shared_ptr<RangeMemories> ranges_;
};
}  // namespace pipescope
