#include "trace/store/trace_writer.h"

#include "trace/store/trace_connection.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <ctime>
#include <unordered_set>

namespace pipescope {
namespace {
/// In our values, -1 means "no meaning"; the file has NULL.
std::optional<std::int32_t> id(std::int32_t value) {
    return value < 0 ? std::nullopt : std::optional(value);
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

    /// Lanes with tasks or samples stay declared.
    void set_lanes(std::vector<LaneInfo> given) {
        for (std::size_t lane = given.size(); lane < lanes_in_use; ++lane) {
            given.push_back(lane < lanes.size() ? lanes[lane] : LaneInfo{"lane " + std::to_string(lane), ""});
        }
        lanes = std::move(given);
        set_run("lanes", to_json(lanes).dump());
    }

    void use(LaneId lane) { lanes_in_use = std::max(lanes_in_use, static_cast<std::size_t>(lane.value() + 1)); }

    std::vector<LaneInfo> lanes;   // for the device column
    std::size_t lanes_in_use = 0;  // end of those with tasks or samples
    std::unordered_set<std::int64_t> named_threads;
};

TraceWriter::TraceWriter(const std::filesystem::path& path, IfExists if_exists, WriteLog log)
    : impl_(std::make_unique<Impl>(path, if_exists, log)) {}

TraceWriter::~TraceWriter() {
    if (impl_) {
        try {
            impl_->close();
        } catch (const std::exception&) {
            // The rows are lost as documented; close() reports it.
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
        impl_->statements->insert("PIPESCOPE_PROFILE", std::string(json));
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
        impl_->statements->insert("TARGET_INFO_SESSION_START_TIME", utc_epoch_ns, utc_time,
                                  iso_time(local, utc_epoch_ns % kSecond));
        impl_->set_run("recording_start", nlohmann::json(utc_time + "Z").dump());
    });
}

void TraceWriter::add_step(const StepRecord& step) {
    const std::optional<StepLoad>& load = step.load;
    const auto share = [&load](double MachineLoad::*of) {
        return load ? std::optional(load->shares.*of) : std::nullopt;
    };
    impl_->insert(
        "PIPESCOPE_STEP (step, start, end, wallStart, wallEnd, trainingLoss, warmup, samples, loadOthers, loadStolen, "
        "loadPressure, loadTime)",
        id(step.step), step.start, step.end, step.wall_start, step.wall_end,
        step.training_loss,  // SQLite stores NaN as NULL
        step.warmup, step.samples > 0 ? std::optional(step.samples) : std::nullopt, share(&MachineLoad::others),
        share(&MachineLoad::stolen), load ? load->shares.pressure : std::nullopt,
        load ? std::optional(load->over) : std::nullopt);
}

std::int64_t TraceWriter::add_task(const Slice& slice, Source source, std::optional<std::int64_t> nvtx_row) {
    impl_->use(slice.lane);
    const bool has_device = slice.lane.value() >= 0 && slice.lane.index() < impl_->lanes.size();
    const char* const device = has_device ? impl_->lanes[slice.lane.index()].device.c_str() : nullptr;
    // Names of kinds and sources are literals, so they are null-terminated.
    impl_->insert(
        "PIPESCOPE_TASK (step, kind, partition, microBatch, skip, lane, device, start, end, source, nvtxId, bytes)",
        id(slice.key.step), to_string(slice.key.kind).data(), id(slice.key.partition), id(slice.key.micro_batch),
        id(slice.key.skip), id(slice.lane.value()), device, slice.start, slice.end, to_string(source).data(), nvtx_row,
        slice.bytes);
    return impl_->db.getLastInsertRowid();
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
    impl_->write([&] {
        const std::int64_t text_id = impl_->intern(range.text);
        impl_->statements->insert(
            "NVTX_EVENTS (start, end, eventType, rangeId, category, color, text, globalTid, endGlobalTid, textId, "
            "domainId, uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue)",
            range.start, range.end, range.event_type, range.range_id, range.category, range.color, range.text,
            range.global_tid, range.end_global_tid, text_id, range.domain_id, range.uint64_value, range.int64_value,
            range.double_value, range.uint32_value, range.int32_value, range.float_value);
    });
    return impl_->db.getLastInsertRowid();
}

void TraceWriter::add_thread_name(std::int64_t global_tid, std::string_view name) {
    impl_->write([&] {
        if (!impl_->named_threads.insert(global_tid).second) {  // the table has no index, and may hold many threads
            impl_->statements->run("DELETE FROM ThreadNames WHERE globalTid = ?", global_tid);
        }
        const std::int64_t name_id = impl_->intern(name);
        impl_->statements->insert("ThreadNames (nameId, priority, globalTid)", name_id, 0, global_tid);
    });
}

void TraceWriter::add_process(std::int64_t global_pid, std::int64_t pid, std::string_view name) {
    impl_->insert("PROCESSES (globalPid, pid, name)", global_pid, pid, std::string(name));
}

void TraceWriter::add_memory(const MemorySample& sample) {
    impl_->use(sample.lane);
    const auto known = [&](std::size_t k) {
        const Bytes bytes = sample.composition[static_cast<MemoryCategory>(k)];
        return bytes == MemoryBreakdown::kUnknown ? std::nullopt : std::optional(bytes);
    };
    static_assert(kNumMemoryCategories == 9);
    impl_->insert(
        "PIPESCOPE_MEMORY (lane, time, allocated, peak, reserved, taskId, parameters, gradients, optimizer, boundary, "
        "saved, skip, transient, copy, output)",
        sample.lane.value(), sample.time, sample.allocated, sample.peak, sample.reserved,
        sample.task == -1 ? std::nullopt : std::optional(sample.task), known(0), known(1), known(2), known(3), known(4),
        known(5), known(6), known(7), known(8));
}

void TraceWriter::add_drop(const DropRecord& drop) {
    impl_->write([&] {
        impl_->statements->run("INSERT OR REPLACE INTO PIPESCOPE_DROPS VALUES (?,?,?,?,?,?)", drop.source, drop.thread,
                               drop.recorded, drop.dropped, drop.truncated, drop.open_at_exit);
    });
}

void TraceWriter::add_clock(const ClockRecord& clock) {
    impl_->insert("PIPESCOPE_CLOCK", clock.realtime, clock.monotonic, clock.boottime, clock.tsc);
}

void TraceWriter::add_overhead(const OverheadRecord& overhead) {
    impl_->insert("PIPESCOPE_OVERHEAD", overhead.source, overhead.what, overhead.value);
}

void TraceWriter::add_diagnostic(const DiagnosticRecord& diagnostic) {
    impl_->insert("PIPESCOPE_DIAGNOSTIC", diagnostic.severity, diagnostic.source, diagnostic.text);
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
