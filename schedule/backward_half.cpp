#include "schedule/backward_half.h"

#include <algorithm>
#include <utility>

namespace pipescope {
namespace {
std::vector<std::uint64_t> weights_in(std::span<const Slice> slices) {
    std::vector<std::uint64_t> weights;
    for (const Slice& slice : slices) {
        if (slice.key.kind == TaskKind::backward_weight) {
            weights.push_back(pack(slice.key));
        }
    }
    return weights;
}
}  // namespace

SplitBackwards::SplitBackwards(std::span<const Slice> slices) : SplitBackwards(weights_in(slices)) {}

SplitBackwards::SplitBackwards(std::vector<std::uint64_t> weights) : weights_(std::move(weights)) {
    std::sort(weights_.begin(), weights_.end());
}

std::optional<BackwardHalf> SplitBackwards::half_of(const TaskKey& task) const {
    if (task.kind == TaskKind::backward_weight) {
        return BackwardHalf::weights;
    }
    TaskKey weights = task;
    weights.kind = TaskKind::backward_weight;
    const bool is_split =
        task.kind == TaskKind::backward && std::binary_search(weights_.begin(), weights_.end(), pack(weights));
    return is_split ? std::optional(BackwardHalf::inputs) : std::nullopt;
}

std::string_view shown_name(TaskKind kind, std::optional<BackwardHalf> half) {
    return half == BackwardHalf::inputs ? "backward_input" : to_string(kind);
}

std::string shown_name(const TaskKey& key, std::optional<BackwardHalf> half) {
    std::string text = to_string(key);
    if (half == BackwardHalf::inputs) {
        const std::string_view kind = to_string(TaskKind::backward);
        text.replace(text.find(kind), kind.size(), shown_name(key.kind, half));
    }
    return text;
}
}  // namespace pipescope
