#pragma once

namespace pipescope {
/// From now on a screen reader finds a child for each lane of every TimelineView, with the lane's name, its place, and
/// how busy it is in the part that is shown. Threading: the GUI thread; more calls do nothing.
void describeLanesToScreenReaders();
}  // namespace pipescope
