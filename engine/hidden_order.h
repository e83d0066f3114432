#pragma once

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace pipescope {
// Order between threads that LibTorch makes where the thread sanitizer does not see it: it is not built with the
// sanitizer, so the locks of its queues and the atomics of its futures are hidden. Autograd runs a node in a device's
// thread only after it was put into that thread's queue, and backward() returns only after the last node has ended;
// what happens before the one call below on an object happens before the other then. Nothing in other builds.
// Use them only where that order exists, on the object that is handed over.

/// What this thread did so far is there for whoever takes the object over.
inline void tell_handed_over([[maybe_unused]] const void* object) {
#if defined(__SANITIZE_THREAD__)
    __tsan_release(const_cast<void*>(object));
#endif
}

inline void tell_taken_over([[maybe_unused]] const void* object) {
#if defined(__SANITIZE_THREAD__)
    __tsan_acquire(const_cast<void*>(object));
#endif
}
}  // namespace pipescope
