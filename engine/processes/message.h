#pragma once

#include "engine/device/lane_link.h"
#include "engine/layer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pipescope {
/// A message to another process: tensors, and numbers that identify them.
struct Message {
    std::int64_t run = 0;   ///< number of the model's run, so that a late message is never taken for the next run's
    std::uint64_t key = 0;  ///< packed TaskKey of a copy
    std::vector<std::int64_t> numbers = {};
    Tensors tensors = {};  ///< may be undefined
};

/// Memory for one message, aligned for every type. Not counted as any lane's memory.
class Frame {
public:
    explicit Frame(std::size_t capacity);

    std::span<std::byte> all() noexcept { return {memory_.get(), capacity_}; }
    std::span<const std::byte> used(std::size_t size) const { return {memory_.get(), size}; }
    std::size_t capacity() const noexcept { return capacity_; }

private:
    struct Free {
        void operator()(std::byte* memory) const;
    };
    std::size_t capacity_;
    std::unique_ptr<std::byte, Free> memory_;
};

/// A message as bytes. Every tensor arrives with its sizes, strides, dtype and requires_grad, since a layer's result
/// may depend on the strides to the last bit. Tensors that share memory share it again when they arrive.
/// Cost: the tensors' bytes are copied once here, and once in ReceivedMessage; with links, once more in each. Between
/// two PeerDevices, those on the device are not in the message: only dense ones cross without a copy.
class PackedMessage {
public:
    /// Reads the tensors' layout, not their bytes. With `link`, from the tensors' device to the host, within its run():
    /// enqueues the copies, each of contiguous bytes, or with a PeerDevice their way to it; keep the tensors until the
    /// event of run(). Throws EngineError for a tensor without plain memory, such as a sparse one, or on another
    /// device.
    explicit PackedMessage(const Message& message, const LaneLink* link = nullptr);

    std::size_t size() const noexcept { return size_; }
    /// `to` holds size() bytes. With a link that has no PeerDevice, only after the event of its run().
    void write(std::span<std::byte> to) const;

private:
    struct Payload {
        std::int64_t size = 0;
        at::Tensor bytes = {};     // contiguous, on the host; undefined if a PeerDevice has them
        std::int64_t offset = -1;  // of those on the host
    };
    static Payload payload_of(const at::Tensor& contiguous, const LaneLink* link);

    std::vector<std::int64_t> head_;
    std::vector<Payload> payloads_;
    std::size_t size_ = 0;
};

/// The message in a frame that write() filled. Borrows the frame. Errors: EngineError for bytes that are none.
class ReceivedMessage {
public:
    explicit ReceivedMessage(std::span<const std::byte> frame);

    std::int64_t run() const noexcept { return run_; }
    std::uint64_t key() const noexcept { return key_; }
    const std::vector<std::int64_t>& numbers() const noexcept { return numbers_; }
    /// They own their memory. With `to_device`, a link from the host, within its run(): on its device, from the event
    /// of run() on. The frame has been read when this returns. If the sender's link had a PeerDevice, this one must
    /// have the other end, and each message's tensors() be called once, in the order of the messages.
    Tensors tensors(const LaneLink* to_device = nullptr) const;

private:
    std::span<const std::byte> frame_;
    std::size_t place_of_tensors_;  // in numbers of the head
    std::int64_t run_ = 0;
    std::uint64_t key_ = 0;
    std::vector<std::int64_t> numbers_;
};
}  // namespace pipescope
