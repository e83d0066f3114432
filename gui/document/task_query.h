#pragma once

#include "gui/document/length_query.h"
#include "gui/document/trace_document.h"
#include "schedule/task_key.h"

#include <QString>

#include <cstdint>
#include <optional>
#include <vector>

namespace pipescope {
/// A selection of tasks. Unset fields match everything.
struct TaskQuery {
    std::uint32_t kinds = ~std::uint32_t{0};  ///< bit k: TaskKind k
    std::vector<std::int32_t> partitions;     ///< any of these; empty: all
    std::optional<std::int32_t> step;
    std::optional<std::int32_t> microBatch;
    std::optional<std::int64_t> lane;
    LengthLimits lengths;

    bool has(TaskKind kind) const { return (kinds >> static_cast<unsigned>(kind) & 1u) != 0; }
    void keep(std::uint32_t these) { kinds &= these; }
    bool matches(const Slice& task) const;
    friend bool operator==(const TaskQuery&, const TaskQuery&) = default;
};

/// Parses user input, in any order and case: "F3" (forward of micro-batch 3), "backward 2 1" (micro-batch 2 on
/// partition 1, as in messages), "copy p1", "mb 4", "partition 2", "step 7", "lane 1", "layer conv1" (the partition
/// with this layer, by number or part of its name), ">=20ms", "<25ms", ">1.5x" (of the median). Empty text means all
/// tasks. Returns nullopt, which means no task, if a word is unknown.
std::optional<TaskQuery> parseTaskQuery(const QString& text, const TraceDocument& document);
}  // namespace pipescope
