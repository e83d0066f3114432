#include "trace/task_scan.h"

#include "trace/slice_row.h"
#include "trace/trace_file.h"
#include "trace/trace_migration.h"

#include <vector>

namespace pipescope {
namespace {
/// More lanes than any schedule can name. A larger number comes from a damaged file.
constexpr std::int64_t kMostLanes = 1 << 16;
}  // namespace

Slice slice_of(const Rows& row, const std::filesystem::path& path) {
    const auto kind = parse_task_kind(row.text(1));
    const std::int64_t lane = row.integer(5);
    if (!kind || lane < 0 || lane >= kMostLanes) {
        throw TraceFormatError("trace " + quoted(path) + " is damaged: task " + std::to_string(row.integer(9)) +
                               " has the kind '" + std::string(row.text(1)) + "' and the lane " + std::to_string(lane) +
                               "; record it again");
    }
    if (row.integer(7) < row.integer(6)) {
        throw TraceFormatError("trace " + quoted(path) + " is damaged: task " + std::to_string(row.integer(9)) +
                               " starts at " + std::to_string(row.integer(6)) + " ns and ends at " +
                               std::to_string(row.integer(7)) + " ns, before it starts; record it again");
    }
    return {
        {row.id(0), *kind, row.id(2), row.id(3), row.id(4)}, LaneId{lane}, row.time(6), row.time(7), row.integer(8)};
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
            batch.push_back(slice_of(row, impl_->path));
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
