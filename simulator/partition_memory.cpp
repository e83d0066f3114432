#include "simulator/partition_memory.h"

#include "simulator/partition_tape.h"

#include <algorithm>
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

namespace {
/// The same numbers from a tape's events: exact, in the layers' own order.
class TapeWalk {
public:
    explicit TapeWalk(const PartitionTape& partition) : partition_(partition), tape_(partition.tape) {
        held_.assign(tape_.blocks.size(), false);
        for (const std::int32_t event : tape_.forward) {
            held_[index(event)] = event > 0;
        }
        survives_ = held_;
    }

    void fill_in(PartitionMemory& memory) {
        memory.graph = 0;
        for (std::size_t b = 0; b < tape_.blocks.size(); ++b) {
            memory.graph += survives_[b] && tape_.blocks[b].role == Role::own ? tape_.blocks[b].bytes : 0;
        }
        memory.input_kept = lets_go_of(Role::input) || lets_go_of(Role::passed);
        memory.output_kept = lets_go_of(Role::output);
        constexpr std::size_t kNever = static_cast<std::size_t>(-1);
        const Bytes own_input = memory.input_kept ? 0 : memory.input;
        memory.checkpointed_forward = peak(tape_.checkpointed_forward, kNever, 0);
        memory.forward = highest(peak(tape_.forward, kNever, 0), peak(tape_.recompute, kNever, 0));
        memory.forward_of_own_input = highest(peak(tape_.forward, partition_.input_needed_forward, own_input),
                                              peak(tape_.recompute, partition_.input_needed_recompute, own_input));
        memory.backward = backward_peak(true);
        memory.backward_of_view = backward_peak(false);
    }

private:
    using Role = TapeBlock::Role;

    static std::size_t index(std::int32_t event) { return static_cast<std::size_t>(event < 0 ? -event : event) - 1; }
    static WorkPeak highest(const WorkPeak& a, const WorkPeak& b) { return a.total() >= b.total() ? a : b; }
    bool lets_go_of(Role role) const {
        return std::any_of(tape_.backward.begin(), tape_.backward.end(),
                           [&](std::int32_t event) { return event < 0 && tape_.blocks[index(event)].role == role; });
    }

    WorkPeak peak(const std::vector<std::int32_t>& events, std::size_t input_needed, Bytes input) const {
        WorkPeak now;
        WorkPeak most;
        for (std::size_t k = 0; k < events.size(); ++k) {
            if (k == input_needed) {
                now.boundary -= input;
            }
            const std::size_t b = index(events[k]);
            const Bytes bytes = events[k] > 0 ? tape_.blocks[b].bytes : -tape_.blocks[b].bytes;
            const bool stays = survives_[b] && tape_.blocks[b].role == Role::own;
            (stays ? now.saved : now.transient) += bytes;
            most = highest(most, now);
        }
        return most;
    }

    /// What the forward left goes as the events say; the input's charge stays to the task's end.
    WorkPeak backward_peak(bool gradient_goes) const {
        WorkPeak now;
        WorkPeak most;
        for (const std::int32_t event : tape_.backward) {
            const std::size_t b = index(event);
            const auto& [role, size] = tape_.blocks[b];
            const Bytes bytes = event > 0 ? size : -size;
            if (role == Role::output_gradient) {
                now.gradient += gradient_goes ? bytes : 0;
            } else if (role == Role::output || (role == Role::own && survives_[b])) {
                now.saved += bytes;
            } else if (role == Role::own || role == Role::input_gradient) {
                now.transient += bytes;
            }
            most = highest(most, now);
        }
        return most;
    }

    const PartitionTape& partition_;
    const LayerTape& tape_;
    std::vector<bool> held_;
    std::vector<bool> survives_;  // the forward
};
}  // namespace

PartitionMemory partition_memory(const Profile& profile, const SizedProfile& sized, LayerRange layers) {
    PartitionMemory memory = LayerWalk(profile, sized, layers).memory();
    if (const auto recorded = recorded_partition_tape(profile, sized, layers)) {
        TapeWalk(*recorded).fill_in(memory);
    }
    return memory;
}
}  // namespace pipescope
