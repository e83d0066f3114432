#pragma once

#include "base/sparse_table.h"
#include "profiler/profile/profile.h"
#include "simulator/memory/range_table.h"
#include "simulator/pipeline_options.h"
#include "simulator/sized_profile.h"

#include <memory>
#include <vector>

namespace pipescope {
/// Memory of ranges of layers, for any partition they may become. Numbers of partitions and checkpoint modes share it.
/// Threading: one thread at a time; it caches results.
class RangeMemories {
public:
    /// Precondition: the profile was checked; `large` and `small` were read from it. Borrows the profile.
    RangeMemories(const Profile& profile, const SizedProfile& large, const SizedProfile& small,
                  const OptimizerStates& states);
    RangeMemories(const RangeMemories&) = delete;
    RangeMemories& operator=(const RangeMemories&) = delete;

    /// A range of layers: its constant bytes, and the minimum and maximum of each number over the micro-batch sizes.
    struct Range {
        Bytes constant = 0;
        RangePeaks low;
        RangePeaks high;
    };
    Range range(LayerRange layers);

    // O(1), from running sums. For the larger micro-batches unless said otherwise.
    Bytes constant(LayerRange layers) const {
        return constants_[layers.end.index()] - constants_[layers.first.index()];
    }
    /// Copies of running statistics held by a recompute.
    Bytes statistics(LayerRange layers) const {
        return statistics_[layers.end.index()] - statistics_[layers.first.index()];
    }
    Bytes gradients(LayerRange layers) const {
        return gradient_sums_[layers.end.index()] - gradient_sums_[layers.first.index()];
    }
    Bytes saved(LayerRange layers) const { return saved_[layers.end.index()] - saved_[layers.first.index()]; }
    Bytes outputs(LayerRange layers) const { return outputs_[layers.end.index()] - outputs_[layers.first.index()]; }
    /// Saved tensors of the smaller micro-batches.
    Bytes least_saved(LayerRange layers) const {
        return least_saved_[layers.end.index()] - least_saved_[layers.first.index()];
    }
    /// Upper bound of the bytes that any one layer of the range works on at once: input, output and transient.
    Bytes largest_work(LayerRange layers) const;
    Bytes input(LayerRange layers) const { return inputs_[layers.first.index()]; }
    Bytes output(LayerRange layers) const { return inputs_[layers.end.index()]; }
    /// Upper bound of the gradient of the tensor before a layer, with all that may share its storage.
    Bytes most_gradient(LayerId layer) const { return gradients_[layer.index()]; }
    /// Stashes of the range that are popped beyond it. Their storages may be charged to the popping lane.
    Bytes given_away(LayerRange layers) const;
    /// True if the range's output is its input's storage.
    bool hands_through(LayerRange layers) const;
    /// True if the range's input may be the storage of a skip past it, which is charged to the popping lane.
    bool input_may_be_elsewhere(LayerRange layers) const;
    /// True if the gradient of the range's output may lie in the storage of a skip's gradient.
    bool gradient_may_be_elsewhere(LayerRange layers) const;
    /// Upper bound of all skips' values and gradients, each direction once.
    Bytes skips() const;

private:
    const Profile& profile_;
    const SizedProfile large_;
    const SizedProfile small_;
    std::vector<Bytes> constants_, gradient_sums_, statistics_, saved_, outputs_,
        least_saved_;               // sums over all layers before
    std::vector<Bytes> inputs_;     // by layer; the model's output at the end
    std::vector<Bytes> gradients_;  // by layer: upper bound of the input's gradient, with all that may share its
                                    // storage
    RangeTable table_large_, table_small_;
    SparseTable work_;  // of input, output and transient bytes
};

/// Bounds the peak of one partition's lane in a GPipe step without knowing the other partitions. The lower bound lets
/// every tensor arrive and leave just in time. The upper bound keeps everything waiting that can wait. memory_model.h
/// counts the same storages over time; its peak lies between the two. Partition j is alone on lane j. Threading: one
/// thread at a time; it caches results.
class MemoryBounds {
public:
    /// Precondition: the profile was checked; `options` name devices, batch, chunks, checkpoint, optimizer and link of
    /// `partitions` lanes. `ranges`, if given, belong to the same profile, micro-batches and optimizer.
    MemoryBounds(const Profile& profile, const PipelineOptions& options, int partitions,
                 std::shared_ptr<RangeMemories> ranges = nullptr);

    Bytes at_least(PartitionId partition, LayerRange layers);
    Bytes at_most(PartitionId partition, LayerRange layers);

    // Cheaper bounds. below_at_least() <= at_least(), and grows with the range. above_at_least() >= at_least().
    Bytes below_at_least(LayerRange layers) const;
    Bytes above_at_least(PartitionId partition, LayerRange layers) const;

private:
    using Range = RangeMemories::Range;
    bool shares(int lane, int other) const;
    Bytes kept_graphs_at_loss() const;
    Bytes copied_statistics(LayerRange layers) const;
    Bytes all_reduce(PartitionId partition, LayerRange layers) const;

    PipelineOptions options_;
    int partitions_;
    int m_;
    Bytes mini_batch_input_ = 0;  // held by lane 0
    Bytes loss_transient_ = 0;
    Bytes skips_ = 0;  // of the whole mini-batch, both directions; and of shared parameters
    std::shared_ptr<RangeMemories> ranges_;
};
}  // namespace pipescope
