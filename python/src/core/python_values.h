#pragma once

#include "schedule/timeline.h"

#include <Python.h>

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace pipescope {
class CheckedProfile;
struct OptionValue;

/// Thrown where the thread's Python error is set.
struct PythonError {};

/// An owned reference, never null. Every operation needs the GIL.
class PythonObject {
public:
    /// Takes over a new reference. Throws PythonError for null.
    explicit PythonObject(PyObject* reference) : reference_(reference) {
        if (reference == nullptr) {
            throw PythonError();
        }
    }
    PythonObject(PythonObject&& other) noexcept : reference_(std::exchange(other.reference_, nullptr)) {}
    PythonObject& operator=(PythonObject&&) = delete;
    ~PythonObject() { Py_XDECREF(reference_); }

    PyObject* get() const { return reference_; }
    PyObject* release() { return std::exchange(reference_, nullptr); }

private:
    PyObject* reference_;
};

/// A function's argument that is any object, borrowed from the caller.
using PythonArgument = PyObject*;

/// A function's argument that is a Profile, borrowed from the caller.
struct ProfileArgument {
    const CheckedProfile* profile = nullptr;
};

/// Text that becomes Python's bytes, where a std::string becomes a str.
struct PythonBytes {
    std::string data;
};

/// Tasks of a timeline as {"source", "lanes": [(name, device)], "kind", "step", ..}: one column for each field.
struct TaskColumns {
    Timeline timeline;
};

/// Samples as {"lane", "time_ns", "allocated_bytes", "peak_bytes", "reserved_bytes"}.
struct MemoryColumns {
    std::vector<MemorySample> samples;
};

// From C++ to Python. Columns are bytes of 64-bit integers in the machine's order.
PythonObject to_python(const std::string& text);
PythonObject to_python(const PythonBytes& bytes);
PythonObject to_python(bool value);
PythonObject to_python(const TaskColumns& tasks);
PythonObject to_python(const MemoryColumns& memory);
PythonObject to_python(const CheckedProfile& profile);
template <class Value>
PythonObject to_python(const std::optional<Value>& value);
template <class Value>
PythonObject to_python(const std::vector<Value>& values);
template <class... Values>
PythonObject to_python(const std::tuple<Values...>& values);

template <class Value>
PythonObject to_python(const std::optional<Value>& value) {
    if (!value) {
        Py_INCREF(Py_None);
        return PythonObject(Py_None);
    }
    return to_python(*value);
}

template <class Value>
PythonObject to_python(const std::vector<Value>& values) {
    PythonObject list(PyList_New(0));
    for (const Value& each : values) {
        if (PyList_Append(list.get(), to_python(each).get()) != 0) {
            throw PythonError();
        }
    }
    return list;
}

template <class... Values>
PythonObject to_python(const std::tuple<Values...>& values) {
    PythonObject tuple(PyTuple_New(sizeof...(Values)));
    std::apply(
        [&tuple](const Values&... each) {
            Py_ssize_t place = 0;
            (PyTuple_SetItem(tuple.get(), place++, to_python(each).release()), ...);
        },
        values);
    return tuple;
}

// From Python to C++. Each sets TypeError and throws PythonError for an object of another type.
void read_python(PyObject* object, std::string& text);  ///< str, as UTF-8, or bytes
void read_python(PyObject* object, bool& value);
void read_python(PyObject* object, std::int64_t& value);
void read_python(PyObject* object, ProfileArgument& profile);
void read_python(PyObject* object, OptionValue& option);  ///< (name of the keyword, bool, text or texts)
inline void read_python(PyObject* object, PythonArgument& argument) {
    argument = object;
}
template <class Value>
void read_python(PyObject* object, std::optional<Value>& value);
template <class Value>
void read_python(PyObject* object, std::vector<Value>& values);
template <class First, class Second>
void read_python(PyObject* object, std::pair<First, Second>& pair);

template <class Value>
void read_python(PyObject* object, std::optional<Value>& value) {
    if (object != Py_None) {
        read_python(object, value.emplace());
    }
}

/// The items of a list or tuple.
std::vector<PythonObject> items_of(PyObject* sequence);

template <class Value>
void read_python(PyObject* object, std::vector<Value>& values) {
    for (const PythonObject& item : items_of(object)) {
        read_python(item.get(), values.emplace_back());
    }
}

template <class First, class Second>
void read_python(PyObject* object, std::pair<First, Second>& pair) {
    const std::vector<PythonObject> items = items_of(object);
    if (items.size() != 2) {
        PyErr_SetString(PyExc_TypeError, "a pair is needed");
        throw PythonError();
    }
    read_python(items[0].get(), pair.first);
    read_python(items[1].get(), pair.second);
}
}  // namespace pipescope
