#include "trace/store/trace_reader.h"

#include "base/printable.h"
#include "trace/store/json_nesting.h"
#include "trace/store/nsys_tables.h"
#include "trace/store/slice_row.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/sqlite_rows.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_migration.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <string>
#include <unordered_set>

namespace pipescope {
namespace {
constexpr const char* kSelectSamples =
    "SELECT lane, time, allocated, peak, reserved, taskId, parameters, gradients, optimizer, boundary, saved, skip, "
    "transient, copy, output, rowid FROM PIPESCOPE_MEMORY";

constexpr std::size_t kMostOfALane = 80;  // bytes in a message
constexpr std::size_t kMostOfASource = 40;

/// The lanes of a trace. Every task and sample must lie in one of them.
class DeclaredLanes {
public:
    /// A trace that is still being written, or was killed before its lanes were named, may have any lane.
    DeclaredLanes(bool is_closed, std::size_t lanes)
        : end_(is_closed && lanes > 0 ? static_cast<std::int64_t>(lanes) : kMostPartitions) {}

    std::int64_t end() const { return end_; }
    [[noreturn]] void refuse(LaneId lane, const std::string& what) const {
        throw DamagedValue(
            fmt::format("{} has the lane {}; the trace's lanes are 0 to {}", what, lane.value(), end_ - 1));
    }

private:
    std::int64_t end_;
};

/// The sample of a row of kSelectSamples. Throws DamagedValue.
MemorySample sample_of(const Rows& row, const DeclaredLanes& lanes) {
    constexpr int kFirstCategory = 6;
    MemorySample sample{LaneId{row.id(0)}, row.time(1),   row.amount(2),
                        row.amount(3),     row.amount(4), row.is_null(5) ? -1 : row.integer(5)};
    for (int k = 0; k < static_cast<int>(kNumMemoryCategories); ++k) {
        if (!row.is_null(kFirstCategory + k)) {
            const Bytes bytes = row.amount(kFirstCategory + k);
            if (bytes < 0) {
                throw DamagedValue(fmt::format("a memory sample holds {} bytes; that is from 0 to 2^53", bytes));
            }
            sample.composition[static_cast<MemoryCategory>(k)] = bytes;
        }
    }
    if (const std::string fault = fault_of(sample); !fault.empty()) {
        throw DamagedValue("a memory sample " + fault);
    }
    if (sample.lane.value() >= lanes.end()) {
        lanes.refuse(sample.lane, "a memory sample");
    }
    return sample;
}
}  // namespace

struct TraceReader::Impl {
    explicit Impl(const std::filesystem::path& file)
        : path(file), db(guard_sqlite("open", file, [&] {
              require_sqlite_file(file);
              require_whole_file(file);
              return open_to_read(file);
          })) {}

    void require_format() {
        guard_sqlite("read", path, [&] { show_as_current(db, require_trace_format(db, path)); });
    }

    std::set<std::string, std::less<>> columns_of(const std::string& table) {
        return guard_sqlite("read", path, [&] { return columns_of_table(db, table); });
    }

    /// Calls `each(row)` for every row of the query.
    template <class Each>
    void for_each(const char* sql, Each&& each) {
        guard_sqlite("read", path, [&] {
            Rows rows(db, sql);
            while (rows.next()) {
                each(rows);
            }
        });
    }

    /// True if a finished trace has no tasks of the other source, without reading the table. Comparing a text in each
    /// row costs a tenth of reading it.
    bool holds_only(Source source) {
        Rows index(db, "SELECT 1 FROM sqlite_master WHERE name = 'PIPESCOPE_TASK_BY_TIME'");
        if (!index.next()) {
            return false;  // still being written
        }
        Rows other(db, "SELECT 1 FROM PIPESCOPE_TASK WHERE source = ? LIMIT 1");
        other.bind(1, to_string(source == Source::measured ? Source::simulated : Source::measured));
        return !other.next();
    }

    /// Throws DamagedValue if one of these tasks is neither measured nor simulated: no query would find it. The index
    /// finds it at once. Without an index, in a trace that is still being written, reads only the given rows.
    void require_known_sources(const RowIds& ids) {
        Rows index(db, "SELECT 1 FROM sqlite_master WHERE name = 'PIPESCOPE_TASK_BY_TIME'");
        const auto require_none = [&](const std::string& condition) {
            Rows other(db, "SELECT source, id FROM PIPESCOPE_TASK WHERE " + condition + " LIMIT 1");
            if (other.next()) {
                throw DamagedValue(fmt::format("task {} has the source '{}'; it must be measured or simulated",
                                               other.number(1), shortened(other.text(0), kMostOfASource)));
            }
        };
        if (index.next()) {
            for (const char* condition : {"source IS NULL", "source < 'measured'", "source > 'simulated'",
                                          "source > 'measured' AND source < 'simulated'"}) {
                require_none(condition);
            }
        } else {
            require_none(
                fmt::format("id BETWEEN {} AND {} AND (source IS NULL OR source NOT IN ('measured', 'simulated'))",
                            ids.first, ids.last));
        }
    }

    DeclaredLanes declared_lanes(std::size_t lanes) {
        Rows closed(db, "SELECT 1 FROM PIPESCOPE_RUN WHERE key = 'closed'");
        return {closed.next(), lanes};
    }

    [[noreturn]] void damaged(const std::string& what) const {
        throw TraceFormatError("trace " + quoted(path) + " is damaged: " + what + "; record it again");
    }

    /// A parser stops at a byte 0 and would ignore the rest.
    void require_json(const std::string& what, std::string_view text) const {
        if (nests_too_deep(text)) {
            damaged(fmt::format("{} nests deeper than {} levels", printable(what), kMostJsonNesting));
        }
        if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
            damaged(fmt::format("byte {} of {} is 0", zero + 1, printable(what)));
        }
    }

    std::filesystem::path path;
    ForeignDatabase db;
};

TraceReader::TraceReader(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {
    impl_->require_format();
}

TraceReader::TraceReader(const std::filesystem::path& path) : TraceReader(std::make_unique<Impl>(path)) {}

std::optional<TraceReader> TraceReader::open(const std::filesystem::path& path) {
    if (looks_like_json(path)) {
        return std::nullopt;
    }
    auto impl = std::make_unique<Impl>(path);
    const bool is_of_nsys = guard_sqlite("read", path, [&] {
        SQLite::Database& db = impl->db;
        return !db.tableExists("PIPESCOPE_RUN") && !db.tableExists("PIPESCOPE_TASK") && has_nsys_tables(db);
    });
    return is_of_nsys ? std::nullopt : std::optional(TraceReader(std::move(impl)));
}

TraceReader::~TraceReader() = default;
TraceReader::TraceReader(TraceReader&&) noexcept = default;
TraceReader& TraceReader::operator=(TraceReader&&) noexcept = default;

void TraceReader::keep_snapshot() {
    guard_sqlite("read", impl_->path, [&] { pipescope::keep_snapshot(impl_->db); });
}

OpenedTrace TraceReader::head() const {
    OpenedTrace trace;
    trace.measured.lanes = lanes();
    std::vector<DiagnosticRecord> faults;
    trace.steps = read_steps(faults);
    trace.run = run();
    trace.profile_json = profile_json();
    trace.drops = drops();
    trace.diagnostics = diagnostics();
    if (!faults.empty()) {  // one for all: a file may have a million steps
        trace.diagnostics.push_back(std::move(faults.front()));
    }
    trace.clocks = clocks();
    trace.overheads = overheads();
    trace.utc_epoch_ns = utc_epoch_ns();
    if (trace.run.contains("source")) {
        trace.on_device = tasks_on_device();
        trace.lane_work = lane_work();
    }
    return trace;
}

bool TraceReader::has_table(const std::string& name) const {
    bool is_there = false;
    const std::string sql = "SELECT 1 FROM sqlite_master WHERE name = '" + name + "'";
    impl_->for_each(sql.c_str(), [&](const Rows&) { is_there = true; });
    return is_there;
}

std::vector<LaneWork> TraceReader::lane_work() const {
    std::vector<LaneWork> work;
    if (!has_table("PIPESCOPE_LANE_WORK")) {  // an earlier version imported the trace
        return work;
    }
    impl_->for_each("SELECT lane, kind, start, end FROM PIPESCOPE_LANE_WORK", [&](const Rows& row) {
        const std::optional<LaneWorkKind> kind = parse_lane_work_kind(row.text(1));
        const LaneWork each{LaneId{row.number(0)}, kind.value_or(LaneWorkKind::data), row.time(2), row.time(3)};
        if (kind && each.lane.value() >= 0 && each.end >= each.start) {  // a later version may have more kinds
            work.push_back(each);
        }
    });
    return joined_work(std::move(work));
}

std::vector<TaskOnDevice> TraceReader::tasks_on_device() const {
    std::vector<TaskOnDevice> tasks;
    if (!has_table("PIPESCOPE_TASK_DEVICE")) {
        return tasks;
    }
    // An earlier version did not tell the causes of gaps, and took all of them for late launches.
    const auto columns = impl_->columns_of("PIPESCOPE_TASK_DEVICE");
    const std::string launch_gap = columns.contains("launchGap") ? "ifnull(d.launchGap, d.gap)" : "d.gap";
    const std::string paced = columns.contains("paced") ? "d.paced" : "NULL";
    const std::string sql =
        "SELECT t.step, t.kind, t.partition, t.microBatch, t.skip, t.lane, d.start, d.end, t.bytes, t.id, d.kernels, "
        "d.copies, d.busy, d.launchDelay, " +
        launch_gap + ", " + paced +
        " FROM PIPESCOPE_TASK_DEVICE AS d JOIN PIPESCOPE_TASK AS t ON t.id = d.taskId "
        "WHERE +t.source = 'measured' ORDER BY d.taskId";
    impl_->for_each(sql.c_str(), [&](const Rows& row) {
        const Slice slice = slice_of(row);
        const TaskOnDevice task{slice.key,
                                row.amount(10),
                                row.amount(11),
                                slice.start,
                                slice.end,
                                row.time(12),
                                slice.start - row.time(13),
                                row.time(14),
                                row.time(15)};
        if (task.busy > slice.duration() || task.busy.count() < 0) {
            impl_->damaged(fmt::format("the device worked {} ns for task {}, in a span of {} ns", task.busy.count(),
                                       row.number(9), slice.duration().count()));
        }
        tasks.push_back(task);
    });
    return tasks;
}

void TraceReader::for_each_device_activity(const std::function<void(const DeviceActivity&)>& each) const {
    guard_sqlite("read", impl_->path, [&] { pipescope::for_each_device_activity(impl_->db, each); });
}

void TraceReader::read_tracks(OpenedTrace& trace) const {
    guard_sqlite("read", impl_->path, [&] { read_nsys_tables(impl_->db, trace); });
}

std::map<std::string, std::string> TraceReader::run() const {
    std::map<std::string, std::string> values;
    impl_->for_each("SELECT key, value FROM PIPESCOPE_RUN", [&](const Rows& row) {
        impl_->require_json(fmt::format("the value of '{}' in PIPESCOPE_RUN", row.text(0)), row.text(1));
        values.emplace(row.text(0), row.text(1));
    });
    return values;
}

std::vector<LaneInfo> TraceReader::lanes() const {
    std::vector<LaneInfo> lanes;
    impl_->for_each("SELECT value FROM PIPESCOPE_RUN WHERE key = 'lanes'", [&](const Rows& row) {
        impl_->require_json("the value of 'lanes' in PIPESCOPE_RUN", row.text(0));
        const auto listed = nlohmann::json::parse(row.text(0), nullptr, /*allow_exceptions=*/false);
        const auto text_of = [&](const nlohmann::json& lane, const char* key) {
            const auto found = lane.is_object() ? lane.find(key) : lane.end();
            if (found == lane.end() || !found->is_string()) {
                impl_->damaged(fmt::format(
                    "its list of lanes holds {}; each lane has the texts name and device",
                    shortened(lane.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace), kMostOfALane)));
            }
            return found->get<std::string>();
        };
        if (!listed.is_array()) {
            impl_->damaged("its list of lanes is no JSON array");
        }
        if (listed.size() > static_cast<std::size_t>(kMostPartitions)) {
            impl_->damaged(fmt::format("its list of lanes has {} entries; a trace has at most {} lanes", listed.size(),
                                       kMostPartitions));
        }
        for (const auto& lane : listed) {
            lanes.push_back({text_of(lane, "name"), text_of(lane, "device")});
        }
    });
    return lanes;
}

std::optional<std::string> TraceReader::profile_json() const {
    std::optional<std::string> profile;
    impl_->for_each("SELECT profile FROM PIPESCOPE_PROFILE LIMIT 1", [&](const Rows& row) {
        impl_->require_json("the stored profile", row.text(0));
        profile = row.text(0);
    });
    return profile;
}

std::optional<std::int64_t> TraceReader::utc_epoch_ns() const {
    std::optional<std::int64_t> start;
    impl_->for_each("SELECT utcEpochNs FROM TARGET_INFO_SESSION_START_TIME LIMIT 1", [&](const Rows& row) {
        const std::int64_t time = row.integer(0);
        start = row.holds_time(0) ? std::optional(time) : std::nullopt;
    });
    return start;
}

namespace {
/// The load in four columns; empty if it was not recorded, or if a value is none. Then `faults` says so.
std::optional<StepLoad> load_of_row(const Rows& row, int first, std::vector<DiagnosticRecord>& faults) {
    if (row.is_null(first) || row.is_null(first + 1) || row.is_null(first + 3)) {
        return std::nullopt;
    }
    StepLoad load{{row.real(first), row.real(first + 1), std::nullopt}, row.time(first + 3)};
    if (!row.is_null(first + 2)) {
        load.shares.pressure = row.real(first + 2);
    }
    for (const double share : {load.shares.others, load.shares.stolen, load.shares.pressure.value_or(0)}) {
        if (!(share >= 0 && share <= 1)) {
            faults.push_back(
                {"warning", "trace",
                 fmt::format("PIPESCOPE_STEP has a load of {} in step {}; a share is from 0 to 1; the load "
                             "of this step is left out",
                             share, row.id(0))});
            return std::nullopt;
        }
    }
    return load;
}
}  // namespace

std::vector<StepRecord> TraceReader::steps() const {
    std::vector<DiagnosticRecord> faults;
    return read_steps(faults);
}

std::vector<StepRecord> TraceReader::read_steps(std::vector<DiagnosticRecord>& faults) const {
    std::vector<StepRecord> steps;
    std::unordered_set<std::int32_t> numbers;
    // An earlier recorder noted no samples and no load.
    const std::set<std::string, std::less<>> columns = impl_->columns_of("PIPESCOPE_STEP");
    std::string sql = "SELECT step, start, end, wallStart, wallEnd, trainingLoss, warmup";
    for (const char* column : {"samples", "loadOthers", "loadStolen", "loadPressure", "loadTime"}) {
        sql += std::string(", ") + (columns.contains(column) ? column : "NULL");
    }
    sql += " FROM PIPESCOPE_STEP ORDER BY rowid";
    impl_->for_each(sql.c_str(), [&](const Rows& row) {
        StepRecord step{row.id(0),   row.time(1), row.time(2),         row.time(3),
                        row.time(4), row.real(5), row.integer(6) != 0, row.amount(7)};
        step.load = load_of_row(row, 8, faults);
        if (step.samples < 0) {
            impl_->damaged("step " + std::to_string(step.step) + " has " + std::to_string(step.samples) + " samples");
        }
        if (step.end < step.start || step.wall_end < step.wall_start) {
            impl_->damaged("step " + std::to_string(step.step) + " ends before it starts");
        }
        if (!numbers.insert(step.step).second) {
            impl_->damaged("PIPESCOPE_STEP has step " + std::to_string(step.step) + " twice; each step has one row");
        }
        steps.push_back(step);
    });
    // They are usually written in this order. SQLite would sort them anyway.
    if (!std::ranges::is_sorted(steps, {}, &StepRecord::start)) {
        std::ranges::stable_sort(steps, {}, &StepRecord::start);
    }
    return steps;
}

Timeline TraceReader::timeline(Source source) const {
    Timeline timeline{source, lanes(), {}};
    read_tasks(source, task_ids(), [&](std::span<const Slice> slices) {
        timeline.slices.insert(timeline.slices.end(), slices.begin(), slices.end());
        return true;
    });
    // Every slice needs its lane's entry, even if the run was cut off before the lanes were named.
    for (const Slice& slice : timeline.slices) {
        while (slice.lane.index() >= timeline.lanes.size()) {
            timeline.lanes.push_back({"lane " + std::to_string(timeline.lanes.size()), ""});
        }
    }
    sort_slices(timeline);
    return timeline;
}

RowIds TraceReader::task_ids() const {
    return guard_sqlite("read", impl_->path, [&] {
        Rows row(impl_->db, "SELECT min(id), (SELECT max(id) FROM PIPESCOPE_TASK) FROM PIPESCOPE_TASK");
        return row.next() && !row.is_null(0) ? RowIds{row.integer(0), row.integer(1)} : RowIds{};
    });
}

std::int64_t TraceReader::read_tasks(Source source, const RowIds& ids,
                                     const std::function<bool(std::span<const Slice>)>& each) const {
    std::vector<Slice> batch;
    batch.reserve(kTaskBatch);
    std::int64_t last = ids.first - 1;
    guard_sqlite("read", impl_->path, [&] {
        const DeclaredLanes declared = impl_->declared_lanes(lanes().size());
        impl_->require_known_sources(ids);
        // The unary plus keeps SQLite from using the index by source, which would jump through the whole file.
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
            if (batch.back().lane.value() >= declared.end()) {
                declared.refuse(batch.back().lane, fmt::format("task {}", last));
            }
            if (batch.size() == kTaskBatch) {
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
std::vector<MemorySample> TraceReader::memory() const {
    std::vector<MemorySample> samples;
    for_each_memory([&](const MemorySample& sample) { samples.push_back(sample); });
    return samples;
}

void TraceReader::for_each_memory(const std::function<void(const MemorySample&)>& each) const {
    const DeclaredLanes declared = impl_->declared_lanes(lanes().size());
    impl_->for_each((std::string(kSelectSamples) + " ORDER BY lane, time, rowid").c_str(),
                    [&](const Rows& row) { each(sample_of(row, declared)); });
}

std::int64_t TraceReader::memory_since(std::int64_t after, const std::function<void(const MemorySample&)>& each) const {
    const DeclaredLanes declared = impl_->declared_lanes(lanes().size());
    const std::string sql = std::string(kSelectSamples) + " WHERE rowid > " + std::to_string(after) + " ORDER BY rowid";
    impl_->for_each(sql.c_str(), [&](const Rows& row) {
        each(sample_of(row, declared));
        after = row.integer(6 + static_cast<int>(kNumMemoryCategories));
    });
    return after;
}

std::vector<DropRecord> TraceReader::drops() const {
    std::vector<DropRecord> drops;
    impl_->for_each(
        "SELECT source, thread, recorded, dropped, truncated, openAtExit FROM PIPESCOPE_DROPS "
        "ORDER BY source, thread",
        [&](const Rows& row) {
            const DropRecord drop{
                std::string(row.text(0)), row.integer(1), row.amount(2), row.amount(3), row.amount(4), row.amount(5)};
            if (const std::int64_t least = std::min({drop.recorded, drop.dropped, drop.truncated, drop.open_at_exit});
                least < 0) {
                impl_->damaged(fmt::format("PIPESCOPE_DROPS has the count {}; counts begin with 0", least));
            }
            drops.push_back(drop);
        });
    return drops;
}

std::vector<ClockRecord> TraceReader::clocks() const {
    std::vector<ClockRecord> clocks;
    impl_->for_each("SELECT realtime, monotonic, boottime, tsc FROM PIPESCOPE_CLOCK ORDER BY rowid",
                    [&](const Rows& row) {
                        clocks.push_back({row.integer(0), row.integer(1), row.integer(2), row.integer(3)});
                    });
    return clocks;
}

std::vector<DiagnosticRecord> TraceReader::diagnostics() const {
    std::vector<DiagnosticRecord> diagnostics;
    impl_->for_each("SELECT severity, source, text FROM PIPESCOPE_DIAGNOSTIC ORDER BY rowid", [&](const Rows& row) {
        diagnostics.push_back({std::string(row.text(0)), std::string(row.text(1)), std::string(row.text(2))});
    });
    return diagnostics;
}

std::vector<OverheadRecord> TraceReader::overheads() const {
    std::vector<OverheadRecord> overheads;
    impl_->for_each("SELECT source, what, value FROM PIPESCOPE_OVERHEAD ORDER BY rowid", [&](const Rows& row) {
        overheads.push_back({std::string(row.text(0)), std::string(row.text(1)), row.integer(2)});
    });
    return overheads;
}
}  // namespace pipescope
