// Merging makes three passes over the ranks' files. The first opens them (Part). The second finds the copies with an
// end in two files, and aligns the clocks (find_copies). The third copies every row of every table (RowMerger). The
// name of a column shows what its numbers mean, so tables added later are merged too.

#include "trace/merge/merge_traces.h"

#include "base/printable.h"
#include "base/quantities.h"
#include "trace/merge/clock_alignment.h"
#include "trace/store/process_json.h"
#include "trace/store/slice_row.h"
#include "trace/store/sqlite_guard.h"
#include "trace/store/sqlite_insert.h"
#include "trace/store/sqlite_rows.h"
#include "trace/store/trace_file.h"
#include "trace/store/trace_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sqlite3.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace pipescope {
namespace {
namespace fs = std::filesystem;

constexpr std::size_t kMostShown = 80;  // of a value in a message

/// The trace of one rank, which may grow meanwhile: both connections see it as it was when it was opened. `db` opens
/// later, so that it has the tasks of every step that `reader` has.
struct Part {
    fs::path path;
    TraceReader reader;
    ForeignDatabase db;
    std::map<std::string, std::string> run;
    ProcessFacts facts;
    bool cut_off = false;
    int replicas = 1;

    /// The replica whose lanes this process runs. Each replica has equally many processes with consecutive ranks.
    int replica() const { return facts.rank / (facts.size / replicas); }
    bool runs(LaneId lane) const { return std::ranges::find(facts.lanes, lane) != facts.lanes.end(); }
};

// ---- What belongs together ----

Part open_part(const fs::path& path) {
    const auto refuse = [&](const std::string& why) { throw TraceFormatError(quoted(path) + " " + why); };
    std::optional<TraceReader> reader = TraceReader::open(path);
    if (!reader) {
        refuse(
            "is no trace of PipeScope; merge joins the traces that 'pipescope launch .. run .. --trace' wrote; give "
            "those");
    }
    reader->keep_snapshot();
    Part part{path, std::move(*reader), open_to_read(path), {}, {}};
    keep_snapshot(part.db);
    part.run = part.reader.run();
    part.cut_off = recording_cut_off(part.run, part.reader.diagnostics());
    if (const std::size_t merged = merged_processes(part.run).size(); merged > 0) {
        refuse(
            fmt::format("is merged already, of {} processes; merge joins traces of single ranks; give those", merged));
    }
    const std::optional<ProcessFacts> facts = recording_process(part.run);
    if (!facts) {
        refuse(
            "does not say which process recorded it; merge joins the traces of a run in several processes; a trace "
            "of one process needs no merging");
    }
    if (facts->rank < 0 || facts->rank >= facts->size) {
        refuse(
            fmt::format("is damaged: it says that it is of rank {} of {}; record it again", facts->rank, facts->size));
    }
    const auto configuration = part.run.find("configuration");
    const nlohmann::json options = configuration == part.run.end()
                                       ? nlohmann::json()
                                       : nlohmann::json::parse(configuration->second, nullptr, false);
    const nlohmann::json replicas =
        options.is_object() ? options.value("replicas", nlohmann::json()) : nlohmann::json();
    if (replicas.is_number_integer()) {
        if (replicas < 1 || replicas > facts->size || facts->size % replicas.get<std::int64_t>() != 0) {
            refuse(fmt::format("is damaged: it says that it is of {} replicas in {} processes; record it again",
                               replicas.dump(), facts->size));
        }
        part.replicas = replicas.get<int>();
    }
    part.facts = *facts;
    return part;
}

/// The run's facts that all ranks share, as (name, value). Hosts may differ in their cores.
std::vector<std::pair<std::string, std::string>> shared_facts(const Part& part) {
    std::vector<std::pair<std::string, std::string>> facts = {{"number of processes", std::to_string(part.facts.size)}};
    for (const char* key : {"model", "configuration", "pipeline"}) {
        const auto found = part.run.find(key);
        nlohmann::json value =
            found == part.run.end() ? nlohmann::json() : nlohmann::json::parse(found->second, nullptr, false);
        if (value.is_object()) {
            value.erase("host_cores");
        }
        facts.emplace_back(key, value.dump());
    }
    facts.emplace_back("run", part.facts.run);
    facts.emplace_back("format", part.run.at("format"));
    return facts;
}

void require_one_run(const std::vector<Part>& parts) {
    const auto first = shared_facts(parts.front());
    for (const Part& part : parts) {
        const auto other = shared_facts(part);
        for (std::size_t k = 0; k < first.size(); ++k) {
            if (first[k].second != other[k].second && other[k].second != "null" && first[k].second != "null") {
                throw TraceFormatError(fmt::format(
                    "{} and {} are not of one run: the {} of the first is {}, and of the other {}; give the traces of "
                    "one run",
                    quoted(parts.front().path), quoted(part.path), first[k].first,
                    shortened(first[k].second, kMostShown), shortened(other[k].second, kMostShown)));
            }
        }
    }
    for (std::size_t k = 1; k < parts.size(); ++k) {
        if (parts[k].facts.rank == parts[k - 1].facts.rank) {
            throw TraceFormatError(fmt::format("{} and {} are both of rank {}; each rank counts once; leave one out",
                                               quoted(parts[k - 1].path), quoted(parts[k].path), parts[k].facts.rank));
        }
    }
    std::vector<int> missing;
    const int count = parts.front().facts.size / parts.front().replicas;
    const int first_rank = parts.front().replica() * count;
    for (int rank = first_rank; rank < first_rank + count; ++rank) {
        if (std::ranges::none_of(parts, [&](const Part& part) { return part.facts.rank == rank; })) {
            missing.push_back(rank);
        }
    }
    if (!missing.empty()) {
        throw TraceFormatError(
            fmt::format("{} {} of the {} ranks of this {} {} missing; a merged trace needs all; "
                        "give {} too",
                        missing.size() == 1 ? "rank" : "ranks", fmt::join(missing, ", "), count,
                        parts.front().replicas > 1 ? "replica" : "run", missing.size() == 1 ? "is" : "are",
                        missing.size() == 1 ? "its trace" : "their traces"));
    }
}

/// Keeps the traces of one replica: a task's name has no place for a replica.
void keep_one_replica(std::vector<Part>& parts, std::vector<std::string>& warnings) {
    const Part& first = parts.front();
    const int replica = first.replica();
    const auto rest = std::ranges::find_if(parts, [&](const Part& part) { return part.replica() != replica; });
    if (rest != parts.end()) {
        warnings.push_back(
            fmt::format("only replica {} of {} is shown, of {} {}; give only the traces of another one to see that",
                        replica, first.replicas, rest == parts.begin() + 1 ? "rank" : "ranks",
                        rest == parts.begin() + 1 ? std::to_string(first.facts.rank)
                                                  : fmt::format("{} to {}", first.facts.rank, (rest - 1)->facts.rank)));
        parts.erase(rest, parts.end());
    }
}

std::vector<Part> open_parts(const std::vector<fs::path>& inputs, std::vector<std::string>& warnings) {
    std::vector<Part> parts;
    for (const fs::path& input : inputs) {
        parts.push_back(guard_sqlite("read", input, [&] { return open_part(input); }));
    }
    if (parts.empty()) {
        throw TraceFormatError("no trace was given; merge joins those of all ranks of a run; give them");
    }
    std::ranges::stable_sort(parts, {}, [](const Part& part) { return part.facts.rank; });
    require_one_run(parts);
    keep_one_replica(parts, warnings);
    return parts;
}

// ---- Clocks and copies ----

/// A copy that two ranks recorded, each in its own time.
struct ProcessCopy {
    struct End {
        std::size_t rank = 0;
        std::int64_t id = 0;  ///< of the task in the rank's trace
        Nanoseconds start{0};
        Nanoseconds end{0};
    };
    End sender;
    End receiver;
    Bytes bytes = 0;
};

/// Calls `each` with the measured copies of a trace and their ids.
void for_each_copy(Part& part, const std::function<void(const Slice&, std::int64_t)>& each) {
    guard_sqlite("read", part.path, [&] {
        Rows rows(part.db, std::string("SELECT ") + kSliceColumns +
                               " FROM PIPESCOPE_TASK WHERE +source = 'measured' AND lane IS NOT NULL AND kind IN "
                               "('copy_forward', 'copy_backward', 'skip_forward', 'skip_backward', "
                               "'shared_forward', 'shared_backward')");
        while (rows.next()) {
            each(slice_of(rows), rows.integer(9));
        }
    });
}

/// A copy is on the sending lane. The sender's trace has it, and also the receiver's if another rank receives.
std::vector<ProcessCopy> find_copies(std::vector<Part>& parts) {
    std::vector<ProcessCopy> copies;
    std::unordered_map<std::uint64_t, std::size_t> by_key;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        for_each_copy(parts[rank], [&](const Slice& slice, std::int64_t id) {
            if (!parts[rank].runs(slice.lane)) {
                by_key.emplace(pack(slice.key), copies.size());
                copies.push_back({{}, {rank, id, slice.start, slice.end}, slice.bytes});
            }
        });
    }
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        for_each_copy(parts[rank], [&](const Slice& slice, std::int64_t id) {
            const auto found = parts[rank].runs(slice.lane) ? by_key.find(pack(slice.key)) : by_key.end();
            if (found != by_key.end()) {
                ProcessCopy& copy = copies[found->second];
                copy.sender = {rank, id, slice.start, slice.end};
                copy.bytes = std::max(copy.bytes, slice.bytes);
            }
        });
    }
    std::erase_if(copies, [](const ProcessCopy& copy) { return copy.sender.id == 0; });  // its sender was cut off
    return copies;
}

/// The clock of a rank. If the rank was killed before it compared its clock, the hosts' wall clocks place it.
RankClock clock_of(const Part& part, const Part& first, std::vector<std::string>& warnings) {
    if (part.facts.rank == 0) {
        return RankClock();
    }
    if (!part.facts.clock.empty()) {
        return RankClock(part.facts.clock);
    }
    const auto epoch = [](const Part& each) { return each.reader.utc_epoch_ns().value_or(0); };
    const Nanoseconds start = RankClock(first.facts.clock).to_rank_0(Nanoseconds{0});  // of the first, for rank 0
    warnings.push_back(fmt::format(
        "{} ended before it compared its clock with that of rank 0; its times are placed by the wall clocks of the "
        "hosts, which may differ by seconds",
        part.facts.name()));
    return RankClock({{Nanoseconds{0}, Nanoseconds{epoch(part) - epoch(first)} + start, Nanoseconds{0}}});
}

std::string microseconds(Nanoseconds time) {
    return fmt::format("{:.1f} us", static_cast<double>(time.count()) / 1e3);
}

AlignedClocks align(const std::vector<Part>& parts, const std::vector<ProcessCopy>& copies,
                    std::vector<std::string>& warnings) {
    std::vector<RankClock> clocks;
    for (const Part& part : parts) {
        clocks.push_back(clock_of(part, parts.front(), warnings));
    }
    std::vector<ClockMessage> messages;
    messages.reserve(copies.size());
    for (const ProcessCopy& copy : copies) {
        messages.push_back({copy.sender.rank, copy.receiver.rank, copy.sender.start, copy.receiver.start});
    }
    AlignedClocks aligned = align_clocks(std::move(clocks), messages);
    if (aligned.impossible > 0) {
        warnings.push_back(fmt::format(
            "{} between processes {} before {} sent, by up to {}: the clocks differ by more than their bounds allow, "
            "for example because one was changed during the run; do not trust times across processes",
            counted(aligned.impossible, "copy", "copies"), aligned.impossible == 1 ? "arrives" : "arrive",
            aligned.impossible == 1 ? "it was" : "they were", microseconds(aligned.worst)));
    }
    return aligned;
}

// ---- Rows ----

/// Kinds of numbers that processes give out independently of each other.
enum class Number { domain, correlation, device, context, stream, event };
constexpr std::size_t kNumNumbers = 6;

enum class Meaning { plain, time, thread, pid, text, number, row, task, range, kernel, activity, process_name };
struct Column {
    Meaning meaning = Meaning::plain;
    Number number = Number::domain;
};

Column column_of(std::string_view table, std::string_view name) {
    static const std::map<std::string_view, Column> known = {
        {"start", {Meaning::time}},
        {"end", {Meaning::time}},
        {"time", {Meaning::time}},
        {"timestamp", {Meaning::time}},
        {"launchStart", {Meaning::time}},
        {"globalTid", {Meaning::thread}},
        {"endGlobalTid", {Meaning::thread}},
        {"globalPid", {Meaning::thread}},
        {"pid", {Meaning::pid}},
        {"processId", {Meaning::pid}},
        {"nameId", {Meaning::text}},
        {"textId", {Meaning::text}},
        {"jsonTextId", {Meaning::text}},
        {"kernelId", {Meaning::kernel}},
        {"demangledName", {Meaning::text}},
        {"shortName", {Meaning::text}},
        {"mangledName", {Meaning::text}},
        {"domainId", {Meaning::number, Number::domain}},
        {"correlationId", {Meaning::number, Number::correlation}},
        {"deviceId", {Meaning::number, Number::device}},
        {"cudaId", {Meaning::number, Number::device}},
        {"cuDevice", {Meaning::number, Number::device}},
        {"gpuId", {Meaning::number, Number::device}},
        {"srcDeviceId", {Meaning::number, Number::device}},
        {"dstDeviceId", {Meaning::number, Number::device}},
        {"contextId", {Meaning::number, Number::context}},
        {"srcContextId", {Meaning::number, Number::context}},
        {"dstContextId", {Meaning::number, Number::context}},
        {"parentContextId", {Meaning::number, Number::context}},
        {"streamId", {Meaning::number, Number::stream}},
        {"nullStreamId", {Meaning::number, Number::stream}},
        {"eventSyncId", {Meaning::number, Number::event}},
        {"taskId", {Meaning::task}},
        {"nvtxId", {Meaning::range}},
        {"activityId", {Meaning::activity}},
    };
    const bool has_name = table == "PROCESSES" || table == "TARGET_INFO_GPU";
    if (has_name && name == "name") {
        return {Meaning::process_name};
    }
    if (name == "id" && table == "TARGET_INFO_GPU") {
        return {Meaning::number, Number::device};
    }
    if (name == "id" && table == "PIPESCOPE_TASK") {
        return {Meaning::task};
    }
    if (name == "taskId" && table == "PIPESCOPE_MEMORY") {
        return {};  // a packed name
    }
    const auto found = known.find(name);
    return found == known.end() ? Column() : found->second;
}

/// Tables that are not merged row by row.
bool is_merged_otherwise(std::string_view table) {
    static const std::set<std::string_view> tables = {"StringIds",
                                                      "PIPESCOPE_RUN",
                                                      "PIPESCOPE_STEP",
                                                      "PIPESCOPE_PROFILE",
                                                      "PIPESCOPE_COPY",
                                                      "PIPESCOPE_DROPS",
                                                      "PIPESCOPE_CLOCK",
                                                      "PIPESCOPE_OVERHEAD",
                                                      "META_DATA_CAPTURE",
                                                      "META_DATA_EXPORT",
                                                      "ANALYSIS_DETAILS",
                                                      "PIPESCOPE_DIAGNOSTIC",
                                                      "TARGET_INFO_SESSION_START_TIME"};
    return tables.contains(table) || table.starts_with("ENUM_") || table.starts_with("sqlite_");
}

/// Renumbers the ranks in order, so that their numbers do not collide.
class Renumbering {
public:
    /// Begins a rank. Rank 0 keeps its numbers.
    void next_rank() { base_ = used_; }
    /// 0 means none, except for devices.
    std::int64_t of(std::int64_t number, bool counts_from_0) {
        if (number < 0 || (number == 0 && !counts_from_0)) {
            return number;
        }
        used_ = std::max(used_, base_ + number + (counts_from_0 ? 1 : 0));
        return base_ + number;
    }

private:
    std::int64_t base_ = 0;
    std::int64_t used_ = 0;
};

/// Copies the rows of all ranks into the merged trace.
class RowMerger {
public:
    RowMerger(std::vector<Part>& parts, const std::vector<RankClock>& clocks, const std::vector<ProcessCopy>& copies,
              TraceWriter& writer)
        : parts_(parts), clocks_(clocks), copies_(copies), writer_(writer), joined_(parts.size()) {
        std::int64_t tasks = 0;
        for (Part& part : parts_) {
            task_bases_.push_back(tasks);
            tasks += guard_sqlite("read", part.path, [&] {
                return part.db.execAndGet("SELECT coalesce(max(id), 0) FROM PIPESCOPE_TASK").getInt64();
            });
        }
        for (const ProcessCopy& copy : copies_) {
            joined_[copy.sender.rank].emplace(copy.sender.id, &copy);
            joined_[copy.receiver.rank].emplace(copy.receiver.id, &copy);
        }
    }

    void merge() {
        for (rank_ = 0; rank_ < parts_.size(); ++rank_) {
            merge_rank();
        }
        writer_.change([&](SQLite::Database& db) {
            PreparedStatements rows(db);
            for (const ProcessCopy& copy : copies_) {
                const auto received = clocks_[copy.receiver.rank].to_rank_0(copy.receiver.start);
                // If a sender loses its core right after the send, it closes its range late.
                const auto posted = std::min(clocks_[copy.sender.rank].to_rank_0(copy.sender.end), received);
                rows.insert("PIPESCOPE_COPY (taskId, sender, receiver, posted, received)", merged_id(copy),
                            parts_[copy.sender.rank].facts.rank, parts_[copy.receiver.rank].facts.rank, posted,
                            received);
            }
        });
    }

    std::int64_t num_tasks() const { return num_tasks_; }
    /// The thread in the merged trace.
    std::int64_t thread_of(std::size_t rank, std::int64_t global_tid) {
        constexpr int kThreadBits = 24;
        constexpr std::int64_t kThreads = (std::int64_t{1} << kThreadBits) - 1;
        return global_tid == 0 ? 0 : pid_of(rank, global_tid >> kThreadBits) << kThreadBits | (global_tid & kThreads);
    }

private:
    /// A table's rows on their way. Parameter k + 1 of the statement takes column k of the rows.
    struct Transfer {
        std::string table;
        std::vector<std::string> names;
        std::vector<Column> columns;
        Rows rows;
        SQLite::Statement statement;
    };

    void merge_rank();
    void merge_table(const std::string& table);
    void read_texts();
    Transfer begin(const std::string& table, SQLite::Database& db);
    void copy_row(Transfer& transfer);
    void bind(Transfer& transfer, int column);
    std::int64_t number_of(const Transfer& transfer, int column);
    /// The copy between processes that ends in this task of the current rank; null for any other task.
    const ProcessCopy* copy_of(std::int64_t task) const {
        const auto found = joined_[rank_].find(task);
        return found == joined_[rank_].end() ? nullptr : found->second;
    }
    std::int64_t merged_id(const ProcessCopy& copy) const { return task_bases_[copy.sender.rank] + copy.sender.id; }
    std::int64_t pid_of(std::size_t rank, std::int64_t pid);

    std::vector<Part>& parts_;
    const std::vector<RankClock>& clocks_;
    const std::vector<ProcessCopy>& copies_;
    TraceWriter& writer_;
    std::vector<std::unordered_map<std::int64_t, const ProcessCopy*>> joined_;  // by rank and id
    std::vector<std::int64_t> task_bases_;                                      // by rank
    std::array<Renumbering, kNumNumbers> numbers_;
    std::map<std::pair<std::size_t, std::int64_t>, std::int64_t> pids_;  // by rank and number
    std::set<std::int64_t> used_pids_;
    std::int64_t num_tasks_ = 0;
    std::size_t rank_ = 0;
    // For the rank that is being merged:
    std::map<std::string, std::int64_t> row_bases_;  // by table
    std::unordered_map<std::int64_t, std::int64_t> texts_;
};

std::int64_t RowMerger::pid_of(std::size_t rank, std::int64_t pid) {
    const auto [found, fresh] = pids_.try_emplace({rank, pid}, pid);
    if (fresh) {
        constexpr std::int64_t kMost = 0xff'ffff;  // 24 bits of a global thread id
        for (std::int64_t other = kMost; !used_pids_.insert(found->second).second; --other) {
            found->second = other;  // systems give out smaller ones first
        }
    }
    return found->second;
}

void RowMerger::read_texts() {
    texts_.clear();
    Rows rows(parts_[rank_].db, "SELECT id, value FROM StringIds");
    while (rows.next()) {
        texts_[rows.integer(0)] = writer_.intern(rows.text(1));
    }
}

void RowMerger::merge_rank() {
    guard_sqlite("read", parts_[rank_].path, [&] { read_texts(); });
    std::vector<std::string> tables;
    writer_.change([&](SQLite::Database& db) {
        Rows rows(db, "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY rowid");
        while (rows.next()) {
            if (const std::string table(rows.text(0)); !is_merged_otherwise(table)) {
                tables.push_back(table);
                row_bases_[table] = db.execAndGet("SELECT coalesce(max(rowid), 0) FROM " + table).getInt64();
            }
        }
    });
    for (Renumbering& numbers : numbers_) {
        numbers.next_rank();
    }
    for (const std::string& table : tables) {
        merge_table(table);
        writer_.commit();  // a log of one table at most
    }
}

RowMerger::Transfer RowMerger::begin(const std::string& table, SQLite::Database& db) {
    std::vector<std::string> names;
    std::vector<Column> columns;
    bool has_key = false;
    Rows described(parts_[rank_].db, "SELECT name, pk FROM pragma_table_info('" + table + "')");
    while (described.next()) {
        names.emplace_back(described.text(0));
        columns.push_back(column_of(table, names.back()));
        has_key = has_key || described.integer(1) != 0;
    }
    if (!has_key) {  // other rows refer to rows by number
        names.insert(names.begin(), "rowid");
        columns.insert(columns.begin(), Column{Meaning::row});
    }
    const std::string list = fmt::format("\"{}\"", fmt::join(names, "\", \""));
    std::string sql = fmt::format("INSERT INTO {} ({}) VALUES ({})", table, list,
                                  fmt::join(std::vector<std::string>(names.size(), "?"), ","));
    if (table == "PIPESCOPE_TASK_DEVICE") {  // a copy may have work on the devices of both ends
        sql +=
            " ON CONFLICT (taskId) DO UPDATE SET kernels = kernels + excluded.kernels, copies = copies + "
            "excluded.copies, start = min(start, excluded.start), end = max(end, excluded.end), busy = busy + "
            "excluded.busy, gap = max(end, excluded.end) - min(start, excluded.start) - busy - excluded.busy, "
            "launchDelay = CASE WHEN excluded.start < start THEN excluded.launchDelay ELSE launchDelay END, "
            "launchGap = max(launchGap, excluded.launchGap), paced = max(paced, excluded.paced)";  // NULL if one is
    }
    return {table, std::move(names), std::move(columns), Rows(parts_[rank_].db, "SELECT " + list + " FROM " + table),
            SQLite::Statement(db, sql)};
}

void RowMerger::merge_table(const std::string& table) {
    writer_.change([&](SQLite::Database& db) {
        guard_sqlite("merge", parts_[rank_].path, [&] {
            if (parts_[rank_].db.tableExists(table)) {  // an earlier recorder had fewer
                Transfer transfer = begin(table, db);
                while (transfer.rows.next()) {
                    copy_row(transfer);
                }
            }
        });
    });
}

void RowMerger::copy_row(Transfer& transfer) {
    const ProcessCopy* const copy = transfer.table == "PIPESCOPE_TASK" ? copy_of(transfer.rows.number(0)) : nullptr;
    if (copy != nullptr && copy->receiver.rank == rank_) {
        return;  // the sender's row becomes the task
    }
    for (int column = 0; column < static_cast<int>(transfer.columns.size()); ++column) {
        const std::string& name = transfer.names[static_cast<std::size_t>(column)];
        if (copy != nullptr && name == "end") {
            bind_value(transfer.statement, column + 1,
                       std::max(clocks_[copy->receiver.rank].to_rank_0(copy->receiver.end),
                                clocks_[rank_].to_rank_0(copy->sender.start)));
        } else if (copy != nullptr && name == "bytes") {
            bind_value(transfer.statement, column + 1, copy->bytes);
        } else {
            bind(transfer, column);
        }
    }
    run(transfer.statement);
    num_tasks_ += transfer.table == "PIPESCOPE_TASK" ? 1 : 0;
}

void RowMerger::bind(Transfer& transfer, int column) {
    const Rows& row = transfer.rows;
    const Meaning meaning = transfer.columns[static_cast<std::size_t>(column)].meaning;
    const int type = row.type(column);
    SQLite::Statement& to = transfer.statement;
    if (meaning == Meaning::process_name) {
        to.bind(column + 1, fmt::format("{}, {}", row.text(column), parts_[rank_].facts.name()));
    } else if (type == SQLITE_INTEGER) {
        to.bind(column + 1, number_of(transfer, column));
    } else if (type == SQLITE_FLOAT) {
        to.bind(column + 1, row.real(column));
    } else if (type == SQLITE_NULL) {
        to.bind(column + 1);
    } else {
        to.bind(column + 1, std::string(row.text(column)));
    }
}

std::int64_t RowMerger::number_of(const Transfer& transfer, int column) {
    const Rows& row = transfer.rows;
    const std::int64_t value = row.number(column);
    const Column& what = transfer.columns[static_cast<std::size_t>(column)];
    switch (what.meaning) {
        case Meaning::time: return clocks_[rank_].to_rank_0(row.time(column)).count();
        case Meaning::thread: return thread_of(rank_, value);
        case Meaning::pid: return pid_of(rank_, value);
        case Meaning::text: {
            const auto found = texts_.find(value);
            return found == texts_.end() ? value : found->second;
        }
        case Meaning::number:
            return numbers_[static_cast<std::size_t>(what.number)].of(value, what.number == Number::device);
        case Meaning::row: return value + row_bases_.at(transfer.table);
        case Meaning::task: {
            const ProcessCopy* const copy = copy_of(value);
            return copy == nullptr ? task_bases_[rank_] + value : merged_id(*copy);
        }
        case Meaning::range: return value + row_bases_.at("NVTX_EVENTS");
        case Meaning::kernel: return value + row_bases_.at("CUPTI_ACTIVITY_KIND_KERNEL");
        case Meaning::activity: {
            const std::string_view activity = row.text(column - 1);  // the column before it
            return value + row_bases_.at(activity == "kernel"   ? "CUPTI_ACTIVITY_KIND_KERNEL"
                                         : activity == "memcpy" ? "CUPTI_ACTIVITY_KIND_MEMCPY"
                                                                : "CUPTI_ACTIVITY_KIND_MEMSET");
        }
        case Meaning::plain:
        case Meaning::process_name: break;
    }
    return value;
}

// ---- Facts ----

void write_run(const Part& first, const RankClock& own_clock, const std::vector<MergedProcess>& processes,
               const std::string& configuration, TraceWriter& writer) {
    std::set<std::string_view> left_out = {"format", "closed", "process", "lanes", "recording_start"};
    std::set<std::string_view> hosts;
    for (const MergedProcess& process : processes) {
        hosts.insert(process.host);
    }
    if (hosts.size() < processes.size()) {
        left_out.insert("load");  // each process counts the others of its host as load
    }
    for (const auto& [key, value] : first.run) {
        if (!left_out.contains(key)) {
            writer.set_run(key, value);
        }
    }
    if (!configuration.empty()) {
        writer.set_run("configuration", configuration);
    }
    writer.set_run("processes", to_json(processes));
    if (const auto profile = first.reader.profile_json()) {
        writer.set_profile(*profile);
    }
    if (const auto epoch = first.reader.utc_epoch_ns()) {
        writer.set_start(*epoch - own_clock.to_rank_0(Nanoseconds{0}).count());
    }
    for (const ClockRecord& clock : first.reader.clocks()) {
        writer.add_clock(clock);
    }
}

void write_lanes(const std::vector<Part>& parts, TraceWriter& writer) {
    std::vector<LaneInfo> lanes;
    for (const Part& part : parts) {
        if (const std::vector<LaneInfo> own = part.reader.lanes(); own.size() > lanes.size()) {
            lanes = own;
        }
    }
    for (const Part& part : parts) {
        for (const LaneId lane : part.facts.lanes) {
            if (lane.index() < lanes.size()) {
                lanes[lane.index()].name += " (" + part.facts.name() + ")";
            }
        }
    }
    writer.set_lanes(lanes);
}

/// Writes rank 0's steps, from the first start in any process to the last end. Steps that some process did not finish
/// have no row.
void write_steps(const std::vector<Part>& parts, const std::vector<RankClock>& clocks, TraceWriter& writer) {
    std::map<std::int32_t, std::pair<StepRecord, std::size_t>> steps;  // and the number of processes that finished it
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        for (const StepRecord& step : parts[rank].reader.steps()) {
            auto& [merged, count] = steps.try_emplace(step.step, step, 0).first->second;
            merged.start = std::min(count == 0 ? clocks[rank].to_rank_0(step.start) : merged.start,
                                    clocks[rank].to_rank_0(step.start));
            merged.end =
                std::max(count == 0 ? clocks[rank].to_rank_0(step.end) : merged.end, clocks[rank].to_rank_0(step.end));
            ++count;
        }
    }
    for (const auto& [number, step] : steps) {
        if (step.second == parts.size()) {
            writer.add_step(step.first);
        }
    }
}

/// Writes the recorders' losses and diagnostics. Adds the rank to texts that not all ranks share.
void write_reliability(const std::vector<Part>& parts, RowMerger& rows, const std::vector<std::string>& warnings,
                       TraceWriter& writer) {
    std::map<std::tuple<std::string, std::string, std::string>, std::vector<std::size_t>> texts;
    std::map<std::pair<std::string, std::int64_t>, DropRecord> drops;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        const std::string name = parts[rank].facts.name();
        for (DropRecord drop : parts[rank].reader.drops()) {
            drop.thread = rows.thread_of(rank, drop.thread);
            DropRecord& sum = drops[{drop.source, drop.thread}];
            sum = {drop.source,
                   drop.thread,
                   sum.recorded + drop.recorded,
                   sum.dropped + drop.dropped,
                   sum.truncated + drop.truncated,
                   sum.open_at_exit + drop.open_at_exit};
        }
        for (const DiagnosticRecord& each : parts[rank].reader.diagnostics()) {
            texts[{each.severity, each.source, each.text}].push_back(rank);
        }
        for (OverheadRecord overhead : parts[rank].reader.overheads()) {
            overhead.source += rank == 0 ? "" : ", " + name;
            writer.add_overhead(overhead);
        }
        if (!parts[rank].run.contains("closed")) {
            writer.add_diagnostic({"warning", "trace", fmt::format("{} ({})", kCutOff, name)});
        }
    }
    for (const auto& [key, drop] : drops) {
        writer.add_drop(drop);
    }
    for (const auto& [said, ranks] : texts) {
        const auto& [severity, source, text] = said;
        for (const std::size_t rank : ranks) {
            const bool all = ranks.size() == parts.size();
            if (!all || rank == 0) {
                writer.add_diagnostic({severity, source, all ? text : text + " (" + parts[rank].facts.name() + ")"});
            }
        }
    }
    for (const std::string& warning : warnings) {
        writer.add_diagnostic({"warning", "merge", warning});
    }
}
}  // namespace

MergedTrace merge_traces(const std::vector<fs::path>& inputs, const fs::path& output, IfExists if_exists,
                         const std::string& configuration) {
    MergedTrace merged;
    std::vector<Part> parts = open_parts(inputs, merged.warnings);
    for (const Part& part : parts) {
        std::error_code unknown;
        if (fs::equivalent(part.path, output, unknown)) {
            throw TraceError(quoted(output) + " is one of the traces to merge, and would be lost; name another output");
        }
    }
    const std::vector<ProcessCopy> copies = find_copies(parts);
    const AlignedClocks aligned = align(parts, copies, merged.warnings);
    merged.copies = copies.size();
    merged.largest_shift = aligned.largest_shift;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        MergedProcess process{parts[rank].facts, aligned.clocks[rank].bound(), parts[rank].cut_off};
        if (aligned.contradicted[rank]) {
            process.bound.reset();
        }
        process.clock = process.rank == 0 ? std::vector<ClockReading>() : aligned.clocks[rank].readings();
        merged.processes.push_back(std::move(process));
    }
    TraceWriter writer(output, if_exists);
    write_run(parts.front(), aligned.clocks.front(), merged.processes, configuration, writer);
    write_lanes(parts, writer);
    RowMerger rows(parts, aligned.clocks, copies, writer);
    rows.merge();
    write_steps(parts, aligned.clocks, writer);
    write_reliability(parts, rows, merged.warnings, writer);
    writer.close();
    merged.tasks = rows.num_tasks();
    return merged;
}

std::optional<ProcessFacts> rank_of_trace(const fs::path& path) {
    try {
        const std::optional<TraceReader> reader = TraceReader::open(path);
        return reader ? recording_process(reader->run()) : std::nullopt;
    } catch (const Error&) {
        return std::nullopt;  // whoever opens it says why it cannot be read
    }
}
}  // namespace pipescope
