#include "engine/skips/skip_layout.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace pipescope {
namespace {
/// Walks the layers in order and collects the problems with their skips.
class SkipVerifier {
public:
    explicit SkipVerifier(std::span<const LayerSkips> layers) : layers_(layers) {}

    std::vector<Skip> skips() {
        find_uses();
        for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
            check_ambiguity(layer, layers_[layer].names.stash, "stashes");
            check_ambiguity(layer, layers_[layer].names.pop, "pops");
            check_stashes(layer);
            check_pops(layer);
        }
        for (const auto& [name, stash] : stashed_) {
            if (!popped_.contains(name)) {
                find(layer_text(stash) + " stashes " + quoted(name) + ", which no layer pops");
            }
        }
        if (!findings_.empty()) {
            throw SkipError("the layers' skips do not match: " + findings_ +
                            "; a skip is stashed by one layer and popped by later layers, once by each; correct the "
                            "names, or isolate() equal names that are different skips");
        }
        return matched();
    }

private:
    static std::string quoted(const SkipName& name) { return std::string("'").append(to_string(name)).append("'"); }
    std::string layer_text(std::size_t layer) const {
        return "layer " + std::to_string(layer) + " (" + layers_[layer].layer + ")";
    }
    void find(const std::string& what) {
        if (!findings_.empty()) {
            findings_ += ", ";
        }
        findings_ += what;
    }

    void find_uses() {
        for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
            for (const SkipName& name : layers_[layer].names.stash) {
                stashed_.emplace(name, layer);
            }
            for (const SkipName& name : layers_[layer].names.pop) {
                std::vector<std::size_t>& pops = popped_[name];
                if (pops.empty() || pops.back() != layer) {
                    pops.push_back(layer);
                }
            }
        }
    }

    /// A forward says "pop a" without a space, so a layer's own names must differ.
    void check_ambiguity(std::size_t layer, const std::vector<SkipName>& names, const std::string& verb) {
        std::map<std::string, std::string> spaces;
        for (const SkipName& name : names) {
            const auto [first, is_new] = spaces.emplace(name.name, name.space);
            if (!is_new && first->second != name.space) {
                find(layer_text(layer) + " " + verb + " '" + name.name +
                     "' of two spaces, which its forward cannot tell apart");
            }
        }
    }

    void check_stashes(std::size_t layer) {
        std::set<SkipName> own;
        for (const SkipName& name : layers_[layer].names.stash) {
            if (stashed_.at(name) != layer || !own.insert(name).second) {
                find(layer_text(layer) + " stashes " + quoted(name) + " again, after " + layer_text(stashed_.at(name)));
            }
        }
    }

    void check_pops(std::size_t layer) {
        std::set<SkipName> own;
        for (const SkipName& name : layers_[layer].names.pop) {
            if (!own.insert(name).second) {
                find(layer_text(layer) + " pops " + quoted(name) + " twice");
                continue;
            }
            const auto stash = stashed_.find(name);
            if (stash == stashed_.end()) {
                find(layer_text(layer) + " pops " + quoted(name) + ", which no layer stashes");
            } else if (stash->second == layer) {
                find(layer_text(layer) + " both stashes and pops " + quoted(name));
            } else if (stash->second > layer) {
                find(layer_text(layer) + " pops " + quoted(name) + " before " + layer_text(stash->second) +
                     " stashes it");
            }
        }
    }

    std::vector<Skip> matched() const {
        std::vector<Skip> skips;
        for (const auto& [name, stash] : stashed_) {
            Skip& skip = skips.emplace_back(Skip{name, LayerId{stash}, {}});
            for (const std::size_t layer : popped_.at(name)) {
                skip.pops.emplace_back(layer);
            }
        }
        std::sort(skips.begin(), skips.end(), [](const Skip& a, const Skip& b) {
            return a.stash != b.stash ? a.stash < b.stash : to_string(a.name) < to_string(b.name);
        });
        return skips;
    }

    std::span<const LayerSkips> layers_;
    std::map<SkipName, std::size_t> stashed_;  // to the first layer that stashes it
    std::map<SkipName, std::vector<std::size_t>> popped_;
    std::string findings_;
};
}  // namespace

std::string to_string(const SkipName& name) {
    std::string text = name.space;
    if (!text.empty()) {
        text += '/';
    }
    return text += name.name;
}

std::vector<Skip> verify_skippables(std::span<const LayerSkips> layers) {
    return SkipVerifier(layers).skips();
}

SkipLayout::SkipLayout(std::span<const LayerSkips> layers, const Balance& balance, const std::vector<LaneId>& placement)
    : skips_(verify_skippables(layers)), partitions_(balance.num_partitions()) {
    std::vector<SkipLayers> ends;
    for (const Skip& skip : skips_) {
        ends.push_back({skip.stash, skip.pops});
    }
    routes_ = skip_routes(ends, balance, placement);
    for (std::size_t route = 0; route < routes().size(); ++route) {
        for (auto to = first_behind(route); to; to = next_behind(route, *to)) {
            partitions_[to->index()].incoming.push_back(route);
        }
    }
    for (std::size_t j = 0; j < partitions_.size(); ++j) {
        PartitionSkips& here = partitions_[j];
        here.layers.resize(balance.layers_of(PartitionId{j}).size());
        here.num_slots = here.incoming.size();
        for (const std::size_t route : here.incoming) {
            here.is_popped_later.push_back(
                balance.partition_of(skips_[routes_.skip_of[route]].pops.back()) > PartitionId{j} ? 1 : 0);
        }
    }
    std::vector<std::size_t> slots(skips_.size());  // on the stashing partition
    for (std::size_t skip = 0; skip < skips_.size(); ++skip) {
        slots[skip] = partitions_[balance.partition_of(skips_[skip].stash).index()].num_slots++;
    }
    for (std::size_t route = 0; route < routes().size(); ++route) {
        if (first_behind(route)) {
            PartitionSkips& source = partitions_[routes()[route].from.index()];
            source.outgoing.push_back(route);
            source.outgoing_slots.push_back(slots[routes_.skip_of[route]]);
        }
    }
    for (std::size_t skip = 0; skip < skips_.size(); ++skip) {
        const Skip& here = skips_[skip];
        const PartitionId from = balance.partition_of(here.stash);
        const auto accesses = [&](LayerId layer) -> PartitionSkips::OfLayer& {
            const PartitionId partition = balance.partition_of(layer);
            return partitions_[partition.index()].layers[layer.index() - balance.layers_of(partition).first.index()];
        };
        accesses(here.stash).stash.push_back({here.name.name, slots[skip]});
        const bool leaves = balance.partition_of(here.pops.back()) != from;
        for (std::size_t k = 0; k < here.pops.size(); ++k) {
            const PartitionId to = balance.partition_of(here.pops[k]);
            const bool is_last = k + 1 == here.pops.size() || balance.partition_of(here.pops[k + 1]) != to;
            const std::size_t slot = to == from ? slots[skip] : slot_of(skip, to);
            accesses(here.pops[k]).pop.push_back({here.name.name, slot, is_last && !(to == from && leaves)});
        }
    }
}

/// The slot of a skip that comes from an earlier partition.
std::size_t SkipLayout::slot_of(std::size_t skip, PartitionId partition) const {
    const auto& incoming = of(partition).incoming;
    const auto found =
        std::ranges::find_if(incoming, [&](std::size_t route) { return routes_.skip_of[route] == skip; });
    return static_cast<std::size_t>(found - incoming.begin());
}

std::size_t SkipLayout::place_in(std::size_t route, PartitionId partition) const {
    const auto& incoming = of(partition).incoming;
    return static_cast<std::size_t>(std::ranges::lower_bound(incoming, route) - incoming.begin());
}

std::size_t SkipLayout::place_out(std::size_t route) const {
    const auto& outgoing = of(routes().at(route).from).outgoing;
    return static_cast<std::size_t>(std::ranges::lower_bound(outgoing, route) - outgoing.begin());
}

std::optional<PartitionId> SkipLayout::first_behind(std::size_t route) const {
    return next_behind(route, routes().at(route).from);
}

std::optional<PartitionId> SkipLayout::next_behind(std::size_t route, PartitionId partition) const {
    return routes().at(route).behind(partition);
}
}  // namespace pipescope
