#include "engine/device/pipeline_devices.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>

namespace pipescope {
namespace {
void add_once(std::vector<c10::Device>& devices, c10::Device device) {
    if (!device.is_cpu() && std::find(devices.begin(), devices.end(), device) == devices.end()) {
        devices.push_back(device);
    }
}
}  // namespace

PipelineDevices::PipelineDevices(const std::vector<std::string>& names, bool copy_streams)
    : copy_streams_(copy_streams), deferred_(names.size()) {
    for (const std::string& name : names) {
        lanes_.emplace_back(usable_device(name));
        add_once(accelerators_, lanes_.back().device());
    }
}

std::vector<bool> PipelineDevices::lanes_on_host() const {
    std::vector<bool> on_host;
    for (const LaneDevice& lane : lanes_) {
        on_host.push_back(!lane.is_accelerator());
    }
    return on_host;
}

const LaneLink& PipelineDevices::link(LaneId from, LaneId to) {
    const std::pair<int, int> key(from.value(), to.value());
    return cached_link(key, [&] {
        const auto peer = peers_.find(key);
        return copy_streams_
                   ? LaneLink(of(from).device(), of(to).device(), peer == peers_.end() ? nullptr : peer->second)
                   : LaneLink(of(from), of(to));
    });
}

void PipelineDevices::set_peer(LaneId from, LaneId to, PeerDevice& peer) {
    peers_[{from.value(), to.value()}] = &peer;
}

const LaneLink& PipelineDevices::input_link(c10::Device from, LaneId to) {
    // One for each of the caller's devices, in addition to those between lanes.
    return cached_link({-1 - (from.is_cpu() ? 0 : 1 + from.index()), to.value()},
                       [&] { return LaneLink(from, of(to).device()); });
}

const LaneLink& PipelineDevices::cached_link(std::pair<int, int> key, const std::function<LaneLink()>& make) {
    const std::lock_guard lock(links_mutex_);
    std::unique_ptr<LaneLink>& link = links_[key];
    if (!link) {
        link = std::make_unique<LaneLink>(make());
        for (const auto& [device, moment] : started_) {
            link->wait(moment);
        }
    }
    return *link;
}

void PipelineDevices::begin(const Tensors& inputs) {
    std::vector<c10::Device> devices = accelerators_;
    for (const at::Tensor& input : inputs) {
        if (input.defined()) {
            add_once(devices, input.device());
        }
    }
    started_.clear();
    for (const c10::Device device : devices) {
        started_.emplace_back(device, StreamEvent::record(current_stream(device)));
    }
    const std::lock_guard lock(links_mutex_);
    for (const auto& [device, moment] : started_) {
        for (const LaneDevice& lane : lanes_) {
            if (lane.is_accelerator()) {
                moment.block(*lane.stream());
            }
        }
        for (const auto& [key, link] : links_) {
            link->wait(moment);
        }
    }
}

StreamEvent PipelineDevices::caller_event(c10::Device device) const {
    const auto found =
        std::find_if(started_.begin(), started_.end(), [device](const auto& each) { return each.first == device; });
    return found == started_.end() ? StreamEvent() : found->second;
}

void PipelineDevices::end() {
    for (const LaneDevice& lane : lanes_) {
        const StreamEvent done = lane.record();
        for (const auto& [device, moment] : started_) {
            done.block(current_stream(device));
        }
    }
    for (DeferredRelease& each : deferred_) {
        for (const auto& [device, moment] : started_) {
            each.block(current_stream(device));
        }
        each.clear();
    }
}

void PipelineDevices::abandon() {
    for (const c10::Device device : accelerators_) {
        c10::impl::getDeviceGuardImpl(device.type())->synchronizeDevice(device.index());
    }
    for (DeferredRelease& each : deferred_) {
        each.clear();
    }
}

void record_callers_stream(const Tensors& tensors) {
    for (const at::Tensor& tensor : tensors) {
        if (tensor.defined() && !tensor.is_cpu()) {
            c10::impl::getDeviceGuardImpl(tensor.device().type())
                ->recordDataPtrOnStream(tensor.storage().data_ptr(), current_stream(tensor.device()));
        }
    }
}
}  // namespace pipescope
