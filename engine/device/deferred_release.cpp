#include "engine/device/deferred_release.h"

#include <utility>

namespace pipescope {
void DeferredRelease::hold(Tensors tensors, StreamEvent until) {
    open_.push_back({std::move(tensors), std::move(until)});
    while (!open_.empty() && open_.front().until.has_passed()) {
        open_.pop_front();
    }
    while (open_.size() > kMostOpen) {
        open_.front().until.synchronize();
        open_.pop_front();
    }
}

void DeferredRelease::block(const c10::Stream& stream) const {
    for (const Entry& entry : open_) {
        entry.until.block(stream);
    }
}
}  // namespace pipescope
