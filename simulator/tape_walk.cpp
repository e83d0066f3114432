#include "simulator/tape_walk.h"

#include <algorithm>
#include <cstdint>

namespace pipescope {
namespace {
/// The same numbers from a tape's events: exact, in the layers' own order.
class TapeWalk {
public:
    explicit TapeWalk(const PartitionTape& partition) : partition_(partition), tape_(partition.tape) {
        held_.assign(tape_.blocks.size(), false);
        for (const std::int32_t event : tape_.forward) {
            held_[index(event)] = event > 0;
        }
        survives_ = held_;
    }

    void fill_in(PartitionMemory& memory, PartitionWork* work) {
        memory.graph = 0;
        for (std::size_t b = 0; b < tape_.blocks.size(); ++b) {
            memory.graph += survives_[b] && tape_.blocks[b].role == Role::own ? tape_.blocks[b].bytes : 0;
        }
        memory.input_kept = lets_go_of(Role::input) || lets_go_of(Role::passed);
        memory.output_kept = lets_go_of(Role::output);
        const Bytes own_input = memory.input_kept ? 0 : memory.input;
        const auto checkpointed = forward_parts(tape_.checkpointed_forward, partition_.checkpointed_ends, kNever, 0);
        const auto forward =
            forward_parts(tape_.forward, partition_.forward_ends, partition_.input_needed_forward, own_input);
        const auto recompute =
            forward_parts(tape_.recompute, partition_.recompute_ends, partition_.input_needed_recompute, own_input);
        const auto backward = backward_parts();
        memory.checkpointed_forward = highest(checkpointed, &WorkPart::handed_stays);
        memory.forward = higher(highest(forward, &WorkPart::handed_stays), highest(recompute, &WorkPart::handed_stays));
        memory.forward_of_own_input =
            higher(highest(forward, &WorkPart::handed_goes), highest(recompute, &WorkPart::handed_goes));
        memory.backward = highest(backward, &WorkPart::handed_goes);
        memory.backward_of_view = highest(backward, &WorkPart::handed_stays);
        if (work != nullptr) {
            *work = {checkpointed, forward, recompute, backward};
        }
    }

private:
    using Role = TapeBlock::Role;

    static std::size_t index(std::int32_t event) { return static_cast<std::size_t>(event < 0 ? -event : event) - 1; }
    static constexpr std::size_t kNever = static_cast<std::size_t>(-1);
    static WorkPeak higher(const WorkPeak& a, const WorkPeak& b) { return a.total() >= b.total() ? a : b; }
    /// Of all parts, or nothing more than at the start.
    static WorkPeak highest(const std::vector<WorkPart>& parts, WorkPeak WorkPart::*peak) {
        WorkPeak most;
        for (const WorkPart& part : parts) {
            most = higher(most, part.*peak);
        }
        return most;
    }
    bool lets_go_of(Role role) const {
        return std::any_of(tape_.backward.begin(), tape_.backward.end(),
                           [&](std::int32_t event) { return event < 0 && tape_.blocks[index(event)].role == role; });
    }

    /// By layer. The input goes with event `input_needed`, where it is the task's to let go.
    std::vector<WorkPart> forward_parts(const std::vector<std::int32_t>& events, const std::vector<std::size_t>& ends,
                                        std::size_t input_needed, Bytes input) const {
        std::vector<WorkPart> parts;
        WorkPeak now;
        Bytes input_gone = 0;
        std::size_t k = 0;
        for (const std::size_t end : ends) {
            WorkPart& part = parts.emplace_back(part_at(now, input_gone));
            for (; k < end; ++k) {
                input_gone = k >= input_needed ? input : 0;
                const std::size_t b = index(events[k]);
                const Bytes bytes = events[k] > 0 ? tape_.blocks[b].bytes : -tape_.blocks[b].bytes;
                const bool stays = survives_[b] && tape_.blocks[b].role == Role::own;
                (stays ? now.saved : now.transient) += bytes;
                raise(part, part_at(now, input_gone));
            }
        }
        return parts;
    }
    static WorkPart part_at(const WorkPeak& now, Bytes input_gone) {
        WorkPart part;
        part.handed_stays = part.handed_goes = now;
        part.handed_goes.boundary -= input_gone;
        return part;
    }
    static void raise(WorkPart& part, const WorkPart& here) {
        part.handed_stays = higher(part.handed_stays, here.handed_stays);
        part.handed_goes = higher(part.handed_goes, here.handed_goes);
    }

    /// What the forward left goes as the events say; the input's charge stays to the task's end.
    std::vector<WorkPart> backward_parts() const {
        std::vector<WorkPart> parts;
        WorkPart now;
        std::size_t k = 0;
        for (const std::size_t end : partition_.backward_ends) {
            WorkPart& part = parts.emplace_back(now);
            for (; k < end; ++k) {
                const std::int32_t event = tape_.backward[k];
                const std::size_t b = index(event);
                const auto& [role, size] = tape_.blocks[b];
                const Bytes bytes = event > 0 ? size : -size;
                if (role == Role::output_gradient) {
                    now.handed_goes.gradient += bytes;
                } else if (role == Role::output || (role == Role::own && survives_[b])) {
                    now.handed_goes.saved += bytes;
                    now.handed_stays.saved += bytes;
                } else if (role == Role::own || role == Role::input_gradient) {
                    now.handed_goes.transient += bytes;
                    now.handed_stays.transient += bytes;
                }
                raise(part, now);
            }
        }
        return parts;
    }

    const PartitionTape& partition_;
    const LayerTape& tape_;
    std::vector<bool> held_;
    std::vector<bool> survives_;  // the forward
};
}  // namespace

void walk_tape(const PartitionTape& partition, PartitionMemory& memory, PartitionWork* work) {
    TapeWalk(partition).fill_in(memory, work);
}
}  // namespace pipescope
