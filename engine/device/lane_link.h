#pragma once

#include "engine/device/lane_device.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <optional>

namespace pipescope {
/// Tensors in flight to a lane; they are valid from `ready` on.
struct Arrival {
    Tensors tensors;
    StreamEvent ready;
    bool copied = false;  ///< false: the same tensors; true: keep the sent ones until `ready`
};

/// A device of another process, which bytes reach or come from without this host's memory
/// (processes/lane_channels.h). Each end is for one direction. Both ends give the same sizes in the same order.
/// Threading: one thread at a time.
class PeerDevice {
public:
    PeerDevice() = default;
    virtual ~PeerDevice() = default;
    PeerDevice(const PeerDevice&) = delete;
    PeerDevice& operator=(const PeerDevice&) = delete;

    /// Enqueues the way of the contiguous tensor's bytes: work enqueued in the current stream before comes before it,
    /// and work enqueued there later comes after it. Does not wait for the other end.
    virtual void send(const at::Tensor& bytes) = 0;
    virtual void receive(const at::Tensor& bytes) = 0;
};

/// Moves tensors from one lane to another.
///
/// Between devices it copies on its own streams, so that a copy waits only for its tensors and both lanes keep
/// computing. There is one stream on each side, since a copy between devices synchronises with the current streams of
/// both. Host memory on either side is pinned if torch can, since the copy would otherwise block the host. Lanes of one
/// device, or of the host, pass tensors on without a copy.
/// To a lane of another process, a link leads to the host's memory; from there, another one leads to the lane
/// (processes/message.h). With a PeerDevice, tensors on the device go directly to it instead.
/// Threading: one thread at a time.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3, with a stream per pair of lanes instead of one per micro-batch.
class LaneLink {
public:
    /// `peer`, not owned: the device of the lane in another process that "cpu" stands for, if it can be reached.
    LaneLink(c10::Device from, c10::Device to, PeerDevice* peer = nullptr);
    /// Copies on the lanes' own streams, in between their tasks: the baseline for copy streams.
    LaneLink(const LaneDevice& from, const LaneDevice& to);

    /// Enqueues the copies, after `produced`. Undefined tensors stay undefined; requires_grad stays as it is.
    Arrival send(const Tensors& tensors, const StreamEvent& produced) const;
    /// Calls `work` with the link's streams as the thread's current ones, after `produced`. Returns the event after
    /// what it enqueued. Only for a link that copies.
    StreamEvent run(const StreamEvent& produced, const std::function<void()>& work) const;
    /// Within run(): fills `to` from `from`, of the same sizes, without blocking if host memory can be pinned. Borrows
    /// device memory until the event of run(). Host memory that is not pinned has been read when it returns.
    void copy(const at::Tensor& from, const at::Tensor& to) const;
    /// Memory for what arrives: the receiver's device, or the host's pinned memory.
    at::TensorOptions destination() const;

    bool copies() const noexcept { return copies_; }
    PeerDevice* peer() const noexcept { return peer_; }
    /// Orders this link's next work after the event. Links from a device need no call: `produced` orders them.
    void wait(const StreamEvent& event) const;

    /// The stream that reads the sent tensors; empty if they are on the host or are passed on without a copy.
    const std::optional<c10::Stream>& source() const noexcept { return source_; }

private:
    at::Tensor copied(const at::Tensor& tensor) const;

    c10::Device to_;
    PeerDevice* peer_ = nullptr;
    std::optional<c10::Stream> source_;       // of the sender, if it is an accelerator
    std::optional<c10::Stream> destination_;  // of the receiver, likewise
    bool copies_ = false;
    bool pins_ = false;
};

/// An empty tensor of one dimension in host memory, for as many values of a tensor's type. If that is on an
/// accelerator, the memory is pinned if torch can.
at::Tensor host_buffer(std::int64_t size, const at::Tensor& like);
}  // namespace pipescope
