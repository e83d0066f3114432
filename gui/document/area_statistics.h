#pragma once

#include "analysis/area_sums.h"
#include "gui/document/trace_document.h"
#include "gui/timeline/time_window.h"
#include "gui/timeline/timeline_store.h"

#include <QString>

#include <functional>
#include <optional>
#include <vector>

namespace pipescope {
/// What statistics are about.
enum class Counted {
    measured_tasks,
    simulated_tasks,
    kernels,  ///< kernels, copies and fills that measured tasks launched
    threads,  ///< ranges of the host's threads
    streams,  ///< work of devices, in a file of another program
};
/// What the document holds of these, in that order.
std::vector<Counted> countable(const TraceDocument& document);

/// Something counted: a task, a kernel or a range, in its store.
struct CountedItem {
    Counted of = Counted::measured_tasks;  ///< kernels within the call tree of tasks are kernels
    SliceRef ref;
};

/// Items of one name, on one lane, thread or stream, or on all of them, that overlap a range of time. Times in ns.
struct StatisticsRow {
    QString name;
    std::optional<TaskKind> kind;        ///< shown kind of tasks
    std::uint32_t number = 0;            ///< of the name, for itemsOf()
    std::optional<std::uint32_t> place;  ///< number of the lane, thread or stream; empty: all together
    QString placeName;                   ///< empty: all together
    LengthFigures lengths;               ///< of whole items, including parts outside the range
    std::int64_t inside = 0;             ///< within the range; an item within one of its own name counts once
    std::int64_t self = 0;               ///< that time, without the items directly within, such as a task's kernels
    double share = 0;                    ///< `inside` as a share of the range; for all places, the mean over them
    CountedItem longest;                 ///< the first of them in case of a tie
};

/// Items of one name within the same outer ones, as a row of a tree. Times within the range, in ns.
struct CallRow {
    QString name;  ///< of a lane, thread or stream, if there is no outer call
    std::optional<TaskKind> kind;
    std::optional<std::size_t> outer;
    std::vector<std::size_t> inner;  ///< the largest first
    std::int64_t count = 0;
    std::int64_t inside = 0;
    std::int64_t self = 0;
    double share = 0;  ///< of the range
    CountedItem longest;
};

struct AreaStatistics {
    std::vector<StatisticsRow> rows;  ///< by kind of task, or the largest name first; all places first, then each
    std::vector<CallRow> calls;       ///< an outer call stands before those within
};

/// What happened within `range`, in times of the counted store. Within tasks, the call tree shows the kernels that
/// they launched. Cost: O(items in the range, times their logarithm). Empty if `cancelled` returned true.
AreaStatistics areaStatistics(const TraceDocument& document, Counted counted, const TimeRange& range,
                              const std::function<bool()>& cancelled = {});

/// The times of all items of a name over the whole file, on all places or on one, in no order. Cost: O(items there).
/// Empty if `cancelled` returned true.
std::vector<TimeRange> itemsOf(const TraceDocument& document, Counted counted, std::uint32_t name,
                               std::optional<std::uint32_t> place, const std::function<bool()>& cancelled = {});
/// Their lengths, and how many of them share time with `range`.
std::vector<LengthBin> lengthsOf(const std::vector<TimeRange>& items, const TimeRange& range);

/// A text for Find that finds the items of a row from one length to before another: "forward lane 0 >=20ms <25ms", or
/// "\"gemm\" >=20ms <25ms", which is not restricted to a thread or stream.
QString queryOf(const StatisticsRow& row, Counted counted, const LengthBin& lengths);
}  // namespace pipescope
