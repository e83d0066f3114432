#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace pipescope {
// Tells the thread sanitizer about an order between threads that it cannot see, since LibTorch's locks and atomics are
// not built with it. Autograd runs a node in a device's thread only after it was put into that thread's queue, and
// backward() returns only after the last node has ended. Whatever happens before tsan_release() on an object
// happens before the tsan_acquire() that follows on it. No effect in other builds.
// Use them only if that order exists, on the object that is passed.

/// This thread's work so far becomes visible to whichever thread takes the object over.
inline void tsan_release([[maybe_unused]] const void* object) {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(const_cast<void*>(object));
#endif
}

inline void tsan_acquire([[maybe_unused]] const void* object) {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(const_cast<void*>(object));
#endif
}
}  // namespace pipescope
