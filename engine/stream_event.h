#pragma once

#include <c10/core/Stream.h>

#include <memory>

namespace c10 {
struct Event;
}

namespace pipescope {
/// A moment in a stream of a device, which other streams and threads can wait for. One that was never recorded has
/// passed: so is everything a CPU lane does by the time it is handed on. A copy is the same moment.
/// Threading: values; the moment itself may be waited for from any thread.
class StreamEvent {
public:
    StreamEvent() = default;
    /// After all that is enqueued in `stream` so far.
    static StreamEvent record(const c10::Stream& stream);

    /// What is enqueued in `stream` from now on starts after the moment. The calling thread goes on.
    void block(const c10::Stream& stream) const;
    /// Blocks the calling thread until the moment has passed.
    void synchronize() const;
    bool has_passed() const;
    /// False where there is nothing to wait for.
    explicit operator bool() const noexcept { return event_ != nullptr; }

private:
    std::shared_ptr<const c10::Event> event_;  // null: passed
};
}  // namespace pipescope
