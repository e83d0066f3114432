#include "simulator/partition_tape.h"

#include <algorithm>
#include <cmath>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

class TapeComposer {
public:
    explicit TapeComposer(std::vector<LayerTape> layers) : layers_(std::move(layers)) {}

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
        out_.input_needed_forward = play_forward(&LayerTape::forward, true, out_.forward_ends);
        play_forward(&LayerTape::checkpointed_forward, false, out_.checkpointed_ends);
        out_.input_needed_recompute = play_forward(&LayerTape::recompute, true, out_.recompute_ends);
        for (std::size_t l = layers_.size(); l-- > 0;) {
            if (!play_backward(l)) {
                return std::nullopt;
            }
            out_.backward_ends.push_back(out_.tape.backward.size());
        }
        return std::move(out_);
    }

private:
    using Numbers = std::vector<std::int32_t>;

    std::int32_t add(Role role, Bytes bytes) {
        out_.tape.blocks.push_back({role, bytes});
        holders_.push_back(0);
        return static_cast<std::int32_t>(out_.tape.blocks.size());
    }
    TapeBlock& block(std::int32_t number) { return out_.tape.blocks[static_cast<std::size_t>(number) - 1]; }
    int& holders(std::int32_t number) { return holders_[static_cast<std::size_t>(number) - 1]; }

    /// Gives the layer's blocks their numbers in the partition; gradients get theirs while the backward is played.
    bool number_blocks(std::size_t l) {
        Numbers& numbers = numbers_.emplace_back();
        const Numbers given = std::move(handed_on_);
        handed_on_.clear();
        std::size_t taken = 0;
        for (const TapeBlock& each : layers_[l].blocks) {
            std::int32_t number = 0;
            if (each.role == Role::input || each.role == Role::passed) {
                if (l > 0 && taken >= given.size()) {
                    return false;
                }
                number = l == 0 ? add(Role::input, each.bytes) : given[taken];
                ++taken;
            } else if (each.role == Role::own || each.role == Role::output) {
                number = add(Role::own, each.bytes);
            }
            if (each.role == Role::output || each.role == Role::passed) {
                handed_on_.push_back(number);
            }
            numbers.push_back(number);
        }
        inputs_.push_back(l == 0 ? Numbers{} : given);
        return l == 0 || taken == given.size();
    }

    void name_outputs() {
        for (const std::int32_t number : handed_on_) {
            Role& role = block(number).role;
            role = role == Role::own ? Role::output : role == Role::input ? Role::passed : role;
        }
        for (std::size_t l = 0; l + 1 < layers_.size(); ++l) {
            handed_to_.push_back(inputs_[l + 1]);
        }
        handed_to_.push_back(handed_on_);
    }

    void count_holders(std::size_t l) {
        for (const std::int32_t event : layers_[l].backward) {
            if (event < 0 && is_handed(l, -event)) {
                ++holders(number_of(l, -event));
            }
        }
    }
    bool is_handed(std::size_t l, std::int32_t number) const {
        const Role role = layers_[l].blocks[static_cast<std::size_t>(number) - 1].role;
        return role == Role::input || role == Role::passed || role == Role::output;
    }
    std::int32_t number_of(std::size_t l, std::int32_t number) const {
        return numbers_[l][static_cast<std::size_t>(number) - 1];
    }

    /// Returns how many events there are when the partition's input is not worked on any more.
    std::size_t play_forward(Numbers LayerTape::*phase, bool keeps_graph, std::vector<std::size_t>& ends) {
        Numbers& events = out_.tape.*phase;
        std::size_t input_needed = 0;
        for (std::size_t l = 0; l < layers_.size(); ++l) {
            for (const std::int32_t event : layers_[l].*phase) {
                const std::int32_t number = number_of(l, std::abs(event));
                if (number != 0) {
                    events.push_back(event > 0 ? number : -number);
                }
            }
            for (const std::int32_t number : inputs_[l]) {
                const bool goes_on =
                    std::find(handed_to_[l].begin(), handed_to_[l].end(), number) != handed_to_[l].end();
                if (!goes_on && block(number).role == Role::own && !(keeps_graph && holders(number) > 0)) {
                    events.push_back(-number);
                }
            }
            const bool works_on_input =
                l == 0 || std::any_of(inputs_[l].begin(), inputs_[l].end(), [&](std::int32_t number) {
                    return block(number).role == Role::input || block(number).role == Role::passed;
                });
            input_needed = works_on_input ? events.size() : input_needed;
            ends.push_back(events.size());
        }
        return input_needed;
    }

    bool play_backward(std::size_t l) {
        const bool is_top = l + 1 == layers_.size();
        const Numbers given = std::move(gradients_);
        gradients_.clear();
        std::size_t taken = 0;
        Numbers& numbers = numbers_[l];
        for (std::size_t b = 0; b < numbers.size(); ++b) {
            const auto& [role, bytes] = layers_[l].blocks[b];
            if (role == Role::output_gradient || role == Role::passed_gradient) {
                if (!is_top && taken >= given.size()) {
                    return false;
                }
                numbers[b] = is_top ? add(Role::output_gradient, bytes) : given[taken];
                ++taken;
            } else if (role == Role::input_gradient) {
                numbers[b] = add(l == 0 ? Role::input_gradient : Role::own, bytes);
            }
            if (role == Role::input_gradient || role == Role::passed_gradient) {
                gradients_.push_back(numbers[b]);
            }
        }
        if (!is_top && taken != given.size()) {
            return false;
        }
        play_backward_events(l, given);
        return true;
    }

    void play_backward_events(std::size_t l, Numbers left) {
        Numbers& events = out_.tape.backward;
        for (const std::int32_t event : layers_[l].backward) {
            const std::int32_t number = number_of(l, std::abs(event));
            if (number == 0 || (event < 0 && is_handed(l, -event) && --holders(number) > 0)) {
                continue;
            }
            events.push_back(event > 0 ? number : -number);
            std::erase(left, event < 0 ? number : 0);
        }
        for (const std::int32_t number : left) {  // gradients of outputs that the layer said nothing of
            const bool goes_on = std::find(gradients_.begin(), gradients_.end(), number) != gradients_.end();
            if (!goes_on) {
                events.push_back(-number);
            } else if (l == 0) {
                block(number).role = block(number).role == Role::own ? Role::input_gradient : Role::passed_gradient;
            }
        }
    }

    std::vector<LayerTape> layers_;
    std::vector<Numbers> numbers_;    // by layer and its block; 0: skips
    std::vector<Numbers> inputs_;     // by layer: what it is handed; the first layer's are the partition's
    std::vector<Numbers> handed_to_;  // by layer: what it hands on
    Numbers handed_on_;
    Numbers gradients_;
    std::vector<int> holders_;  // graphs that keep a block
    PartitionTape out_;
};

bool same_events(const LayerTape& a, const LayerTape& b) {
    return a.blocks.size() == b.blocks.size() && a.forward == b.forward &&
           a.checkpointed_forward == b.checkpointed_forward && a.recompute == b.recompute && a.backward == b.backward;
}
}  // namespace

std::optional<LayerTape> recorded_tape(const Profile& profile, const SizedProfile& sized, LayerId layer) {
    const std::vector<LayerTape>& tapes = profile.layers[layer.index()].tape;
    if (tapes.empty()) {
        return std::nullopt;
    }
    const auto above = std::lower_bound(profile.samples.begin(), profile.samples.end(), sized.samples);
    const auto at = static_cast<std::size_t>(above - profile.samples.begin());
    if (at == tapes.size() || tapes[at].empty()) {
        return std::nullopt;
    }
    if (profile.samples[at] == sized.samples) {
        return tapes[at];
    }
    if (at == 0 || tapes[at - 1].empty() || !same_events(tapes[at - 1], tapes[at])) {
        return std::nullopt;
    }
    LayerTape between = tapes[at];
    const double share = static_cast<double>(sized.samples - profile.samples[at - 1]) /
                         static_cast<double>(profile.samples[at] - profile.samples[at - 1]);
    for (std::size_t b = 0; b < between.blocks.size(); ++b) {
        if (between.blocks[b].role != tapes[at - 1].blocks[b].role) {
            return std::nullopt;
        }
        between.blocks[b].bytes = std::llround(std::lerp(static_cast<double>(tapes[at - 1].blocks[b].bytes),
                                                         static_cast<double>(tapes[at].blocks[b].bytes), share));
    }
    return between;
}

LayerTape tape_from_bytes(const Profile& profile, const SizedProfile& sized, LayerId layer) {
    const LayerProfile& from = profile.layers[layer.index()];
    const std::size_t l = layer.index();
    const Bytes input = l == 0 ? sized.input : sized.output[l - 1];
    // Blocks: 1 input, or passed; 2 output; 3 saved; 4 transient; 5 gradient of the output; 6 of the input.
    LayerTape tape;
    const bool aliases = from.aliases_input;
    tape.blocks = {{aliases ? Role::passed : Role::input, input},
                   {Role::output, sized.output[l]},
                   {Role::own, sized.saved[l]},
                   {Role::own, sized.transient[l]},
                   {aliases ? Role::passed_gradient : Role::output_gradient, sized.output[l]},
                   {Role::input_gradient, input}};
    if (aliases) {
        tape.blocks[1].role = tape.blocks[5].role = Role::skip;  // there is none
    }
    tape.forward = {3, 4, 2, -4};
    tape.checkpointed_forward = {4, 2, -4};
    tape.backward = {4};
    if (l > 0 && !aliases) {
        tape.backward.push_back(6);
    } else {
        tape.blocks[5].role = Role::skip;
    }
    tape.backward.insert(tape.backward.end(), {-4, -3});
    if (from.keeps_input) {
        tape.backward.push_back(-1);
    }
    if (from.keeps_output && !aliases) {
        tape.backward.push_back(-2);
    }
    tape.recompute = tape.forward;
    return tape;
}

std::optional<PartitionTape> recorded_partition_tape(const Profile& profile, const SizedProfile& sized,
                                                     LayerRange layers) {
    std::vector<LayerTape> tapes;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        std::optional<LayerTape> tape = recorded_tape(profile, sized, LayerId{static_cast<std::int64_t>(l)});
        if (!tape) {
            return std::nullopt;
        }
        tapes.push_back(*std::move(tape));
    }
    return TapeComposer(std::move(tapes)).compose();
}

PartitionTape partition_tape(const Profile& profile, const SizedProfile& sized, LayerRange layers) {
    if (auto recorded = recorded_partition_tape(profile, sized, layers)) {
        return *std::move(recorded);
    }
    std::vector<LayerTape> tapes;
    for (std::size_t l = layers.first.index(); l < layers.end.index(); ++l) {
        tapes.push_back(tape_from_bytes(profile, sized, LayerId{static_cast<std::int64_t>(l)}));
    }
    return TapeComposer(std::move(tapes)).compose().value();
}
}  // namespace pipescope
