#include "engine/device/stream_event.h"

#include <c10/core/Event.h>

namespace pipescope {
StreamEvent StreamEvent::record(const c10::Stream& stream) {
    const auto event = std::make_shared<c10::Event>(stream.device_type());
    event->record(stream);
    StreamEvent moment;
    moment.event_ = event;
    return moment;
}

void StreamEvent::block(const c10::Stream& stream) const {
    if (event_) {
        event_->block(stream);
    }
}

void StreamEvent::synchronize() const {
    if (event_) {
        event_->synchronize();
    }
}

bool StreamEvent::has_passed() const {
    return !event_ || event_->query();
}
}  // namespace pipescope
