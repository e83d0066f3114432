#pragma once

#include "base/ids.h"
#include "base/small_vector.h"
#include "simulator/memory/partition_tape.h"
#include "simulator/sized_profile.h"

#include <array>
#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
/// A task's highest point above what its lane held when it started, by category.
struct WorkPeak {
    Bytes boundary = 0;   ///< negative once the partition's input is freed
    Bytes saved = 0;      ///< kept for the backward so far; negative in a backward, which frees it
    Bytes gradient = 0;   ///< the output's gradient; negative once the partition's last layer has used it
    Bytes transient = 0;  ///< everything else that the task frees by its end
    Bytes skip = 0;       ///< negative once gradients of stashed skips are used

    Bytes total() const { return boundary + saved + gradient + transient + skip; }
};

/// One layer's part of a task.
struct WorkPart {
    double end = 1;  ///< share of the task's time that has passed when it ends
    WorkPeak peak;   ///< its highest point above the lane's level at the task's start
};

/// The tasks of a partition for one micro-batch of one size, layer by layer in the order they run. Plays the
/// partition's tape together with the storages that the task's caller releases. Threading: one thread at a time; it
/// caches results.
class PartitionWork {
public:
    /// If the backward is split, `backward` is its first half.
    enum class Phase : std::uint8_t { checkpointed_forward, forward, recompute, backward, backward_weight };

    /// `split`: the tape's backward is in halves.
    PartitionWork(const SizedProfile& sized, LayerRange layers, PartitionTape tape, bool split = false);
    PartitionWork(const PartitionWork&) = delete;  // latest_ points into known_
    PartitionWork(PartitionWork&&) = default;

    const PartitionTape& tape() const { return tape_; }
    /// 0 for a slot without a block.
    Bytes bytes(std::int32_t block) const { return block == 0 ? 0 : block_of(block).bytes; }
    TapeBlock::Role role(std::int32_t block) const { return block_of(block).role; }
    /// Bytes that the graph alone keeps from forward to backward.
    Bytes graph() const { return graph_; }
    /// True if the graph keeps a block that others hold too: an input, an output, a skip.
    bool keeps(std::int32_t block) const { return kept_[static_cast<std::size_t>(block) - 1]; }
    bool is_split() const { return is_split_; }
    /// Between the halves of a split backward: like graph(), and like keeps() for gradients too.
    Bytes graph_between() const { return graph_between_; }
    bool keeps_between(std::int32_t block) const { return kept_between_[static_cast<std::size_t>(block) - 1]; }

    /// A storage without other holders. It is freed when the partition releases the last of its blocks.
    struct Going {
        SmallVector<std::int32_t, 2> blocks;  ///< ascending
        Bytes bytes = 0;                      ///< size of the whole storage

        friend auto operator<=>(const Going&, const Going&) = default;
    };
    /// During a task: allocates (> 0) or frees (< 0) one of its own blocks, or frees a storage that came in.
    struct Event {
        std::size_t layer = 0;             ///< in the order the task runs them
        std::int32_t block = 0;            ///< with `going`: the last of the storage's blocks, or the first
        std::optional<std::size_t> going;  ///< index in the list of freed storages
    };
    /// `going`: storages that came in, or that the forward passed on. One that is needed until the end is freed with
    /// the task, without an event. Cost: O(events).
    std::vector<Event> events(Phase phase, const std::vector<Going>& going) const;
    /// The peaks between events. Cost: O(events), unless cached.
    const std::vector<WorkPart>& parts(Phase phase, const std::vector<Going>& going);

private:
    void look_between(std::size_t blocks);
    const TapeBlock& block_of(std::int32_t block) const {
        return tape_.tape.blocks[static_cast<std::size_t>(block) - 1];
    }
    Bytes& held_as(WorkPeak& peak, Phase phase, std::int32_t block) const;
    std::vector<Event> forward_events(Phase phase, const std::vector<Going>& going) const;
    std::vector<Event> backward_events(Phase phase, const std::vector<Going>& going) const;

    PartitionTape tape_;
    bool is_split_;
    std::vector<bool> kept_;              // by block: the graph shares it with others
    std::vector<bool> survives_;          // by block: the task's own, kept from forward to backward
    std::vector<bool> kept_between_;      // by block: like kept_, for the second half
    std::vector<bool> survives_between_;  // by block: like survives_, from the first half to the second
    std::vector<bool> is_skip_;           // by block: came in as a skip or a skip's gradient
    Bytes graph_ = 0;
    Bytes graph_between_ = 0;
    std::array<std::vector<double>, 5> ends_;  // by phase and layer
    using Known = std::map<std::vector<Going>, std::vector<WorkPart>>;
    std::array<Known, 5> known_;                        // by phase
    std::array<const Known::value_type*, 5> latest_{};  // by phase: an element of known_, or null
};
}  // namespace pipescope
