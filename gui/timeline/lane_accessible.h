#pragma once

namespace pipescope {
/// From now on, screen readers find a child for each lane of every TimelineView, with its name, position, and busy
/// share in the visible part. Repeated calls have no effect. Threading: the GUI thread.
void describeLanesToScreenReaders();
}  // namespace pipescope
