#pragma once

#include "schedule/error.h"

#include <pybind11/pybind11.h>

#include <exception>
#include <string>
#include <utility>

namespace pipescope {
/// Sets the Python error of that class of pipescope.errors.
inline void set_python_error(const char* class_name, const std::exception& error) {
    const pybind11::object type = pybind11::module_::import("pipescope.errors").attr(class_name);
    // Names of files in messages need not be UTF-8.
    const std::string text = error.what();
    const auto message = pybind11::reinterpret_steal<pybind11::object>(
        PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
    PyErr_SetObject(type.ptr(), message.ptr());
}

/// Has an extension module turn PipeScope's errors into those of pipescope.errors. `more` rethrows its argument, sets
/// the error of what it knows, and lets the rest pass.
template <class More>
void translate_errors(More more) {
    static const More translate_more = std::move(more);
    pybind11::register_local_exception_translator([](std::exception_ptr thrown) {
        try {
            if (thrown) {
                translate_more(thrown);
            }
        } catch (const BalanceError& error) {
            set_python_error("BalanceError", error);
        } catch (const UsageError& error) {
            set_python_error("UsageError", error);
        } catch (const Error& error) {
            set_python_error("Error", error);
        }
    });
}
}  // namespace pipescope
