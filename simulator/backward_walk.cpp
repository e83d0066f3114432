#include "simulator/backward_walk.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
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
            const bool popped_here = contains(sized.popped_by[k]);
            const bool stashed_here = contains(sized.stashed_by[k]);
            if (popped_here || stashed_here) {
                skips_.push_back(
                    {k, sized.stashed_by[k].index(), sized.popped_by[k].index(), stashed_here, popped_here, kNone});
            }
        }
        gradients_ = {{sized.output[end - 1], end - 1}};  // the output's, which the lane holds already
        live_ = {kTop};
    }

    void fill_in(PartitionMemory& memory) {
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
}  // namespace

void walk_backward_layers(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                          const std::vector<Bytes>& let_go, PartitionMemory& memory) {
    BackwardWalk(profile, sized, layers.first.index(), layers.end.index(), let_go).fill_in(memory);
}

std::vector<BackwardLook> walk_backward_from(const Profile& profile, const SizedProfile& sized, LayerId end,
                                             const std::vector<Bytes>& let_go) {
    BackwardWalk walk(profile, sized, 0, end.index(), let_go);
    std::vector<BackwardLook> looks(end.index());
    for (std::size_t l = end.index(); l-- > 0;) {
        const LayerPeak here = walk.step_down(l);
        looks[l] = {here.handed_stays.total(), here.handed_goes.total(), walk.input_gradient(l)};
    }
    return looks;
}
}  // namespace pipescope
