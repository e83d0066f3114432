#include "python/src/core/python_values.h"

#include "answers/option_table.h"
#include "schedule/timeline.h"

#include <algorithm>
#include <cstddef>

namespace pipescope {
namespace {
[[noreturn]] void throw_type_error(PyObject* object, const char* wanted) {
    PyErr_Format(PyExc_TypeError, "%R is not %s", object, wanted);
    throw PythonError();
}

/// The field of each row.
template <class Row, class Field>
PythonObject column(const std::vector<Row>& rows, Field field) {
    PythonObject bytes(PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(rows.size() * sizeof(std::int64_t))));
    auto* values = reinterpret_cast<std::int64_t*>(PyBytes_AsString(bytes.get()));
    for (const Row& row : rows) {
        *values++ = static_cast<std::int64_t>(field(row));
    }
    return bytes;
}

void put(const PythonObject& dict, const char* key, const PythonObject& value) {
    if (PyDict_SetItemString(dict.get(), key, value.get()) != 0) {
        throw PythonError();
    }
}
}  // namespace

PythonObject to_python(const std::string& text) {
    return PythonObject(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "strict"));
}

PythonObject to_python(const PythonBytes& bytes) {
    return PythonObject(PyBytes_FromStringAndSize(bytes.data.data(), static_cast<Py_ssize_t>(bytes.data.size())));
}

PythonObject to_python(bool value) {
    return PythonObject(PyBool_FromLong(value ? 1 : 0));
}

PythonObject to_python(const TaskColumns& tasks) {
    PythonObject columns(PyDict_New());
    put(columns, "source", to_python(std::string(to_string(tasks.timeline.source))));
    std::vector<std::tuple<std::string, std::string>> lanes;
    for (const LaneInfo& lane : tasks.timeline.lanes) {
        lanes.emplace_back(lane.name, lane.device);
    }
    put(columns, "lanes", to_python(lanes));
    const std::vector<Slice>& slices = tasks.timeline.slices;
    put(columns, "kind", column(slices, [](const Slice& each) { return each.key.kind; }));
    put(columns, "step", column(slices, [](const Slice& each) { return each.key.step; }));
    put(columns, "partition", column(slices, [](const Slice& each) { return each.key.partition; }));
    put(columns, "micro_batch", column(slices, [](const Slice& each) { return each.key.micro_batch; }));
    put(columns, "lane", column(slices, [](const Slice& each) { return each.lane.value(); }));
    put(columns, "start_ns", column(slices, [](const Slice& each) { return each.start.count(); }));
    put(columns, "end_ns", column(slices, [](const Slice& each) { return each.end.count(); }));
    put(columns, "bytes", column(slices, [](const Slice& each) { return each.bytes; }));
    return columns;
}

PythonObject to_python(const MemoryColumns& memory) {
    PythonObject columns(PyDict_New());
    const std::vector<MemorySample>& samples = memory.samples;
    put(columns, "lane", column(samples, [](const MemorySample& each) { return each.lane.value(); }));
    put(columns, "time_ns", column(samples, [](const MemorySample& each) { return each.time.count(); }));
    put(columns, "allocated_bytes", column(samples, [](const MemorySample& each) { return each.allocated; }));
    put(columns, "peak_bytes", column(samples, [](const MemorySample& each) { return each.peak; }));
    put(columns, "reserved_bytes", column(samples, [](const MemorySample& each) { return each.reserved; }));
    return columns;
}

void read_python(PyObject* object, std::string& text) {
    Py_ssize_t size = 0;
    if (PyBytes_Check(object)) {
        char* data = nullptr;
        if (PyBytes_AsStringAndSize(object, &data, &size) != 0) {
            throw PythonError();
        }
        text.assign(data, static_cast<std::size_t>(size));
        return;
    }
    if (!PyUnicode_Check(object)) {
        throw_type_error(object, "a str or bytes");
    }
    const char* data = PyUnicode_AsUTF8AndSize(object, &size);
    if (data == nullptr) {
        throw PythonError();
    }
    text.assign(data, static_cast<std::size_t>(size));
}

void read_python(PyObject* object, bool& value) {
    if (!PyBool_Check(object)) {
        throw_type_error(object, "a bool");
    }
    value = object == Py_True;
}

void read_python(PyObject* object, std::int64_t& value) {
    if (!PyLong_Check(object)) {
        throw_type_error(object, "an int");
    }
    value = PyLong_AsLongLong(object);
    if (value == -1 && PyErr_Occurred() != nullptr) {
        throw PythonError();
    }
}

void read_python(PyObject* object, OptionValue& option) {
    const std::vector<PythonObject> items = items_of(object);
    if (items.size() != 2) {
        throw_type_error(object, "a name and a value");
    }
    read_python(items[0].get(), option.name);
    std::ranges::replace(option.name, '_', '-');
    PyObject* const value = items[1].get();
    if (PyBool_Check(value)) {
        option.value = value == Py_True;
    } else if (PyList_Check(value)) {
        read_python(value, option.value.emplace<std::vector<std::string>>());
    } else {
        read_python(value, option.value.emplace<std::string>());
    }
}

std::vector<PythonObject> items_of(PyObject* sequence) {
    if (!PyList_Check(sequence) && !PyTuple_Check(sequence)) {
        throw_type_error(sequence, "a list or tuple");
    }
    std::vector<PythonObject> items;
    const Py_ssize_t size = PySequence_Size(sequence);
    items.reserve(static_cast<std::size_t>(size));
    for (Py_ssize_t place = 0; place < size; ++place) {
        items.emplace_back(PySequence_GetItem(sequence, place));
    }
    return items;
}
}  // namespace pipescope
