#pragma once

#include "base/ids.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace pipescope {
/// Kind of a task. The numbers are part of the packed form and of every trace: never renumber them.
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
    shared_forward = 11,
    shared_backward = 12,
    shared_sum = 13,
};
inline constexpr int kNumTaskKinds = 14;

std::string_view to_string(TaskKind kind);
std::optional<TaskKind> parse_task_kind(std::string_view name);

/// The letter of a kind in schedule tables and recorded programs: F forward, R recompute, B backward, W
/// backward_weight, L loss, A all_reduce, O optimizer, S shared_sum. Empty for copies.
std::optional<char> letter_of(TaskKind kind);
std::optional<TaskKind> kind_of_letter(char letter);

constexpr bool is_copy(TaskKind kind) {
    return kind == TaskKind::copy_forward || kind == TaskKind::copy_backward || kind == TaskKind::skip_forward ||
           kind == TaskKind::skip_backward || kind == TaskKind::shared_forward || kind == TaskKind::shared_backward;
}
/// True for copies that go from an earlier partition to a later one.
constexpr bool is_forward_copy(TaskKind kind) {
    return kind == TaskKind::copy_forward || kind == TaskKind::skip_forward || kind == TaskKind::shared_forward;
}
/// True for the tasks that belong to a SharedRoute.
constexpr bool is_of_shared(TaskKind kind) {
    return kind == TaskKind::shared_forward || kind == TaskKind::shared_backward || kind == TaskKind::shared_sum;
}
/// Forward, recompute and backward. These count as busy in a bubble fraction.
constexpr bool is_compute(TaskKind kind) {
    return kind == TaskKind::forward || kind == TaskKind::recompute || kind == TaskKind::backward ||
           kind == TaskKind::backward_weight;
}

/// Tasks between whose first start and last end a synchronous step lies. Loss and optimizer do not count.
constexpr bool is_of_step(TaskKind kind) {
    return is_compute(kind) || kind == TaskKind::all_reduce || kind == TaskKind::shared_sum;
}

/// Identifies a task of one step: micro-batch i on partition j. Measured and simulated slices of the same work have the
/// same key, so comparing them is a join. A field without meaning is -1, such as the micro-batch of a mini-batch loss.
/// A copy across the boundary between partitions j and j+1 carries partition j in both directions; a skip carries the
/// stashing partition. The tasks of shared parameters happen once a step: they carry the partition that holds the
/// parameters, no micro-batch, and as skip the number of their SharedRoute.
struct TaskKey {
    std::int32_t step = -1;
    TaskKind kind = TaskKind::forward;
    std::int32_t partition = -1;
    std::int32_t micro_batch = -1;
    std::int32_t skip = -1;

    friend auto operator<=>(const TaskKey&, const TaskKey&) = default;
};

/// The task's micro-batch and partition.
inline Cell cell_of(const TaskKey& key) {
    return {MicroBatchId{key.micro_batch}, PartitionId{key.partition}};
}

// Limits of the packed form. All ones stands for -1.
inline constexpr std::int32_t kMostSteps = (1 << 24) - 1;
inline constexpr std::int32_t kMostPartitions = (1 << 10) - 1;
inline constexpr std::int32_t kMostMicroBatches = (1 << 16) - 1;
inline constexpr std::int32_t kMostSkips = (1 << 10) - 1;

/// Packs into 64 bits, from the top: step 24, kind 4, partition 10, micro-batch 16, skip 10. A step that does not fit
/// wraps around, so that a long training run is not stopped by its trace. The other fields are checked when a schedule
/// is built.
std::uint64_t pack(const TaskKey& key);
/// Empty if the number did not come from pack(): its kind does not exist.
std::optional<TaskKey> unpack(std::uint64_t packed);

/// "step 3 backward (2, 1)" for micro-batch 2 on partition 1. Used in messages and tooltips.
std::string to_string(const TaskKey& key);
}  // namespace pipescope
