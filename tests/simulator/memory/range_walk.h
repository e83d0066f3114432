#pragma once

// A reference for RangeTable: walks one range of layers, forward and backward, by the rules in range_table.h.

#include "simulator/memory/range_table.h"
#include "simulator/memory/task_work.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pipescope {
/// RangePeaks with the peaks by category.
struct WalkedRange {
    Bytes input = 0;
    bool input_kept = false;
    Bytes output = 0;
    bool output_kept = false;
    Bytes graph = 0;
    WorkPeak checkpointed_forward;
    WorkPeak forward;
    WorkPeak forward_of_own_input;
    WorkPeak backward;
    WorkPeak backward_of_view;
    Bytes input_gradient = 0;
};

/// A layer's peak if the gradient of the range's output stays, and if it is freed once no layer needs it.
struct LayerPeak {
    WorkPeak handed_stays;
    WorkPeak handed_goes;
};

/// Walks a range of layers backward and tracks live gradients and their shared storages. The result at a layer does not
/// depend on where the range begins, since gradients that leave the range there outlive the layers above.
class BackwardWalk {
public:
    /// `let_go`: kept bytes that each layer's backward frees, by layer of the range. Borrows all arguments.
    BackwardWalk(const Profile& profile, const SizedProfile& sized, std::size_t first, std::size_t end,
                 const std::vector<Bytes>& let_go)
        : profile_(profile), sized_(sized), first_(first), end_(end), let_go_(let_go) {
        for (std::size_t k = 0; k < sized.skips.size(); ++k) {
            const auto& [stash, pops] = sized.skip_layers[k];  // the reference knows one pop
            const bool popped_here = contains(pops.front());
            const bool stashed_here = contains(stash);
            if (popped_here || stashed_here) {
                skips_.push_back({k, stash.index(), pops.front().index(), stashed_here, popped_here, kNone});
            }
        }
        gradients_ = {{sized.output[end - 1], end - 1}};  // the output's, which the lane holds already
        live_ = {kTop};
    }

    void fill_in(WalkedRange& memory) {
        for (std::size_t l = end_; l-- > first_;) {
            const LayerPeak here = step_down(l);
            if (l + 1 == end_ || here.handed_goes.total() > memory.backward.total()) {
                memory.backward = here.handed_goes;
            }
            if (l + 1 == end_ || here.handed_stays.total() > memory.backward_of_view.total()) {
                memory.backward_of_view = here.handed_stays;
            }
        }
        memory.input_gradient = input_gradient(first_);
    }

    /// Walks the next layer down.
    LayerPeak step_down(std::size_t l) {
        const std::size_t below = gradients_below(l, current_);
        const LayerPeak here = look(l);
        freed_ += sized_.saved[l] + let_go_[l - first_];
        end_layer(l);
        current_ = below;
        return here;
    }

    /// Input gradient of a range that begins with layer l, the last one walked.
    Bytes input_gradient(std::size_t l) const {
        const bool lies_in_a_skip = std::any_of(skips_.begin(), skips_.end(), [&](const Skip& skip) {
            return skip.popped_here && skip.stash < l && skip.pop >= l && skip.held == current_;
        });
        // A storage is never smaller than what lies in it, whatever the profile says.
        return l == 0 || lies_in_a_skip ? 0 : std::max(gradients_[current_].bytes, sized_.output[l - 1]);
    }

private:
    struct Skip {
        std::size_t index;
        std::size_t stash;
        std::size_t pop;
        bool stashed_here;
        bool popped_here;
        std::size_t held;  ///< index of the gradient whose storage holds its own, from its pop on
    };
    struct Gradient {
        Bytes bytes = 0;
        std::size_t needed_by = 0;  ///< the lowest layer that uses it
        bool handed_on = false;     ///< passed to another partition, so it stays
        bool is_new = true;         ///< counted from now on; false while the layer's transient bytes cover it
    };
    static constexpr std::size_t kTop = 0;  // index of the output's gradient in gradients_

    bool contains(LayerId layer) const { return layer.index() >= first_ && layer.index() < end_; }

    /// Adds the gradients that layer l's backward leaves, given its output's. Returns that of its input.
    std::size_t gradients_below(std::size_t l, std::size_t current) {
        const LayerProfile& layer = profile_.layers[l];
        std::size_t below = current;
        const bool sums = std::any_of(skips_.begin(), skips_.end(),
                                      [&](const Skip& skip) { return skip.stashed_here && skip.stash == l; });
        // A stash's gradient is added into a new storage, which the transient bytes cover until then.
        const bool is_own = sums || !(layer.passes_gradient || layer.aliases_input);
        if (l > 0 && is_own) {
            below = take({sized_.output[l - 1], l, false, !sums || !(layer.passes_gradient || layer.aliases_input)});
        }
        if (l > first_) {
            gradients_[below].needed_by = std::min(gradients_[below].needed_by, l - 1);
        } else if (l > 0) {
            gradients_[below].handed_on = true;
        }
        for (Skip& skip : skips_) {
            if (!skip.popped_here || skip.pop != l) {
                continue;
            }
            const std::size_t held = skip.held =
                layer.passes_gradient ? current : take({sized_.skips[skip.index], l, false, true});
            if (skip.stashed_here) {
                gradients_[held].needed_by = std::min(gradients_[held].needed_by, skip.stash);
            } else {
                gradients_[held].handed_on = true;
            }
        }
        return below;
    }

    std::size_t take(const Gradient& gradient) {
        live_.push_back(gradients_.size());
        gradients_.push_back(gradient);
        return live_.back();
    }

    LayerPeak look(std::size_t l) const {
        Bytes live = sized_.transient[l];
        for (const std::size_t g : live_) {
            live += g != kTop && gradients_[g].is_new ? gradients_[g].bytes : 0;
        }
        LayerPeak part;
        part.handed_stays = {0, -freed_, 0, live};
        part.handed_goes = {0, -freed_, top_is_gone_ ? -gradients_[kTop].bytes : 0, live};
        return part;
    }

    /// Releases the gradients that only layer l needed.
    void end_layer(std::size_t l) {
        std::erase_if(live_, [&](std::size_t g) {
            Gradient& gradient = gradients_[g];
            gradient.is_new = true;
            const bool goes = !gradient.handed_on && gradient.needed_by >= l;
            top_is_gone_ = top_is_gone_ || (goes && g == kTop);
            return goes;
        });
    }

    static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

    const Profile& profile_;
    const SizedProfile& sized_;
    std::size_t first_;
    std::size_t end_;
    const std::vector<Bytes>& let_go_;
    std::vector<Skip> skips_;  // with an end in the range
    std::vector<Gradient> gradients_;
    std::vector<std::size_t> live_;  // indices of live gradients; few at a time
    std::size_t current_ = kTop;     // the gradient of the last walked layer's input
    Bytes freed_ = 0;                // of the graph
    bool top_is_gone_ = false;
};

/// Walks a range of layers forward.
class ReferenceWalk {
public:
    ReferenceWalk(const Profile& profile, const SizedProfile& sized, LayerRange layers)
        : profile_(profile), sized_(sized), first_(layers.first.index()), end_(layers.end.index()) {
        find_storages();
        find_kept();
    }

    WalkedRange memory() const {
        WalkedRange memory;
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
            // Without a graph the layer's saved tensors exist while it runs.
            const Bytes transient = sized_.transient[l] + (keeps_graph ? 0 : sized_.saved[l]) +
                                    (in != 0 ? bytes_[in] : 0) + (out != in ? bytes_[out] : 0);
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

inline RangePeaks walked_range(const Profile& profile, const SizedProfile& sized, LayerRange layers) {
    const WalkedRange range = ReferenceWalk(profile, sized, layers).memory();
    return {range.input,
            range.input_kept,
            range.output,
            range.output_kept,
            range.graph,
            range.checkpointed_forward.total(),
            range.forward.total(),
            range.forward_of_own_input.total(),
            range.backward.total(),
            range.backward_of_view.total(),
            range.input_gradient};
}
}  // namespace pipescope
