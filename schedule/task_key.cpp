#include "schedule/task_key.h"

#include <array>

namespace pipescope {
namespace {
constexpr std::array<std::string_view, kNumTaskKinds> kKindNames = {
    "forward",       "recompute", "backward",  "backward_weight", "copy_forward",   "copy_backward",   "skip_forward",
    "skip_backward", "loss",      "optimizer", "all_reduce",      "shared_forward", "shared_backward", "shared_sum"};

constexpr std::string_view kKindLetters = "FRBW    LOA  S";  // by kind; a blank for copies

constexpr int kKindBits = 4;
constexpr int kPartitionBits = 10;
constexpr int kMicroBatchBits = 16;
constexpr int kSkipBits = 10;
constexpr int kStepBits = 24;

constexpr std::uint64_t ones(int bits) {
    return (std::uint64_t{1} << bits) - 1;
}

std::uint64_t field(std::int32_t value, int bits) {
    return value < 0 ? ones(bits) : static_cast<std::uint64_t>(value) & ones(bits);
}

/// Removes the lowest bits of `packed` and returns them.
std::int32_t take(std::uint64_t& packed, int bits) {
    const std::uint64_t value = packed & ones(bits);
    packed >>= bits;
    return value == ones(bits) ? -1 : static_cast<std::int32_t>(value);
}
}  // namespace

std::string_view to_string(TaskKind kind) {
    return kKindNames.at(static_cast<std::size_t>(kind));
}

std::optional<TaskKind> parse_task_kind(std::string_view name) {
    for (std::size_t k = 0; k < kKindNames.size(); ++k) {
        if (kKindNames[k] == name) {
            return static_cast<TaskKind>(k);
        }
    }
    return std::nullopt;
}

std::optional<char> letter_of(TaskKind kind) {
    return is_copy(kind) ? std::nullopt : std::optional(kKindLetters.at(static_cast<std::size_t>(kind)));
}

std::optional<TaskKind> kind_of_letter(char letter) {
    const std::size_t kind = letter == ' ' ? std::string_view::npos : kKindLetters.find(letter);
    return kind == std::string_view::npos ? std::nullopt : std::optional(static_cast<TaskKind>(kind));
}

std::uint64_t pack(const TaskKey& key) {
    const std::int32_t step = key.step < 0 ? -1 : key.step % kMostSteps;
    std::uint64_t packed = field(step, kStepBits);
    packed = packed << kKindBits | static_cast<std::uint64_t>(key.kind);
    packed = packed << kPartitionBits | field(key.partition, kPartitionBits);
    packed = packed << kMicroBatchBits | field(key.micro_batch, kMicroBatchBits);
    return packed << kSkipBits | field(key.skip, kSkipBits);
}

std::optional<TaskKey> unpack(std::uint64_t packed) {
    TaskKey key;
    key.skip = take(packed, kSkipBits);
    key.micro_batch = take(packed, kMicroBatchBits);
    key.partition = take(packed, kPartitionBits);
    const std::int32_t kind = take(packed, kKindBits);
    key.step = take(packed, kStepBits);
    if (kind < 0 || kind >= kNumTaskKinds) {
        return std::nullopt;
    }
    key.kind = static_cast<TaskKind>(kind);
    return key;
}

std::string to_string(const TaskKey& key) {
    std::string text;
    if (key.step >= 0) {
        text = "step " + std::to_string(key.step) + " ";
    }
    text += to_string(key.kind);
    if (key.micro_batch >= 0 && key.partition >= 0) {
        text += " (" + std::to_string(key.micro_batch) + ", " + std::to_string(key.partition) + ")";
    } else if (key.partition >= 0) {
        text += " of partition " + std::to_string(key.partition);
    }
    if (key.skip >= 0) {
        text += (is_of_shared(key.kind) ? " route " : " skip ") + std::to_string(key.skip);
    }
    return text;
}
}  // namespace pipescope
