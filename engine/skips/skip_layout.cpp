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
        find_first_uses();
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
                            "; a skip is stashed by one layer and popped by one later layer; correct the names, or "
                            "isolate() equal names that are different skips");
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

    void find_first_uses() {
        for (std::size_t layer = 0; layer < layers_.size(); ++layer) {
            for (const SkipName& name : layers_[layer].names.stash) {
                stashed_.emplace(name, layer);
            }
            for (const SkipName& name : layers_[layer].names.pop) {
                popped_.emplace(name, layer);
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
            if (popped_.at(name) != layer || !own.insert(name).second) {
                find(layer_text(layer) + " pops " + quoted(name) + " again, after " + layer_text(popped_.at(name)));
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
            skips.push_back({name, LayerId{stash}, LayerId{popped_.at(name)}});
        }
        std::sort(skips.begin(), skips.end(), [](const Skip& a, const Skip& b) {
            return a.stash != b.stash ? a.stash < b.stash : to_string(a.name) < to_string(b.name);
        });
        return skips;
    }

    std::span<const LayerSkips> layers_;
    std::map<SkipName, std::size_t> stashed_;  // to the first layer that stashes it
    std::map<SkipName, std::size_t> popped_;
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

SkipLayout::SkipLayout(std::span<const LayerSkips> layers, const Balance& balance)
    : skips_(verify_skippables(layers)), places_(skips_.size()), partitions_(balance.num_partitions()) {
    for (std::size_t skip = 0; skip < skips_.size(); ++skip) {
        const SkipRoute route{balance.partition_of(skips_[skip].stash), balance.partition_of(skips_[skip].pop)};
        routes_.push_back(route);
        if (route.from != route.to) {
            auto& outgoing = partitions_[route.from.index()].outgoing;
            auto& incoming = partitions_[route.to.index()].incoming;
            places_[skip] = {incoming.size(), outgoing.size()};
            incoming.push_back(skip);
            outgoing.push_back(skip);
        }
    }
    for (std::size_t j = 0; j < partitions_.size(); ++j) {
        PartitionSkips& here = partitions_[j];
        here.layers.resize(balance.layers_of(PartitionId{j}).size());
        here.num_slots = here.incoming.size() + here.outgoing.size();
    }
    for (std::size_t skip = 0; skip < skips_.size(); ++skip) {
        const auto [name, stash, pop] = skips_[skip];
        const auto [from, to] = routes_[skip];
        PartitionSkips& source = partitions_[from.index()];
        PartitionSkips& target = partitions_[to.index()];
        const std::size_t source_slot = from == to ? source.num_slots++ : source.incoming.size() + places_[skip].out;
        const std::size_t target_slot = from == to ? source_slot : places_[skip].in;
        source.layers[stash.index() - balance.layers_of(from).first.index()].stash.push_back({name.name, source_slot});
        target.layers[pop.index() - balance.layers_of(to).first.index()].pop.push_back({name.name, target_slot});
    }
}
}  // namespace pipescope
