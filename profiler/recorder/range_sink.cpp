#include "profiler/recorder/range_sink.h"

#include "trace/store/cupti_rows.h"

#include <algorithm>
#include <bit>

namespace pipescope {
namespace {
constexpr std::string_view kEngineDomain = "pipescope";
constexpr int kCategoryEvent = 33;
constexpr int kDomainCreateEvent = 75;
constexpr int kDomainDestroyEvent = 76;

void set_payload(NvtxRecord& record, const RangeEvent& range) {
    const auto low = static_cast<std::uint32_t>(range.payload);
    switch (range.payload_type) {
        case PayloadType::none: break;
        case PayloadType::u64: record.uint64_value = range.payload; break;
        case PayloadType::i64: record.int64_value = std::bit_cast<std::int64_t>(range.payload); break;
        case PayloadType::f64: record.double_value = std::bit_cast<double>(range.payload); break;
        case PayloadType::u32: record.uint32_value = low; break;
        case PayloadType::i32: record.int32_value = std::bit_cast<std::int32_t>(low); break;
        case PayloadType::f32: record.float_value = std::bit_cast<float>(low); break;
    }
}
}  // namespace

RangeSink::RangeSink(TraceWriter& writer, const NameRegistry& names, std::int64_t origin, std::int64_t pid)
    : writer_(writer), names_(names), origin_(origin), pid_(pid) {}

void RangeSink::write_event(int type, std::int64_t clock_ns, std::int64_t domain, std::string_view name,
                            std::optional<std::int64_t> category) {
    NvtxRecord record;
    record.start = std::max<std::int64_t>(0, clock_ns - origin_);  // the range may be older than the recording
    record.event_type = type;
    record.text = valid_text(name);
    record.global_tid = global_tid(0);
    record.category = category;
    record.domain_id = domain;
    writer_.add_range(record);
}

void RangeSink::write_new_names() {
    for (const NameRegistry::Domain& domain : names_.after<NameRegistry::Domain>(domains_seen_)) {
        ++domains_seen_;  // a domain's number is its position, counted from 1
        if (domain.name == kEngineDomain) {
            engine_domain_ = static_cast<std::uint32_t>(domains_seen_);
        }
        write_event(kDomainCreateEvent, domain.created, static_cast<std::int64_t>(domains_seen_), domain.name);
    }
    for (const NameRegistry::Category& category : names_.after<NameRegistry::Category>(categories_seen_)) {
        ++categories_seen_;
        write_event(kCategoryEvent, category.created, category.domain, category.name, category.category);
    }
    for (const NameRegistry::ThreadName& thread : names_.after<NameRegistry::ThreadName>(thread_names_seen_)) {
        ++thread_names_seen_;
        named_threads_[thread.tid] = thread.name;
        writer_.add_thread_name(global_tid(thread.tid), valid_text(thread.name));
    }
    for (const auto& domain : names_.after<NameRegistry::DestroyedDomain>(destroyed_domains_seen_)) {
        ++destroyed_domains_seen_;
        write_event(kDomainDestroyEvent, domain.destroyed, domain.domain, {});
    }
    for (const NameRegistry::Resource& resource : names_.after<NameRegistry::Resource>(resources_seen_)) {
        ++resources_seen_;
        writer_.change([&](SQLite::Database& db) {
            add_named_resource(
                db, {resource.kind, resource.domain, resource.identifier, valid_text(resource.name), resource.stream});
        });
    }
}

void RangeSink::write_thread_name(std::uint32_t tid, std::string_view name) {
    if (!named_threads_.contains(tid)) {
        writer_.add_thread_name(global_tid(tid), valid_text(name));  // the system may truncate names within a character
    }
}

const std::string& RangeSink::text(std::uint32_t number) {
    if (number >= texts_.size()) {
        for (const std::string& each : names_.after<std::string>(texts_.size())) {
            texts_.push_back(valid_text(each));
        }
    }
    // A handle from another tool would be out of range.
    return number < texts_.size() ? texts_[number] : texts_[NameRegistry::kTooManyTexts];
}

void RangeSink::write(const RangeEvent& range, std::uint32_t end_tid) {
    record_.start = range.start - origin_;
    record_.end = range.end == RangeEvent::kOpen ? std::nullopt : std::optional(range.end - origin_);
    record_.event_type = static_cast<int>(range.type);
    const bool across_threads = range.type == RangeType::start_end;
    record_.range_id = across_threads ? std::optional(static_cast<std::int64_t>(range.range_id)) : std::nullopt;
    record_.category = range.category == 0 ? std::nullopt : std::optional<std::int64_t>(range.category);
    record_.color = range.has_color ? std::optional<std::int64_t>(range.color) : std::nullopt;
    record_.text = text(range.text);
    record_.global_tid = global_tid(range.start_tid);
    record_.end_global_tid = across_threads && record_.end ? std::optional(global_tid(end_tid)) : std::nullopt;
    record_.domain_id = range.domain;
    record_.uint64_value.reset();
    record_.int64_value.reset();
    record_.double_value.reset();
    record_.uint32_value.reset();
    record_.int32_value.reset();
    record_.float_value.reset();
    set_payload(record_, range);
    const std::int64_t row = writer_.add_range(record_);
    ++rows_;
    if (range.domain == engine_domain_ && engine_domain_ != 0 && record_.end &&
        range.payload_type == PayloadType::u64) {
        write_task(range, row);
    }
}

void RangeSink::write_task(const RangeEvent& range, std::int64_t row) {
    if (const auto key = unpack(range.payload)) {
        writer_.add_task({*key, lane_of(*key), time(range.start), time(range.end), 0}, Source::measured, row);
        ++rows_;
    }
}

LaneId RangeSink::lane_of(const TaskKey& key) const {
    constexpr LaneId kNoLane{-1};
    return shape_ ? shape_->lane_of(key).value_or(kNoLane) : LaneId{key.partition};
}

DropRecord& RangeSink::counts_of(std::uint32_t tid) {
    DropRecord& counts = counts_[tid];
    counts.source = "nvtx";
    counts.thread = global_tid(tid);
    return counts;
}

void RangeSink::write_counts_of(std::uint32_t tid) {
    writer_.add_drop(counts_of(tid));
}

void RangeSink::write_counts() {
    for (const auto& [tid, counts] : counts_) {
        writer_.add_drop(counts);
    }
}
}  // namespace pipescope
