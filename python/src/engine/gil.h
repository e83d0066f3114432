#pragma once

#include "engine/lanes/process_end.h"

#include <torch/csrc/python_headers.h>

#include <memory>

namespace pipescope::python {
/// Holds the GIL while it lives. Scopes nest, in threads of Python and in others.
///
/// A thread that Python does not know, such as a lane, gets a PyThreadState at its first scope and keeps it: making one
/// costs more than a small layer. It cannot free it when it ends, since that takes the GIL, which the thread that joins
/// it may hold. So it leaves it behind, and the next thread that gets its own frees it.
/// Once Python is being finalized, the constructor does not return in such a thread: the process is about to end.
class WithGil {
public:
    WithGil();
    ~WithGil();
    WithGil(const WithGil&) = delete;
    WithGil& operator=(const WithGil&) = delete;

private:
    PyGILState_STATE before_;
};

/// Releases the GIL while it lives. Precondition: the thread holds it. If the process ends meanwhile, the destructor
/// does not return, but in the thread that ends it: Python would end the thread in the midst of our C++.
class WithoutGil {
public:
    WithoutGil() : state_(PyEval_SaveThread()) {}
    ~WithoutGil() {
        stop_if_ending();
        PyEval_RestoreThread(state_);
    }
    WithoutGil(const WithoutGil&) = delete;
    WithoutGil& operator=(const WithoutGil&) = delete;

private:
    PyThreadState* state_;
};

/// A reference to a Python object that may be copied and dropped without the GIL.
using Object = std::shared_ptr<PyObject>;
/// Takes a new reference. Call it with the GIL.
Object share(PyObject* object);
}  // namespace pipescope::python
