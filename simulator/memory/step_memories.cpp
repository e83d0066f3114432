#include "simulator/memory/step_memories.h"

#include "schedule/checkpoint.h"
#include "schedule/schedules.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace pipescope {
namespace {
/// Tapes by partition. Empty if a partition has none, or if two neighbours disagree on what passes between them.
std::optional<std::vector<PartitionTape>> recorded_tapes(const Profile& profile, const SizedProfile& sized,
                                                         const Balance& balance, int partitions, int first_trained,
                                                         TapeVariant variant) {
    std::vector<PartitionTape> tapes;
    for (int j = 0; j < partitions; ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{j});
        const TapeVariant here{variant.gathered, variant.all_gradients && j > first_trained, variant.halves};
        auto tape = recorded_partition_tape(profile, sized, layers, here);
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

/// The first partition with a layer that trains; the number of partitions if there is none. If it is checkpointed, its
/// outputs and those of all partitions above require gradients.
int first_trained_partition(const Profile& profile, const Balance& balance, int partitions) {
    for (int j = 0; j < partitions; ++j) {
        const LayerRange layers = balance.layers_of(PartitionId{j});
        for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
            if (profile.layers[l].gradient_bytes > 0) {
                return j;
            }
        }
    }
    return partitions;
}

/// Bytes of the gradients of the model's outputs.
std::vector<Bytes> output_gradient_bytes(const PartitionWork& last) {
    std::vector<Bytes> bytes;
    for (const std::int32_t block : last.tape().output_gradients) {
        bytes.push_back(last.bytes(block));
    }
    return bytes;
}
/// Like the above, but from a variant of the last layer alone; empty if no such tape of that size exists.
std::optional<std::vector<Bytes>> output_gradient_bytes(const Profile& profile, const SizedProfile& sized,
                                                        TapeVariant variant) {
    const LayerId last{static_cast<std::int64_t>(profile.layers.size()) - 1};
    const std::optional<PlainTape> tape = recorded_tape(profile, sized, last, variant);
    if (!tape) {
        return std::nullopt;
    }
    std::vector<Bytes> bytes;
    for (const std::int32_t block : output_gradients_of(*tape)) {
        bytes.push_back(block == 0 ? 0 : tape->blocks[static_cast<std::size_t>(block) - 1].bytes);
    }
    return bytes;
}

bool has_all_gradients(const Profile& profile) {
    const auto has = [](const LayerTape& tape) { return !tape.all_gradients.empty(); };
    return std::ranges::any_of(profile.layers,
                               [&](const LayerProfile& layer) { return std::ranges::any_of(layer.tape, has); });
}

}  // namespace

StepMemories::StepMemories(const Profile& profile, const PipelineOptions& options, const TaskCosts& costs,
                           const TaskGraph& graph)
    : options_(options), graph_(graph) {
    const int partitions = graph.shape().num_partitions;
    const auto micro_batches = static_cast<int>(costs.micro_batches().size());
    const bool is_gathered = graph.shape().loss == LossScope::mini_batch && graph.shape().micro_batches_per_step() > 1;
    const int first_trained = first_trained_partition(profile, options.balance, partitions);
    trains_ = first_trained < partitions;
    // A skip from below requires no gradient; the layers' own tapes were recorded for such a skip.
    const bool all_ask = std::ranges::none_of(graph.shape().skips, [&](const SkipRoute& skip) {
        return skip.from.value() < first_trained && skip.to.back().value() > first_trained;
    });
    const bool asks_for_all = all_ask && has_all_gradients(profile);
    const bool splits = splits_backward(options.schedule);
    std::map<std::pair<std::int64_t, TapeVariant>, std::size_t> known;
    std::vector<std::optional<std::vector<PartitionTape>>> tapes;
    for (int i = 0; i < micro_batches; ++i) {
        const std::int64_t samples = costs.micro_batches()[static_cast<std::size_t>(i)];
        const TapeVariant variant{is_gathered, asks_for_all && is_checkpointed(i), splits};
        const auto [place, is_new] = known.try_emplace({samples, variant}, tapes.size());
        if (is_new) {
            tapes.push_back(
                recorded_tapes(profile, costs.sized(i), options.balance, partitions, first_trained, variant));
            works_.emplace_back();
            loss_gradients_.emplace_back();
        }
        kind_of_.push_back(place->second);
    }
    const bool all_recorded = std::ranges::all_of(tapes, [](const auto& each) { return each.has_value(); });
    for (const auto& [kind, index] : known) {
        const SizedProfile& sized =
            costs.sized(static_cast<int>(std::ranges::find(kind_of_, index) - kind_of_.begin()));
        for (int j = 0; j < partitions; ++j) {
            const LayerRange layers = options.balance.layers_of(PartitionId{j});
            works_[index].emplace_back(sized, layers,
                                       all_recorded ? std::move((*tapes[index])[static_cast<std::size_t>(j)])
                                                    : partition_tape_from_bytes(profile, sized, layers, splits),
                                       splits);
        }
        const bool outputs_ask = all_recorded && kind.second.all_gradients && trains_;
        const auto asked = outputs_ask ? output_gradient_bytes(profile, sized, kind.second) : std::nullopt;
        loss_gradients_[index] = asked.value_or(output_gradient_bytes(works_[index].back()));
    }
}

PartitionWork& StepMemories::work(Cell at) {
    return works_[kind_of_[at.i.index()]][at.j.index()];
}

bool StepMemories::is_checkpointed(int i) const {
    const int m = graph_.shape().micro_batches_per_step();
    return pipescope::is_checkpointed(options_.checkpoint, MicroBatchId{i % m}, m);
}
}  // namespace pipescope
