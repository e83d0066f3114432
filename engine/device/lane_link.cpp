#include "engine/device/lane_link.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace pipescope {
namespace {
std::optional<c10::Stream> copy_stream(c10::Device device) {
    if (device.is_cpu()) {
        return std::nullopt;
    }
    // High priority: a short copy must not queue behind long kernels. These streams also have their own pool, so a copy
    // never shares a lane's stream.
    return c10::impl::getDeviceGuardImpl(device.type())->getStreamFromGlobalPool(device, /*isHighPriority=*/true);
}

bool can_pin() {
    try {
        at::empty({1}, at::TensorOptions().pinned_memory(true));
        return true;
    } catch (const c10::Error&) {
        return false;
    }
}

/// While it lives, the streams are current for the calling thread.
class OnStream {
public:
    explicit OnStream(const std::optional<c10::Stream>& stream) {
        if (stream) {
            before_ = c10::impl::getDeviceGuardImpl(stream->device_type())->exchangeStream(*stream);
        }
    }
    ~OnStream() {
        if (before_) {
            c10::impl::getDeviceGuardImpl(before_->device_type())->exchangeStream(*before_);
        }
    }
    OnStream(const OnStream&) = delete;
    OnStream& operator=(const OnStream&) = delete;

private:
    std::optional<c10::Stream> before_;
};
}  // namespace

LaneLink::LaneLink(c10::Device from, c10::Device to, PeerDevice* peer) : to_(to), peer_(peer), copies_(from != to) {
    if (copies_) {
        source_ = copy_stream(from);
        destination_ = copy_stream(to);
        pins_ = (!source_ || !destination_) && can_pin();
    }
}

LaneLink::LaneLink(const LaneDevice& from, const LaneDevice& to)
    : to_(to.device()), copies_(from.device() != to.device()) {
    if (copies_) {
        source_ = from.stream();
        destination_ = to.stream();
        pins_ = (!source_ || !destination_) && can_pin();
    }
}

Arrival LaneLink::send(const Tensors& tensors, const StreamEvent& produced) const {
    if (!copies_) {
        return {tensors, produced, false};
    }
    Arrival arrival;
    arrival.copied = true;
    arrival.ready = run(produced, [&] {
        for (const at::Tensor& tensor : tensors) {
            arrival.tensors.push_back(tensor.defined() ? copied(tensor) : tensor);
        }
    });
    return arrival;
}

StreamEvent LaneLink::run(const StreamEvent& produced, const std::function<void()>& work) const {
    const at::NoGradGuard no_grad;
    if (source_) {
        produced.block(*source_);
    }
    const OnStream on_source(source_);
    const OnStream on_destination(destination_);
    work();
    return StreamEvent::record(destination_ ? *destination_ : *source_);
}

void LaneLink::copy(const at::Tensor& from, const at::Tensor& to) const {
    at::Tensor source = from;
    if (!source_ && pins_ && !from.is_pinned()) {
        source = at::empty_like(from, from.options().requires_grad(false).pinned_memory(true)).copy_(from);
    }
    to.copy_(source, /*non_blocking=*/pins_ || (source_ && destination_));
}

at::TensorOptions LaneLink::destination() const {
    return at::TensorOptions().device(to_).pinned_memory(!destination_ && pins_);
}

void LaneLink::wait(const StreamEvent& event) const {
    for (const std::optional<c10::Stream>& stream : {source_, destination_}) {
        if (stream) {
            event.block(*stream);
        }
    }
}

at::Tensor LaneLink::copied(const at::Tensor& tensor) const {
    if (tensor.device() == to_) {
        return tensor;  // a layer put it there
    }
    at::Tensor there = at::empty_like(tensor, destination().dtype(tensor.dtype()).requires_grad(false));
    copy(tensor, there);
    return there.set_requires_grad(tensor.requires_grad());
}

at::Tensor host_buffer(std::int64_t size, const at::Tensor& like) {
    return at::empty(
        {size}, at::TensorOptions().device(c10::kCPU).dtype(like.dtype()).pinned_memory(!like.is_cpu() && can_pin()));
}
}  // namespace pipescope
