#pragma once

#include "schedule/task_key.h"
#include "schedule/timeline.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Half of a split backward: gradients of the inputs or of the weights. In keys, the first is of kind backward, as a
/// whole backward is; the second is of kind backward_weight.
enum class BackwardHalf : char { inputs = 'I', weights = 'W' };

/// Tells the halves apart: a backward is a first half if its step has a backward_weight of the same micro-batch and
/// partition. Cost: O(slices log slices).
class SplitBackwards {
public:
    explicit SplitBackwards(std::span<const Slice> slices);
    /// For tasks that are kept as packed keys: those of the backward_weights, in any order.
    explicit SplitBackwards(std::vector<std::uint64_t> weights);

    /// True if no backward is split.
    bool empty() const noexcept { return weights_.empty(); }

    /// Empty for whole backwards and other kinds.
    std::optional<BackwardHalf> half_of(const TaskKey& task) const;

private:
    std::vector<std::uint64_t> weights_;  // packed keys, ascending
};

/// The kind as tables show it: "backward_input" for the first half, otherwise the kind's name.
std::string_view shown_name(TaskKind kind, std::optional<BackwardHalf> half);
/// to_string() with that name.
std::string shown_name(const TaskKey& key, std::optional<BackwardHalf> half);
}  // namespace pipescope
