#include "python/src/core/core_module.h"

#include "profiler/profile/profile.h"
#include "python/src/core/long_call.h"
#include "python/src/core/python_function.h"
#include "python/src/python_errors.h"
#include "trace/store/trace_records.h"

#include <Python.h>

#include <new>

namespace pipescope {
namespace {
void set_error_of_core(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const PythonError&) {  // NOLINT(bugprone-empty-catch): the error is set
    } catch (const ComputationStopped&) {
        LongCall::set_error_of_stop();
    } catch (const ProfileError& error) {
        set_python_error("ProfileError", error);
    } catch (const TraceFormatError& error) {
        set_python_error("TraceFormatError", error);
    } catch (const TraceError& error) {
        set_python_error("TraceError", error);
    }
}

PyModuleDef definition{PyModuleDef_HEAD_INIT,
                       "_core",
                       "PipeScope without torch: profiles, answers of commands, schedules and traces.",
                       -1,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr,
                       nullptr};

void add_functions(PyObject* module, std::span<PyMethodDef> functions) {
    if (PyModule_AddFunctions(module, functions.data()) != 0) {
        throw PythonError();
    }
}
}  // namespace

void set_error_of_caught() {
    try {
        set_error_of(std::current_exception(), &set_error_of_core);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
}
}  // namespace pipescope

PyMODINIT_FUNC PyInit__core() {
    using namespace pipescope;
    try {
        PythonObject module(PyModule_Create(&definition));
        if (PyModule_AddStringConstant(module.get(), "__version__", PIPESCOPE_VERSION) != 0 ||
            !LongCall::wait_at_exit()) {
            return nullptr;
        }
        add_profiles(module.get());
        add_functions(module.get(), profile_functions());
        add_functions(module.get(), answer_functions());
        add_functions(module.get(), trace_functions());
        return module.release();
    } catch (...) {
        set_error_of_caught();
        return nullptr;
    }
}
