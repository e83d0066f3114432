#include "engine/skips/skip_slots.h"

#include "engine/engine_error.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace pipescope {
namespace {
using Accesses = std::vector<PartitionSkips::Access>;

std::string names_of(const Accesses& declared) {
    std::string names;
    for (const auto& access : declared) {
        names += (names.empty() ? "" : ", ") + access.name;
    }
    return names.empty() ? "none" : names;
}

/// Tracks which declared names a forward has used.
class Used {
public:
    Used(const Accesses& declared, const char* verb) : declared_(declared), verb_(verb), used_(declared.size()) {}

    /// Returns the name's slot and marks the name as used.
    const PartitionSkips::Access& use(std::string_view name) {
        const auto found = std::find_if(declared_.begin(), declared_.end(),
                                        [name](const PartitionSkips::Access& each) { return each.name == name; });
        if (found == declared_.end()) {
            throw LayerError("forward " + std::string(verb_) + " '" + std::string(name) + "', which skips() does not " +
                             "name (it " + verb_ + ": " + names_of(declared_) + "); declare it there");
        }
        const auto index = static_cast<std::size_t>(found - declared_.begin());
        if (used_[index]) {
            throw LayerError("forward " + std::string(verb_) + " '" + std::string(name) +
                             "' a second time; a skip carries one tensor; use another name for the other");
        }
        used_[index] = true;
        return *found;
    }

    void check_all_used() const {
        for (std::size_t k = 0; k < declared_.size(); ++k) {
            if (!used_[k]) {
                throw LayerError("forward left out '" + declared_[k].name + "', which skips() says it " + verb_ +
                                 "; every forward uses each declared name once; stash an undefined tensor for nothing");
            }
        }
    }

private:
    const Accesses& declared_;
    const char* verb_;
    std::vector<bool> used_;
};
}  // namespace

class SkipSlots::OfLayer final : public SkipContext {
public:
    OfLayer(const PartitionSkips::OfLayer& declared, Tensors& slots)
        : stashes_(declared.stash, "stashes"), pops_(declared.pop, "pops"), slots_(slots) {}

    void stash(std::string_view name, at::Tensor tensor) override {
        slots_[stashes_.use(name).slot] = std::move(tensor);
    }
    /// The last pop moves the tensor out, so that it is freed when the layer releases it, unless it has other holders.
    at::Tensor pop(std::string_view name) override {
        const PartitionSkips::Access& access = pops_.use(name);
        return access.is_last ? std::exchange(slots_[access.slot], {}) : slots_[access.slot];
    }

    void check_all_used() const {
        stashes_.check_all_used();
        pops_.check_all_used();
    }

private:
    Used stashes_;
    Used pops_;
    Tensors& slots_;
};

SkipSlots::SkipSlots(const PartitionSkips& skips, Tensors& inputs) : skips_(skips), slots_(skips.num_slots) {
    const auto end = inputs.begin() + static_cast<std::ptrdiff_t>(skips.incoming.size());
    std::move(inputs.begin(), end, slots_.begin());
    inputs.erase(inputs.begin(), end);
}

Tensors SkipSlots::forward(Layer& layer, std::size_t layer_in_partition, const Tensors& inputs) {
    OfLayer context(skips_.layers[layer_in_partition], slots_);
    Tensors outputs = layer.forward_with_skips(inputs, context);
    context.check_all_used();
    return outputs;
}

Tensors SkipSlots::with_outgoing(Tensors outputs) {
    if (skips_.outgoing.empty()) {
        return outputs;
    }
    Tensors all;
    all.reserve(skips_.outgoing.size() + outputs.size());
    for (const std::size_t slot : skips_.outgoing_slots) {
        all.push_back(slots_[slot]);
    }
    slots_.clear();
    all.insert(all.end(), std::make_move_iterator(outputs.begin()), std::make_move_iterator(outputs.end()));
    return all;
}
}  // namespace pipescope
