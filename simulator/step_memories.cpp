#include "simulator/step_memories.h"

#include "schedule/checkpoint.h"

#include <optional>
#include <utility>

namespace pipescope {
namespace {
/// Nothing where a partition has no tape, or two neighbours disagree on what passes between them.
std::optional<std::vector<PartitionTape>> recorded_tapes(const Profile& profile, const SizedProfile& sized,
                                                         const Balance& balance, int partitions, TapeLoss loss) {
    std::vector<PartitionTape> tapes;
    for (int j = 0; j < partitions; ++j) {
        auto tape = recorded_partition_tape(profile, sized, balance.layers_of(PartitionId{j}), TapeSkips::kept, loss);
        const bool fits =
            tape && (tapes.empty() || (tapes.back().outputs.size() == tape->inputs.size() &&
                                       tapes.back().output_gradients.size() == tape->input_gradients.size()));
        if (!fits) {
            return std::nullopt;
        }
        tapes.push_back(*std::move(tape));
    }
    return tapes;
}

std::vector<PartitionWork> works_of(const Profile& profile, const SizedProfile& sized, const Balance& balance,
                                    int partitions, TapeLoss loss) {
    auto recorded = recorded_tapes(profile, sized, balance, partitions, loss);
    std::vector<PartitionWork> works;
    for (int j = 0; j < partitions; ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{j});
        works.emplace_back(sized, layers,
                           recorded ? std::move((*recorded)[static_cast<std::size_t>(j)])
                                    : partition_tape_from_bytes(profile, sized, layers));
    }
    return works;
}
}  // namespace

StepMemories::StepMemories(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                           const TaskGraph& graph)
    : options_(options), costs_(costs), graph_(graph) {
    const int partitions = graph.shape().num_partitions;
    const auto last = static_cast<int>(costs.micro_batches().size()) - 1;
    const bool is_gathered = graph.shape().loss == LossScope::mini_batch && graph.shape().num_micro_batches > 1;
    const TapeLoss loss = is_gathered ? TapeLoss::gathered : TapeLoss::alone;
    largest_ = works_of(profile, costs.sized(0), options.balance, partitions, loss);
    if (costs.micro_batches().front() != costs.micro_batches().back()) {
        smallest_ = works_of(profile, costs.sized(last), options.balance, partitions, loss);
    }
}

PartitionWork& StepMemories::work(int i, int j) {
    const bool is_largest = costs_.micro_batches()[static_cast<std::size_t>(i)] == costs_.micro_batches().front();
    return (is_largest ? largest_ : smallest_)[static_cast<std::size_t>(j)];
}

bool StepMemories::is_checkpointed(int i) const {
    return pipescope::is_checkpointed(options_.checkpoint, MicroBatchId{i}, graph_.shape().num_micro_batches);
}
}  // namespace pipescope
