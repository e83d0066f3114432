#include "engine/processes/channel.h"

#include <cstring>
#include <exception>
#include <utility>

namespace pipescope {
namespace {
constexpr int kPosted = 2;
constexpr std::size_t kFirstCapacity = std::size_t{64} << 10;
constexpr std::int64_t kLarger = 0x50495045'4c415247;  // begins a frame that announces a larger capacity

/// The capacity that the frame announces; 0 if it holds a message.
std::size_t announced(std::span<const std::byte> frame) {
    std::int64_t words[2];
    std::memcpy(words, frame.data(), sizeof(words));
    return words[0] == kLarger ? static_cast<std::size_t>(words[1]) : 0;
}

void announce(std::span<std::byte> frame, std::size_t capacity) {
    const std::int64_t words[2] = {kLarger, static_cast<std::int64_t>(capacity)};
    std::memcpy(frame.data(), words, sizeof(words));
}
}  // namespace

OutgoingChannel::OutgoingChannel(Connections& connections, int to, int tag, Worker& completions,
                                 std::function<void()> on_failure)
    : connections_(connections),
      to_(to),
      tag_(tag),
      completions_(completions),
      on_failure_(std::move(on_failure)),
      capacity_(kFirstCapacity) {}

void OutgoingChannel::send(const PackedMessage& message) {
    if (message.size() > capacity_) {
        for (int k = 0; k < kPosted; ++k) {
            const std::shared_ptr<Frame> larger = free_->take(capacity_);
            announce(larger->all(), message.size());
            send(larger, 2 * sizeof(std::int64_t));
        }
        capacity_ = message.size();
    }
    const std::shared_ptr<Frame> filled = free_->take(capacity_);
    message.write(filled->all());
    send(filled, message.size());
}

std::shared_ptr<Frame> OutgoingChannel::FramePool::take(std::size_t capacity) {
    const std::lock_guard lock(mutex);
    while (!frames.empty()) {
        std::shared_ptr<Frame> last = std::move(frames.back());
        frames.pop_back();
        if (last->capacity() >= capacity) {
            return last;
        }
    }
    return std::make_shared<Frame>(capacity);
}

void OutgoingChannel::FramePool::give(std::shared_ptr<Frame> frame) {
    const std::lock_guard lock(mutex);
    frames.push_back(std::move(frame));
}

void OutgoingChannel::send(const std::shared_ptr<Frame>& frame, std::size_t size) {
    const auto transfer = std::make_shared<Transfer>(connections_.send(frame->used(size), to_, tag_));
    completions_.post([transfer, frame, pool = free_, on_failure = on_failure_] {
        try {
            if (transfer->wait()) {
                pool->give(frame);
            }
        } catch (const std::exception&) {
            on_failure();
        }
    });
}

IncomingChannel::IncomingChannel(Connections& connections, int from, int tag)
    : connections_(connections), from_(from), tag_(tag) {
    for (int k = 0; k < kPosted; ++k) {
        post(std::make_unique<Frame>(kFirstCapacity));
    }
}

IncomingChannel::~IncomingChannel() = default;

void IncomingChannel::post(std::unique_ptr<Frame> frame) {
    Transfer transfer = connections_.receive(frame->all(), from_, tag_);
    posted_.push_back({std::move(frame), std::move(transfer)});
}

std::optional<ReceivedMessage> IncomingChannel::receive() {
    if (emptied_) {
        post(std::move(emptied_));
    }
    while (true) {
        if (!posted_.front().transfer.wait()) {
            return std::nullopt;
        }
        std::unique_ptr<Frame> frame = std::move(posted_.front().frame);
        posted_.pop_front();
        const std::size_t larger = announced(frame->all());
        if (larger == 0) {
            emptied_ = std::move(frame);
            return ReceivedMessage(emptied_->all());
        }
        if (posted_.empty()) {  // the last of kPosted announcements: no receive of the old capacity is left
            for (int k = 0; k < kPosted; ++k) {
                post(std::make_unique<Frame>(larger));
            }
        }
    }
}
}  // namespace pipescope
