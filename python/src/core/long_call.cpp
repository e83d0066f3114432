#include "python/src/core/long_call.h"

#include "python/src/core/python_values.h"

#include <Python.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace pipescope {
namespace {
std::atomic<int> running = 0;
std::atomic<bool> ending = false;

PyObject* end_long_calls(PyObject* /*self*/, PyObject* /*arguments*/) {
    ending = true;
    PyThreadState* thread = PyEval_SaveThread();  // for the calls to finish
    while (running > 0) {
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    PyEval_RestoreThread(thread);
    Py_INCREF(Py_None);
    return Py_None;
}

PyMethodDef end_function{"end_long_calls", &end_long_calls, METH_NOARGS, nullptr};
}  // namespace

LongCall::LongCall() : check_(&goes_on) {
    ++running;
    if (ending) {
        --running;
        PyErr_SetNone(PyExc_SystemExit);
        throw PythonError();
    }
    thread_ = PyEval_SaveThread();
}

LongCall::~LongCall() {
    PyEval_RestoreThread(thread_);
    --running;
}

bool LongCall::goes_on() {
    if (ending) {
        return false;
    }
    const GilHere gil;
    return PyErr_CheckSignals() == 0;
}

void LongCall::set_error_of_stop() {
    if (PyErr_Occurred() == nullptr) {
        PyErr_SetNone(PyExc_SystemExit);
    }
}

GilHere::GilHere() : state_(PyGILState_Ensure()) {}
GilHere::~GilHere() {
    PyGILState_Release(state_);
}

bool LongCall::wait_at_exit() try {
    // The calls of other threads do not go on in a forked child.
    pthread_atfork(nullptr, nullptr, [] { running = 0; });
    const PythonObject atexit(PyImport_ImportModule("atexit"));
    const PythonObject end(PyCFunction_New(&end_function, nullptr));
    const PythonObject registered(PyObject_CallMethod(atexit.get(), "register", "O", end.get()));
    return true;
} catch (const PythonError&) {
    return false;
}
}  // namespace pipescope
