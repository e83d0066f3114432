#include "simulator/partition_memory.h"

#include <vector>

namespace pipescope {
namespace {
/// A range of layers walked forward and backward.
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
        memory.checkpointed_forward = forward_peak(false, 0);
        memory.forward = forward_peak(true, 0);
        memory.forward_of_own_input = forward_peak(true, memory.input_kept ? 0 : memory.input);
        memory.backward = backward_peak(memory.output);
        memory.backward_of_view = backward_peak(0);
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

    /// `freed_input`: once no layer works on the input's storage any more.
    WorkPeak forward_peak(bool keeps_graph, Bytes freed_input) const {
        WorkPeak peak;
        Bytes kept = 0;  // saved tensors, and kept storages that are no layer's input or output right now
        for (std::size_t l = first_; l < end_; ++l) {
            const std::size_t in = storage_before(l);
            const std::size_t out = storage_of(l);
            Bytes transient = sized_.transient[l] + (in != 0 ? bytes_[in] : 0) + (out != in ? bytes_[out] : 0);
            if (keeps_graph) {
                kept += sized_.saved[l];
            }
            const WorkPeak here{in == 0 ? 0 : -freed_input, kept, 0, transient};
            if (l == first_ || here.total() > peak.total()) {
                peak = here;
            }
            if (keeps_graph && in != out && in != 0 && kept_[in]) {
                kept += bytes_[in];
            }
        }
        return peak;
    }

    /// `freed_gradient`: of the output's gradient, once the last layer is through with it.
    WorkPeak backward_peak(Bytes freed_gradient) const {
        WorkPeak peak;
        Bytes freed = 0;
        for (std::size_t l = end_; l-- > first_;) {
            const LayerProfile& layer = profile_.layers[l];
            const bool is_top = l + 1 == end_;
            const Bytes above = is_top ? 0 : sized_.output[l];
            const bool wants_input_gradient = l > 0 && !layer.aliases_input;
            const Bytes below = wants_input_gradient ? sized_.output[l - 1] : 0;
            const WorkPeak here{0, -freed, is_top ? 0 : -freed_gradient, above + below + sized_.transient[l]};
            if (is_top || here.total() > peak.total()) {
                peak = here;
            }
            freed += sized_.saved[l] + let_go_[l - first_];
        }
        return peak;
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
}  // namespace

PartitionMemory partition_memory(const Profile& profile, const SizedProfile& sized, LayerRange layers) {
    return LayerWalk(profile, sized, layers).memory();
}
}  // namespace pipescope
