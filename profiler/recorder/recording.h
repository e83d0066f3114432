#pragma once

#include "profiler/recorder/thread_log.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// The number of the recording that runs, 0 for none. What the NVTX handler looks at first: nearly all its cost while
/// nobody records. A global since NVTX's C functions carry no context.
/// Acquire when read: a thread that sees the number must see the recording it belongs to.
extern constinit std::atomic<std::uint64_t> running_recording;

/// One recording's side towards the program's threads: it hands a ThreadLog to each thread that emits, and keeps the
/// ranges that may end on another thread than they started on.
/// Invariant: one lives at a time, since there is one NVTX handler in a process.
/// Threading: the methods from the recorder's threads; the functions below from any thread.
class Recording {
public:
    /// Throws TraceError if another one lives. Nothing is recorded before start().
    Recording();
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    void start(std::size_t ring_entries);
    /// From its return on, no range begins or ends in this recording but those a thread is just handling; a ThreadLog's
    /// snapshot waits for these. Returns the start/end ranges that are open. Idempotent.
    std::vector<RangeEvent> stop();
    /// Logs of threads that emitted for the first time since the last call.
    std::vector<std::shared_ptr<ThreadLog>> take_new_logs();
};

/// The calling thread's log in the recording that runs; nothing where none runs or the thread is about to end.
/// Not for the recorder's own threads. The pointer is good for the current NVTX call.
ThreadLog* log_of_this_thread() noexcept;

/// Opens a range that any thread may end; returns its id, 0 where nothing records.
std::uint64_t open_range(const RangeEvent& range);
/// Takes it out; nothing if it is not open in the recording that runs.
std::optional<RangeEvent> take_range(std::uint64_t id);
}  // namespace pipescope
