#pragma once

#include "engine/device/lane_device.h"

#include <optional>

namespace pipescope {
/// Tensors in flight to a lane; they are valid from `ready` on.
struct Arrival {
    Tensors tensors;
    StreamEvent ready;
    bool copied = false;  ///< false: the same tensors; true: keep the sent ones until `ready`
};

/// Moves tensors from one lane to another.
///
/// Between devices it copies on its own streams, so that a copy waits only for its tensors and both lanes keep
/// computing. There is one stream on each side, since a copy between devices synchronises with the current streams of
/// both. Host memory on either side is pinned if torch can, since the copy would otherwise block the host. Lanes of one
/// device, or of the host, pass tensors on without a copy.
/// Threading: one thread at a time.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3, with a stream per pair of lanes instead of one per micro-batch.
class LaneLink {
public:
    LaneLink(c10::Device from, c10::Device to);
    /// Copies on the lanes' own streams, in between their tasks: the baseline for copy streams.
    LaneLink(const LaneDevice& from, const LaneDevice& to);

    /// Enqueues the copies, after `produced`. Undefined tensors stay undefined; requires_grad stays as it is.
    Arrival send(const Tensors& tensors, const StreamEvent& produced) const;
    /// Orders this link's next work after the event. Links from a device need no call: `produced` orders them.
    void wait(const StreamEvent& event) const;

    /// The stream that reads the sent tensors; empty if they are on the host or are passed on without a copy.
    const std::optional<c10::Stream>& source() const noexcept { return source_; }

private:
    at::Tensor copy(const at::Tensor& tensor) const;

    c10::Device to_;
    std::optional<c10::Stream> source_;       // of the sender, if it is an accelerator
    std::optional<c10::Stream> destination_;  // of the receiver, likewise
    bool copies_ = false;
    bool pins_ = false;
};
}  // namespace pipescope
