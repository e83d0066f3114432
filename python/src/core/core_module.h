#pragma once

#include <Python.h>

#include <span>

namespace pipescope {
/// Adds the class Profile. Throws PythonError.
void add_profiles(PyObject* module);

// Functions of _core; the last entry of each table is empty, as Python wants. Objects are passed as JSON text with the
// keys of the commands' --json; the modules in Python make typed objects of them.
std::span<PyMethodDef> profile_functions();
std::span<PyMethodDef> answer_functions();
std::span<PyMethodDef> trace_functions();
}  // namespace pipescope
