#include "trace/store/nsys_tables.h"

#include "base/quantities.h"
#include "trace/store/range_tracks.h"
#include "trace/store/slice_row.h"
#include "trace/store/sqlite_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
constexpr std::int64_t kMark = 34;
constexpr std::int64_t kPushPop = 59;
constexpr std::int64_t kStartEnd = 60;
constexpr std::int64_t kDomainCreate = 75;

/// The tables of calls and device work that are read.
const std::array<std::string, 5> kActivityTables{"CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL",
                                                 "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET",
                                                 "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"};

std::int64_t process_of(std::int64_t global_tid) {
    return (global_tid >> 24) & 0xff'ffff;
}
std::int64_t thread_of(std::int64_t global_tid) {
    return global_tid & 0xff'ffff;
}

using Columns = std::vector<const char*>;

/// Calls read(row) for each row of a table. The row has `columns`, with NULL for a column that the table lacks. Reads
/// nothing if the table or a required column is missing. `rest` follows the table's name in the statement.
template <class Read>
void for_each_row(SQLite::Database& db, const std::string& table, const Columns& required, const Columns& columns,
                  const std::string& rest, Read read) {
    std::set<std::string, std::less<>> existing = columns_of_table(db, table);
    const auto exists = [&](const char* name) { return existing.contains(name); };
    if (!existing.empty()) {
        existing.emplace("rowid");
    }
    if (!std::ranges::all_of(required, exists)) {
        return;
    }
    std::string sql;
    for (const char* column : columns) {
        sql += (sql.empty() ? "SELECT " : ", ") + std::string(exists(column) ? column : "NULL");
    }
    Rows rows(db, sql + " FROM " + table + " " + rest);
    while (rows.next()) {
        read(rows);
    }
}

/// Reads a StringIds or ENUM_ table: number to text.
std::map<std::int64_t, std::string> texts_of(SQLite::Database& db, const char* table, const char* text) {
    std::map<std::int64_t, std::string> texts;
    for_each_row(db, table, {"id", text}, {"id", text}, "",
                 [&](const Rows& row) { texts.emplace(row.number(0), row.text(1)); });
    return texts;
}

std::string text_or(const std::map<std::int64_t, std::string>& texts, std::int64_t id, std::string otherwise) {
    const auto found = texts.find(id);
    return found == texts.end() || found->second.empty() ? std::move(otherwise) : found->second;
}

std::map<std::int64_t, std::string> read_domains(SQLite::Database& db,
                                                 const std::map<std::int64_t, std::string>& strings) {
    std::map<std::int64_t, std::string> domains;
    for_each_row(db, "NVTX_EVENTS", {"eventType", "domainId"}, {"domainId", "text", "textId"},
                 fmt::format("WHERE eventType = {}", kDomainCreate), [&](const Rows& row) {
                     domains[row.number(0)] =
                         row.is_null(1) ? text_or(strings, row.number(2), "") : std::string(row.text(1));
                 });
    return domains;
}

class NsysTables {
public:
    NsysTables(SQLite::Database& db, OpenedTrace& trace)
        : db_(db), trace_(trace), strings_(texts_of(db, "StringIds", "value")), domains_(read_domains(db, strings_)) {}

    /// Calls `each` for all device work, and keeps none; the tasks and messages of the work are kept.
    void visit(const std::function<void(const DeviceActivity&)>& each) {
        each_ = &each;
        read_names();
        read_tasks_of_work();
        read_work();
    }

    void read() {
        read_start_time();
        read_names();
        read_events();
        read_ranges();
        read_calls();
        read_work();
        close_open_ranges();
        for (auto& [key, track] : tracks_) {
            trace_.tracks.push_back(std::move(track));
        }
        arrange_tracks(trace_, names_);
        read_arrows();
        finish_samples();
        trace_.names = names_.take();
        trace_.facts = facts_.take();
        read_device_memory();
        read_gpu_metrics();
        warn_of_other_tables();
        if (left_out_ > 0) {
            trace_.diagnostics.push_back(
                {"warning", "import",
                 fmt::format("{} left out: a start or an end is no whole number of ns between -2^62 and 2^62; the file "
                             "is damaged; record it again",
                             counted(left_out_, "range is", "ranges are"))});
        }
    }

private:
    /// Newer exports may rename a table, and its work would be missing without a warning.
    void warn_of_other_tables() {
        std::vector<std::string> others;
        for (const std::string& known : kActivityTables) {
            Rows names(db_, "SELECT name FROM sqlite_master WHERE type = 'table' AND name GLOB '" + known +
                                "?*' ORDER BY name");
            while (names.next()) {
                if (std::ranges::find(kActivityTables, names.text(0)) == kActivityTables.end()) {
                    others.emplace_back(names.text(0));
                }
            }
        }
        if (!others.empty()) {
            trace_.diagnostics.push_back(
                {"warning", "import",
                 fmt::format(
                     "the {} {} {} not read: this PipeScope does not know the export's version, and calls or device "
                     "work are missing; export it with nsys 2024.6, or rename the table",
                     others.size() == 1 ? "table" : "tables", fmt::join(others, ", "),
                     others.size() == 1 ? "is" : "are")});
        }
    }

    using Kind = RangeTrack::Kind;
    using TrackKey = std::tuple<Kind, std::int64_t, std::int64_t, std::int64_t>;

    void read_start_time() {
        for_each_row(db_, "TARGET_INFO_SESSION_START_TIME", {"utcEpochNs"}, {"utcEpochNs"},
                     "WHERE utcEpochNs NOT NULL LIMIT 1", [&](const Rows& row) {
                         if (row.holds_time(0)) {
                             trace_.utc_epoch_ns = row.number(0);
                         }
                     });
    }

    void read_names() {
        for_each_row(db_, "ThreadNames", {"nameId", "globalTid"}, {"nameId", "globalTid"}, "",
                     [&](const Rows& row) { thread_names_[row.number(1)] = text_or(strings_, row.number(0), ""); });
        for_each_row(db_, "PROCESSES", {"pid", "name"}, {"pid", "name"}, "",
                     [&](const Rows& row) { process_names_[row.number(0)] = row.text(1); });
        for_each_row(db_, "TARGET_INFO_GPU", {"id", "name"}, {"id", "name", "cuDevice"}, "", [&](const Rows& row) {
            device_names_[row.is_null(2) ? row.number(0) : row.number(2)] = row.text(1);
        });
        // Our older traces have no streamId.
        for_each_row(db_, "PIPESCOPE_RESOURCE", {"kind", "name", "streamId"}, {"streamId", "name"},
                     "WHERE kind = 'CUDA stream' AND streamId NOT NULL",
                     [&](const Rows& row) { names_of_streams_[row.number(0)] = row.text(1); });
    }

    /// Finds each range's event, in a trace joined from other programs' files.
    void read_events() {
        for_each_row(db_, "PIPESCOPE_EVENT_FILE", {"file", "path"}, {"path"}, "ORDER BY file",
                     [&](const Rows& row) { trace_.event_files.emplace_back(row.text(0)); });
        for_each_row(db_, "PIPESCOPE_EVENT", {"activity", "activityId", "file", "event"},
                     {"activity", "activityId", "file", "event"}, "", [&](const Rows& row) {
                         const std::int64_t file = row.number(2);
                         const std::int64_t event = row.number(3);
                         if (file >= 0 && file < std::ssize(trace_.event_files) && event > 0 && event <= UINT32_MAX) {
                             events_[std::string(row.text(0))].try_emplace(
                                 row.number(1),
                                 std::pair(static_cast<std::uint16_t>(file), static_cast<std::uint32_t>(event)));
                         }
                     });
    }

    using Events = std::unordered_map<std::int64_t, std::pair<std::uint16_t, std::uint32_t>>;

    /// Events of a table's rows. Null if it has none.
    const Events* events_of(const std::string& table) const {
        const auto found = events_.find(table);
        return found == events_.end() ? nullptr : &found->second;
    }

    /// Sets the range's event, found by the row's number in `column`.
    static void set_event(TraceRange& range, const Events* events, const Rows& row, int column) {
        if (events == nullptr) {
            return;
        }
        if (const auto found = events->find(row.number(column)); found != events->end()) {
            std::tie(range.file, range.event) = found->second;
        }
    }

    /// Call it after the tracks are arranged.
    void read_arrows() {
        struct Ends {
            std::uint64_t from;
            std::uint64_t to;
        };
        const auto id = [](std::int64_t file, std::int64_t event) {
            return static_cast<std::uint64_t>(file) << 32U | static_cast<std::uint32_t>(event);
        };
        std::vector<Ends> all;
        std::unordered_map<std::uint64_t, std::optional<RangeArrow::End>> places;
        for_each_row(db_, "PIPESCOPE_ARROW", {"file", "fromEvent", "toEvent"}, {"file", "fromEvent", "toEvent"}, "",
                     [&](const Rows& row) {
                         all.push_back({id(row.number(0), row.number(1)), id(row.number(0), row.number(2))});
                         places.try_emplace(all.back().from);
                         places.try_emplace(all.back().to);
                     });
        for (std::uint32_t track = 0; !all.empty() && track < trace_.tracks.size(); ++track) {
            const std::vector<TraceRange>& ranges = trace_.tracks[track].ranges;
            for (std::uint32_t k = 0; k < ranges.size(); ++k) {
                const auto place =
                    ranges[k].event == 0 ? places.end() : places.find(id(ranges[k].file, ranges[k].event));
                if (place != places.end()) {
                    place->second = RangeArrow::End{track, k};
                }
            }
        }
        for (const Ends& arrow : all) {
            const auto from = places.at(arrow.from);
            const auto to = places.at(arrow.to);
            if (from && to) {
                trace_.arrows.push_back({*from, *to});
            }
        }
        std::ranges::sort(trace_.arrows);
    }

    static std::string with_name(std::string what, const std::map<std::int64_t, std::string>& names, std::int64_t id) {
        const std::string name = text_or(names, id, "");
        if (name.find(what) != std::string::npos || name.ends_with(kAnnotationsSuffix)) {
            return name;  // a name in a merged trace, such as "rank 1 · thread 18 (python)"
        }
        return name.empty() ? what : what + " (" + name + ")";
    }

    RangeTrack& thread_track(Kind kind, std::int64_t global_tid) {
        const auto [found, fresh] = tracks_.try_emplace(TrackKey{kind, global_tid, 0, 0});
        if (fresh) {
            const std::int64_t process = process_of(global_tid);
            found->second.kind = kind;
            found->second.group = with_name(fmt::format("process {}", process), process_names_, process);
            found->second.name = with_name(fmt::format("thread {}", thread_of(global_tid)), thread_names_, global_tid) +
                                 (kind == Kind::calls ? ", CUDA calls" : "");
            found->second.process = process;
        }
        return found->second;
    }

    /// Columns 2, 3 and 4 of the row are device, context and stream; column 5 is the process.
    RangeTrack& stream_track(const Rows& row) {
        const auto [found, fresh] = tracks_.try_emplace(
            TrackKey{Kind::stream, row.number(2), row.number(5), row.number(3) << 32 | row.number(4)});
        if (fresh) {
            found->second.kind = Kind::stream;
            found->second.group = with_name(fmt::format("GPU {}", row.number(2)), device_names_, row.number(2));
            found->second.name = with_name(fmt::format("stream {}", row.number(4)), names_of_streams_, row.number(4));
            found->second.process = process_of(row.number(5));
            if (!stream_names_.emplace(found->second.group, found->second.name).second) {
                found->second.name +=
                    fmt::format(" (process {}, context {})", process_of(row.number(5)), row.number(3));
            }
        }
        return found->second;
    }

    /// True if start and end, columns 0 and 1, are valid times. Otherwise counts the row as left out.
    bool has_times(const Rows& row) {
        const bool sound = row.holds_time(0) && row.holds_time(1);
        left_out_ += sound ? 0 : 1;
        return sound;
    }

    void add(RangeTrack& track, const Rows& row, std::uint32_t name, std::uint32_t category, std::int64_t correlation) {
        TraceRange range;
        range.start = row.time(0);
        range.end = row.is_null(1) ? range.start : row.time(1);
        range.name = name;
        range.category = category;
        range.correlation = static_cast<std::uint32_t>(correlation);
        last_ = std::max(last_, range.end);
        track.ranges.push_back(range);
    }

    /// Name index of a text in StringIds.
    std::uint32_t string_number(std::int64_t id) {
        const auto [found, fresh] = string_numbers_.try_emplace(id);
        if (fresh) {
            found->second = names_.number_of(text_or(strings_, id, fmt::format("text {}", id)));
        }
        return found->second;
    }

    void read_ranges() {
        std::map<std::int64_t, std::uint32_t> categories;
        const Events* const events = events_of("NVTX_EVENTS");
        for_each_row(db_, "NVTX_EVENTS", {"start", "end", "eventType", "globalTid"},
                     {"start", "end", "eventType", "globalTid", "text", "textId", "domainId", "uint64Value",
                      "doubleValue", "floatValue", "int64Value", "uint32Value", "int32Value", "rowid"},
                     "WHERE eventType IN (34, 59, 60, 70, 71)",
                     [&](const Rows& row) { read_range(row, events, categories); });
    }

    void read_range(const Rows& row, const Events* events, std::map<std::int64_t, std::uint32_t>& categories) {
        constexpr int kRow = 13;
        if (!has_times(row)) {
            return;
        }
        const std::uint32_t name = !row.is_null(5)   ? string_number(row.number(5))
                                   : !row.is_null(4) ? names_.number_of(row.text(4))
                                                     : names_.number_of("(no text)");
        const auto [category, fresh] = categories.try_emplace(row.number(6));
        if (fresh) {
            category->second = names_.number_of(text_or(domains_, row.number(6), "NVTX"));
        }
        RangeTrack& track = thread_track(Kind::thread, row.number(3));
        add(track, row, name, category->second, 0);
        TraceRange& range = track.ranges.back();
        set_event(range, events, row, kRow);
        range.open = row.is_null(1) && row.number(2) != kMark;
        if (row.number(2) == kMark) {
            add_sample(row, track.group, name);
        }
        range.is_task = !range.open && !row.is_null(7) && domains_.contains(row.number(6)) &&
                        domains_.at(row.number(6)) == "pipescope" &&
                        unpack(static_cast<std::uint64_t>(row.number(7))).has_value();
    }

    /// A mark with a number is a sample of a counter: this is how NVTX counters are recorded.
    void add_sample(const Rows& row, const std::string& group, std::uint32_t name) {
        constexpr int kFirstValue = 7;
        constexpr int kLastValue = 12;
        for (int column = kFirstValue; column <= kLastValue; ++column) {
            const bool is_number = row.type(column) == SQLITE_INTEGER || row.type(column) == SQLITE_FLOAT;
            if (is_number && std::isfinite(row.real(column))) {
                samples_[{group, name}].points.push_back({row.time(0), row.real(column)});
                return;
            }
        }
    }

    void finish_samples() {
        for (auto& [key, counter] : samples_) {
            if (counter.points.size() < 2) {
                continue;  // a single mark with a payload is not a counter
            }
            counter.group = key.first;
            counter.name = names_.text(key.second);
            std::ranges::stable_sort(counter.points, {}, &CounterTrack::Point::time);
            trace_.counters.push_back(std::move(counter));
        }
    }

    void read_calls() {
        const std::uint32_t category = names_.number_of("cuda_api");
        const char* const table = "CUPTI_ACTIVITY_KIND_RUNTIME";
        const Events* const events = events_of(table);
        for_each_row(db_, table, {"start", "end", "globalTid", "nameId"},
                     {"start", "end", "globalTid", "nameId", "correlationId", "rowid"}, "", [&](const Rows& row) {
                         if (has_times(row)) {
                             RangeTrack& track = thread_track(Kind::calls, row.number(2));
                             add(track, row, string_number(row.number(3)), category, row.number(4));
                             set_event(track.ranges.back(), events, row, 5);
                         }
                     });
    }

    void read_work() {
        read_messages();
        read_kernels();
        read_copies();
        read_fills();
        read_graphs();
    }

    /// The rows of a table of device work begin with these columns, and further ones follow.
    static constexpr int kWorkRow = 7;
    static constexpr int kFirstFurther = 8;

    /// Reads a table of work on streams. `name` returns the name of a row, and `facts` what else the row says.
    template <class Name, class Facts>
    void read_stream_table(const char* table, const char* category, const Columns& more, Name&& name, Facts&& facts) {
        Columns columns = {"start", "end", "deviceId", "contextId", "streamId", "globalPid", "correlationId", "rowid"};
        columns.insert(columns.end(), more.begin(), more.end());
        const std::uint32_t number = names_.number_of(category);
        const Events* const events = events_of(table);
        const auto tasks = tasks_of_work_.find(category);
        for_each_row(db_, table, {"start", "end", "deviceId", "streamId"}, columns, "", [&](const Rows& row) {
            if (!has_times(row)) {
                return;
            }
            RangeTrack& track = stream_track(row);
            if (each_ != nullptr) {
                visit_work(track, row, names_.text(name(row)), category, facts(row),
                           tasks == tasks_of_work_.end() ? nullptr : &tasks->second);
                return;
            }
            add(track, row, name(row), number, row.number(6));
            track.ranges.back().facts = facts_.number_of(facts(row));
            set_event(track.ranges.back(), events, row, kWorkRow);
        });
    }

    struct TaskOfWork {
        std::int64_t row = 0;
        TaskKind kind{};
        std::int32_t partition = -1;
    };

    void visit_work(const RangeTrack& track, const Rows& row, std::string_view name, std::string_view activity,
                    const WorkFacts& facts, const std::vector<TaskOfWork>* tasks) {
        DeviceActivity work{name, activity, track.group, {}, row.time(0), row.is_null(1) ? row.time(0) : row.time(1)};
        auto& stream = stream_labels_[&track];
        if (stream.empty()) {
            stream = track.group + ", " + track.name;
        }
        work.stream = stream;
        work.facts = &facts;
        if (tasks != nullptr) {
            const auto task = std::ranges::lower_bound(*tasks, row.number(kWorkRow), {}, &TaskOfWork::row);
            if (task != tasks->end() && task->row == row.number(kWorkRow)) {
                work.task = task->kind;
                work.partition = task->partition;
            }
        }
        (*each_)(work);
    }

    void read_tasks_of_work() {
        struct Task {
            TaskKind kind;
            std::int32_t partition;
        };
        std::unordered_map<std::int64_t, Task> tasks;
        for_each_row(db_, "PIPESCOPE_TASK", {"id", "kind", "partition"}, {"id", "kind", "partition"}, "",
                     [&](const Rows& row) {
                         if (const std::optional<TaskKind> kind = parse_task_kind(row.text(1))) {
                             tasks.emplace(row.number(0), Task{*kind, row.id(2)});
                         }
                     });
        for_each_row(db_, "PIPESCOPE_DEVICE_WORK", {"taskId", "activity", "activityId"},
                     {"taskId", "activity", "activityId"}, "", [&](const Rows& row) {
                         if (const auto task = tasks.find(row.number(0)); task != tasks.end()) {
                             auto& list = tasks_of_work_.try_emplace(std::string(row.text(1))).first->second;
                             list.push_back({row.number(2), task->second.kind, task->second.partition});
                         }
                     });
        for (auto& [activity, list] : tasks_of_work_) {
            std::ranges::sort(list, {}, &TaskOfWork::row);
        }
    }

    /// A number of bytes, registers or blocks. 0 for NULL and for other values.
    static std::int64_t amount_of(const Rows& row, int column) {
        const std::int64_t value = row.type(column) == SQLITE_INTEGER ? row.number(column) : 0;
        return value > 0 && value <= Rows::kMostAmount ? value : 0;
    }

    void read_messages() {
        for_each_row(
            db_, "PIPESCOPE_MESSAGE", {"kernelId", "collective"},
            {"kernelId", "collective", "bytes", "elementType", "groupRanks", "groupSize"}, "", [&](const Rows& row) {
                messages_[row.number(0)] = {
                    amount_of(row, 2),
                    {std::string(row.text(1)), std::string(row.text(3)), std::string(row.text(4)), amount_of(row, 5)}};
            });
    }

    void read_kernels() {
        const Columns columns = {"shortName",
                                 "demangledName",
                                 "gridX",
                                 "gridY",
                                 "gridZ",
                                 "blockX",
                                 "blockY",
                                 "blockZ",
                                 "registersPerThread",
                                 "staticSharedMemory",
                                 "dynamicSharedMemory"};
        const auto name_of = [&](const Rows& row) {
            const int short_name = kFirstFurther;
            const int full_name = kFirstFurther + 1;
            const int first = each_ != nullptr ? full_name : short_name;
            const int second = each_ != nullptr ? short_name : full_name;
            return string_number(row.number(row.is_null(first) ? second : first));
        };
        const auto facts_of = [&](const Rows& row) {
            WorkFacts facts;
            int column = kFirstFurther + 2;
            for (auto* sizes : {&facts.grid, &facts.block}) {
                for (std::int64_t& size : *sizes) {
                    size = amount_of(row, column++);
                }
            }
            facts.registers = amount_of(row, column);
            facts.shared_memory = amount_of(row, column + 1) + amount_of(row, column + 2);
            const auto message = messages_.find(row.number(kWorkRow));
            if (message != messages_.end()) {
                facts.bytes = message->second.bytes;
                facts.collective = message->second.collective;
            } else {
                facts.collective.type = nccl_type(name_of(row));
            }
            return facts;
        };
        read_stream_table("CUPTI_ACTIVITY_KIND_KERNEL", "kernel", columns, name_of, facts_of);
    }

    /// The type of a collective whose kernel's name alone tells; nsys does not record its message.
    std::string_view nccl_type(std::uint32_t name) {
        const auto [found, fresh] = nccl_types_.try_emplace(name);
        if (fresh && names_.text(name).starts_with("nccl")) {
            found->second = collective_type(names_.text(name));
        }
        return found->second;
    }

    static WorkFacts facts_of_bytes(const Rows& row, int column) {
        WorkFacts facts;
        facts.bytes = amount_of(row, column);
        return facts;
    }

    void read_copies() {
        const auto kinds = texts_of(db_, "ENUM_CUDA_MEMCPY_OPER", "label");
        std::map<std::int64_t, std::uint32_t> numbers;
        const auto name_of = [&](const Rows& row) {
            const std::int64_t kind = row.number(kFirstFurther);
            const auto [found, fresh] = numbers.try_emplace(kind);
            if (fresh) {
                found->second = names_.number_of("copy " + text_or(kinds, kind, fmt::format("of kind {}", kind)));
            }
            return found->second;
        };
        read_stream_table("CUPTI_ACTIVITY_KIND_MEMCPY", "memcpy", {"copyKind", "bytes"}, name_of,
                          [&](const Rows& row) { return facts_of_bytes(row, kFirstFurther + 1); });
    }

    void read_fills() {
        const std::uint32_t name = names_.number_of("fill");
        read_stream_table(
            "CUPTI_ACTIVITY_KIND_MEMSET", "memset", {"bytes"}, [&](const Rows&) { return name; },
            [&](const Rows& row) { return facts_of_bytes(row, kFirstFurther); });
    }

    void read_graphs() {
        read_stream_table(
            "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "graph", {"graphId"},
            [&](const Rows& row) { return names_.number_of(fmt::format("graph {}", row.number(kFirstFurther))); },
            [](const Rows&) { return WorkFacts(); });
    }

    void close_open_ranges() {
        for (auto& [key, track] : tracks_) {
            for (TraceRange& range : track.ranges) {
                if (range.open) {
                    range.end = last_;
                }
            }
        }
    }

    /// Reads the bytes that CUDA allocated on each device, accumulated over time.
    void read_device_memory() {
        constexpr int kDevice = 2;
        constexpr int kStatic = 5;
        std::map<std::int64_t, CounterTrack> devices;
        for_each_row(db_, "CUDA_GPU_MEMORY_USAGE_EVENTS",
                     {"start", "deviceId", "bytes", "memKind", "memoryOperationType"},
                     {"start", "deviceId", "bytes", "memoryOperationType"},
                     fmt::format("WHERE memKind IN ({}, {}) ORDER BY start", kDevice, kStatic), [&](const Rows& row) {
                         if (!row.holds_time(0)) {
                             ++left_out_;
                             return;
                         }
                         CounterTrack& device = devices[row.number(1)];
                         const double before = device.points.empty() ? 0 : device.points.back().value;
                         const double change = static_cast<double>(row.number(2)) * (row.number(3) == 0 ? 1 : -1);
                         device.points.push_back({row.time(0), before + change});
                     });
        for (auto& [device, counter] : devices) {
            counter.name = fmt::format("memory of GPU {}", device);
            counter.group = with_name(fmt::format("GPU {}", device), device_names_, device);
            trace_.counters.push_back(std::move(counter));
        }
    }

    /// Reads the metrics that nsys samples on GPUs (--gpu-metrics-devices), such as the share of active SMs.
    void read_gpu_metrics() {
        using MetricKey = std::pair<std::int64_t, std::int64_t>;  // type, metric
        std::map<MetricKey, std::string> metric_names;
        for_each_row(db_, "TARGET_INFO_GPU_METRICS", {"typeId", "metricId", "metricName"},
                     {"typeId", "metricId", "metricName"}, "", [&](const Rows& row) {
                         metric_names.emplace(MetricKey{row.number(0), row.number(1)}, row.text(2));
                     });
        std::map<MetricKey, CounterTrack> metrics;
        for_each_row(db_, "GPU_METRICS", {"timestamp", "typeId", "metricId", "value"},
                     {"timestamp", "typeId", "metricId", "value"}, "ORDER BY timestamp", [&](const Rows& row) {
                         const bool is_number = row.type(3) == SQLITE_INTEGER || row.type(3) == SQLITE_FLOAT;
                         if (!row.holds_time(0) || !is_number || !std::isfinite(row.real(3))) {
                             ++left_out_;
                             return;
                         }
                         metrics[{row.number(1), row.number(2)}].points.push_back({row.time(0), row.real(3)});
                     });
        for (auto& [key, counter] : metrics) {
            constexpr std::int64_t kGpuBits = 0xff;  // bits of the type that hold the GPU's number
            const std::int64_t gpu = key.first & kGpuBits;
            const auto name = metric_names.find(key);
            counter.name = name != metric_names.end() && !name->second.empty() ? name->second
                                                                               : fmt::format("metric {}", key.second);
            counter.group = with_name(fmt::format("GPU {}", gpu), device_names_, gpu);
            trace_.counters.push_back(std::move(counter));
        }
    }

    SQLite::Database& db_;
    OpenedTrace& trace_;
    const std::map<std::int64_t, std::string> strings_;
    const std::map<std::int64_t, std::string> domains_;
    std::map<std::int64_t, std::string> thread_names_;
    std::map<std::int64_t, std::string> process_names_;
    std::map<std::int64_t, std::string> device_names_;
    std::map<std::int64_t, std::string> names_of_streams_;        // given with NVTX
    std::set<std::pair<std::string, std::string>> stream_names_;  // group, name
    std::map<std::int64_t, std::uint32_t> string_numbers_;
    std::map<std::string, Events, std::less<>> events_;  // by table and the row's number
    NameTable names_;
    FactTable facts_;
    struct Message {
        Bytes bytes = 0;
        CollectiveFacts collective;
    };
    std::unordered_map<std::int64_t, Message> messages_;              // by the kernel's row
    std::unordered_map<std::uint32_t, std::string_view> nccl_types_;  // by name
    const std::function<void(const DeviceActivity&)>* each_ = nullptr;
    std::map<std::string, std::vector<TaskOfWork>, std::less<>> tasks_of_work_;  // by activity, and then by row
    std::unordered_map<const RangeTrack*, std::string> stream_labels_;
    std::map<TrackKey, RangeTrack> tracks_;
    std::map<std::pair<std::string, std::uint32_t>, CounterTrack> samples_;  // by group and name
    Nanoseconds last_{0};
    std::int64_t left_out_ = 0;
};

/// Best guess of a task's lane. A loss without a partition ran on the last one.
std::int32_t lane_of(const TaskKey& key, std::int32_t last_partition) {
    if (is_copy(key.kind) && !is_forward_copy(key.kind)) {
        return key.partition + 1;
    }
    return key.kind == TaskKind::loss && key.partition < 0 ? last_partition : key.partition;
}
}  // namespace

bool has_nsys_tables(SQLite::Database& db) {
    return db.tableExists("StringIds") || db.tableExists("NVTX_EVENTS") || db.tableExists("ANALYSIS_DETAILS") ||
           db.tableExists("CUPTI_ACTIVITY_KIND_KERNEL");
}

void read_nsys_tables(SQLite::Database& db, OpenedTrace& trace) {
    NsysTables(db, trace).read();
}

void for_each_device_activity(SQLite::Database& db, const std::function<void(const DeviceActivity&)>& each) {
    OpenedTrace unused;
    NsysTables(db, unused).visit(each);
}

void read_nsys_tasks(SQLite::Database& db, OpenedTrace& trace) {
    std::int32_t last_partition = -1;
    for (const auto& [domain, name] : read_domains(db, texts_of(db, "StringIds", "value"))) {
        if (name != "pipescope") {
            continue;
        }
        for_each_row(db, "NVTX_EVENTS", {"start", "end", "eventType", "domainId", "uint64Value"},
                     {"start", "end", "uint64Value"},
                     fmt::format("WHERE eventType IN ({}, {}) AND domainId = {} AND end IS NOT NULL AND uint64Value IS "
                                 "NOT NULL",
                                 kPushPop, kStartEnd, domain),
                     [&](const Rows& row) {
                         if (const auto key = unpack(static_cast<std::uint64_t>(row.integer(2)))) {
                             last_partition = std::max(last_partition, key->partition);
                             trace.measured.slices.push_back({*key, LaneId{-1}, row.time(0), row.time(1), 0});
                         }
                     });
    }
    for (Slice& slice : trace.measured.slices) {
        slice.lane = LaneId{lane_of(slice.key, last_partition)};
    }
    std::erase_if(trace.measured.slices, [](const Slice& slice) { return slice.lane.value() < 0; });
    for (const Slice& slice : trace.measured.slices) {
        if (const std::string fault = fault_of(slice); !fault.empty()) {
            throw DamagedValue(to_string(slice.key) + " " + fault);
        }
        while (trace.measured.lanes.size() <= slice.lane.index()) {
            trace.measured.lanes.push_back({fmt::format("lane {}", trace.measured.lanes.size()), ""});
        }
    }
    sort_slices(trace.measured);
}
}  // namespace pipescope
