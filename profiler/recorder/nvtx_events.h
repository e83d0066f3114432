#pragma once

// For the handler's files only: events that do not come from NVTX's core functions.

#include "profiler/recorder/nvtx_table.h"
#include "profiler/recorder/range_event.h"

#include <nvtx3/nvToolsExtPayload.h>

#include <cstddef>
#include <cstdint>

namespace pipescope {
/// Data attached to an event. The schema of its first element names an event without another name.
struct PayloadSpan {
    const nvtxPayloadData_t* data = nullptr;
    std::size_t count = 0;
};
/// The name's number in the registry.
std::uint32_t name_of(PayloadSpan payload);

/// A named number, such as a counter's value.
struct NamedNumber {
    std::uint32_t text = 0;  ///< number in the registry
    PayloadType type = PayloadType::none;
    std::uint64_t bits = 0;
};

// No effect without a recording. `source` names the event: a PayloadSpan, for marks also a NamedNumber.

template <class Source>
int emit_push(std::uint32_t domain, Source source);
int emit_pop(std::uint32_t domain);
template <class Source>
std::uint64_t emit_start(std::uint32_t domain, Source source);
void emit_end(std::uint64_t range);
template <class Source>
void emit_mark(std::uint32_t domain, Source source);

/// Counts a submission of events or counters with the program's own clocks, whose times are ignored.
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
}  // namespace pipescope
