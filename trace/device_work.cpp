#include "trace/device_work.h"

#include <SQLiteCpp/SQLiteCpp.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

namespace pipescope {
namespace {
struct TaskSpan {
    std::int64_t id = 0;
    std::int64_t start = 0;
    std::int64_t end = 0;
};

/// Tasks of one thread, which follow or contain each other. Finds the task that ran at a given time.
class TaskIndex {
public:
    void add(const TaskSpan& task) { tasks_.push_back(task); }

    void sort() {
        std::sort(tasks_.begin(), tasks_.end(), [](const TaskSpan& a, const TaskSpan& b) { return a.start < b.start; });
        std::int64_t last_end = 0;
        for (const TaskSpan& task : tasks_) {
            last_end = std::max(last_end, task.end);
            last_ends_.push_back(last_end);
        }
    }
    /// The innermost task, or empty.
    std::optional<std::int64_t> at(std::int64_t time) const {
        const auto after = std::upper_bound(tasks_.begin(), tasks_.end(), time,
                                            [](std::int64_t t, const TaskSpan& task) { return t < task.start; });
        for (auto k = static_cast<std::size_t>(after - tasks_.begin()); k > 0 && last_ends_[k - 1] >= time; --k) {
            if (tasks_[k - 1].end >= time) {
                return tasks_[k - 1].id;
            }
        }
        return std::nullopt;
    }

private:
    std::vector<TaskSpan> tasks_;
    std::vector<std::int64_t> last_ends_;  // latest end so far: limits the search
};

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
        // A runtime call and the driver call inside it may have the same number. The outer one starts first.
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
            all.push_back({activity.name,
                           column(0),
                           column(1),
                           column(2),
                           {column(3), column(4), column(5), column(6)},
                           column(7),
                           column(8),
                           std::nullopt,
                           false});
        }
    }
    return all;
}

/// Measured tasks by thread and, for compute tasks, by lane.
struct Tasks {
    std::map<std::int64_t, TaskIndex> of_thread;
    std::map<std::int64_t, TaskIndex> of_lane;
    std::map<std::int64_t, std::int64_t> lanes;  // task -> lane
};

Tasks read_tasks(SQLite::Database& db) {
    Tasks tasks;
    SQLite::Statement query(db,
                            "SELECT t.id, t.start, t.end, n.globalTid, t.lane, t.kind FROM PIPESCOPE_TASK AS t JOIN "
                            "NVTX_EVENTS AS n ON n.rowid = t.nvtxId WHERE t.source = 'measured'");
    while (query.executeStep()) {
        const TaskSpan task{query.getColumn(0).getInt64(), query.getColumn(1).getInt64(),
                            query.getColumn(2).getInt64()};
        tasks.of_thread[query.getColumn(3).getInt64()].add(task);
        if (query.getColumn(4).isNull()) {
            continue;
        }
        tasks.lanes[task.id] = query.getColumn(4).getInt64();
        const std::string kind = query.getColumn(5).getString();
        if (!kind.starts_with("copy_") && !kind.starts_with("skip_")) {
            tasks.of_lane[query.getColumn(4).getInt64()].add(task);
        }
    }
    for (auto* indexes : {&tasks.of_thread, &tasks.of_lane}) {
        for (auto& [key, index] : *indexes) {
            index.sort();
        }
    }
    return tasks;
}

/// For each stream, the lane with the most launches on it.
std::map<Stream, std::int64_t> lanes_of_streams(const std::vector<Work>& all, const Tasks& tasks) {
    std::map<Stream, std::map<std::int64_t, std::int64_t>> votes;
    for (const Work& work : all) {
        if (work.task && tasks.lanes.contains(*work.task)) {
            ++votes[work.stream][tasks.lanes.at(*work.task)];
        }
    }
    std::map<Stream, std::int64_t> lanes;
    for (const auto& [stream, counts] : votes) {
        lanes[stream] = std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) {
                            return a.second < b.second;
                        })->first;
    }
    return lanes;
}

void find_tasks(std::vector<Work>& all, const Tasks& tasks) {
    for (Work& work : all) {
        if (const auto thread = tasks.of_thread.find(work.thread); thread != tasks.of_thread.end()) {
            work.task = thread->second.at(work.launch);
        }
    }
    const auto lanes = lanes_of_streams(all, tasks);
    for (Work& work : all) {
        const auto lane = lanes.find(work.stream);
        if (!work.task && lane != lanes.end() && tasks.of_lane.contains(lane->second)) {
            work.task = tasks.of_lane.at(lane->second).at(work.launch);
            work.by_stream = work.task.has_value();
        }
    }
}

/// Sums up the work of one task, sorted by start.
void write_task(SQLite::Statement& row, const Work* first, const Work* last) {
    std::int64_t kernels = 0;
    std::int64_t busy = 0;
    std::int64_t covered_to = first->start;
    for (const Work* work = first; work != last; ++work) {
        kernels += std::string_view(work->activity) == "kernel" ? 1 : 0;
        busy += std::max<std::int64_t>(0, work->end - std::max(work->start, covered_to));
        covered_to = std::max(covered_to, work->end);
    }
    int index = 0;
    for (const std::int64_t value :
         {*first->task, kernels, static_cast<std::int64_t>(last - first) - kernels, first->start, covered_to, busy,
          covered_to - first->start - busy, first->start - first->launch}) {
        row.bind(++index, value);
    }
    row.exec();
    row.reset();
}

void write_work(SQLite::Database& db, const std::vector<Work>& all) {
    SQLite::Statement row(db, "INSERT INTO PIPESCOPE_DEVICE_WORK VALUES (?,?,?,?,?)");
    for (const Work& work : all) {
        row.bind(1, *work.task);
        row.bindNoCopy(2, work.activity);
        row.bind(3, work.row);
        row.bind(4, work.launch);
        row.bindNoCopy(5, work.by_stream ? "stream" : "thread");
        row.exec();
        row.reset();
    }
    SQLite::Statement task(db, "INSERT INTO PIPESCOPE_TASK_DEVICE VALUES (?,?,?,?,?,?,?,?)");
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
    db.exec(
        "DELETE FROM PIPESCOPE_DEVICE_WORK; DELETE FROM PIPESCOPE_TASK_DEVICE;"
        "CREATE INDEX IF NOT EXISTS CUPTI_RUNTIME_BY_CORRELATION ON CUPTI_ACTIVITY_KIND_RUNTIME (correlationId)");
    std::vector<Work> all = read_work(db, found.unattributed);
    find_tasks(all, read_tasks(db));
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
    std::sort(all.begin(), all.end(), [](const Work& a, const Work& b) {
        return std::tie(a.task, a.start, a.row) < std::tie(b.task, b.start, b.row);
    });
    write_work(db, all);
    return found;
}
}  // namespace pipescope
