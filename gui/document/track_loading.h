#pragma once

#include "gui/timeline/track_store.h"
#include "trace/opened_trace.h"

#include <memory>

namespace pipescope {
/// The trace's threads and streams, without ranges that are tasks; null if nothing is left.
std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace);
}  // namespace pipescope
