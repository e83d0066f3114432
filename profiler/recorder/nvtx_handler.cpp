// The functions that NVTX calls. NVTX is header-only. At its first use in an executable it looks for a tool, first in
// the environment (NVTX_INJECTION64_PATH), then at the weak symbol InitializeInjectionNvtx2_fnptr, which this file
// defines. It looks only once, so the handler always attaches, and is idle until a recorder exists. Source:
// nvtx3/nvtxDetail/nvtxInit.h, NVTX_LOAD_SEQUENCE_VERSION 2.

#include "profiler/recorder/nvtx_handler.h"

#include "profiler/recorder/name_registry.h"
#include "profiler/recorder/nvtx_events.h"
#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/recording.h"
#include "profiler/recorder/recording_clock.h"

#include <unistd.h>

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace pipescope {
namespace {
std::atomic<bool> attached{false};
std::atomic<std::int64_t> deferred{0};

NameRegistry& registry() {
    return NameRegistry::of_process();
}
std::uint32_t intern(std::string_view text) {
    return registry().text(text);
}

void set_text(RangeEvent& event, ThreadLog& log, std::string_view text) {
    const std::string_view kept = cut_text(text);
    event.text = log.text_number(kept, intern);
    event.truncated = kept.size() < text.size() || event.text == NameRegistry::kTooManyTexts;
}

RangeEvent make_event(RangeType type, std::uint32_t domain, const ThreadLog& log) {
    RangeEvent event;
    event.type = type;
    event.domain = domain;
    event.start_tid = log.tid();
    return event;
}

template <class Character>
RangeEvent make_event(RangeType type, std::uint32_t domain, ThreadLog& log, const Character* text) {
    RangeEvent event = make_event(type, domain, log);
    set_text(event, log, utf8(text));
    return event;
}

std::uint64_t payload_bits(const nvtxEventAttributes_t& attributes, PayloadType type) {
    switch (type) {
        case PayloadType::f64: return std::bit_cast<std::uint64_t>(attributes.payload.dValue);
        case PayloadType::f32: return std::bit_cast<std::uint32_t>(attributes.payload.fValue);
        case PayloadType::u32: return attributes.payload.uiValue;
        case PayloadType::i32: return std::bit_cast<std::uint32_t>(attributes.payload.iValue);
        default: return attributes.payload.ullValue;
    }
}

/// Sets the message of the attributes, unless it is registered.
void set_message(RangeEvent& event, ThreadLog& log, const nvtxEventAttributes_t& attributes) {
    switch (attributes.messageType) {
        case NVTX_MESSAGE_TYPE_REGISTERED: event.text = from_handle(attributes.message.registered); break;
        case NVTX_MESSAGE_TYPE_ASCII: set_text(event, log, utf8(attributes.message.ascii)); break;
        case NVTX_MESSAGE_TYPE_UNICODE: set_text(event, log, utf8(attributes.message.unicode)); break;
        default: set_text(event, log, {});
    }
}

RangeEvent make_event(RangeType type, std::uint32_t domain, ThreadLog& log, PayloadSpan payload) {
    RangeEvent event = make_event(type, domain, log);
    event.text = name_of(payload);
    return event;
}

RangeEvent make_event(RangeType type, std::uint32_t domain, ThreadLog& log, NamedNumber number) {
    RangeEvent event = make_event(type, domain, log);
    event.text = number.text;
    event.payload_type = number.type;
    event.payload = number.bits;
    return event;
}

RangeEvent make_event(RangeType type, std::uint32_t domain, ThreadLog& log, const nvtxEventAttributes_t* attributes) {
    RangeEvent event = make_event(type, domain, log);
    if (attributes == nullptr) {
        set_text(event, log, {});
        return event;
    }
    event.category = attributes->category;
    event.has_color = attributes->colorType == NVTX_COLOR_ARGB;
    event.color = attributes->color;
    if (attributes->payloadType >= NVTX_PAYLOAD_TYPE_UNSIGNED_INT64 &&
        attributes->payloadType <= NVTX_PAYLOAD_TYPE_FLOAT) {
        event.payload_type = static_cast<PayloadType>(attributes->payloadType);
        event.payload = payload_bits(*attributes, event.payload_type);
    }
    set_message(event, log, *attributes);
    if (attributes->payloadType == NVTX_PAYLOAD_TYPE_EXT && attributes->messageType == NVTX_MESSAGE_UNKNOWN) {
        const auto* const data = reinterpret_cast<const nvtxPayloadData_t*>(attributes->payload.ullValue);
        event.text = name_of({data, static_cast<std::size_t>(attributes->reserved0)});
    }
    return event;
}

/// Without a recording, this check is the only cost of a range. The rest is in separate functions; otherwise their
/// registers would be saved before the check.
bool idle() {
    return running_recording.load(std::memory_order_relaxed) == 0;
}

// Reads a start as late and an end as early as possible, so that our own work is outside the range. `Source` is
// attributes or a text.

template <class Source>
[[gnu::noinline]] int record_push(std::uint32_t domain, Source source) noexcept {
    ThreadLog* log = log_of_this_thread();
    if (log == nullptr) {
        return NVTX_NO_PUSH_POP_TRACKING;
    }
    RangeEvent event = make_event(RangeType::push_pop, domain, *log, source);
    event.start = recording_clock_ns();
    return log->push(event);
}

[[gnu::noinline]] int record_pop(std::uint32_t domain) noexcept {
    const std::int64_t now = recording_clock_ns();
    ThreadLog* log = log_of_this_thread();
    return log == nullptr ? NVTX_NO_PUSH_POP_TRACKING : log->pop(domain, now);
}

template <class Source>
[[gnu::noinline]] void record_mark(std::uint32_t domain, Source source) noexcept {
    const std::int64_t now = recording_clock_ns();
    if (ThreadLog* log = log_of_this_thread()) {
        RangeEvent event = make_event(RangeType::mark, domain, *log, source);
        event.start = now;
        log->add_mark(event);
    }
}

template <class Source>
[[gnu::noinline]] nvtxRangeId_t record_start(std::uint32_t domain, Source source) noexcept {
    ThreadLog* log = log_of_this_thread();
    if (log == nullptr) {
        return 0;
    }
    RangeEvent event = make_event(RangeType::start_end, domain, *log, source);
    event.start = recording_clock_ns();
    return open_range(event);
}

[[gnu::noinline]] void record_end(nvtxRangeId_t id) noexcept {
    const std::int64_t now = recording_clock_ns();
    if (ThreadLog* log = log_of_this_thread()) {
        log->add_ended([&] {
            std::optional<RangeEvent> range = take_range(id);
            if (range) {
                range->end = now;
            }
            return range;
        });
    }
}

}  // namespace

template <class Source>
int emit_push(std::uint32_t domain, Source source) {
    return idle() ? NVTX_NO_PUSH_POP_TRACKING : record_push(domain, source);
}
int emit_pop(std::uint32_t domain) {
    return idle() ? NVTX_NO_PUSH_POP_TRACKING : record_pop(domain);
}
template <class Source>
void emit_mark(std::uint32_t domain, Source source) {
    if (!idle()) {
        record_mark(domain, source);
    }
}
template <class Source>
std::uint64_t emit_start(std::uint32_t domain, Source source) {
    return idle() ? 0 : record_start(domain, source);
}
void emit_end(std::uint64_t range) {
    if (!idle()) {
        record_end(range);
    }
}
template int emit_push(std::uint32_t, PayloadSpan);
template void emit_mark(std::uint32_t, PayloadSpan);
template void emit_mark(std::uint32_t, NamedNumber);
template std::uint64_t emit_start(std::uint32_t, PayloadSpan);

namespace {
// One function per callback, in the order of NVTX's tables.

using Attributes = const nvtxEventAttributes_t*;
using Domain = nvtxDomainHandle_t;
constexpr std::uint32_t kDefaultDomain = 0;

// Functions with and without a domain, for attributes and both kinds of texts.

template <class Source>
void mark_in_default(Source source) {
    emit_mark(kDefaultDomain, source);
}
template <class Source>
nvtxRangeId_t start_in_default(Source source) {
    return emit_start(kDefaultDomain, source);
}
template <class Source>
int push_in_default(Source source) {
    return emit_push(kDefaultDomain, source);
}
int pop_in_default() {
    return emit_pop(kDefaultDomain);
}
void mark_in(Domain domain, Attributes attributes) {
    emit_mark(from_handle(domain), attributes);
}
nvtxRangeId_t start_in(Domain domain, Attributes attributes) {
    return emit_start(from_handle(domain), attributes);
}
void end_in(Domain, nvtxRangeId_t id) {
    emit_end(id);
}
int push_in(Domain domain, Attributes attributes) {
    return emit_push(from_handle(domain), attributes);
}
int pop_in(Domain domain) {
    return emit_pop(from_handle(domain));
}

template <class Character>
void name_category(std::uint32_t category, const Character* name) {
    registry().name_category(kDefaultDomain, category, utf8(name));
}
template <class Character>
void name_category_in(Domain domain, std::uint32_t category, const Character* name) {
    registry().name_category(from_handle(domain), category, utf8(name));
}
template <class Character>
void name_os_thread(std::uint32_t tid, const Character* name) {
    registry().name_thread(tid, utf8(name));
}
template <class Character>
nvtxStringHandle_t register_string(Domain, const Character* text) {
    return to_handle<nvtxStringHandle_t>(registry().text(cut_text(utf8(text))));
}
template <class Character>
Domain create_domain(const Character* name) {
    return to_handle<Domain>(registry().domain(utf8(name)));
}
void destroy_domain(Domain domain) {
    registry().destroy_domain(from_handle(domain));  // keeps its ranges and its name in the trace
}
void initialize(const void*) {}

void attach_core(const NvtxExportTableCallbacks& callbacks) {
    const NvtxTable table(callbacks, NVTX_CB_MODULE_CORE);
    table.set(NVTX_CBID_CORE_MarkEx, mark_in_default<Attributes>);
    table.set(NVTX_CBID_CORE_MarkA, mark_in_default<const char*>);
    table.set(NVTX_CBID_CORE_MarkW, mark_in_default<const wchar_t*>);
    table.set(NVTX_CBID_CORE_RangeStartEx, start_in_default<Attributes>);
    table.set(NVTX_CBID_CORE_RangeStartA, start_in_default<const char*>);
    table.set(NVTX_CBID_CORE_RangeStartW, start_in_default<const wchar_t*>);
    table.set(NVTX_CBID_CORE_RangeEnd, emit_end);
    table.set(NVTX_CBID_CORE_RangePushEx, push_in_default<Attributes>);
    table.set(NVTX_CBID_CORE_RangePushA, push_in_default<const char*>);
    table.set(NVTX_CBID_CORE_RangePushW, push_in_default<const wchar_t*>);
    table.set(NVTX_CBID_CORE_RangePop, pop_in_default);
    table.set(NVTX_CBID_CORE_NameCategoryA, name_category<char>);
    table.set(NVTX_CBID_CORE_NameCategoryW, name_category<wchar_t>);
    table.set(NVTX_CBID_CORE_NameOsThreadA, name_os_thread<char>);
    table.set(NVTX_CBID_CORE_NameOsThreadW, name_os_thread<wchar_t>);
}

void attach_core2(const NvtxExportTableCallbacks& callbacks) {
    const NvtxTable table(callbacks, NVTX_CB_MODULE_CORE2);
    table.set(NVTX_CBID_CORE2_DomainMarkEx, mark_in);
    table.set(NVTX_CBID_CORE2_DomainRangeStartEx, start_in);
    table.set(NVTX_CBID_CORE2_DomainRangeEnd, end_in);
    table.set(NVTX_CBID_CORE2_DomainRangePushEx, push_in);
    table.set(NVTX_CBID_CORE2_DomainRangePop, pop_in);
    table.set(NVTX_CBID_CORE2_DomainNameCategoryA, name_category_in<char>);
    table.set(NVTX_CBID_CORE2_DomainNameCategoryW, name_category_in<wchar_t>);
    table.set(NVTX_CBID_CORE2_DomainRegisterStringA, register_string<char>);
    table.set(NVTX_CBID_CORE2_DomainRegisterStringW, register_string<wchar_t>);
    table.set(NVTX_CBID_CORE2_DomainCreateA, create_domain<char>);
    table.set(NVTX_CBID_CORE2_DomainCreateW, create_domain<wchar_t>);
    table.set(NVTX_CBID_CORE2_DomainDestroy, destroy_domain);
    table.set(NVTX_CBID_CORE2_Initialize, initialize);
}
}  // namespace

bool nvtx_handler_attached() {
    return attached.load(std::memory_order_relaxed);
}
std::int64_t deferred_submissions() {
    return deferred.load(std::memory_order_relaxed);
}
void count_deferred_submission() {
    deferred.fetch_add(1, std::memory_order_relaxed);
}
void announce_nvtx_handler() {
    attached.store(true, std::memory_order_relaxed);
}

int attach_nvtx_handler(NvtxGetExportTableFunc_t get_export_table) {
    const auto* callbacks = static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
    if (callbacks == nullptr || callbacks->struct_size < sizeof(NvtxExportTableCallbacks)) {
        return 0;
    }
    attach_core(*callbacks);
    attach_core2(*callbacks);
    attach_nvtx_resources(*callbacks);
    attached.store(true, std::memory_order_relaxed);  // informative only, without ordering
    return 1;
}
}  // namespace pipescope

extern "C" {
NvtxInitializeInjectionNvtxFunc_t InitializeInjectionNvtx2_fnptr = pipescope::attach_nvtx_handler;
extern const char pipescope_nvtx_handler;
const char pipescope_nvtx_handler = 1;  // a symbol that makes the linker keep this file, see CMakeLists.txt
}
