#pragma once

#include "engine/lane_device.h"

#include <optional>

namespace pipescope {
/// Tensors on their way to a lane, and the moment they are there.
struct Arrival {
    Tensors tensors;
    StreamEvent ready;
    bool copied = false;  ///< false: the same tensors; true: the sent ones must be kept until `ready`
};

/// The way from one lane to another, for tensors.
///
/// Between devices it copies on streams of its own, so that a copy waits only for what it copies and both lanes compute
/// meanwhile; one stream on either side, since a copy between devices has a barrier with the current streams of both.
/// Host memory on either side is pinned where torch can, or the copy would block the host. Lanes of one device, and of
/// the host, hand tensors over as they are.
/// Threading: one thread at a time.
/// Source: torchgpipe (arXiv 2004.09910), section 3.3, with a stream per pair of lanes instead of one per micro-batch.
class LaneLink {
public:
    LaneLink(c10::Device from, c10::Device to);
    /// Copies on the lanes' own streams, between what they compute: what copy streams are measured against.
    LaneLink(const LaneDevice& from, const LaneDevice& to);

    /// Enqueues the copies, after `produced`. Undefined tensors stay undefined; requires_grad stays as it is.
    Arrival send(const Tensors& tensors, const StreamEvent& produced) const;
    /// What this link does next comes after the event. Links from a device need no call: `produced` orders them.
    void wait(const StreamEvent& event) const;

    /// What reads the sent tensors; nothing where they are on the host, or handed over.
    const std::optional<c10::Stream>& source() const noexcept { return source_; }

private:
    at::Tensor copy(const at::Tensor& tensor) const;

    c10::Device to_;
    std::optional<c10::Stream> source_;       // of a copy's sender, where that is an accelerator
    std::optional<c10::Stream> destination_;  // of its receiver
    bool copies_ = false;
    bool pins_ = false;
};
}  // namespace pipescope
