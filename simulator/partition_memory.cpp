#include "simulator/partition_memory.h"

#include "simulator/backward_walk.h"
#include "simulator/partition_tape.h"
#include "simulator/tape_walk.h"

#include <algorithm>
#include <vector>

namespace pipescope {
namespace {
/// A range of layers walked forward, and what it leaves.
class LayerWalk {
public:
    LayerWalk(const Profile& profile, const SizedProfile& sized, LayerRange layers)
        : profile_(profile), sized_(sized), first_(layers.first.index()), end_(layers.end.index()) {
        find_storages();
        find_kept();
    }

    PartitionMemory memory(PartitionWork* work) const {
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
        walk_forward(false, 0, memory.checkpointed_forward, memory.checkpointed_forward,
                     work != nullptr ? &work->checkpointed_forward : nullptr);
        walk_forward(true, own_input, memory.forward, memory.forward_of_own_input,
                     work != nullptr ? &work->forward : nullptr);
        if (work != nullptr) {
            work->recompute = work->forward;
        }
        const LayerRange layers{LayerId{static_cast<std::int64_t>(first_)}, LayerId{static_cast<std::int64_t>(end_)}};
        walk_backward_layers(profile_, sized_, layers, let_go_, memory, work != nullptr ? &work->backward : nullptr);
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
            let_go_[layer - first_] += bytes_[storage];  // the first to keep it is the last to let go
        }
        kept_[storage] = true;
    }

    /// Gives the peaks where the input stays, and where `own_input` of it goes once no layer works on it any more.
    void walk_forward(bool keeps_graph, Bytes own_input, WorkPeak& input_stays, WorkPeak& input_goes,
                      std::vector<WorkPart>* parts) const {
        Bytes kept = 0;  // saved tensors, and kept storages that are no layer's input or output right now
        for (std::size_t l = first_; l < end_; ++l) {
            const std::size_t in = storage_before(l);
            const std::size_t out = storage_of(l);
            const Bytes transient = sized_.transient[l] + (in != 0 ? bytes_[in] : 0) + (out != in ? bytes_[out] : 0);
            if (keeps_graph) {
                kept += sized_.saved[l];
            }
            WorkPart here;
            here.handed_stays = {0, kept, 0, transient};
            here.handed_goes = {in == 0 ? 0 : -own_input, kept, 0, transient};
            if (l == first_ || here.handed_stays.total() > input_stays.total()) {
                input_stays = here.handed_stays;
            }
            if (l == first_ || here.handed_goes.total() > input_goes.total()) {
                input_goes = here.handed_goes;
            }
            if (parts != nullptr) {
                parts->push_back(here);
            }
            if (keeps_graph && in != out && in != 0 && kept_[in]) {
                kept += bytes_[in];
            }
        }
    }

    const Profile& profile_;
    const SizedProfile& sized_;
    std::size_t first_;
    std::size_t end_;
    std::vector<Bytes> bytes_;          // of each storage
    std::vector<std::size_t> storage_;  // of each layer's output
    std::vector<bool> kept_;            // each storage
    std::vector<Bytes> let_go_;         // by each layer's backward, of kept storages; the output's apart
};

/// Says what share of the task's time is over when each part is; equal shares where no layer takes time.
void mark_ends(std::vector<WorkPart>& parts, const std::vector<double>& times) {
    double sum = 0;
    for (std::size_t k = 0; k < parts.size(); ++k) {
        sum += times[k];
        parts[k].end = sum;
    }
    for (std::size_t k = 0; k < parts.size(); ++k) {
        parts[k].end = sum > 0 ? parts[k].end / sum : static_cast<double>(k + 1) / static_cast<double>(parts.size());
    }
}

void mark_ends(const SizedProfile& sized, LayerRange layers, PartitionWork& work) {
    const auto times = [&](const std::vector<double>& of) {
        return std::vector<double>(of.begin() + static_cast<std::ptrdiff_t>(layers.first.index()),
                                   of.begin() + static_cast<std::ptrdiff_t>(layers.end.index()));
    };
    mark_ends(work.checkpointed_forward, times(sized.forward));
    mark_ends(work.forward, times(sized.forward));
    mark_ends(work.recompute, times(sized.recompute));
    std::vector<double> backward = times(sized.backward);
    std::reverse(backward.begin(), backward.end());
    mark_ends(work.backward, backward);
}

void mark_skips(const SizedProfile& sized, LayerRange layers, PartitionWork& work) {
    const auto contains = [&](LayerId layer) { return layer >= layers.first && layer < layers.end; };
    for (std::size_t k = 0; k < sized.skips.size(); ++k) {
        const bool stashed_here = contains(sized.stashed_by[k]);
        const bool popped_here = contains(sized.popped_by[k]);
        if (popped_here && !stashed_here) {
            const std::size_t at = sized.popped_by[k].index() - layers.first.index();
            work.forward[at].skips_used.push_back(k);
            work.recompute[at].skips_used.push_back(k);
        }
        if (stashed_here && !popped_here) {
            work.backward[layers.end.index() - 1 - sized.stashed_by[k].index()].skips_used.push_back(k);
        }
    }
}
}  // namespace

PartitionMemory partition_memory(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                                 PartitionWork* work) {
    PartitionMemory memory = LayerWalk(profile, sized, layers).memory(work);
    if (const auto recorded = recorded_partition_tape(profile, sized, layers)) {
        walk_tape(*recorded, memory, work);
    }
    if (work != nullptr) {
        mark_ends(sized, layers, *work);
        mark_skips(sized, layers, *work);
    }
    return memory;
}
}  // namespace pipescope
