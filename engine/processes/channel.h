#pragma once

#include "engine/lanes/worker.h"
#include "engine/processes/message.h"
#include "engine/processes/transport.h"

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

// One direction between two processes, for messages of any size.
//
// Problem: Gloo ends a process that receives more than it has posted memory for, and a receive that is posted only when
// the size is known costs a round trip. Idea: both ends agree on a capacity. The receiver always has kPosted receives
// of that capacity waiting when it looks for a message. A sender with a longer message first sends kPosted messages
// that announce a larger one, which use up the receives that are too small. So only the first message of a new largest
// size pays a round trip. Invariant: both ends compute the same capacity from the messages so far. Cost: kPosted frames
// of the largest message at the receiver, as many at the sender as are on their way.

namespace pipescope {
/// Sends without blocking.
/// Threading: send() from one thread at a time. Lifetime: borrows the connections and the worker.
class OutgoingChannel {
public:
    /// `completions` waits for the messages' ends; `on_failure` is called there if one was lost.
    OutgoingChannel(Connections& connections, int to, int tag, Worker& completions, std::function<void()> on_failure);

    /// Copies the message before it returns. Throws ConnectionLost.
    void send(const PackedMessage& message);

private:
    /// Frames to use again; the completions return them.
    struct FramePool {
        std::mutex mutex;
        std::vector<std::shared_ptr<Frame>> frames;  // guarded by mutex

        std::shared_ptr<Frame> take(std::size_t capacity);
        void give(std::shared_ptr<Frame> frame);
    };

    void send(const std::shared_ptr<Frame>& frame, std::size_t size);

    Connections& connections_;
    const int to_;
    const int tag_;
    Worker& completions_;
    std::function<void()> on_failure_;
    std::size_t capacity_;
    std::shared_ptr<FramePool> free_ = std::make_shared<FramePool>();
};

/// Threading: receive() from one thread at a time. Lifetime: borrows the connections.
class IncomingChannel {
public:
    IncomingChannel(Connections& connections, int from, int tag);
    ~IncomingChannel();
    IncomingChannel(const IncomingChannel&) = delete;
    IncomingChannel& operator=(const IncomingChannel&) = delete;

    /// Blocks until the next message is here; it is valid until the next call. Empty if the connections' transfers are
    /// canceled. Throws ConnectionLost.
    std::optional<ReceivedMessage> receive();
    int from() const noexcept { return from_; }

private:
    struct Posted {
        std::unique_ptr<Frame> frame;
        Transfer transfer;
    };
    void post(std::unique_ptr<Frame> frame);

    Connections& connections_;
    const int from_;
    const int tag_;
    std::deque<Posted> posted_;  // the oldest first
    std::unique_ptr<Frame>
        emptied_;  // of the last message; posted once that is in use, since posting takes a system call
};
}  // namespace pipescope
