#pragma once

#include "engine/layer.h"
#include "engine/stream_event.h"

#include <c10/core/Device.h>

#include <optional>
#include <string>

namespace pipescope {
/// The device that a name of GPipeOptions::devices means: "cpu", "cuda:0", "cuda" (the calling thread's current one),
/// or any other accelerator of torch. Throws EngineError where that is no device's name or this process cannot compute
/// on it, saying what is missing.
c10::Device usable_device(const std::string& name);

/// The calling thread's current stream of an accelerator's device.
c10::Stream current_stream(c10::Device device);

/// Where a lane computes: a device and, on an accelerator, a stream of its own, so that lanes of one device overlap.
/// Only torch's device-generic interface is used: whatever brings a DeviceGuardImpl with streams and events will do.
/// Threading: immutable.
class LaneDevice {
public:
    /// On an accelerator this takes a stream of torch's pool; those are never given back.
    explicit LaneDevice(c10::Device device);

    c10::Device device() const noexcept { return device_; }
    /// Where kernels are enqueued instead of run.
    bool is_accelerator() const noexcept { return stream_.has_value(); }
    const std::optional<c10::Stream>& stream() const noexcept { return stream_; }

    /// The moment after all that was enqueued so far; passed on the CPU.
    StreamEvent record() const;
    /// What the lane does next comes after the event: an accelerator's stream waits, on the CPU the calling thread
    /// does.
    void wait(const StreamEvent& event) const;

private:
    c10::Device device_;
    std::optional<c10::Stream> stream_;
};

/// Makes the calling thread compute on a lane's device and stream while it lives. Nothing on the CPU.
class OnLaneDevice {
public:
    explicit OnLaneDevice(const LaneDevice& lane);
    ~OnLaneDevice();
    OnLaneDevice(const OnLaneDevice&) = delete;
    OnLaneDevice& operator=(const OnLaneDevice&) = delete;

private:
    std::optional<c10::Device> device_before_;
    std::optional<c10::Stream> stream_before_;
};

/// Moves a tensor to the device, and its gradient. It stays the same object: all who hold it see it move, and an
/// optimizer made before keeps working. Undefined tensors and those that are there are left alone.
void move_tensor(at::Tensor tensor, c10::Device device);
/// So for a layer's parameters and buffers.
void move_layer(Layer& layer, c10::Device device);
}  // namespace pipescope
