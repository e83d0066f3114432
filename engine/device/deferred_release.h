#pragma once

#include "engine/device/stream_event.h"
#include "engine/layer.h"

#include <cstddef>
#include <deque>

namespace pipescope {
/// Releases tensors only after a stream's last use of them.
///
/// Problem: a device's allocator immediately returns freed memory to the stream that allocated it. A tensor that
/// another stream uses must therefore outlive that use, which the host only sees through events. Idea: hold a reference
/// until the event has passed. hold() polls the events, and waits for the oldest entry if too many are open, which
/// also limits how far the host runs ahead of the device. torch's record_stream would also work, but frees at moments
/// that depend on the allocator's polling, and fragments its pools.
/// Threading: one thread at a time.
class DeferredRelease {
public:
    /// Open entries before the host waits. Enough to overlap a copy and a task in both directions of a lane.
    static constexpr std::size_t kMostOpen = 8;

    void hold(Tensors tensors, StreamEvent until);
    /// Makes work enqueued in `stream` from now on start after every use that is still open.
    void block(const c10::Stream& stream) const;
    /// Call when all streams are past every use, or ordered after it.
    void clear() { open_.clear(); }
    std::size_t num_open() const noexcept { return open_.size(); }

private:
    struct Entry {
        Tensors tensors;
        StreamEvent until;
    };
    std::deque<Entry> open_;  // in order of hold()
};
}  // namespace pipescope
