#pragma once

#include <c10/core/DispatchKey.h>

namespace pipescope {
/// The dispatch key that the thread of a running layer includes (SeededRandom does), and nobody else: torch keeps it
/// for tests. All operators fall through it, save those for which the engine registers a kernel: operators that draw
/// random numbers, and batch norm.
inline constexpr c10::DispatchKey kLayerDispatchKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// A static that is made and never destroyed: kernels stay registered while the process ends, since torch's dispatcher
/// may end before us.
template <class T>
union Permanent {
    Permanent() : value() {}
    ~Permanent() {}
    T value;
};
}  // namespace pipescope
