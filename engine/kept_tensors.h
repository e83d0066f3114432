#pragma once

#include "engine/layer.h"
#include "engine/stream_event.h"

#include <cstddef>
#include <deque>
#include <vector>

namespace pipescope {
/// Keeps tensors from being freed while a stream may still use them.
///
/// Problem: a device's allocator gives freed memory back to the stream it was allocated for, at once. So a tensor that
/// another stream uses must outlive that use, of which the host knows only by events. Idea: keep a reference until the
/// events have passed; the host looks whenever it comes by, and waits for the oldest when too many are open, which also
/// bounds how far it runs ahead of the device. torch's record_stream would do, but frees at moments that depend on the
/// allocator's own polling, and fragments its pools.
/// Threading: one thread at a time.
class KeptTensors {
public:
    /// Open entries before the host waits: enough for a copy and a task to overlap in both directions of a lane.
    static constexpr std::size_t kMostOpen = 8;

    void keep(Tensors tensors, std::vector<StreamEvent> until);
    /// For when all streams are known to be past, or ordered after, every use.
    void clear() { open_.clear(); }
    std::size_t num_open() const noexcept { return open_.size(); }

private:
    struct Entry {
        Tensors tensors;
        std::vector<StreamEvent> until;
    };
    std::deque<Entry> open_;  // in order of keep()
};
}  // namespace pipescope
