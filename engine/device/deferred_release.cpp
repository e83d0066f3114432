#include "engine/device/deferred_release.h"

#include <algorithm>
#include <utility>

namespace pipescope {
void KeptTensors::keep(Tensors tensors, std::vector<StreamEvent> until) {
    open_.push_back({std::move(tensors), std::move(until)});
    const auto has_passed = [](const Entry& entry) {
        return std::all_of(entry.until.begin(), entry.until.end(),
                           [](const StreamEvent& event) { return event.has_passed(); });
    };
    while (!open_.empty() && has_passed(open_.front())) {
        open_.pop_front();
    }
    while (open_.size() > kMostOpen) {
        for (const StreamEvent& event : open_.front().until) {
            event.synchronize();
        }
        open_.pop_front();
    }
}
}  // namespace pipescope
