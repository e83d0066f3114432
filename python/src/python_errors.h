#pragma once

#include "base/error.h"

#include <Python.h>

#include <exception>
#include <string>

namespace pipescope {
/// Sets the Python error of that class of pipescope.errors.
inline void set_python_error(const char* class_name, const Error& error) {
    PyObject* errors = PyImport_ImportModule("pipescope.errors");
    PyObject* type = errors == nullptr ? nullptr : PyObject_GetAttrString(errors, class_name);
    Py_XDECREF(errors);
    if (type == nullptr) {
        return;  // the error of the import is set
    }
    // Names of files in messages need not be UTF-8.
    const std::string text = error.message(OptionNames::python);
    PyObject* message = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
    if (message != nullptr) {
        PyErr_SetObject(type, message);
    }
    Py_XDECREF(message);
    Py_DECREF(type);
}

/// Sets the Python error of one of PipeScope's exceptions; lets all others pass. `more` rethrows its argument, and sets
/// the error of classes that only this module has.
template <class More>
void set_error_of(const std::exception_ptr& thrown, const More& more) {
    try {
        more(thrown);
    } catch (const BalanceError& error) {
        set_python_error("BalanceError", error);
    } catch (const UsageError& error) {
        set_python_error("UsageError", error);
    } catch (const Error& error) {
        set_python_error("Error", error);
    }
}
}  // namespace pipescope
