#include "simulator/backward_walk.h"

#include <algorithm>
#include <utility>

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

    void fill_in(PartitionMemory& memory, std::vector<WorkPart>* parts) {
        gradients_ = {{memory.output, end_ - 1}};  // the output's, which the lane holds already
        live_ = {kTop};
        std::size_t current = 0;
        Bytes freed = 0;
        for (std::size_t l = end_; l-- > first_;) {
            const std::size_t below = gradients_below(l, current);
            const WorkPart here = look(memory, l, freed);
            if (l + 1 == end_ || here.handed_goes.total() > memory.backward.total()) {
                memory.backward = here.handed_goes;
            }
            if (l + 1 == end_ || here.handed_stays.total() > memory.backward_of_view.total()) {
                memory.backward_of_view = here.handed_stays;
            }
            if (parts != nullptr) {
                parts->push_back(here);
            }
            freed += sized_.saved[l] + let_go_[l - first_];
            end_layer(l);
            current = below;
        }
        hand_on(memory, current);
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

    WorkPart look(const PartitionMemory& memory, std::size_t l, Bytes freed) const {
        Bytes live = sized_.transient[l];
        for (const std::size_t g : live_) {
            live += g != kTop && gradients_[g].is_new ? gradients_[g].bytes : 0;
        }
        WorkPart part;
        part.handed_stays = {0, -freed, 0, live};
        part.handed_goes = {0, -freed, top_is_gone_ ? -memory.output : 0, live};
        return part;
    }

    /// Lets go of what only layer l needed.
    void end_layer(std::size_t l) {
        std::erase_if(live_, [&](std::size_t g) {
            Gradient& gradient = gradients_[g];
            gradient.is_new = true;
            const bool goes = !gradient.handed_on && gradient.needed_by >= l;
            top_is_gone_ = top_is_gone_ || (goes && g == kTop);
            return goes;
        });
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

    const Profile& profile_;
    const SizedProfile& sized_;
    std::size_t first_;
    std::size_t end_;
    const std::vector<Bytes>& let_go_;
    std::vector<Skip> skips_;  // with an end in the range
    std::vector<Gradient> gradients_;
    std::vector<std::size_t> live_;                               // of them: few at a time
    std::vector<std::pair<std::size_t, std::size_t>> handed_on_;  // skip, and the gradient that holds its storage
    bool top_is_gone_ = false;
};
}  // namespace

void walk_backward_layers(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                          const std::vector<Bytes>& let_go, PartitionMemory& memory, std::vector<WorkPart>* parts) {
    BackwardWalk(profile, sized, layers.first.index(), layers.end.index(), let_go).fill_in(memory, parts);
}
}  // namespace pipescope
