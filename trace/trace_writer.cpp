#include "trace/trace_writer.h"

#include "trace/trace_connection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <ctime>
#include <unordered_set>

namespace pipescope {
namespace {
/// -1 means "no meaning" in our values; the file has NULL.
void bind_id(SQLite::Statement& statement, int index, std::int32_t value) {
    if (value < 0) {
        statement.bind(index);
    } else {
        statement.bind(index, value);
    }
}

template <class T>
void bind_optional(SQLite::Statement& statement, int index, const std::optional<T>& value) {
    if (value) {
        statement.bind(index, *value);
    } else {
        statement.bind(index);
    }
}

nlohmann::json to_json(const std::vector<LaneInfo>& lanes) {
    nlohmann::json list = nlohmann::json::array();
    for (const LaneInfo& lane : lanes) {
        list.push_back({{"name", lane.name}, {"device", lane.device}});
    }
    return list;
}

std::string iso_time(const std::tm& time, std::int64_t nanoseconds) {
    return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:09}", time, nanoseconds);
}
}  // namespace

struct TraceWriter::Impl : TraceConnection {
    using TraceConnection::TraceConnection;

    void set_lanes(const std::vector<LaneInfo>& given) {
        lanes = given;
        set_run("lanes", to_json(lanes).dump());
    }

    std::vector<LaneInfo> lanes;  // for the device column
    std::unordered_set<std::int64_t> named_threads;
};

TraceWriter::TraceWriter(const std::filesystem::path& path, IfExists if_exists)
    : impl_(std::make_unique<Impl>(path, if_exists)) {}

TraceWriter::~TraceWriter() {
    if (impl_) {
        try {
            impl_->close();
        } catch (const std::exception&) {
            // Lost as documented; close() reports it.
        }
    }
}
TraceWriter::TraceWriter(TraceWriter&&) noexcept = default;
TraceWriter& TraceWriter::operator=(TraceWriter&&) noexcept = default;

void require_run_json(std::string_view key, std::string_view json) {
    if (!nlohmann::json::accept(json)) {
        throw TraceError("the value of run key '" + std::string(key) + "' is " + std::string(json.substr(0, 40)) +
                         "; it must be JSON; quote plain text");
    }
}

void TraceWriter::set_run(std::string_view key, std::string_view json) {
    require_run_json(key, json);
    impl_->write([&] { impl_->set_run(key, std::string(json)); });
}

void TraceWriter::set_lanes(const std::vector<LaneInfo>& lanes) {
    impl_->write([&] { impl_->set_lanes(lanes); });
}

void TraceWriter::set_profile(std::string_view json) {
    impl_->write([&] {
        impl_->db.exec("DELETE FROM PIPESCOPE_PROFILE");
        SQLite::Statement statement(impl_->db, "INSERT INTO PIPESCOPE_PROFILE (profile) VALUES (?)");
        statement.bind(1, std::string(json));
        statement.exec();
    });
}

void TraceWriter::set_start(std::int64_t utc_epoch_ns) {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const std::time_t seconds = utc_epoch_ns / kSecond;
    std::tm utc{};
    std::tm local{};
    gmtime_r(&seconds, &utc);
    localtime_r(&seconds, &local);
    const std::string utc_time = iso_time(utc, utc_epoch_ns % kSecond);
    impl_->write([&] {
        impl_->db.exec("DELETE FROM TARGET_INFO_SESSION_START_TIME");
        SQLite::Statement statement(impl_->db, "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?,?,?)");
        statement.bind(1, utc_epoch_ns);
        statement.bind(2, utc_time);
        statement.bind(3, iso_time(local, utc_epoch_ns % kSecond));
        statement.exec();
        impl_->set_run("recording_start", nlohmann::json(utc_time + "Z").dump());
    });
}

void TraceWriter::add_step(const StepRecord& step) {
    impl_->write([&] {
        SQLite::Statement& row = impl_->statements->step;
        bind_id(row, 1, step.step);
        row.bind(2, std::int64_t{step.start.count()});
        row.bind(3, std::int64_t{step.end.count()});
        row.bind(4, std::int64_t{step.wall_start.count()});
        row.bind(5, std::int64_t{step.wall_end.count()});
        row.bind(6, step.training_loss);  // SQLite stores NaN as NULL
        row.bind(7, step.warmup ? 1 : 0);
        run_once(row);
    });
}

std::int64_t TraceWriter::add_task(const Slice& slice, Source source, std::optional<std::int64_t> nvtx_row) {
    return impl_->write([&] {
        SQLite::Statement& row = impl_->statements->task;
        bind_id(row, 1, slice.key.step);
        row.bindNoCopy(2, to_string(slice.key.kind).data());  // names are literals, so they are null-terminated
        bind_id(row, 3, slice.key.partition);
        bind_id(row, 4, slice.key.micro_batch);
        bind_id(row, 5, slice.key.skip);
        bind_id(row, 6, slice.lane.value());
        if (slice.lane.value() >= 0 && slice.lane.index() < impl_->lanes.size()) {
            row.bindNoCopy(7, impl_->lanes[slice.lane.index()].device);
        } else {
            row.bind(7);
        }
        row.bind(8, std::int64_t{slice.start.count()});
        row.bind(9, std::int64_t{slice.end.count()});
        row.bindNoCopy(10, to_string(source).data());
        bind_optional(row, 11, nvtx_row);
        row.bind(12, slice.bytes);
        run_once(row);
        return std::int64_t{impl_->db.getLastInsertRowid()};
    });
}

void TraceWriter::add_timeline(const Timeline& timeline) {
    if (timeline.lanes.size() > impl_->lanes.size()) {
        set_lanes(timeline.lanes);
    }
    for (const Slice& slice : timeline.slices) {
        add_task(slice, timeline.source);
    }
}

std::int64_t TraceWriter::add_range(const NvtxRecord& range) {
    return impl_->write([&] {
        const std::int64_t text_id = impl_->intern(range.text);
        SQLite::Statement& row = impl_->statements->range;
        row.bind(1, range.start);
        bind_optional(row, 2, range.end);
        row.bind(3, range.event_type);
        bind_optional(row, 4, range.range_id);
        bind_optional(row, 5, range.category);
        bind_optional(row, 6, range.color);
        row.bindNoCopy(7, range.text);
        row.bind(8, range.global_tid);
        bind_optional(row, 9, range.end_global_tid);
        row.bind(10, text_id);
        row.bind(11, range.domain_id);
        if (range.uint64_value) {
            row.bind(12, static_cast<std::int64_t>(*range.uint64_value));  // SQLite has no unsigned 64-bit integers;
                                                                           // the bits are kept
        } else {
            row.bind(12);
        }
        bind_optional(row, 13, range.int64_value);
        bind_optional(row, 14, range.double_value);
        bind_optional(row, 15, range.uint32_value);
        bind_optional(row, 16, range.int32_value);
        bind_optional(row, 17, range.float_value);
        run_once(row);
        return std::int64_t{impl_->db.getLastInsertRowid()};
    });
}

void TraceWriter::set_range_json(std::int64_t row, std::string_view json) {
    impl_->write([&] {
        SQLite::Statement& update = impl_->statements->json;
        update.bind(1, std::string(json));
        update.bind(2, row);
        run_once(update);
    });
}

void TraceWriter::add_thread_name(std::int64_t global_tid, std::string_view name) {
    impl_->write([&] {
        if (!impl_->named_threads.insert(global_tid).second) {  // the table has no index, and may have many threads
            SQLite::Statement old(impl_->db, "DELETE FROM ThreadNames WHERE globalTid = ?");
            old.bind(1, global_tid);
            old.exec();
        }
        SQLite::Statement row(impl_->db, "INSERT INTO ThreadNames (nameId, priority, globalTid) VALUES (?,0,?)");
        row.bind(1, impl_->intern(name));
        row.bind(2, global_tid);
        row.exec();
    });
}

void TraceWriter::add_process(std::int64_t global_pid, std::int64_t pid, std::string_view name) {
    impl_->write([&] {
        SQLite::Statement row(impl_->db, "INSERT INTO PROCESSES (globalPid, pid, name) VALUES (?,?,?)");
        row.bind(1, global_pid);
        row.bind(2, pid);
        row.bind(3, std::string(name));
        row.exec();
    });
}

void TraceWriter::add_memory(const MemorySample& sample) {
    impl_->write([&] {
        SQLite::Statement& row = impl_->statements->memory;
        row.bind(1, sample.lane.value());
        row.bind(2, std::int64_t{sample.time.count()});
        row.bind(3, sample.allocated);
        row.bind(4, sample.peak);
        row.bind(5, sample.reserved);
        if (sample.task == -1) {
            row.bind(6);
        } else {
            row.bind(6, sample.task);
        }
        constexpr int kFirstCategory = 7;
        for (int k = 0; k < static_cast<int>(kNumMemoryCategories); ++k) {
            const Bytes bytes = sample.composition[static_cast<MemoryCategory>(k)];
            if (bytes == MemoryBreakdown::kUnknown) {
                row.bind(kFirstCategory + k);
            } else {
                row.bind(kFirstCategory + k, bytes);
            }
        }
        run_once(row);
    });
}

void TraceWriter::add_drop(const DropRecord& drop) {
    impl_->write([&] {
        SQLite::Statement row(impl_->db, "INSERT OR REPLACE INTO PIPESCOPE_DROPS VALUES (?,?,?,?,?,?)");
        row.bind(1, drop.source);
        row.bind(2, drop.thread);
        row.bind(3, drop.recorded);
        row.bind(4, drop.dropped);
        row.bind(5, drop.truncated);
        row.bind(6, drop.open_at_exit);
        row.exec();
    });
}

void TraceWriter::add_clock(const ClockRecord& clock) {
    impl_->write([&] {
        SQLite::Statement row(impl_->db, "INSERT INTO PIPESCOPE_CLOCK VALUES (?,?,?,?)");
        row.bind(1, clock.realtime);
        row.bind(2, clock.monotonic);
        row.bind(3, clock.boottime);
        row.bind(4, clock.tsc);
        row.exec();
    });
}

void TraceWriter::add_overhead(const OverheadRecord& overhead) {
    impl_->write([&] {
        SQLite::Statement row(impl_->db, "INSERT INTO PIPESCOPE_OVERHEAD VALUES (?,?,?)");
        row.bind(1, overhead.source);
        row.bind(2, overhead.what);
        row.bind(3, overhead.value);
        row.exec();
    });
}

void TraceWriter::add_diagnostic(const DiagnosticRecord& diagnostic) {
    impl_->write([&] {
        SQLite::Statement row(impl_->db, "INSERT INTO PIPESCOPE_DIAGNOSTIC VALUES (?,?,?)");
        row.bind(1, diagnostic.severity);
        row.bind(2, diagnostic.source);
        row.bind(3, diagnostic.text);
        row.exec();
    });
}

void TraceWriter::change(const std::function<void(SQLite::Database&)>& body) {
    impl_->write([&] { body(impl_->db); });
}

std::int64_t TraceWriter::intern(std::string_view text) {
    return impl_->write([&] { return impl_->intern(text); });
}

void TraceWriter::commit() {
    impl_->commit();
}
void TraceWriter::close() {
    impl_->close();
}
}  // namespace pipescope
