#include "simulator/step_memories.h"

#include "schedule/checkpoint.h"

namespace pipescope {
StepMemories::StepMemories(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                           const TaskGraph& graph)
    : options_(options), costs_(costs), graph_(graph) {
    const auto m = static_cast<int>(costs.micro_batches().size());
    const bool is_even = costs.micro_batches().front() == costs.micro_batches().back();
    for (int j = 0; j < graph.shape().num_partitions; ++j) {
        const LayerRange layers = options.balance.layers_of(PartitionId{j});
        Held& large = largest_.emplace_back();
        large.memory = partition_memory(profile, costs.sized(0), layers, &large.work);
        if (!is_even) {
            Held& small = smallest_.emplace_back();
            small.memory = partition_memory(profile, costs.sized(m - 1), layers, &small.work);
        }
    }
}

const StepMemories::Held& StepMemories::at(int i, int j) const {
    const bool is_largest = costs_.micro_batches()[static_cast<std::size_t>(i)] == costs_.micro_batches().front();
    return (is_largest ? largest_ : smallest_)[static_cast<std::size_t>(j)];
}

bool StepMemories::is_checkpointed(int i) const {
    return pipescope::is_checkpointed(options_.checkpoint, MicroBatchId{i}, graph_.shape().num_micro_batches);
}
}  // namespace pipescope
