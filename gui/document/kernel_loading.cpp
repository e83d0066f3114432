#include "gui/document/kernel_loading.h"

#include "analysis/launched_kernels.h"
#include "trace/store/launch_attribution.h"
#include "trace/store/sql_query.h"

#include <map>
#include <string>
#include <unordered_map>

namespace pipescope {
namespace {
constexpr std::int64_t kRowsAtOnce = 100'000;
// Valid times are between -2^62 and 2^62 ns. Skips ranges with other times, which read_tracks() reports.
const std::string kEarliest = "-4611686018427387904";
const std::string kLatest = "4611686018427387904";

using Row = std::vector<SqlValue>;

std::int64_t number(const SqlValue& value, std::int64_t otherwise = 0) {
    const auto* found = std::get_if<std::int64_t>(&value);
    return found != nullptr ? *found : otherwise;
}

std::string text(const SqlValue& value) {
    const auto* found = std::get_if<std::string>(&value);
    return found != nullptr ? *found : std::string();
}

struct TaskOnLane {
    TaskKey key;
    LaneId lane;
};

/// Reads one trace's tables. Checks everything, since the file may be damaged.
class KernelTables {
public:
    KernelTables(const QString& path, const std::stop_token& stop) : path_(path.toStdString()), stop_(stop) {}

    /// Calls `each` with the rows of `sql` in a range of `id`, part by part. `sql` must end in a condition.
    template <class Each>
    void read(const std::string& table, const std::string& id, const std::string& sql, const Each& each) const {
        const Row bounds = query("SELECT min(" + id + "), max(" + id + ") FROM " + table).at(0);
        const std::int64_t last = number(bounds[1], -1);
        for (std::int64_t from = number(bounds[0]); from <= last && !stop_.stop_requested();) {
            const std::int64_t to = last - from < kRowsAtOnce ? last : from + kRowsAtOnce - 1;
            for (const Row& row :
                 query(sql + " AND " + id + " BETWEEN " + std::to_string(from) + " AND " + std::to_string(to))) {
                each(row);
            }
            if (to == last) {
                break;
            }
            from = to + 1;
        }
    }
    std::vector<Row> query(const std::string& sql) const {
        return query_sql(path_, sql, {.most_rows = kRowsAtOnce, .cancelled = [this] { return stop_.stop_requested(); }})
            .rows;
    }

private:
    std::string path_;
    const std::stop_token& stop_;
};

std::unordered_map<std::int64_t, TaskOnLane> readTasks(const KernelTables& tables, KernelStoreBuilder& builder) {
    std::unordered_map<std::int64_t, TaskOnLane> tasks;
    tables.read(
        "PIPESCOPE_TASK_DEVICE AS d", "d.taskId",
        "SELECT d.taskId, t.lane, t.step, t.kind, t.partition, t.microBatch, t.skip, d.kernels, d.copies, "
        "d.end - d.start, d.busy, d.launchDelay FROM PIPESCOPE_TASK_DEVICE AS d JOIN PIPESCOPE_TASK AS t "
        "ON t.id = d.taskId WHERE t.lane IS NOT NULL",
        [&](const Row& row) {
            const std::optional<TaskKind> kind = parse_task_kind(text(row[3]));
            if (!kind) {
                return;
            }
            const auto field = [&](std::size_t column) { return static_cast<std::int32_t>(number(row[column], -1)); };
            const TaskKey key{field(2), *kind, field(4), field(5), field(6)};
            tasks.emplace(number(row[0]), TaskOnLane{key, LaneId{number(row[1], -1)}});
            builder.setWork(key, {number(row[7]), number(row[8]), number(row[9]), number(row[10]), number(row[11])});
        });
    return tasks;
}
}  // namespace

std::shared_ptr<const KernelStore> kernelsOf(const QString& path, const std::vector<LaneInfo>& lanes,
                                             const std::stop_token& stop) {
    const KernelTables tables(path, stop);
    KernelStoreBuilder builder(lanes);
    const std::unordered_map<std::int64_t, TaskOnLane> tasks = readTasks(tables, builder);
    struct Activity {
        std::string name;   // its value in PIPESCOPE_DEVICE_WORK
        std::string table;  // the suffix of the table's name
        std::string label;  // an SQL expression
    };
    const std::vector<Activity> activities{
        {"kernel", "KERNEL", "ifnull((SELECT value FROM StringIds AS s WHERE s.id = k.shortName), 'kernel')"},
        {"memcpy", "MEMCPY", "'copy'"},
        {"memset", "MEMSET", "'fill'"}};
    for (const Activity& activity : activities) {
        if (tasks.empty()) {
            break;  // most traces are of runs on the host
        }
        tables.read("PIPESCOPE_DEVICE_WORK AS w", "w.rowid",
                    "SELECT w.taskId, k.start, k.end, k.start - w.launchStart, " + activity.label +
                        " FROM PIPESCOPE_DEVICE_WORK AS w JOIN CUPTI_ACTIVITY_KIND_" + activity.table +
                        " AS k ON k.rowid = w.activityId WHERE w.activity = '" + activity.name +
                        "' AND k.start BETWEEN " + kEarliest + " AND " + kLatest + " AND k.end BETWEEN " + kEarliest +
                        " AND " + kLatest,
                    [&](const Row& row) {
                        const auto task = tasks.find(number(row[0]));
                        if (task != tasks.end()) {
                            builder.add({text(row[4]), task->second.key, task->second.lane, number(row[1]),
                                         number(row[2]), number(row[3])});
                        }
                    });
    }
    if (builder.size() == 0 || stop.stop_requested()) {
        return nullptr;
    }
    return std::make_shared<const KernelStore>(builder.finish());
}

std::shared_ptr<const KernelStore> kernelsOf(const OpenedTrace& trace) {
    KernelStoreBuilder builder(trace.measured.lanes);
    std::map<TaskKey, TaskWorkSum> sums;
    for (const LaunchedKernel& each : launched_kernels(trace)) {
        const std::int64_t start = each.range->start.count();
        const std::int64_t end = each.range->end.count();
        builder.add({trace.names.at(each.range->name), each.task->key, each.task->lane, start, end,
                     start - each.launch.count()});
        sums[each.task->key].add(each.is_kernel, start, end, each.launch.count());
    }
    for (const auto& [task, sum] : sums) {
        builder.setWork(task, {sum.kernels, sum.copies, sum.end - sum.start, sum.busy, sum.launch_delay});
    }
    return builder.size() == 0 ? nullptr : std::make_shared<const KernelStore>(builder.finish());
}
}  // namespace pipescope
