#include "simulator/partition_memory.h"

#include "simulator/backward_walk.h"
#include "simulator/partition_tape.h"
#include "simulator/task_work.h"

#include <algorithm>
#include <set>
#include <vector>

namespace pipescope {
namespace {
/// Walks a range of layers forward.
class LayerWalk {
public:
    LayerWalk(const Profile& profile, const SizedProfile& sized, LayerRange layers)
        : profile_(profile), sized_(sized), first_(layers.first.index()), end_(layers.end.index()) {
        find_storages();
        find_kept();
    }

    PartitionMemory memory() const {
        PartitionMemory memory;
        memory.input = input_bytes();
        memory.input_kept = kept_[0];
        memory.output = sized_.output[end_ - 1];
        memory.output_kept = storage_of_output() != 0 && kept_[storage_of_output()];
        for (std::size_t l = first_; l < end_; ++l) {
            memory.graph += sized_.saved[l];
        }
        for (std::size_t s = 1; s < bytes_.size(); ++s) {
            memory.graph += kept_[s] && s != storage_of_output() ? bytes_[s] : 0;
        }
        const Bytes own_input = memory.input_kept ? 0 : memory.input;
        walk_forward(false, 0, memory.checkpointed_forward, memory.checkpointed_forward);
        walk_forward(true, own_input, memory.forward, memory.forward_of_own_input);
        const LayerRange layers{LayerId{static_cast<std::int64_t>(first_)}, LayerId{static_cast<std::int64_t>(end_)}};
        walk_backward_layers(profile_, sized_, layers, let_go_, memory);
        return memory;
    }

private:
    Bytes input_bytes() const { return first_ == 0 ? sized_.input : sized_.output[first_ - 1]; }
    /// Storage 0 is the partition's input; storage_[k] is that of layer first + k.
    void find_storages() {
        bytes_.push_back(input_bytes());
        std::size_t current = 0;
        for (std::size_t l = first_; l < end_; ++l) {
            if (!profile_.layers[l].aliases_input) {
                current = bytes_.size();
                bytes_.push_back(sized_.output[l]);
            }
            storage_.push_back(current);
        }
    }
    std::size_t storage_of(std::size_t layer) const { return storage_[layer - first_]; }
    std::size_t storage_before(std::size_t layer) const { return layer == first_ ? 0 : storage_of(layer - 1); }
    std::size_t storage_of_output() const { return storage_.back(); }

    void find_kept() {
        kept_.assign(bytes_.size(), false);
        let_go_.assign(storage_.size(), 0);
        for (std::size_t l = first_; l < end_; ++l) {
            if (profile_.layers[l].keeps_input) {
                keep(storage_before(l), l);
            }
            if (profile_.layers[l].keeps_output) {
                keep(storage_of(l), l);
            }
        }
    }
    void keep(std::size_t storage, std::size_t layer) {
        if (!kept_[storage] && storage != 0 && storage != storage_of_output()) {
            let_go_[layer - first_] += bytes_[storage];  // the first layer to keep it is the last to free it
        }
        kept_[storage] = true;
    }

    /// Computes the peaks if the input stays, and if `own_input` of it is freed once no layer works on it.
    void walk_forward(bool keeps_graph, Bytes own_input, WorkPeak& input_stays, WorkPeak& input_goes) const {
        Bytes kept = 0;  // saved tensors, and kept storages that are no layer's input or output right now
        for (std::size_t l = first_; l < end_; ++l) {
            const std::size_t in = storage_before(l);
            const std::size_t out = storage_of(l);
            const Bytes transient = sized_.transient[l] + (in != 0 ? bytes_[in] : 0) + (out != in ? bytes_[out] : 0);
            if (keeps_graph) {
                kept += sized_.saved[l];
            }
            const WorkPeak stays{0, kept, 0, transient};
            const WorkPeak goes{in == 0 ? 0 : -own_input, kept, 0, transient};
            input_stays = l == first_ || stays.total() > input_stays.total() ? stays : input_stays;
            input_goes = l == first_ || goes.total() > input_goes.total() ? goes : input_goes;
            if (keeps_graph && in != out && in != 0 && kept_[in]) {
                kept += bytes_[in];
            }
        }
    }

    const Profile& profile_;
    const SizedProfile& sized_;
    std::size_t first_;
    std::size_t end_;
    std::vector<Bytes> bytes_;          // by storage
    std::vector<std::size_t> storage_;  // by layer: of its output
    std::vector<bool> kept_;            // by storage
    std::vector<Bytes> let_go_;         // by layer: kept bytes that its backward frees, except the output's
};

WorkPeak highest(const std::vector<WorkPart>& parts) {
    WorkPeak most;  // not above the start
    for (const WorkPart& part : parts) {
        most = part.peak.total() >= most.total() ? part.peak : most;
    }
    return most;
}
WorkPeak higher(const WorkPeak& a, const WorkPeak& b) {
    return a.total() >= b.total() ? a : b;
}

/// Fills in the numbers from the layers' tapes.
void fill_in(PartitionWork work, PartitionMemory& memory) {
    using enum PartitionWork::Phase;
    const PartitionTape& tape = work.tape();
    const auto is_kept = [&](std::int32_t block) { return work.keeps(block); };
    memory.graph = work.graph();
    memory.input_kept = std::any_of(tape.inputs.begin(), tape.inputs.end(), is_kept);
    const std::set<std::int32_t> inputs(tape.inputs.begin(), tape.inputs.end());
    const std::set<std::int32_t> outputs(tape.outputs.begin(), tape.outputs.end());
    const std::set<std::int32_t> gradients(tape.output_gradients.begin(), tape.output_gradients.end());
    std::vector<PartitionWork::Going> own_input;
    std::vector<PartitionWork::Going> kept_output;
    for (const std::int32_t block : inputs) {
        if (!memory.input_kept && work.role(block) == TapeBlock::Role::input) {
            own_input.push_back({{block}, work.bytes(block)});
        }
    }
    for (const std::int32_t block : outputs) {
        if (block != 0 && work.role(block) == TapeBlock::Role::output && is_kept(block)) {
            kept_output.push_back({{block}, work.bytes(block)});
        }
    }
    memory.output_kept = !kept_output.empty();
    std::vector<PartitionWork::Going> with_gradient = kept_output;
    for (const std::int32_t block : gradients) {
        if (block != 0) {
            with_gradient.push_back({{block}, work.bytes(block)});
        }
    }
    const auto highest_recompute = [&](const std::vector<PartitionWork::Going>& going) {
        WorkPeak peak = highest(work.parts(recompute, going));
        peak.transient -= tape.statistics;  // held throughout, and counted separately
        return peak;
    };
    memory.checkpointed_forward = highest(work.parts(checkpointed_forward, {}));
    memory.forward = higher(highest(work.parts(forward, {})), highest_recompute({}));
    memory.forward_of_own_input = higher(highest(work.parts(forward, own_input)), highest_recompute(own_input));
    memory.backward = highest(work.parts(backward, with_gradient));
    memory.backward_of_view = highest(work.parts(backward, kept_output));
}

bool has_gathered(const Profile& profile, LayerRange layers) {
    return std::any_of(profile.layers.begin() + static_cast<std::ptrdiff_t>(layers.first.index()),
                       profile.layers.begin() + static_cast<std::ptrdiff_t>(layers.end.index()),
                       [](const LayerProfile& layer) {
                           return std::any_of(layer.tape.begin(), layer.tape.end(),
                                              [](const LayerTape& tape) { return !tape.gathered.empty(); });
                       });
}
}  // namespace

PartitionMemory partition_memory(const Profile& profile, const SizedProfile& sized, LayerRange layers) {
    PartitionMemory memory = LayerWalk(profile, sized, layers).memory();
    if (auto recorded = recorded_partition_tape(profile, sized, layers)) {
        fill_in(PartitionWork(sized, layers, *std::move(recorded)), memory);
        if (has_gathered(profile, layers)) {
            PartitionMemory gathered = memory;
            if (auto tape = recorded_partition_tape(profile, sized, layers, {.gathered = true})) {
                fill_in(PartitionWork(sized, layers, *std::move(tape)), gathered);
            }
            memory.backward_of_view = gathered.backward_of_view;
        }
    }
    return memory;
}
}  // namespace pipescope
