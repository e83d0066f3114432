#include "trace/store/device_work.h"

#include "trace/store/launch_attribution.h"
#include "trace/store/sqlite_insert.h"
#include "trace/store/sqlite_rows.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace pipescope {
namespace {
using Stream = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;  // process, device, context, stream

/// One kernel, copy or fill with its launch.
struct Work {
    const char* activity = "";
    std::int64_t row = 0;
    std::int64_t start = 0;
    std::int64_t end = 0;
    Stream stream;
    std::int64_t thread = 0;  // of the launching call
    std::int64_t launch = 0;
    std::optional<std::int64_t> task;
    bool by_stream = false;
};

struct Activity {
    const char* name;
    const char* table;
};
constexpr Activity kActivities[] = {{"kernel", "CUPTI_ACTIVITY_KIND_KERNEL"},
                                    {"memcpy", "CUPTI_ACTIVITY_KIND_MEMCPY"},
                                    {"memset", "CUPTI_ACTIVITY_KIND_MEMSET"}};

/// All device work with a known launch. `unknown` counts the rest.
std::vector<Work> read_work(SQLite::Database& db, std::int64_t& unknown) {
    std::vector<Work> all;
    for (const Activity& activity : kActivities) {
        // A runtime call and the driver call inside it may have the same number. The outer call starts first.
        SQLite::Statement query(db, std::string("SELECT w.rowid, w.start, w.end, w.globalPid, w.deviceId, w.contextId, "
                                                "w.streamId, r.globalTid, r.start FROM ") +
                                        activity.table +
                                        " AS w LEFT JOIN CUPTI_ACTIVITY_KIND_RUNTIME AS r ON r.correlationId = "
                                        "w.correlationId AND r.globalTid >> 24 = w.globalPid >> 24 "
                                        "ORDER BY w.rowid, r.start");
        std::int64_t last = -1;
        while (query.executeStep()) {
            const auto column = [&](int k) { return query.getColumn(k).getInt64(); };
            if (column(0) == last) {
                continue;
            }
            last = column(0);
            if (query.getColumn(7).isNull()) {
                ++unknown;
                continue;
            }
            const Stream stream{column(3), column(4), column(5), column(6)};
            all.push_back(
                {activity.name, column(0), column(1), column(2), stream, column(7), column(8), std::nullopt, false});
        }
    }
    return all;
}

/// Numbers items in order of arrival.
template <class Key>
class Numbers {
public:
    std::size_t of(const Key& key) { return numbers_.try_emplace(key, numbers_.size()).first->second; }

private:
    std::map<Key, std::size_t> numbers_;
};

struct Tasks {
    std::vector<std::int64_t> ids;
    std::vector<LaunchingTask> tasks;
};

Tasks read_tasks(SQLite::Database& db, Numbers<std::int64_t>& threads) {
    Tasks tasks;
    SQLite::Statement query(db,
                            "SELECT t.id, t.start, t.end, n.globalTid, ifnull(t.lane, -1), t.kind FROM PIPESCOPE_TASK "
                            "AS t JOIN NVTX_EVENTS AS n ON n.rowid = t.nvtxId WHERE t.source = 'measured'");
    while (query.executeStep()) {
        const auto column = [&](int k) { return query.getColumn(k).getInt64(); };
        const std::string kind = query.getColumn(5).getString();
        const bool computes = !kind.starts_with("copy_") && !kind.starts_with("skip_");
        tasks.ids.push_back(column(0));
        tasks.tasks.push_back({threads.of(column(3)), column(4), computes, column(1), column(2)});
    }
    return tasks;
}

void find_tasks(SQLite::Database& db, std::vector<Work>& all) {
    Numbers<std::int64_t> threads;
    Numbers<Stream> streams;
    const Tasks tasks = read_tasks(db, threads);
    std::vector<LaunchedWork> launched;
    launched.reserve(all.size());
    for (const Work& work : all) {
        launched.push_back({threads.of(work.thread), work.launch, streams.of(work.stream)});
    }
    const std::vector<Attribution> found = attribute_launches(tasks.tasks, launched);
    for (std::size_t k = 0; k < all.size(); ++k) {
        all[k].task = found[k].task ? std::optional(tasks.ids[*found[k].task]) : std::nullopt;
        all[k].by_stream = found[k].by_stream;
    }
}

/// Writes one task's work, which must be sorted by start.
void write_task(SQLite::Statement& row, const Work* first, const Work* last) {
    TaskWorkSum sum;
    for (const Work* work = first; work != last; ++work) {
        sum.add(std::string_view(work->activity) == "kernel", work->start, work->end, work->launch);
    }
    run(row, *first->task, sum.kernels, sum.copies, sum.start, sum.end, sum.busy, sum.end - sum.start - sum.busy,
        sum.launch_delay, sum.launch_gap, sum.paced);
}

void write_work(SQLite::Database& db, const std::vector<Work>& all) {
    SQLite::Statement row(db, "INSERT INTO PIPESCOPE_DEVICE_WORK VALUES (?,?,?,?,?)");
    for (const Work& work : all) {
        run(row, *work.task, work.activity, work.row, work.launch, work.by_stream ? "stream" : "thread");
    }
    SQLite::Statement task(db,
                           "INSERT INTO PIPESCOPE_TASK_DEVICE (taskId, kernels, copies, start, end, busy, gap, "
                           "launchDelay, launchGap, paced) VALUES (?,?,?,?,?,?,?,?,?,?)");
    for (std::size_t begin = 0; begin < all.size();) {
        std::size_t end = begin;
        while (end < all.size() && all[end].task == all[begin].task) {
            ++end;
        }
        write_task(task, all.data() + begin, all.data() + end);
        begin = end;
    }
}
}  // namespace

DeviceWorkCounts attribute_device_work(SQLite::Database& db) {
    DeviceWorkCounts found;
    const std::set<std::string, std::less<>> columns = columns_of_table(db, "PIPESCOPE_TASK_DEVICE");
    for (const std::string column : {"launchGap", "paced"}) {  // an unclosed trace of an earlier build lacks them
        if (!columns.contains(column)) {
            db.exec("ALTER TABLE PIPESCOPE_TASK_DEVICE ADD COLUMN " + column + " INTEGER");
        }
    }
    db.exec(
        "DELETE FROM PIPESCOPE_DEVICE_WORK; DELETE FROM PIPESCOPE_TASK_DEVICE;"
        "CREATE INDEX IF NOT EXISTS CUPTI_RUNTIME_BY_CORRELATION ON CUPTI_ACTIVITY_KIND_RUNTIME (correlationId)");
    std::vector<Work> all = read_work(db, found.unattributed);
    find_tasks(db, all);
    for (const Work& work : all) {
        if (work.start < work.launch) {
            ++found.early;
            found.most_early_ns = std::max(found.most_early_ns, work.launch - work.start);
        }
    }
    const auto without = std::partition(all.begin(), all.end(), [](const Work& work) { return work.task.has_value(); });
    found.unattributed += all.end() - without;
    all.erase(without, all.end());
    found.attributed = static_cast<std::int64_t>(all.size());
    std::ranges::sort(all, [](const Work& a, const Work& b) {
        return std::tie(a.task, a.start, a.row) < std::tie(b.task, b.start, b.row);
    });
    write_work(db, all);
    return found;
}
}  // namespace pipescope
