#pragma once

#include "profiler/recorder/thread_log.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace pipescope {
/// The number of the running recording, or 0. The NVTX handler checks it first; without a recording, this is nearly the
/// handler's whole cost. Global, since NVTX's C functions have no context. Read with acquire: a thread that sees the
/// number must see its recording.
extern constinit std::atomic<std::uint64_t> running_recording;

/// The part of a recording that faces the program's threads. Gives a ThreadLog to each emitting thread, and stores
/// ranges that may end on another thread. Invariant: only one exists at a time, since a process has one NVTX handler.
/// Threading: methods on the recorder's threads; the functions below on any thread.
class Recording {
public:
    /// Throws TraceError if another Recording exists. Recording begins with start().
    Recording();
    ~Recording();
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

    void start(std::size_t ring_entries);
    /// After this returns, no range starts or ends in this recording, except those that a thread is just handling; a
    /// ThreadLog's snapshot waits for these. Returns the open start/end ranges. Idempotent.
    std::vector<RangeEvent> stop();
    /// Logs of threads that emitted for the first time since the last call.
    std::vector<std::shared_ptr<ThreadLog>> take_new_logs();
};

/// The calling thread's log in the running recording. Null without a recording, or if the thread is about to end. Not
/// for the recorder's own threads. The pointer is valid during the current NVTX call.
ThreadLog* log_of_this_thread() noexcept;

/// Opens a range that any thread may end. Returns its id, or 0 without a recording.
std::uint64_t open_range(const RangeEvent& range);
/// Removes and returns a range. Empty if it is not open in the running recording.
std::optional<RangeEvent> take_range(std::uint64_t id);
}  // namespace pipescope
