#include "trace/store/slice_row.h"

#include "base/printable.h"

#include <fmt/format.h>

#include <limits>

namespace pipescope {
namespace {
constexpr std::int64_t kMost = Rows::kMostAmount;
constexpr std::size_t kMostOfAKind = 40;  // bytes in a message

/// "has the partition -3; it must be .."; empty if the field is sound.
std::string field_fault(const char* name, std::int32_t value, std::int32_t end) {
    return value >= -1 && value < end
               ? ""
               : fmt::format("has the {} {}; it must be from 0 to {}, or -1 for none", name, value, end - 1);
}

std::string lane_fault(LaneId lane) {
    return lane.value() >= 0 && lane.value() < kMostPartitions
               ? ""
               : fmt::format("has the lane {}; lanes are numbered from 0 to {}", lane.value(), kMostPartitions - 1);
}
}  // namespace

std::string fault_of(const Slice& slice) {
    const TaskKey& key = slice.key;
    const bool sound = key.step >= -1 && key.partition >= -1 && key.partition < kMostPartitions &&
                       key.micro_batch >= -1 && key.micro_batch < kMostMicroBatches && key.skip >= -1 &&
                       key.skip < kMostSkips && slice.lane.value() >= 0 && slice.lane.value() < kMostPartitions;
    if (!sound) {
        return field_fault("step", key.step, std::numeric_limits<std::int32_t>::max()) +
               field_fault("partition", key.partition, kMostPartitions) +
               field_fault("micro-batch", key.micro_batch, kMostMicroBatches) +
               field_fault("skip", key.skip, kMostSkips) + lane_fault(slice.lane);
    }
    if (slice.end < slice.start || slice.duration().count() > kMost) {
        return fmt::format("starts at {} ns and ends at {} ns; it must end after it starts, within 2^53 ns (104 days)",
                           slice.start.count(), slice.end.count());
    }
    return slice.bytes >= 0 && slice.bytes <= kMost
               ? ""
               : fmt::format("moves {} bytes; that is from 0 to 2^53", slice.bytes);
}

std::string fault_of(const MemorySample& sample) {
    const auto is_sound = [](Bytes bytes) { return bytes >= 0 && bytes <= kMost; };
    const auto fault = [](Bytes bytes) { return fmt::format("holds {} bytes; that is from 0 to 2^53", bytes); };
    for (const Bytes bytes : {sample.allocated, sample.peak, sample.reserved}) {
        if (!is_sound(bytes)) {
            return fault(bytes);
        }
    }
    for (std::size_t k = 0; k < kNumMemoryCategories; ++k) {
        const Bytes bytes = sample.composition[static_cast<MemoryCategory>(k)];
        if (bytes != MemoryBreakdown::kUnknown && !is_sound(bytes)) {
            return fault(bytes);
        }
    }
    return lane_fault(sample.lane);
}

Slice slice_of(const Rows& row) {
    const auto damaged = [&](const std::string& fault) {
        throw DamagedValue(fmt::format("task {} {}", row.number(9), fault));
    };
    const auto kind = parse_task_kind(row.text(1));
    if (!kind) {
        damaged(fmt::format("has the kind '{}'; it must be one that docs/trace-format.md lists",
                            shortened(row.text(1), kMostOfAKind)));
    }
    const Slice slice{{row.id(0), *kind, row.id(2), row.id(3), row.id(4)},
                      row.is_null(5) ? LaneId{0} : LaneId{row.id(5)},
                      row.time(6),
                      row.time(7),
                      row.integer(8)};
    if (const std::string fault = fault_of(slice); !fault.empty()) {
        damaged(fault);
    }
    return slice;
}
}  // namespace pipescope
