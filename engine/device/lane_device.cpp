#include "engine/device/lane_device.h"

#include "engine/cuda_runtime.h"
#include "engine/engine_error.h"
#include "engine/torch_internals.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_has_compatible_shallow_copy_type.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

namespace pipescope {
namespace {
const c10::impl::DeviceGuardImplInterface& guard_of(c10::Device device) {
    return *c10::impl::getDeviceGuardImpl(device.type());
}

c10::DeviceIndex count_of(c10::DeviceType type) {
    return c10::impl::hasDeviceGuardImpl(type) ? c10::impl::getDeviceGuardImpl(type)->deviceCount()
                                               : c10::DeviceIndex{0};
}

/// Lists the accepted devices, as "cpu, cuda:0, cuda:1".
std::string usable_device_names() {
    std::string names;
    for (const c10::Device device : usable_devices()) {
        names += (names.empty() ? "" : ", ") + device.str();
    }
    return names;
}
}  // namespace

std::vector<c10::Device> usable_devices() {
    std::vector<c10::Device> devices = {c10::kCPU};
    const auto type = at::getAccelerator();
    for (c10::DeviceIndex index = 0; type && index < count_of(*type); ++index) {
        devices.emplace_back(*type, index);
    }
    return devices;
}

c10::Device usable_device(const std::string& name) {
    const auto refuse = [&name](const std::string& why) -> EngineError {
        return EngineError("device \"" + name + "\" " + why + "; lanes run on the devices there are: " +
                           usable_device_names() + "; write cpu or another of them for each lane");
    };
    std::optional<c10::Device> parsed;
    try {
        parsed.emplace(name);
    } catch (const c10::Error&) {
        throw refuse("is not a device's name");
    }
    if (parsed->is_cpu()) {
        if (parsed->index() > 0) {
            throw refuse("is not there");
        }
        return c10::Device(c10::kCPU);
    }
    if (!at::accelerator::isAccelerator(parsed->type())) {
        throw refuse("does not compute");
    }
    const c10::DeviceIndex count = count_of(parsed->type());
    if (count == 0) {
        throw refuse(parsed->is_cuda() ? "cannot be used: " + why_no_cuda() : "is not in this build of LibTorch");
    }
    if (parsed->index() >= count) {
        throw refuse("is not there");
    }
    return parsed->has_index() ? *parsed : guard_of(*parsed).getDevice();
}

c10::Stream current_stream(c10::Device device) {
    return guard_of(device).getStream(device);
}

LaneDevice::LaneDevice(c10::Device device) : device_(device) {
    if (!device.is_cpu()) {
        stream_ = guard_of(device).getStreamFromGlobalPool(device, /*isHighPriority=*/false);
    }
}

StreamEvent LaneDevice::record() const {
    return stream_ ? StreamEvent::record(*stream_) : StreamEvent();
}

void LaneDevice::wait(const StreamEvent& event) const {
    if (stream_) {
        event.block(*stream_);
    } else {
        event.synchronize();
    }
}

OnLaneDevice::OnLaneDevice(const LaneDevice& lane) {
    if (lane.is_accelerator()) {
        device_before_ = guard_of(lane.device()).exchangeDevice(lane.device());
        stream_before_ = guard_of(lane.device()).exchangeStream(*lane.stream());
    }
}

OnLaneDevice::~OnLaneDevice() {
    if (stream_before_) {
        guard_of(stream_before_->device()).exchangeStream(*stream_before_);
        guard_of(*device_before_).uncheckedSetDevice(*device_before_);
    }
}

void move_tensor(at::Tensor tensor, c10::Device device) {
    const at::NoGradGuard no_grad;
    if (!tensor.defined() || tensor.device() == device) {
        return;
    }
    const at::Tensor gradient = tensor.grad();
    tensor.mutable_grad() = at::Tensor();  // a gradient must be on its tensor's device
    const at::Tensor moved = tensor.detach().to(device);
    if (at::_has_compatible_shallow_copy_type(tensor, moved)) {
        tensor.set_data(moved);
    } else {
        // Does what set_data does, for device types whose tensors it does not know to be plain and dense.
        if (auto* const meta = torch::autograd::impl::get_autograd_meta(tensor)) {
            meta->grad_accumulator_.reset();
        }
        tensor.unsafeGetTensorImpl()->shallow_copy_from(moved.getIntrusivePtr());
    }
    if (gradient.defined()) {
        tensor.mutable_grad() = gradient.to(device);
    }
}

void move_layer(Layer& layer, c10::Device device) {
    for (const NamedTensors& tensors : {layer.parameters(), layer.buffers()}) {
        for (const auto& [name, tensor] : tensors) {
            move_tensor(tensor, device);
        }
    }
}
}  // namespace pipescope
