#pragma once

#include "gui/timeline/track_store.h"
#include "trace/opened_trace.h"

#include <memory>

namespace pipescope {
/// The trace's threads and streams without what is a task already; null if nothing is left.
std::shared_ptr<const TrackStore> tracksOf(const OpenedTrace& trace);
}  // namespace pipescope
