#include "simulator/memory/task_work.h"

#include <algorithm>
#include <cstdlib>

namespace pipescope {
namespace {
using Role = TapeBlock::Role;

std::size_t at(std::int32_t block) {
    return static_cast<std::size_t>(std::abs(block)) - 1;
}

/// Share of the task's time that has passed at each layer's end; equal shares if no layer takes time.
std::vector<double> ends_of(std::vector<double> times) {
    double sum = 0;
    for (double& each : times) {
        each = sum += each;
    }
    for (std::size_t k = 0; k < times.size(); ++k) {
        times[k] = sum > 0 ? times[k] / sum : static_cast<double>(k + 1) / static_cast<double>(times.size());
    }
    return times;
}

std::vector<double> of_layers(const std::vector<double>& times, LayerRange layers) {
    return {times.begin() + static_cast<std::ptrdiff_t>(layers.first.index()),
            times.begin() + static_cast<std::ptrdiff_t>(layers.end.index())};
}

bool is_backward(PartitionWork::Phase phase) {
    return phase == PartitionWork::Phase::backward || phase == PartitionWork::Phase::backward_weight;
}

void raise(WorkPart& part, const WorkPeak& here) {
    part.peak = here.total() > part.peak.total() ? here : part.peak;
}
}  // namespace

PartitionWork::PartitionWork(const SizedProfile& sized, LayerRange layers, PartitionTape tape, bool split)
    : tape_(std::move(tape)), is_split_(split) {
    const std::size_t blocks = tape_.tape.blocks.size();
    kept_.assign(blocks, false);
    survives_.assign(blocks, false);
    is_skip_.assign(blocks, false);
    for (const std::int32_t event : tape_.tape.forward) {
        survives_[at(event)] = event > 0 && tape_.tape.blocks[at(event)].role == Role::own;
    }
    for (std::size_t b = 0; b < blocks; ++b) {
        graph_ += survives_[b] ? tape_.tape.blocks[b].bytes : 0;
    }
    for (const auto* skips : {&tape_.popped, &tape_.stash_gradients}) {
        for (const auto& [index, block] : *skips) {
            is_skip_[at(block)] = tape_.tape.blocks[at(block)].role == Role::skip;
        }
    }
    for (const auto* events : {&tape_.tape.backward, &tape_.tape.backward_weight}) {
        for (const std::int32_t event : *events) {
            const Role role = tape_.tape.blocks[at(event)].role;
            const bool is_value =
                role == Role::input || role == Role::passed || role == Role::output ||
                (role == Role::skip &&
                 std::ranges::none_of(tape_.stash_gradients, [&](const auto& each) { return each.second == -event; }));
            kept_[at(event)] = kept_[at(event)] || (event < 0 && is_value);
        }
    }
    look_between(blocks);
    std::vector<double> weight = of_layers(sized.backward_weight, layers);
    std::vector<double> backward = of_layers(sized.backward, layers);
    for (std::size_t k = 0; is_split_ && k < backward.size(); ++k) {
        backward[k] -= weight[k];
    }
    std::ranges::reverse(weight);
    std::ranges::reverse(backward);
    ends_ = {ends_of(of_layers(sized.forward, layers)), ends_of(of_layers(sized.kept_forward, layers)),
             ends_of(of_layers(sized.recompute, layers)), ends_of(std::move(backward)), ends_of(std::move(weight))};
}

/// Finds what stays from the first half of a split backward to the second.
void PartitionWork::look_between(std::size_t blocks) {
    survives_between_ = survives_;
    for (const std::int32_t event : tape_.tape.backward) {
        survives_between_[at(event)] = event > 0 && tape_.tape.blocks[at(event)].role == Role::own;
    }
    kept_between_.assign(blocks, false);
    for (const std::int32_t event : tape_.tape.backward_weight) {
        kept_between_[at(event)] =
            kept_between_[at(event)] || (event < 0 && tape_.tape.blocks[at(event)].role != Role::own);
    }
    for (std::size_t b = 0; b < blocks; ++b) {
        graph_between_ += survives_between_[b] ? tape_.tape.blocks[b].bytes : 0;
    }
}

const std::vector<WorkPart>& PartitionWork::parts(Phase phase, const std::vector<Going>& going) {
    const Known::value_type*& latest = latest_[static_cast<std::size_t>(phase)];
    if (latest != nullptr && latest->first == going) {
        return latest->second;
    }
    const auto [place, is_new] = known_[static_cast<std::size_t>(phase)].try_emplace(going);
    latest = &*place;
    if (is_new) {
        std::vector<WorkPart>& parts = place->second;
        const std::vector<double>& ends = ends_[static_cast<std::size_t>(phase)];
        WorkPeak now;
        const auto start_layers = [&](std::size_t layer) {
            while (parts.size() <= layer) {
                parts.push_back({ends[parts.size()], now});
            }
        };
        for (const Event& event : events(phase, going)) {
            start_layers(event.layer);
            const std::int32_t block = std::abs(event.block);
            held_as(now, phase, block) += event.going       ? -going[*event.going].bytes
                                          : event.block > 0 ? bytes(block)
                                                            : -bytes(block);
            raise(parts.back(), now);
        }
        start_layers(ends.size() - 1);
    }
    return place->second;
}

/// The category of a block while a task of that phase runs.
Bytes& PartitionWork::held_as(WorkPeak& peak, Phase phase, std::int32_t block) const {
    if (is_skip_[at(block)]) {
        return peak.skip;
    }
    switch (role(block)) {
        case Role::input:
        case Role::passed: return peak.boundary;
        case Role::output_gradient:
        case Role::passed_gradient: return peak.gradient;
        case Role::own: {
            const bool is_saved = phase == Phase::backward_weight
                                      ? survives_between_[at(block)]
                                      : survives_[at(block)] && phase != Phase::checkpointed_forward;
            return is_saved ? peak.saved : peak.transient;
        }
        case Role::output: return is_backward(phase) ? peak.saved : peak.transient;
        case Role::input_gradient: return phase == Phase::backward_weight ? peak.gradient : peak.transient;
        default: return peak.transient;
    }
}

std::vector<PartitionWork::Event> PartitionWork::events(Phase phase, const std::vector<Going>& going) const {
    return is_backward(phase) ? backward_events(phase, going) : forward_events(phase, going);
}

std::vector<PartitionWork::Event> PartitionWork::forward_events(Phase phase, const std::vector<Going>& going) const {
    const bool is_recompute = phase == Phase::recompute;
    const std::vector<std::int32_t>& tape = phase == Phase::forward ? tape_.tape.forward
                                            : is_recompute          ? tape_.tape.recompute
                                                                    : tape_.tape.checkpointed_forward;
    const std::vector<std::size_t>& ends = phase == Phase::forward ? tape_.forward_ends
                                           : is_recompute          ? tape_.recompute_ends
                                                                   : tape_.checkpointed_ends;
    const std::map<std::int32_t, std::size_t>& needed = is_recompute ? tape_.needed_recompute : tape_.needed_forward;
    std::vector<std::size_t> last_needed;  // by freed storage
    for (const Going& each : going) {
        std::size_t last = 0;
        for (const std::int32_t block : each.blocks) {
            last = std::max(last, needed.at(block));
        }
        last_needed.push_back(last);
    }
    std::vector<Event> events;
    std::size_t k = 0;
    for (std::size_t layer = 0; layer < ends.size(); ++layer) {
        for (; k < ends[layer]; ++k) {
            for (std::size_t g = 0; g < going.size(); ++g) {
                if (last_needed[g] == k) {
                    events.push_back({layer, going[g].blocks.front(), g});
                }
            }
            events.push_back({layer, tape[k], {}});
        }
    }
    return events;
}

std::vector<PartitionWork::Event> PartitionWork::backward_events(Phase phase, const std::vector<Going>& going) const {
    const bool is_second = phase == Phase::backward_weight;
    const std::vector<std::int32_t>& tape = is_second ? tape_.tape.backward_weight : tape_.tape.backward;
    const std::vector<std::size_t>& ends = is_second ? tape_.backward_weight_ends : tape_.backward_ends;
    std::vector<std::size_t> left;
    for (const Going& each : going) {
        left.push_back(each.blocks.size());
    }
    std::vector<Event> events;
    std::size_t k = 0;
    for (std::size_t layer = 0; layer < ends.size(); ++layer) {
        for (; k < ends[layer]; ++k) {
            const std::int32_t event = tape[k];
            if (event > 0 || role(-event) == Role::own || (role(-event) == Role::input_gradient && !is_second)) {
                events.push_back({layer, event, {}});
                continue;
            }
            for (std::size_t g = 0; g < going.size(); ++g) {
                const auto& blocks = going[g].blocks;
                if (std::ranges::binary_search(blocks, -event) && --left[g] == 0) {
                    events.push_back({layer, -event, g});
                }
            }
        }
    }
    return events;
}
}  // namespace pipescope
