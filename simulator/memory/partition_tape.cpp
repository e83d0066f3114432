#include "simulator/memory/partition_tape.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <set>
#include <string>
#include <utility>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

/// A layer's tape with the indices of its skips.
struct LayerPart {
    PlainTape tape;
    std::map<std::string, std::size_t> skips;
    Bytes statistics = 0;
};

class TapeComposer {
public:
    /// `leaving`: skips that later partitions pop. `is_part`: the gradient of the output is a part of a larger one.
    TapeComposer(std::vector<LayerPart> layers, std::set<std::size_t> leaving, bool in_halves, bool is_part)
        : layers_(std::move(layers)),
          leaving_(std::move(leaving)),
          in_halves_(in_halves),
          is_part_(is_part),
          kept_gradients_(layers_.size()) {}

    std::optional<PartitionTape> compose() {
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            if (!number_blocks(l)) {
                return std::nullopt;
            }
        }
        name_outputs();
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            count_holders(l);
        }
        play_forward(&PlainTape::forward, true, out_.forward_ends, &out_.needed_forward);
        play_forward(&PlainTape::checkpointed_forward, false, out_.checkpointed_ends, nullptr);
        play_recompute();
        for (std::size_t l = layers_.size(); l-- > 0;) {
            if (!play_backward(l)) {
                return std::nullopt;
            }
            out_.backward_ends.push_back(out_.tape.backward.size());
        }
        for (std::size_t l = layers_.size(); in_halves_ && l-- > 0;) {
            play_backward_weight(l);
            out_.backward_weight_ends.push_back(out_.tape.backward_weight.size());
        }
        name_input_gradients();
        return std::move(out_);
    }

private:
    using Numbers = std::vector<std::int32_t>;
    using Needed = std::map<std::int32_t, std::size_t>;

    std::int32_t add(Role role, Bytes bytes) {
        out_.tape.blocks.push_back({role, bytes});
        holders_.push_back(0);
        references_.push_back(0);
        keepers_.push_back(0);
        return static_cast<std::int32_t>(out_.tape.blocks.size());
    }
    TapeBlock& block(std::int32_t number) { return out_.tape.blocks[static_cast<std::size_t>(number) - 1]; }
    int& holders(std::int32_t number) { return holders_[static_cast<std::size_t>(number) - 1]; }
    int& references(std::int32_t number) { return references_[static_cast<std::size_t>(number)]; }
    int& keepers(std::int32_t number) { return keepers_[static_cast<std::size_t>(number)]; }
    std::int32_t& number_of(std::size_t l, std::int32_t number) {
        return numbers_[l][static_cast<std::size_t>(number) - 1];
    }
    const PlainTape& layer(std::size_t l) const { return layers_[l].tape; }
    std::size_t skip(std::size_t l, const std::string& name) const { return layers_[l].skips.at(name); }

    /// Numbers the layer's blocks within the partition. Gradients are numbered while the backward is played.
    bool number_blocks(std::size_t l) {
        Numbers& numbers = numbers_.emplace_back(layer(l).blocks.size(), 0);
        for (std::size_t b = 0; b < numbers.size(); ++b) {
            const TapeBlock& each = layer(l).blocks[b];
            const bool is_given = each.role == Role::input || each.role == Role::passed;
            if (is_given && l == 0) {
                numbers[b] = add(Role::input, each.bytes);
            } else if (each.role == Role::own || each.role == Role::output) {
                numbers[b] = add(Role::own, each.bytes);
            }
        }
        const Numbers blocks = inputs_of(layer(l));
        if (l > 0 && blocks.size() != handed_on_.size()) {
            return false;
        }
        for (std::size_t k = 0; k < blocks.size(); ++k) {
            std::int32_t& number = number_of(l, blocks[k]);
            number = l == 0 ? number : handed_on_[k];
        }
        inputs_.push_back(numbers_of(l, blocks));
        if (l == 0) {
            out_.inputs = inputs_.front();
        }
        number_skips(l);
        handed_on_ = numbers_of(l, outputs_of(layer(l)));
        return true;
    }
    Numbers numbers_of(std::size_t l, Numbers blocks) {
        for (std::int32_t& block : blocks) {
            block = block == 0 ? 0 : number_of(l, block);
        }
        return blocks;
    }
    void number_skips(std::size_t l) {
        Numbers& inputs = inputs_[l];
        for (const auto& [name, each] : layer(l).pop) {
            const auto known = values_.find(skip(l, name));
            if (each.value == 0) {
                continue;
            }
            std::int32_t& number = number_of(l, each.value);
            if (known != values_.end()) {
                number = number == 0 ? known->second : number;
                inputs.push_back(known->second);
            } else {
                number = number == 0 ? add(Role::skip, layer(l).blocks[static_cast<std::size_t>(each.value) - 1].bytes)
                                     : number;
                out_.popped[skip(l, name)] = values_[skip(l, name)] = number;
                inputs.push_back(number);
            }
        }
        for (const auto& [name, each] : layer(l).stash) {
            if (each.value != 0) {
                std::int32_t& number = number_of(l, each.value);
                number = number == 0 ? add(Role::own, layer(l).blocks[static_cast<std::size_t>(each.value) - 1].bytes)
                                     : number;
                values_[skip(l, name)] = number;
                if (leaving_.contains(skip(l, name))) {
                    out_.stashed[skip(l, name)] = number;
                }
            }
            stashed_here_[skip(l, name)] = l;
        }
    }

    void name_outputs() {
        out_.outputs = handed_on_;
        const auto leaves = [&](std::int32_t number) {
            if (number != 0) {
                Role& role = block(number).role;
                role = role == Role::own ? Role::output : role == Role::input ? Role::passed : role;
            }
        };
        std::ranges::for_each(handed_on_, leaves);
        for (const auto& [index, number] : out_.stashed) {
            leaves(number);
        }
        // Each block is freed behind the last layer that takes it.
        std::vector<bool> is_done(out_.tape.blocks.size(), false);
        done_.resize(layers_.size());
        for (std::size_t l = layers_.size(); l-- > 0;) {
            for (const std::int32_t number : inputs_[l]) {
                const auto at = static_cast<std::size_t>(number) - 1;
                if (!is_done[at] && block(number).role == Role::own) {
                    done_[l].push_back(number);
                }
                is_done[at] = true;
            }
        }
    }

    void count_holders(std::size_t l) {
        for (const auto* events : {&layer(l).backward, &layer(l).backward_weight}) {
            for (const std::int32_t event : *events) {
                if (event < 0 && is_value(l, -event)) {
                    ++holders(number_of(l, -event));
                }
            }
        }
    }
    /// True if the block is shared with others, so not the layer's own.
    bool is_value(std::size_t l, std::int32_t number) {
        const Role role = layer(l).blocks[static_cast<std::size_t>(number) - 1].role;
        return role == Role::input || role == Role::passed || role == Role::output ||
               (role == Role::skip && number_of(l, number) != 0 && !is_gradient(l, number));
    }
    bool is_gradient(std::size_t l, std::int32_t number) const {
        const Role role = layer(l).blocks[static_cast<std::size_t>(number) - 1].role;
        const auto of = [&](const auto& skips) {
            return std::ranges::any_of(skips, [&](const auto& each) { return each.second.gradient == number; });
        };
        return role == Role::output_gradient || role == Role::passed_gradient || role == Role::input_gradient ||
               of(layer(l).stash) || of(layer(l).pop);
    }

    /// A forward that leaves the running statistics unchanged: it holds copies of all of them.
    void play_recompute() {
        for (const LayerPart& part : layers_) {
            out_.statistics += part.statistics;
        }
        const std::int32_t copies = out_.statistics > 0 ? add(Role::own, out_.statistics) : 0;
        if (copies != 0) {
            out_.tape.recompute.push_back(copies);
        }
        play_forward(&PlainTape::recompute, true, out_.recompute_ends, &out_.needed_recompute);
        if (copies != 0) {
            out_.tape.recompute.push_back(-copies);
            ++out_.recompute_ends.back();
        }
    }
    void play_forward(Numbers PlainTape::*phase, bool keeps_graph, std::vector<std::size_t>& ends, Needed* needed) {
        Numbers& events = out_.tape.*phase;
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            for (const std::int32_t event : layer(l).*phase) {
                const std::int32_t number = number_of(l, std::abs(event));
                if (number != 0) {
                    events.push_back(event > 0 ? number : -number);
                }
            }
            for (const std::int32_t number : done_[l]) {
                if (!(keeps_graph && holders(number) > 0)) {
                    events.push_back(-number);
                }
            }
            if (needed != nullptr) {
                for (const std::int32_t number : inputs_[l]) {
                    (*needed)[number] = events.size();
                }
            }
            ends.push_back(events.size());
        }
    }

    /// A slot of the layer's backward that came from outside.
    struct Given {
        std::int32_t block;
        std::int32_t number;
    };

    bool play_backward(std::size_t l) {
        const bool is_top = l + 1 == layers_.size();
        const Numbers from_above = std::exchange(gradients_, {});
        for (std::size_t b = 0; b < layer(l).blocks.size(); ++b) {
            const auto& [role, bytes] = layer(l).blocks[b];
            if (role == Role::input_gradient) {
                numbers_[l][b] = add(Role::own, bytes);
            } else if (is_top && (role == Role::output_gradient || role == Role::passed_gradient)) {
                numbers_[l][b] = add(Role::output_gradient, bytes);
            }
        }
        const Numbers blocks = output_gradients_of(layer(l));
        if (is_top) {
            out_.output_gradients = numbers_of(l, blocks);
            std::ranges::for_each(out_.output_gradients, [this](std::int32_t number) { refer_to(number); });
        } else if (blocks.size() != from_above.size()) {
            return false;
        }
        std::vector<Given> given;
        for (std::size_t k = 0; k < blocks.size(); ++k) {
            given.push_back({blocks[k], is_top ? out_.output_gradients[k] : from_above[k]});
        }
        number_skip_gradients(l, given);
        for (const Given& each : given) {
            if (each.block != 0) {
                number_of(l, each.block) = each.number;
            }
        }
        hand_down(l);
        keep_gradients(l, given);
        play_backward_events(l, given);
        add_skip_gradients();
        return true;
    }
    void number_skip_gradients(std::size_t l, std::vector<Given>& given) {
        for (const auto& [name, each] : layer(l).stash) {
            if (each.gradient == 0) {
                continue;
            }
            const auto from_pop = skip_gradients_.find(skip(l, name));
            if (from_pop != skip_gradients_.end()) {
                given.push_back({each.gradient, from_pop->second});
                skip_gradients_.erase(from_pop);
            } else if (out_.stashed.contains(skip(l, name))) {
                given.push_back({each.gradient, gradient_from_above(l, name)});
            }
        }
        for (const auto& [name, each] : layer(l).pop) {
            if (each.gradient != 0 && layer(l).blocks[static_cast<std::size_t>(each.gradient) - 1].role == Role::skip) {
                number_of(l, each.gradient) =
                    add(Role::own, layer(l).blocks[static_cast<std::size_t>(each.gradient) - 1].bytes);
            }
        }
    }
    /// The gradient that later partitions give back for a skip of this layer.
    std::int32_t gradient_from_above(std::size_t l, const std::string& name) {
        const PlainTape::Skip& stashed = layer(l).stash.at(name);
        const std::int32_t number =
            add(Role::skip, layer(l).blocks[static_cast<std::size_t>(stashed.gradient) - 1].bytes);
        references(number) = 1;
        return out_.stash_gradients[skip(l, name)] = number;
    }
    std::int32_t refer_to(std::int32_t number) {
        references(number) += number == 0 ? 0 : 1;
        return number;
    }
    /// Passes gradients on to the layers below.
    void hand_down(std::size_t l) {
        gradients_ = numbers_of(l, input_gradients_of(layer(l)));
        std::ranges::for_each(gradients_, [this](std::int32_t number) { refer_to(number); });
        for (const auto& [name, each] : layer(l).pop) {
            if (each.gradient == 0) {
                continue;
            }
            const std::int32_t number = refer_to(number_of(l, each.gradient));
            if (number == 0) {
                continue;
            }
            const std::size_t index = skip(l, name);
            const auto stash = stashed_here_.find(index);
            auto& gradients = stash != stashed_here_.end() ? skip_gradients_ : out_.pop_gradients;
            if (&gradients == &skip_gradients_ && out_.stashed.contains(index) && !gradients.contains(index) &&
                layer(stash->second).stash.at(name).gradient != 0) {
                gradients[index] = gradient_from_above(stash->second, name);
            }
            if (const auto [first, is_new] = gradients.emplace(index, number); !is_new) {
                sums_.push_back({&first->second, number});
            }
        }
    }
    /// Adds the gradients that several layers have for one skip, as autograd does: in place to the first to arrive, if
    /// nothing else holds that gradient.
    void add_skip_gradients() {
        Numbers& events = out_.tape.backward;
        const auto drop = [&](std::int32_t number) {
            if (--references(number) == 0 && keepers(number) == 0) {
                events.push_back(-number);
            }
        };
        for (const auto& [sum, added] : sums_) {
            const std::int32_t first = *sum;
            const bool is_part = is_part_ && block(first).role == Role::output_gradient;
            if (references(first) != 1 || keepers(first) != 0 || is_part) {
                *sum = add(Role::own, block(first).bytes);
                events.push_back(*sum);
                references(*sum) = 1;
                drop(first);
            }
            drop(added);
        }
        sums_.clear();
    }

    /// Takes the gradients that the layer's second half needs out of `given`, and those that the layer makes itself.
    void keep_gradients(std::size_t l, std::vector<Given>& given) {
        std::set<std::int32_t> needed;
        for (const std::int32_t event : layer(l).backward_weight) {
            if (event < 0 && is_gradient(l, -event)) {
                needed.insert(-event);
            }
        }
        std::vector<Given>& kept = kept_gradients_[l];
        for (const std::int32_t block : needed) {
            const auto is_it = [&](const Given& each) { return each.block == block; };
            std::ranges::copy_if(given, std::back_inserter(kept), is_it);
            if (std::ranges::none_of(given, is_it) && number_of(l, block) != 0) {
                kept.push_back({block, refer_to(number_of(l, block))});
            }
            std::erase_if(given, is_it);
        }
        for (const Given& each : kept) {
            if (each.number != 0) {
                --references(each.number);
                ++keepers(each.number);
            }
        }
    }
    void play_backward_weight(std::size_t l) {
        std::vector<Given>& kept = kept_gradients_[l];
        Numbers& events = out_.tape.backward_weight;
        for (const std::int32_t event : layer(l).backward_weight) {
            const std::int32_t number = number_of(l, std::abs(event));
            if (event < 0 && is_gradient(l, -event)) {
                for (const Given& each : kept) {
                    if (each.block == -event && each.number != 0 && --keepers(each.number) == 0) {
                        events.push_back(-each.number);
                    }
                }
            } else if (number != 0 && !(event < 0 && is_value(l, -event) && --holders(number) > 0)) {
                events.push_back(event > 0 ? number : -number);
            }
        }
    }
    void play_backward_events(std::size_t l, std::vector<Given> left) {
        Numbers& events = out_.tape.backward;
        const auto drop = [&](const Given& each) {
            if (each.number != 0 && --references(each.number) == 0 && keepers(each.number) == 0) {
                events.push_back(-each.number);
            }
        };
        for (const std::int32_t event : layer(l).backward) {
            const std::int32_t number = number_of(l, std::abs(event));
            const auto slot = std::stable_partition(left.begin(), left.end(),
                                                    [&](const Given& each) { return each.block != -event; });
            if (slot != left.end()) {
                std::for_each(slot, left.end(), drop);
                left.erase(slot, left.end());
            } else if (number != 0 && !(event < 0 && is_value(l, -event) && --holders(number) > 0)) {
                events.push_back(event > 0 ? number : -number);
            }
        }
        std::ranges::for_each(left, drop);  // gradients of outputs that the layer does not mention
    }

    void name_input_gradients() {
        out_.input_gradients = gradients_;
        const auto leaves = [&](std::int32_t number) {
            if (number != 0) {
                Role& role = block(number).role;
                role = role == Role::own               ? Role::input_gradient
                       : role == Role::output_gradient ? Role::passed_gradient
                                                       : role;
            }
        };
        std::ranges::for_each(gradients_, leaves);
        for (const auto& [index, number] : out_.pop_gradients) {
            leaves(number);
        }
    }

    std::vector<LayerPart> layers_;
    std::set<std::size_t> leaving_;
    bool in_halves_;
    bool is_part_;
    std::vector<Numbers> numbers_;  // by layer and its block; 0: none
    std::vector<Numbers> inputs_;   // by layer: its inputs and pops
    std::vector<Numbers> done_;     // by layer: blocks that no later layer takes
    Numbers handed_on_;
    Numbers gradients_;
    std::map<std::size_t, std::int32_t> values_;          // of skips that a layer before has stashed or popped
    std::map<std::size_t, std::int32_t> skip_gradients_;  // popped but not yet at the layer that stashed it
    std::map<std::size_t, std::size_t> stashed_here_;     // to the layer
    struct Sum {
        std::int32_t* sum;
        std::int32_t added;
    };
    std::vector<Sum> sums_;                           // of gradients of skips, in this layer's backward
    std::vector<int> holders_;                        // by block: number of graphs that keep it
    std::vector<int> references_{0};                  // by number, 0 is none: backwards that a gradient waits for
    std::vector<int> keepers_{0};                     // likewise: second halves that it waits for
    std::vector<std::vector<Given>> kept_gradients_;  // by layer: for its second half
    PartitionTape out_;
};

bool same_events(const PlainTape& a, const PlainTape& b) {
    const auto same_roles = [](const TapeBlock& one, const TapeBlock& other) { return one.role == other.role; };
    return std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(), same_roles) &&
           a.forward == b.forward && a.checkpointed_forward == b.checkpointed_forward && a.recompute == b.recompute &&
           a.backward == b.backward && a.backward_weight == b.backward_weight && a.inputs == b.inputs &&
           a.outputs == b.outputs && a.output_gradients == b.output_gradients &&
           a.input_gradients == b.input_gradients && a.stash == b.stash && a.pop == b.pop;
}

/// True if the tape names every skip of the layer. A tape of an older profile does not.
bool names_skips(const PlainTape& tape, const LayerProfile& layer) {
    return std::ranges::all_of(layer.stash, [&](const auto& each) { return tape.stash.contains(each.first); }) &&
           std::ranges::all_of(layer.pop, [&](const std::string& name) { return tape.pop.contains(name); });
}

std::vector<LayerPart> parts_of(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                                std::vector<PlainTape> tapes) {
    std::vector<LayerPart> parts;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        LayerPart& part = parts.emplace_back(
            LayerPart{std::move(tapes[l - layers.first.index()]), {}, profile.layers[l].statistic_bytes});
        // The layer's own list decides. A tape with more skips belongs to another layer.
        std::erase_if(part.tape.stash, [&](const auto& each) { return !profile.layers[l].stash.contains(each.first); });
        std::erase_if(part.tape.pop, [&](const auto& each) {
            const std::vector<std::string>& pops = profile.layers[l].pop;
            return std::ranges::find(pops, each.first) == pops.end();
        });
        for (const auto* skips : {&part.tape.stash, &part.tape.pop}) {
            for (const auto& [name, each] : *skips) {
                const auto index = std::ranges::find(sized.skip_names, name) - sized.skip_names.begin();
                part.skips[name] = static_cast<std::size_t>(index);
            }
        }
    }
    return parts;
}

/// The skips that layers behind these pop.
std::set<std::size_t> popped_behind(const SizedProfile& sized, LayerRange layers) {
    std::set<std::size_t> leaving;
    for (std::size_t skip = 0; skip < sized.skip_layers.size(); ++skip) {
        if (sized.skip_layers[skip].pops.back() >= layers.end) {
            leaving.insert(skip);
        }
    }
    return leaving;
}

/// A split backward that was not recorded, estimated from the whole one. Without weights of its own a layer does
/// everything in the first half. With weights it keeps its graph for the second, and the gradients of its outputs.
PlainTape in_halves(PlainTape tape, bool has_weights) {
    if (!has_weights) {
        return tape;
    }
    std::set<std::int32_t> kept;
    for (const std::int32_t block : output_gradients_of(tape)) {
        if (block != 0 && tape.blocks[static_cast<std::size_t>(block) - 1].role != Role::skip) {
            kept.insert(block);
        }
    }
    std::set<std::int32_t> made;  // by the backward
    std::vector<std::int32_t> first;
    const auto is_skips_gradient = [&](std::int32_t block) {
        const auto of = [&](const auto& skips) {
            return std::ranges::any_of(skips, [&](const auto& each) { return each.second.gradient == block; });
        };
        return of(tape.stash) || of(tape.pop);
    };
    for (const std::int32_t event : tape.backward) {
        if (event > 0) {
            made.insert(event);
            first.push_back(event);
        } else if (kept.contains(-event)) {
            continue;
        } else if (made.contains(-event) || is_skips_gradient(-event)) {
            first.push_back(event);
        } else {
            tape.backward_weight.push_back(event);
        }
    }
    for (const std::int32_t block : kept) {
        tape.backward_weight.push_back(-block);
    }
    tape.backward = std::move(first);
    return tape;
}

bool has_halves(const LayerTape& tape, TapeVariant variant) {
    variant.halves = false;
    return tape.empty() || !variant_of(tape, variant).halves.empty();
}
}  // namespace

std::optional<PlainTape> recorded_tape(const Profile& profile, const SizedProfile& sized, LayerId layer,
                                       TapeVariant variant) {
    const std::vector<LayerTape>& tapes = profile.layers[layer.index()].tape;
    if (tapes.empty()) {
        return std::nullopt;
    }
    if (variant.halves &&
        !std::ranges::all_of(tapes, [&](const LayerTape& each) { return has_halves(each, variant); })) {
        auto whole = recorded_tape(profile, sized, layer, {variant.gathered, variant.all_gradients});
        return whole ? std::optional(in_halves(*std::move(whole), has_weight_half(profile.layers[layer.index()])))
                     : std::nullopt;
    }
    const auto tape_at = [&](std::size_t size) -> const LayerTape& { return variant_of(tapes[size], variant); };
    const auto above = std::lower_bound(profile.samples.begin(), profile.samples.end(), sized.samples);
    auto at = static_cast<std::size_t>(above - profile.samples.begin());
    if (at < tapes.size() && profile.samples[at] == sized.samples) {
        return tapes[at].empty() ? std::nullopt : std::optional<PlainTape>(tape_at(at));
    }
    // Outside the measured sizes, extrapolates from the two nearest, as for every other number.
    at = std::clamp<std::size_t>(at, 1, std::max<std::size_t>(1, tapes.size() - 1));
    if (at >= tapes.size() || tapes[at - 1].empty() || !same_events(tape_at(at - 1), tape_at(at))) {
        return std::nullopt;
    }
    PlainTape between = tape_at(at);
    const double share = static_cast<double>(sized.samples - profile.samples[at - 1]) /
                         static_cast<double>(profile.samples[at] - profile.samples[at - 1]);
    for (std::size_t b = 0; b < between.blocks.size(); ++b) {
        between.blocks[b].bytes =
            std::clamp<Bytes>(rounded_bytes(std::lerp(static_cast<double>(tape_at(at - 1).blocks[b].bytes),
                                                      static_cast<double>(tape_at(at).blocks[b].bytes), share)),
                              0, kMostProfileBytes);
    }
    return between;
}

PlainTape tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerId layer, bool split) {
    const LayerProfile& from = profile.layers[layer.index()];
    const std::size_t l = layer.index();
    const Bytes input = l == 0 ? sized.input : sized.output[l - 1];
    const bool aliases = from.aliases_input;
    const bool passes = aliases || from.passes_gradient;
    // A stash's gradient is added into a new storage; the layer's transient bytes cover it until then.
    const bool sums = !from.stash.empty();
    PlainTape tape;
    const auto add = [&](Role role, Bytes bytes) {
        tape.blocks.push_back({role, bytes});
        return static_cast<std::int32_t>(tape.blocks.size());
    };
    const std::int32_t given = add(aliases ? Role::passed : Role::input, input);
    const std::int32_t output = aliases ? given : add(Role::output, sized.output[l]);
    const std::int32_t saved = add(Role::own, sized.saved[l]);
    const std::int32_t transient = add(Role::own, sized.transient[l]);
    const std::int32_t gradient =
        add(passes && !sums && l > 0 ? Role::passed_gradient : Role::output_gradient, sized.output[l]);
    const std::int32_t input_gradient = l > 0 && (!passes || sums) ? add(Role::input_gradient, input) : 0;

    tape.forward = {saved, transient};
    tape.checkpointed_forward = tape.forward;  // a layer makes what it would save, and frees it at its end
    for (std::vector<std::int32_t>* phase : {&tape.forward, &tape.checkpointed_forward}) {
        if (!aliases) {
            phase->push_back(output);
        }
    }
    std::vector<std::int32_t> kept;
    std::vector<std::int32_t> made;  // gradients made while the transient bytes are held
    for (std::size_t k = 0; k < sized.skips.size(); ++k) {
        const std::string& name = sized.skip_names[k];
        const bool has_gradient = sized.has_gradient[k];
        if (sized.skip_layers[k].stash == layer) {
            const std::int32_t value = aliases ? given : add(Role::skip, sized.skips[k]);
            tape.stash[name] = {value, has_gradient ? add(Role::skip, sized.skips[k]) : 0};
            if (!aliases) {
                tape.forward.push_back(value);
                tape.checkpointed_forward.push_back(value);
            }
        }
        if (std::ranges::binary_search(sized.skip_layers[k].pops, layer)) {
            const std::int32_t value = add(Role::skip, sized.skips[k]);
            tape.pop[name] = {value, !has_gradient          ? 0
                                     : from.passes_gradient ? gradient
                                                            : add(Role::skip, sized.skips[k])};
            if (!from.passes_gradient) {
                kept.push_back(-value);
                if (has_gradient) {
                    made.push_back(tape.pop[name].gradient);
                }
            }
        }
    }
    tape.forward.push_back(-transient);
    tape.checkpointed_forward.insert(tape.checkpointed_forward.end(), {-transient, -saved});
    tape.backward = {transient};
    tape.backward.insert(tape.backward.end(), made.begin(), made.end());
    if (input_gradient != 0 && passes) {
        tape.backward.push_back(-transient);
        tape.backward.push_back(input_gradient);
    } else {
        if (input_gradient != 0) {
            tape.backward.push_back(input_gradient);
        }
        tape.backward.push_back(-transient);
    }
    tape.backward.push_back(-saved);
    tape.backward.insert(tape.backward.end(), kept.begin(), kept.end());
    if (from.keeps_input || (from.keeps_output && aliases)) {
        tape.backward.push_back(-given);
    }
    if (from.keeps_output && !aliases) {
        tape.backward.push_back(-output);
    }
    tape.recompute = tape.forward;
    if (split && has_weight_half(from)) {
        tape = in_halves(std::move(tape), true);
        tape.backward_weight.insert(tape.backward_weight.begin(), {transient, -transient});
    }
    return tape;
}

std::optional<PartitionTape> recorded_partition_tape(const Profile& profile, const SizedProfile& sized,
                                                     LayerRange layers, TapeVariant variant) {
    std::vector<PlainTape> tapes;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        std::optional<PlainTape> tape = recorded_tape(profile, sized, LayerId{static_cast<std::int64_t>(l)}, variant);
        if (!tape || !names_skips(*tape, profile.layers[l])) {
            return std::nullopt;
        }
        tapes.push_back(*std::move(tape));
    }
    const bool is_part = variant.gathered && layers.end.index() == profile.layers.size();
    return TapeComposer(parts_of(profile, sized, layers, std::move(tapes)), popped_behind(sized, layers),
                        variant.halves, is_part)
        .compose();
}

PartitionTape partition_tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerRange layers,
                                        bool split) {
    std::vector<PlainTape> tapes;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        tapes.push_back(tape_from_bytes(profile, sized, LayerId{static_cast<std::int64_t>(l)}, split));
    }
    return TapeComposer(parts_of(profile, sized, layers, std::move(tapes)), popped_behind(sized, layers), split, false)
        .compose()
        .value();
}
}  // namespace pipescope
