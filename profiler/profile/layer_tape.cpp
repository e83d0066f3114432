#include "profiler/profile/layer_tape.h"

#include "profiler/profile/profile.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

/// Tracks the live blocks during a walk over a tape's events.
class TapeCheck {
public:
    TapeCheck(const PlainTape& tape, const std::string& path) : tape_(tape), path_(path), held_(tape.blocks.size()) {}

    void start_forward() { std::fill(held_.begin(), held_.end(), false); }
    void start_backward() {
        for (std::size_t b = 0; b < held_.size(); ++b) {
            const Role role = tape_.blocks[b].role;
            held_[b] = held_[b] || role == Role::input || role == Role::passed || role == Role::output_gradient ||
                       role == Role::passed_gradient;
        }
    }

    void forward(const char* phase, const std::vector<std::int32_t>& events) {
        start_forward();
        walk(phase, events, {Role::own, Role::output}, {Role::own});
        for (std::size_t b = 0; b < held_.size(); ++b) {
            if (tape_.blocks[b].role == Role::output && !held_[b]) {
                refuse(phase, "never takes the output, block " + std::to_string(b + 1),
                       "every forward makes its outputs");
            }
        }
    }
    void backward(bool in_halves) {
        start_backward();
        walk("backward", tape_.backward, {Role::own, Role::input_gradient},
             {Role::own, Role::input, Role::passed, Role::output, Role::output_gradient});
        if (in_halves) {
            walk("backward_weight", tape_.backward_weight, {Role::own},
                 {Role::own, Role::input, Role::passed, Role::output, Role::output_gradient, Role::input_gradient,
                  Role::passed_gradient});
        } else if (!tape_.backward_weight.empty()) {
            refuse("backward_weight", "is there", "only the tape of a split backward has it, halves");
        }
        require_no_own(in_halves ? "backward_weight" : "backward", "backward lets go of all that the forward saved");
    }
    void require_no_own(const char* phase, const char* rule) {
        if (const auto own = own_held(); !own.empty()) {
            refuse(phase, "still holds block " + std::to_string(own.front() + 1) + " at its end", rule);
        }
    }
    std::vector<std::size_t> own_held() const {
        std::vector<std::size_t> own;
        for (std::size_t b = 0; b < held_.size(); ++b) {
            if (held_[b] && tape_.blocks[b].role == Role::own) {
                own.push_back(b);
            }
        }
        return own;
    }
    [[noreturn]] void refuse(const std::string& where, const std::string& fault, const char* rule) const {
        throw ProfileError(path_ + "." + where + " " + fault + "; " + rule + "; record the tapes again");
    }

private:
    void walk(const char* phase, const std::vector<std::int32_t>& events, std::initializer_list<Role> taken,
              std::initializer_list<Role> let_go) {
        for (std::size_t k = 0; k < events.size(); ++k) {
            const std::int64_t event = events[k];
            const std::string where = std::string(phase) + "[" + std::to_string(k) + "]";
            const auto number = static_cast<std::size_t>(event < 0 ? -event : event);
            if (number == 0 || number > tape_.blocks.size()) {
                refuse(where, "is " + std::to_string(event), "an event is the number of a block, from 1, or minus it");
            }
            const Role role = tape_.blocks[number - 1].role;
            if (role == Role::skip) {
                continue;
            }
            const std::initializer_list<Role>& allowed = event > 0 ? taken : let_go;
            if (std::ranges::find(allowed, role) == allowed.end()) {
                refuse(where,
                       (event > 0 ? "takes the " : "lets go of the ") + to_string(role) + " block " +
                           std::to_string(number),
                       "only own blocks and outputs are taken in a forward, own blocks and input gradients in the "
                       "backward, and inputs and outputs are let go in the backward");
            }
            if (held_[number - 1] == (event > 0)) {
                refuse(where,
                       (event > 0 ? "takes block " : "lets go of block ") + std::to_string(number) +
                           (event > 0 ? ", which is held" : ", which is not held"),
                       "a block is taken once and let go once");
            }
            held_[number - 1] = event > 0;
        }
    }

    const PlainTape& tape_;
    const std::string& path_;
    std::vector<bool> held_;
};
std::vector<std::int32_t> list_or_roles(const PlainTape& tape, const std::vector<std::int32_t>& list, Role one,
                                        Role other) {
    if (!list.empty()) {
        return list;
    }
    std::vector<std::int32_t> blocks;
    for (std::size_t b = 0; b < tape.blocks.size(); ++b) {
        if (tape.blocks[b].role == one || tape.blocks[b].role == other) {
            blocks.push_back(static_cast<std::int32_t>(b + 1));
        }
    }
    return blocks;
}
}  // namespace

std::vector<std::int32_t> inputs_of(const PlainTape& tape) {
    return list_or_roles(tape, tape.inputs, Role::input, Role::passed);
}
std::vector<std::int32_t> outputs_of(const PlainTape& tape) {
    return list_or_roles(tape, tape.outputs, Role::output, Role::passed);
}
std::vector<std::int32_t> output_gradients_of(const PlainTape& tape) {
    return list_or_roles(tape, tape.output_gradients, Role::output_gradient, Role::passed_gradient);
}
std::vector<std::int32_t> input_gradients_of(const PlainTape& tape) {
    return list_or_roles(tape, tape.input_gradients, Role::input_gradient, Role::passed_gradient);
}

const LayerTape& variant_of(const LayerTape& tape, TapeVariant variant) {
    const LayerTape& one = variant.all_gradients && !tape.all_gradients.empty() ? tape.all_gradients.front() : tape;
    const LayerTape& other = variant.gathered && !one.gathered.empty() ? one.gathered.front() : one;
    return variant.halves && !other.halves.empty() ? other.halves.front() : other;
}

std::string to_string(TapeBlock::Role role) {
    constexpr std::array<std::string_view, 8> kNames = {
        "own", "input", "output", "passed", "output_gradient", "input_gradient", "passed_gradient", "skip"};
    return std::string(kNames.at(static_cast<std::size_t>(role)));
}

std::vector<std::int32_t> forward_that_keeps_nothing(const PlainTape& tape) {
    std::vector<bool> held(tape.blocks.size());
    for (const std::int32_t event : tape.forward) {
        const auto block = static_cast<std::size_t>(event < 0 ? -event : event) - 1;
        if (block < held.size() && tape.blocks[block].role == Role::own) {
            held[block] = event > 0;
        }
    }
    std::vector<std::int32_t> events = tape.forward;
    for (std::size_t b = 0; b < held.size(); ++b) {
        if (held[b]) {
            events.push_back(-static_cast<std::int32_t>(b + 1));
        }
    }
    return events;
}

namespace {
/// Which variants a tape may hold, and whether it is that of a split backward.
struct MayHave {
    bool gathered = true;
    bool all_gradients = true;
    bool halves = true;
};

void check_tape(const LayerTape& tape, const std::string& path, MayHave may, bool in_halves) {
    for (std::size_t b = 0; b < tape.blocks.size(); ++b) {
        const Bytes bytes = tape.blocks[b].bytes;
        if (bytes < 0 || bytes > kMostProfileBytes) {
            throw ProfileError(path + ".blocks[" + std::to_string(b) + "] has " + std::to_string(bytes) +
                               " bytes; a block has from 0 to 2^50; record the tapes again");
        }
    }
    const auto check_number = [&](const std::string& where, std::int32_t number) {
        if (number < 0 || static_cast<std::size_t>(number) > tape.blocks.size()) {
            throw ProfileError(path + "." + where + " is " + std::to_string(number) +
                               "; it is the number of a block, from 1, or 0 for none; record the tapes again");
        }
    };
    for (const auto& [name, list] :
         {std::pair("inputs", &tape.inputs), std::pair("outputs", &tape.outputs),
          std::pair("output_gradients", &tape.output_gradients), std::pair("input_gradients", &tape.input_gradients)}) {
        const bool may_be_none = list == &tape.output_gradients || list == &tape.input_gradients;
        for (std::size_t k = 0; k < list->size(); ++k) {
            const std::string where = std::string(name) + "[" + std::to_string(k) + "]";
            check_number(where, (*list)[k]);
            if ((*list)[k] == 0 && !may_be_none) {
                throw ProfileError(path + "." + where +
                                   " is 0; a tensor has a block, from 1; leave it out, or record the tapes again");
            }
        }
    }
    for (const auto& [name, skip] : tape.stash) {
        check_number("stash." + name,
                     std::min(skip.value, skip.gradient) < 0 ? -1 : std::max(skip.value, skip.gradient));
    }
    for (const auto& [name, skip] : tape.pop) {
        check_number("pop." + name, std::min(skip.value, skip.gradient) < 0 ? -1 : std::max(skip.value, skip.gradient));
    }
    const auto check_variant = [&](const char* name, const std::vector<LayerTape>& tapes, bool may_be_there,
                                   MayHave may_have, bool is_in_halves) {
        if (tapes.size() > (may_be_there ? 1 : 0)) {
            throw ProfileError(path + (may_be_there ? "." + std::string(name) : "") +
                               " holds more than one tape; it is one variant of the tape; record the tapes again");
        }
        for (const LayerTape& each : tapes) {
            check_tape(each, path + "." + name, may_have, is_in_halves);
        }
    };
    check_variant("gathered", tape.gathered, may.gathered, {false, false, false}, false);
    check_variant("all_gradients", tape.all_gradients, may.all_gradients, {true, false, may.halves}, false);
    check_variant("halves", tape.halves, may.halves, {false, false, false}, true);
    TapeCheck check(tape, path);
    check.forward("checkpointed_forward", tape.checkpointed_forward);
    check.require_no_own("checkpointed_forward", "a checkpointed forward keeps nothing but its input and output");
    check.forward("forward", tape.forward);
    const std::vector<std::size_t> saved = check.own_held();
    check.forward("recompute", tape.recompute);
    if (check.own_held() != saved) {
        check.refuse("recompute", "leaves other blocks than forward does", "both save the same for the backward");
    }
    check.backward(in_halves);
}
}  // namespace

void check_tape(const LayerTape& tape, const std::string& path) {
    check_tape(tape, path, {}, false);
}
}  // namespace pipescope
