#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipescope {
/// What a task does. The numbers are part of the packed form and of every trace: never renumber them.
enum class TaskKind : std::uint8_t {
    forward = 0,
    recompute = 1,
    backward = 2,
    backward_weight = 3,
    copy_forward = 4,
    copy_backward = 5,
    skip_forward = 6,
    skip_backward = 7,
    loss = 8,
    optimizer = 9,
    all_reduce = 10,
};
inline constexpr int kNumTaskKinds = 11;

std::string_view to_string(TaskKind kind);
std::optional<TaskKind> parse_task_kind(std::string_view name);

constexpr bool is_copy(TaskKind kind) {
    return kind == TaskKind::copy_forward || kind == TaskKind::copy_backward || kind == TaskKind::skip_forward ||
           kind == TaskKind::skip_backward;
}
/// Forward, recompute and backward: what counts as busy in a bubble fraction.
constexpr bool is_compute(TaskKind kind) {
    return kind == TaskKind::forward || kind == TaskKind::recompute || kind == TaskKind::backward ||
           kind == TaskKind::backward_weight;
}

/// The name of one piece of work in one step: micro-batch i on partition j. Measured and simulated slices of the same
/// work carry the same key, so that comparing them is a join. -1 where a field has no meaning (a loss has no
/// micro-batch). A copy across the boundary between partitions j and j+1 carries partition j, in both directions; a
/// skip carries the stashing partition.
struct TaskKey {
    std::int32_t step = -1;
    TaskKind kind = TaskKind::forward;
    std::int32_t partition = -1;
    std::int32_t micro_batch = -1;
    std::int32_t skip = -1;

    friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

// Largest counts the packed form can tell apart; the value of all ones stands for -1.
inline constexpr std::int32_t kMostSteps = (1 << 24) - 1;
inline constexpr std::int32_t kMostPartitions = (1 << 10) - 1;
inline constexpr std::int32_t kMostMicroBatches = (1 << 16) - 1;
inline constexpr std::int32_t kMostSkips = (1 << 10) - 1;

/// 64 bits, from the top: step 24, kind 4, partition 10, micro-batch 16, skip 10. A step beyond the field wraps, since
/// a long training run must not stop for its trace; the other fields are checked where a schedule is built.
std::uint64_t pack(const TaskKey& key);
/// Nothing if the kind is not one of TaskKind: the number did not come from pack().
std::optional<TaskKey> unpack(std::uint64_t packed);

/// "step 3 backward (2, 1)" for micro-batch 2 on partition 1; for messages and tooltips.
std::string to_string(const TaskKey& key);
}  // namespace pipescope
