#include "simulator/partition_memory.h"

#include "simulator/partition_tape.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
/// A range of layers walked backward: which gradients are there, and who shares a storage.
class BackwardWalk {
public:
    /// `let_go`: by layer of the range, what its backward frees of kept storages. Borrowed, as the others are.
    BackwardWalk(const Profile& profile, const SizedProfile& sized, std::size_t first, std::size_t end,
                 const std::vector<Bytes>& let_go)
        : profile_(profile), sized_(sized), first_(first), end_(end), let_go_(let_go) {
        for (std::size_t k = 0; k < sized.skips.size(); ++k) {
            const bool popped_here = contains(sized.popped_by[k]);
            const bool stashed_here = contains(sized.stashed_by[k]);
            if (popped_here || stashed_here) {
                skips_.push_back(
                    {k, sized.stashed_by[k].index(), sized.popped_by[k].index(), stashed_here, popped_here});
            }
        }
    }

    void fill_in(PartitionMemory& memory) {
        gradients_ = {{memory.output, end_ - 1}};  // the output's, which the lane holds already
        live_ = {kTop};
        std::size_t current = 0;
        Bytes freed = 0;
        for (std::size_t l = end_; l-- > first_;) {
            const std::size_t below = gradients_below(l, current);
            look(memory, l, freed);
            freed += sized_.saved[l] + let_go_[l - first_];
            end_layer(memory, l);
            current = below;
        }
        close_part(memory, std::nullopt);
        hand_on(memory, current);
        if (memory.backward_parts.size() == 1) {
            memory.backward_parts.clear();
        }
    }

private:
    struct Skip {
        std::size_t index;
        std::size_t stash;
        std::size_t pop;
        bool stashed_here;
        bool popped_here;
    };
    struct Gradient {
        Bytes bytes = 0;
        std::size_t needed_by = 0;  ///< the lowest layer that uses it
        bool handed_on = false;     ///< to another partition: it stays
        bool is_new = true;         ///< counted from now on; false while the layer's transient bytes hold it
    };
    static constexpr std::size_t kTop = 0;  // in gradients_: the output's

    bool contains(LayerId layer) const { return layer.index() >= first_ && layer.index() < end_; }

    /// The gradients that layer l's backward leaves, given its output's. Gives the one of its input.
    std::size_t gradients_below(std::size_t l, std::size_t current) {
        const LayerProfile& layer = profile_.layers[l];
        std::size_t below = current;
        const bool sums = std::any_of(skips_.begin(), skips_.end(),
                                      [&](const Skip& skip) { return skip.stashed_here && skip.stash == l; });
        // What a stash's gradient is added to becomes a storage of its own, which the transient bytes hold till then.
        const bool is_own = sums || !(layer.passes_gradient || layer.aliases_input);
        if (l > 0 && is_own) {
            below = take({sized_.output[l - 1], l, false, !sums || !(layer.passes_gradient || layer.aliases_input)});
        }
        if (l > first_) {
            gradients_[below].needed_by = std::min(gradients_[below].needed_by, l - 1);
        } else if (l > 0) {
            gradients_[below].handed_on = true;
        }
        for (const Skip& skip : skips_) {
            if (!skip.popped_here || skip.pop != l) {
                continue;
            }
            const std::size_t held = layer.passes_gradient ? current : take({sized_.skips[skip.index], l, false, true});
            if (skip.stashed_here) {
                gradients_[held].needed_by = std::min(gradients_[held].needed_by, skip.stash);
            } else {
                const bool is_first = std::none_of(handed_on_.begin(), handed_on_.end(),
                                                   [&](const auto& other) { return other.second == held; });
                gradients_[held].handed_on = true;
                handed_on_.emplace_back(skip.index, is_first ? held : kNone);
            }
        }
        return below;
    }

    std::size_t take(const Gradient& gradient) {
        live_.push_back(gradients_.size());
        gradients_.push_back(gradient);
        return live_.back();
    }

    void look(const PartitionMemory& memory, std::size_t l, Bytes freed) {
        Bytes live = sized_.transient[l];
        for (const std::size_t g : live_) {
            live += g != kTop && gradients_[g].is_new ? gradients_[g].bytes : 0;
        }
        const Bytes top = top_is_gone_ ? -memory.output : 0;
        keep_highest(of_own_, {0, -freed, top, live});
        keep_highest(of_view_, {0, -freed, 0, live});
    }
    static void keep_highest(std::optional<WorkPeak>& peak, const WorkPeak& here) {
        if (!peak || here.total() > peak->total()) {
            peak = here;
        }
    }

    /// Lets go of what only layer l needed.
    void end_layer(PartitionMemory& memory, std::size_t l) {
        std::erase_if(live_, [&](std::size_t g) {
            Gradient& gradient = gradients_[g];
            gradient.is_new = true;
            const bool goes = !gradient.handed_on && gradient.needed_by >= l;
            top_is_gone_ = top_is_gone_ || (goes && g == kTop);
            return goes;
        });
        for (const Skip& skip : skips_) {
            if (skip.stashed_here && !skip.popped_here && skip.stash == l) {
                close_part(memory, skip.index);
            }
        }
    }

    void close_part(PartitionMemory& memory, std::optional<std::size_t> frees) {
        if (of_own_) {
            if (memory.backward_parts.empty() || of_own_->total() > memory.backward.total()) {
                memory.backward = *of_own_;
            }
            if (memory.backward_parts.empty() || of_view_->total() > memory.backward_of_view.total()) {
                memory.backward_of_view = *of_view_;
            }
        }
        if (of_own_ || frees) {
            memory.backward_parts.push_back({of_own_.value_or(kLowest), of_view_.value_or(kLowest), frees});
        }
        of_own_.reset();
        of_view_.reset();
    }

    void hand_on(PartitionMemory& memory, std::size_t input) const {
        // A storage is never smaller than what lies in it, whatever the profile says.
        memory.input_gradient = first_ == 0 ? 0 : std::max(gradients_[input].bytes, memory.input);
        for (const auto& [skip, held] : handed_on_) {
            const Bytes bytes = held == kNone ? 0 : std::max(gradients_[held].bytes, sized_.skips[skip]);
            memory.skip_gradients.push_back({skip, bytes});
            if (held == input) {
                memory.input_gradient = 0;
            }
        }
    }

    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
    static constexpr WorkPeak kLowest{0, 0, 0, std::numeric_limits<Bytes>::min() / 4};

    const Profile& profile_;
    const SizedProfile& sized_;
    std::size_t first_;
    std::size_t end_;
    const std::vector<Bytes>& let_go_;
    std::vector<Skip> skips_;  // with an end in the range
    std::vector<Gradient> gradients_;
    std::vector<std::size_t> live_;                               // of them: few at a time
    std::vector<std::pair<std::size_t, std::size_t>> handed_on_;  // skip, and the gradient that holds its storage
    std::optional<WorkPeak> of_own_;                              // of the part so far
    std::optional<WorkPeak> of_view_;
    bool top_is_gone_ = false;
};

/// A range of layers walked forward, and what it leaves.
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
        BackwardWalk(profile_, sized_, first_, end_, let_go_).fill_in(memory);
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
        memory.backward_parts.clear();
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
