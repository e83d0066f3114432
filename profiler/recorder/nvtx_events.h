#pragma once

// For the files of the handler only: events that do not come from NVTX's core functions.

#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/range_event.h"

#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace pipescope {
/// Data that a program gave with an event.
struct PayloadSpan {
    const nvtxPayloadData_t* data = nullptr;
    std::size_t count = 0;
};

/// The same as text, on its way to the drain thread.
struct EventPayload {
    std::optional<std::uint64_t> number;  ///< of PayloadSchemas; nothing: there was no room
    std::string name;                     ///< of its schema; may be empty
};
EventPayload payload_of(const nvtxPayloadData_t* data, std::size_t count);

// Nothing while nobody records. The event's text is the name of the payload's schema.

int emit_push(std::uint32_t domain, PayloadSpan payload);
int emit_pop(std::uint32_t domain);
std::uint64_t emit_start(std::uint32_t domain, PayloadSpan payload);
void emit_end(std::uint64_t range);
void emit_mark(std::uint32_t domain, PayloadSpan payload);

/// Events or counters with times of the program's own clocks were handed over; nobody takes them.
void count_deferred_submission();

/// A number with a name: what a counter shows.
struct NamedNumber {
    std::uint32_t text = 0;  ///< of the registry
    PayloadType type = PayloadType::none;
    std::uint64_t bits = 0;
};
void emit_mark(std::uint32_t domain, NamedNumber number);
/// Bytes with a name of the registry instead of their schema's.
struct NamedPayload {
    std::uint32_t text = 0;
    PayloadSpan payload;
};
void emit_mark(std::uint32_t domain, NamedPayload payload);

// The same with a text of the registry.

std::uint64_t emit_start(std::uint32_t domain, std::uint32_t text);
void emit_mark(std::uint32_t domain, std::uint32_t text);

/// Counters (nvToolsExtCounters.h); nvtx_counters.cpp. Returns 1, or 0 where the module is another one.
int attach_nvtx_counters(nvtxExtModuleInfo_t& module);

/// The functions of synchronization objects a program made itself; nvtx_sync.cpp.
void attach_nvtx_sync(const NvtxExportTableCallbacks& callbacks);
}  // namespace pipescope
