#pragma once

#include <c10/core/DispatchKey.h>

namespace pipescope {
/// The dispatch key that only the thread of a running layer includes (by SeededRandom); torch reserves it for tests.
/// All operators fall through it, except those with a kernel of the engine: operators that draw random numbers, and
/// batch norm.
inline constexpr c10::DispatchKey kLayerDispatchKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// A static that is never destroyed. Kernels stay registered while the process ends, since torch's dispatcher may end
/// before us.
template <class T>
union NoDestructor {
    NoDestructor() : value() {}
    ~NoDestructor() {}
    T value;
};
}  // namespace pipescope
