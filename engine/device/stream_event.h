#pragma once

#include <c10/core/Stream.h>

#include <memory>

namespace c10 {
struct Event;
}

namespace pipescope {
/// A point in a device's stream that other streams and threads can wait for. An event that was never recorded counts as
/// passed, which suits CPU lanes: their work is done when it is passed on. A copy is the same event.
/// Threading: values; the moment itself may be waited for from any thread.
class StreamEvent {
public:
    StreamEvent() = default;
    /// Records the point after everything enqueued in `stream` so far.
    static StreamEvent record(const c10::Stream& stream);

    /// Makes work enqueued in `stream` from now on start after the event. Does not block the calling thread.
    void block(const c10::Stream& stream) const;
    /// Blocks the calling thread until the event has passed.
    void synchronize() const;
    bool has_passed() const;
    /// False if there is nothing to wait for.
    explicit operator bool() const noexcept { return event_ != nullptr; }

private:
    std::shared_ptr<const c10::Event> event_;  // null: passed
};
}  // namespace pipescope
