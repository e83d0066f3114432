#pragma once

namespace pipescope {
/// How long tests of the viewer wait for what it does in the background, in ms: a loaded machine needs some seconds.
inline constexpr int kPatience = 60'000;
}  // namespace pipescope
