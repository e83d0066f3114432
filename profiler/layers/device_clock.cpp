#include "profiler/layers/device_clock.h"

#include "engine/device/lane_device.h"

#include <c10/core/Event.h>

#include <algorithm>

namespace pipescope {
Instant DeviceClock::now() const {
    if (device_.is_cpu()) {
        return {std::chrono::steady_clock::now(), nullptr};
    }
    const auto event = std::make_shared<c10::Event>(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
    event->record(current_stream(device_));
    return {{}, event};
}

double DeviceClock::nanoseconds(const Instant& from, const Instant& to) {
    if (!to.event) {
        return std::max(0.0, std::chrono::duration<double, std::nano>(to.host - from.host).count());
    }
    from.event->synchronize();
    to.event->synchronize();
    constexpr double kPerMillisecond = 1e6;
    return std::max(0.0, from.event->elapsedTime(*to.event) * kPerMillisecond);
}
}  // namespace pipescope
