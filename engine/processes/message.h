#pragma once

#include "engine/layer.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace pipescope {
/// A message from one process to another: tensors in host memory, and numbers that identify them.
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
/// Cost: the tensors' bytes are copied once here, and once in unpack().
class PackedMessage {
public:
    /// Reads the tensors' layout, not their bytes. Throws EngineError for a tensor without plain memory, such as a
    /// sparse one.
    explicit PackedMessage(const Message& message);

    std::size_t size() const noexcept { return size_; }
    /// `to` holds size() bytes.
    void write(std::span<std::byte> to) const;

private:
    struct Payload {
        at::Tensor bytes;  // contiguous
        at::Tensor owner;  // of the memory that `bytes` borrows, if it does
        std::size_t offset;
    };
    std::vector<std::int64_t> head_;
    std::vector<Payload> payloads_;
    std::size_t size_ = 0;
};

/// The message in a frame that write() filled. Tensors own their memory. Throws EngineError for bytes that are none.
Message unpack(std::span<const std::byte> from);
}  // namespace pipescope
