#include "simulator/skip_memory.h"

#include "simulator/sized_profile.h"

namespace pipescope {
namespace {
/// Whether a stash is the storage of its layer's output (the layer only hands it on), and a layer of the same
/// partition keeps that as its input or output.
bool is_kept_as_value(const std::vector<LayerProfile>& layers, LayerId stash, LayerRange partition) {
    std::size_t maker = stash.index();
    if (!layers[maker].aliases_input) {
        return false;
    }
    while (maker > partition.first.index() && layers[maker].aliases_input) {
        --maker;
    }
    if (layers[maker].aliases_input) {
        return false;  // the partition's own input, which is charged apart
    }
    for (std::size_t l = maker + 1; l < partition.end.index(); ++l) {
        if (layers[l].keeps_input) {
            return true;
        }
        if (!layers[l].aliases_input) {
            break;
        }
    }
    return layers[maker].keeps_output;
}
}  // namespace

SkipMemory::SkipMemory(const Profile& profile, const PipelineOptions& options, const StepMemories& memories)
    : memories_(memories) {
    for (const NamedSkip& skip : skips_of(profile)) {
        const PartitionId partition = options.balance.partition_of(skip.stash);
        kept_as_value_.push_back(is_kept_as_value(profile.layers, skip.stash, options.balance.layers_of(partition)));
        kept_by_popper_.push_back(!profile.layers[skip.pop.index()].passes_gradient);
    }
}

bool SkipMemory::shares_storage(std::size_t k) const {
    const auto [from, to] = memories_.shape().skips[k];
    return memories_.shares_storage(memories_.lane_of(static_cast<int>(from.value())),
                                    memories_.lane_of(static_cast<int>(to.value())));
}

Bytes SkipMemory::gradient(int i, std::size_t k) const {
    const int popping = static_cast<int>(memories_.shape().skips[k].to.value());
    for (const SkipGradient& each : memories_.memory(i, popping).skip_gradients) {
        if (each.skip == k) {
            return each.bytes;
        }
    }
    return bytes(i, k);
}

Bytes SkipMemory::received_gradient(int i, std::size_t k) const {
    return shares_storage(k) ? gradient(i, k) : bytes(i, k);
}

Bytes SkipMemory::inside(int i, int j) const {
    Bytes sum = 0;
    for (std::size_t k = 0; k < kept_as_value_.size(); ++k) {
        const auto [from, to] = memories_.shape().skips[k];
        sum += from.value() == j && to.value() == j && !kept_as_value_[k] ? bytes(i, k) : 0;
    }
    return sum;
}

Bytes SkipMemory::given_away(int i, int j) const {
    Bytes sum = 0;
    for (std::size_t k = 0; k < kept_as_value_.size(); ++k) {
        sum += memories_.shape().skips[k].from.value() == j && is_kept_by_stasher(i, k) ? bytes(i, k) : 0;
    }
    return sum;
}

bool SkipMemory::is_kept_by_stasher(int i, std::size_t k) const {
    const auto [from, to] = memories_.shape().skips[k];
    return from != to && kept_as_value_[k] && !memories_.is_checkpointed(i) && shares_storage(k);
}
}  // namespace pipescope
