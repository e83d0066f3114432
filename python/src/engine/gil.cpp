#include "python/src/engine/gil.h"

#include <unistd.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace pipescope::python {
namespace {
/// Thread states of threads that have ended. Never destroyed, since threads may end after the statics.
struct LeftBehind {
    const pid_t process = ::getpid();
    std::mutex mutex;
    std::vector<PyThreadState*> states = {};
};

/// Those of this process: in a forked child, Python has freed them, and another thread may have held the lock.
LeftBehind& left_behind() {
    static std::atomic<LeftBehind*> current = nullptr;
    LeftBehind* found = current.load();
    while (found == nullptr || found->process != ::getpid()) {
        auto made = std::make_unique<LeftBehind>();
        if (current.compare_exchange_strong(found, made.get())) {
            found = made.release();
        }
    }
    return *found;
}

struct OwnThreadState {
    PyThreadState* state = nullptr;
    pid_t process = 0;

    ~OwnThreadState() {
        if (state != nullptr && process == ::getpid()) {
            const std::lock_guard lock(left_behind().mutex);
            left_behind().states.push_back(state);
        }
    }
};
thread_local OwnThreadState own;

void free_left_behind() {
    std::vector<PyThreadState*> states;
    {
        const std::lock_guard lock(left_behind().mutex);
        states = std::exchange(left_behind().states, {});
    }
    for (PyThreadState* const state : states) {
        PyThreadState_Clear(state);
        PyThreadState_Delete(state);
    }
}
}  // namespace

WithGil::WithGil() {
    const bool is_first = PyGILState_GetThisThreadState() == nullptr;
    while (Py_IsInitialized() == 0 && (is_first || own.state != nullptr)) {
        ::pause();
    }
    before_ = PyGILState_Ensure();
    if (is_first) {
        PyGILState_Ensure();  // never released, so the state stays
        own.state = PyThreadState_Get();
        own.process = ::getpid();
        free_left_behind();
    }
}

WithGil::~WithGil() {
    PyGILState_Release(before_);
}

Object share(PyObject* object) {
    Py_INCREF(object);
    return Object(object, [](PyObject* held) {
        if (Py_IsInitialized() != 0) {
            const WithGil gil;
            Py_DECREF(held);
        }
    });
}
}  // namespace pipescope::python
