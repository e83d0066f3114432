#pragma once

#include "python/src/core/long_call.h"
#include "python/src/core/python_values.h"

#include <Python.h>

#include <cstddef>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

namespace pipescope {
/// Sets the Python error of the exception that is being handled. Call it in a catch block, with the GIL.
void set_error_of_caught();

/// Calls `function` with Python's arguments, by position, without the GIL: the function takes and returns values of
/// C++, which read_python() and to_python() know.
template <auto function, class Result, class... Arguments>
PyObject* call_with(PyObject* given, Result (*)(Arguments...)) {
    try {
        if (PyTuple_Size(given) != static_cast<Py_ssize_t>(sizeof...(Arguments))) {
            PyErr_Format(PyExc_TypeError, "%zd arguments for %zu", PyTuple_Size(given), sizeof...(Arguments));
            return nullptr;
        }
        std::tuple<std::decay_t<Arguments>...> arguments;
        const auto read = [given]<std::size_t... kPlaces>(auto& values, std::index_sequence<kPlaces...>) {
            (read_python(PyTuple_GetItem(given, static_cast<Py_ssize_t>(kPlaces)), std::get<kPlaces>(values)), ...);
        };
        read(arguments, std::index_sequence_for<Arguments...>());
        if constexpr (std::is_void_v<Result>) {
            {
                const LongCall no_gil;
                std::apply(function, arguments);
            }
            Py_INCREF(Py_None);
            return Py_None;
        } else {
            std::optional<Result> result;
            {
                const LongCall no_gil;
                result.emplace(std::apply(function, arguments));
            }
            return to_python(*std::move(result)).release();
        }
    } catch (...) {
        set_error_of_caught();
        return nullptr;
    }
}

template <auto function>
PyObject* call(PyObject* /*self*/, PyObject* given) {
    return call_with<function>(given, function);
}

/// An entry of the module's table of functions.
template <auto function>
constexpr PyMethodDef python_function(const char* name) {
    return {name, &call<function>, METH_VARARGS, nullptr};
}
}  // namespace pipescope
