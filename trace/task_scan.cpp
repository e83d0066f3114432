#include "trace/task_scan.h"

#include "trace/slice_row.h"
#include "trace/trace_file.h"
#include "trace/trace_migration.h"

#include <fmt/format.h>

#include <limits>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kMost = Rows::kMostAmount;

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
    for (const Bytes bytes : {sample.allocated, sample.peak, sample.reserved}) {
        if (bytes < -kMost || bytes > kMost) {
            return fmt::format("holds {} bytes; that is at most 2^53", bytes);
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
        damaged(fmt::format("has the kind '{}'; it must be one that docs/trace-format.md lists", row.text(1)));
    }
    const Slice slice{{row.id(0), *kind, row.id(2), row.id(3), row.id(4)},
                      LaneId{row.integer(5)},
                      row.time(6),
                      row.time(7),
                      row.integer(8)};
    if (const std::string fault = fault_of(slice); !fault.empty()) {
        damaged(fault);
    }
    return slice;
}

struct TaskScan::Impl {
    explicit Impl(const std::filesystem::path& file)
        : path(file), db(guard_sqlite("open", file, [&] {
              require_sqlite_file(file);
              return open_to_read(file);
          })) {
        guard_sqlite("read", path, [&] { show_as_current(db, require_trace_format(db, path)); });
    }

    /// True if a finished trace has no tasks of the other source; found without reading the table. Comparing a text in
    /// each row costs a tenth of reading it.
    bool holds_only(Source source) {
        Rows index(db, "SELECT 1 FROM sqlite_master WHERE name = 'PIPESCOPE_TASK_BY_TIME'");
        if (!index.next()) {
            return false;  // still being written
        }
        Rows other(db, "SELECT 1 FROM PIPESCOPE_TASK WHERE source = ? LIMIT 1");
        other.bind(1, to_string(source == Source::measured ? Source::simulated : Source::measured));
        return !other.next();
    }

    std::filesystem::path path;
    SQLite::Database db;
};

TaskScan::TaskScan(const std::filesystem::path& path) : impl_(std::make_unique<Impl>(path)) {}
TaskScan::~TaskScan() = default;
TaskScan::TaskScan(TaskScan&&) noexcept = default;
TaskScan& TaskScan::operator=(TaskScan&&) noexcept = default;

RowIds TaskScan::ids() const {
    return guard_sqlite("read", impl_->path, [&] {
        Rows row(impl_->db, "SELECT min(id), (SELECT max(id) FROM PIPESCOPE_TASK) FROM PIPESCOPE_TASK");
        return row.next() && !row.is_null(0) ? RowIds{row.integer(0), row.integer(1)} : RowIds{};
    });
}

std::int64_t TaskScan::read(Source source, const RowIds& ids,
                            const std::function<bool(std::span<const Slice>)>& each) const {
    std::vector<Slice> batch;
    batch.reserve(kBatch);
    std::int64_t last = ids.first - 1;
    guard_sqlite("read", impl_->path, [&] {
        // The unary plus prevents the index by source, which would jump through the whole file.
        const bool only = impl_->holds_only(source);
        Rows row(impl_->db, std::string("SELECT ") + kSliceColumns + " FROM PIPESCOPE_TASK WHERE id BETWEEN " +
                                std::to_string(ids.first) + " AND " + std::to_string(ids.last) +
                                " AND +lane IS NOT NULL" + (only ? "" : " AND +source = ?"));
        if (!only) {
            row.bind(1, to_string(source));
        }
        while (row.next()) {
            last = row.integer(9);
            batch.push_back(slice_of(row));
            if (batch.size() == kBatch) {
                if (!each(batch)) {
                    return;
                }
                batch.clear();
            }
        }
        last = ids.last;
        if (!batch.empty()) {
            each(batch);
        }
    });
    return last;
}
}  // namespace pipescope
