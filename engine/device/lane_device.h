#pragma once

#include "engine/device/stream_event.h"
#include "engine/layer.h"

#include <c10/core/Device.h>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
/// The devices that this process's lanes can run on: the CPU, then those of torch's accelerator, if any.
std::vector<c10::Device> usable_devices();

/// Parses a name of GPipeOptions::devices: "cpu", "cuda:0", "cuda" (the calling thread's current one), or any other
/// accelerator of torch. Throws EngineError that says what is missing if it names no device or this process cannot
/// compute on it.
c10::Device usable_device(const std::string& name);

/// The calling thread's current stream of an accelerator's device.
c10::Stream current_stream(c10::Device device);

/// The place where a lane computes: a device and, on an accelerator, its own stream, so that lanes of one device
/// overlap. Uses only torch's device-generic interface, so any DeviceGuardImpl with streams and events works.
/// Threading: immutable.
class LaneDevice {
public:
    /// On an accelerator this takes a stream of torch's pool for good.
    explicit LaneDevice(c10::Device device);

    c10::Device device() const noexcept { return device_; }
    /// True if kernels are enqueued rather than run.
    bool is_accelerator() const noexcept { return stream_.has_value(); }
    const std::optional<c10::Stream>& stream() const noexcept { return stream_; }

    /// An event after everything enqueued so far; already passed on the CPU.
    StreamEvent record() const;
    /// Orders the lane's next work after the event: an accelerator's stream waits; on the CPU the calling thread waits.
    void wait(const StreamEvent& event) const;

private:
    c10::Device device_;
    std::optional<c10::Stream> stream_;
};

/// While it lives, the calling thread computes on a lane's device and stream. No effect on the CPU.
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

/// Moves a tensor and its gradient to the device. It stays the same object: all its holders see the move, and an
/// existing optimizer keeps working. Ignores undefined tensors and those already there.
void move_tensor(at::Tensor tensor, c10::Device device);
/// Moves a layer's parameters and buffers likewise.
void move_layer(Layer& layer, c10::Device device);
}  // namespace pipescope
