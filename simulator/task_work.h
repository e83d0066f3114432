#pragma once

#include "schedule/ids.h"
#include "simulator/partition_memory.h"
#include "simulator/partition_tape.h"
#include "simulator/sized_profile.h"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// One layer's part of a task.
struct WorkPart {
    double end = 1;  ///< share of the task's time that is over when it ends
    WorkPeak peak;   ///< its highest point above what the lane held when the task started
};

/// The tasks of a partition for one micro-batch of one size, layer by layer in the order they run: its tape, played
/// with what the task's caller lets go of. Threading: one thread at a time; results are remembered.
class PartitionWork {
public:
    enum class Phase : std::uint8_t { checkpointed_forward, forward, recompute, backward };

    PartitionWork(const SizedProfile& sized, LayerRange layers, PartitionTape tape);

    const PartitionTape& tape() const { return tape_; }
    /// Of a slot: 0 where it has no block.
    Bytes bytes(std::int32_t block) const { return block == 0 ? 0 : block_of(block).bytes; }
    TapeBlock::Role role(std::int32_t block) const { return block_of(block).role; }
    /// What the graph keeps from forward to backward that nobody else has.
    Bytes graph() const { return graph_; }
    /// Whether the graph keeps a block that others have too: an input, an output, a skip.
    bool keeps(std::int32_t block) const { return kept_[static_cast<std::size_t>(block) - 1]; }

    /// A storage that nobody else holds goes where the partition lets go of the last of its blocks.
    struct Going {
        std::vector<std::int32_t> blocks;  ///< ascending
        Bytes bytes = 0;                   ///< of the whole storage

        friend auto operator<=>(const Going&, const Going&) = default;
    };
    /// While a task runs, a block of its own comes (> 0) or goes (< 0), or a storage that came in goes.
    struct Event {
        std::size_t layer = 0;             ///< counted as the task runs them
        std::int32_t block = 0;            ///< with `going` the last of the storage's blocks, or the first
        std::optional<std::size_t> going;  ///< a place in the list of those that go
    };
    /// `going`: storages that came in, or that the forward handed on. One that is needed to the end goes with the task,
    /// without an event. Cost: O(events).
    std::vector<Event> events(Phase phase, const std::vector<Going>& going) const;
    /// The events' highest points. Cost: O(events) for what was not asked yet.
    const std::vector<WorkPart>& parts(Phase phase, const std::vector<Going>& going);

private:
    const TapeBlock& block_of(std::int32_t block) const {
        return tape_.tape.blocks[static_cast<std::size_t>(block) - 1];
    }
    Bytes& held_as(WorkPeak& peak, Phase phase, std::int32_t block) const;
    std::vector<Event> forward_events(Phase phase, const std::vector<Going>& going) const;
    std::vector<Event> backward_events(const std::vector<Going>& going) const;

    PartitionTape tape_;
    std::vector<bool> kept_;      // by block: of others too
    std::vector<bool> survives_;  // by block: an own one that the forward leaves to the backward
    std::vector<bool> is_skip_;   // by block: came in as a skip, or a skip's gradient
    Bytes graph_ = 0;
    std::array<std::vector<double>, 4> ends_;  // by phase and layer
    std::map<std::pair<Phase, std::vector<Going>>, std::vector<WorkPart>> known_;
};
}  // namespace pipescope
