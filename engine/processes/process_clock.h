#pragma once

#include "engine/processes/processes.h"
#include "schedule/process_facts.h"

#include <cstdint>
#include <string>

namespace pipescope {
/// The clock of a process's trace: CLOCK_MONOTONIC since an origin.
struct ProcessClock {
    std::int64_t origin_ns = 0;  ///< CLOCK_MONOTONIC at time zero
    std::string boot_id;         ///< processes of equal, known boot id and time namespace read the same CLOCK_MONOTONIC
    std::string time_namespace;

    Nanoseconds now() const;
};
/// This process's clock. Texts that the system does not tell are empty.
ProcessClock process_clock(std::int64_t origin_ns);

/// Collective: compares this process's clock with that of rank 0. Processes that read the same clock get an exact
/// offset. Otherwise, each in turn asks rank 0 for its time, kPings times, and takes the shortest round trip: rank 0
/// read its clock somewhere within it, so the error is at most half of it.
/// Call it while no step runs: on a busy connection the bound grows from microseconds to milliseconds.
/// Errors: ProcessError.
inline constexpr int kPings = 50;
ClockReading measure_clock(Processes& processes, const ProcessClock& clock);
}  // namespace pipescope
