#include "python/src/core/long_call.h"

#include <pybind11/pybind11.h>

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace pipescope {
namespace {
namespace py = pybind11;

std::atomic<int> running = 0;
std::atomic<bool> ending = false;

void end_long_calls() {
    ending = true;
    const py::gil_scoped_release others_finish;
    while (running > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}
}  // namespace

LongCall::LongCall() : check_(&goes_on) {
    ++running;
    if (ending) {
        --running;
        PyErr_SetNone(PyExc_SystemExit);
        throw py::error_already_set();
    }
    thread_ = PyEval_SaveThread();
}

LongCall::~LongCall() {
    PyEval_RestoreThread(static_cast<PyThreadState*>(thread_));
    --running;
}

bool LongCall::goes_on() {
    if (ending) {
        return false;
    }
    const py::gil_scoped_acquire gil;
    return PyErr_CheckSignals() == 0;
}

void LongCall::set_error_of_stop() {
    if (PyErr_Occurred() == nullptr) {
        PyErr_SetNone(PyExc_SystemExit);
    }
}

void LongCall::wait_at_exit() {
    // The calls of other threads do not go on in a forked child.
    pthread_atfork(nullptr, nullptr, [] { running = 0; });
    py::module_::import("atexit").attr("register")(py::cpp_function(&end_long_calls));
}
}  // namespace pipescope
