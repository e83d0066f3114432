#pragma once

// For the handler's files only: events that do not come from NVTX's core functions.

#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/range_event.h"

#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace pipescope {
/// Data attached to an event.
struct PayloadSpan {
    const nvtxPayloadData_t* data = nullptr;
    std::size_t count = 0;
};

/// A PayloadSpan as text, on its way to the drain thread.
struct EventPayload {
    std::optional<std::uint64_t> number;  ///< number in PayloadSchemas; empty: there was no space
    std::string name;                     ///< the schema's; may be empty
};
EventPayload payload_of(const nvtxPayloadData_t* data, std::size_t count);

/// A named number, such as a counter's value.
struct NamedNumber {
    std::uint32_t text = 0;  ///< number in the registry
    PayloadType type = PayloadType::none;
    std::uint64_t bits = 0;
};
/// Bytes with a name from the registry instead of the schema's name.
struct NamedPayload {
    std::uint32_t text = 0;
    PayloadSpan payload;
};

// No effect without a recording. `source` says what the event holds: a PayloadSpan, whose schema names it, or the
// number of a text in the registry; for marks also one of the two above.

template <class Source>
int emit_push(std::uint32_t domain, Source source);
int emit_pop(std::uint32_t domain);
template <class Source>
std::uint64_t emit_start(std::uint32_t domain, Source source);
void emit_end(std::uint64_t range);
template <class Source>
void emit_mark(std::uint32_t domain, Source source);

/// Counts a submission of events or counters with times of the program's own clocks, which are ignored.
void count_deferred_submission();

/// Writes our function into the table of an extension.
template <class Function>
void set_slot(const nvtxExtModuleSegment_t& slots, std::size_t id, Function* function) {
    if (id < slots.slotCount) {
        slots.functionSlots[id] = reinterpret_cast<std::intptr_t>(function);
    }
}

/// Attaches counters (nvToolsExtCounters.h); nvtx_counters.cpp. Returns 1, or 0 for another module.
int attach_nvtx_counters(nvtxExtModuleInfo_t& module);

/// Attaches functions for synchronization objects of the program; nvtx_sync.cpp.
void attach_nvtx_sync(const NvtxExportTableCallbacks& callbacks);
}  // namespace pipescope
