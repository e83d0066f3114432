#include "python/src/engine/bound_state.h"

#include "python/src/engine/gil.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <utility>

namespace pipescope::python {
namespace {
/// Those of torch.nn.Module that a forward may change by an assignment, register_buffer() or del.
struct Names {
    PyObject* const buffers = PyUnicode_InternFromString("_buffers");
    PyObject* const parameters = PyUnicode_InternFromString("_parameters");
    PyObject* const modules = PyUnicode_InternFromString("_modules");
    PyObject* const not_persistent = PyUnicode_InternFromString("_non_persistent_buffers_set");
    const std::array<PyObject*, 4> all = {buffers, parameters, modules, not_persistent};
};

const Names& names() {
    static const Names made;
    return made;
}

/// Null if there is none.
py::object attribute(PyObject* module, PyObject* name) {
    py::object value = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, name));
    if (!value) {
        PyErr_Clear();
    }
    return value;
}

bool is_plain(const py::object& table) {
    return PyDict_Check(table.ptr()) != 0 || PySet_Check(table.ptr()) != 0;
}

/// A scripted module has dicts that wrap what the script has.
bool is_wrapper(const py::object& table) {
    return !is_plain(table) && PyObject_HasAttrString(table.ptr(), "items") != 0;
}

/// A dict or a set.
py::object contents(const py::object& table) {
    return is_plain(table) ? table : py::dict(table.attr("items")());
}

/// Null if it is empty.
py::object copy_of(const py::object& table) {
    const py::object from = contents(table);
    if (PyObject_Size(from.ptr()) == 0) {
        return {};
    }
    return py::reinterpret_steal<py::object>(PySet_Check(from.ptr()) != 0 ? PySet_New(from.ptr())
                                                                          : PyDict_Copy(from.ptr()));
}
}  // namespace

BoundState::BoundState(PyObject* module) {
    add(module);
}

std::shared_ptr<const BoundState> BoundState::shared(BoundState state) {
    return {new BoundState(std::move(state)), [](const BoundState* of) {
                if (Py_IsInitialized() != 0) {
                    const WithGil gil;
                    delete of;
                }
            }};
}

/// A module may hold its own parent.
void BoundState::add(PyObject* module) {
    if (module == Py_None || !modules_.insert(module).second) {
        return;
    }
    for (PyObject* const name : names().all) {
        const py::object table = attribute(module, name);
        if (table && (is_plain(table) || is_wrapper(table))) {
            tables_.push_back({py::reinterpret_borrow<py::object>(module), name, table, copy_of(table)});
            if (name == names().modules) {
                for (PyObject* const child : tables_.back().values()) {
                    add(child);
                }
            }
        }
    }
}

bool BoundState::is_current() const {
    return std::ranges::all_of(tables_, [](const Table& each) {
        return each.now.is(attribute(each.module.ptr(), each.name)) && each.is_same();
    });
}

void BoundState::put_back() const {
    for (const Table& each : tables_) {
        if (each.is_same()) {
            continue;
        }
        if (is_wrapper(each.now)) {  // a script adds and removes nothing
            for (const auto& [name, value] : py::reinterpret_borrow<py::dict>(each.before)) {
                each.now.attr("__setitem__")(name, value);
            }
        } else {
            each.now.attr("clear")();
            if (each.before) {
                each.now.attr("update")(each.before);
            }
        }
    }
}

void BoundState::add_modules_of(const BoundState& other) {
    for (const Table& each : other.tables_) {
        add(each.module.ptr());
    }
}

Tensors BoundState::tensors() const {
    Tensors all;
    for (const Table& each : tables_) {
        for (PyObject* const value : each.values()) {
            if (THPVariable_Check(value)) {
                all.push_back(THPVariable_Unpack(value));
            }
        }
    }
    return all;
}

std::unordered_set<PyObject*> BoundState::trained() const {
    std::unordered_set<PyObject*> all;
    for (const Table& each : tables_) {
        for (PyObject* const value : each.values()) {
            if (each.name == names().parameters && THPVariable_Check(value) &&
                THPVariable_Unpack(value).requires_grad()) {
                all.insert(value);
            }
        }
    }
    return all;
}

bool BoundState::Table::is_same() const {
    const py::object entries = contents(now);
    const Py_ssize_t size = PyObject_Size(entries.ptr());
    if (!before || size != PyObject_Size(before.ptr())) {
        return !before && size == 0;
    }
    if (PySet_Check(entries.ptr()) != 0) {
        return PyObject_RichCompareBool(entries.ptr(), before.ptr(), Py_EQ) == 1;
    }
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(entries.ptr(), &at, &key, &value) != 0;) {
        if (PyDict_GetItem(before.ptr(), key) != value) {
            return false;
        }
    }
    return true;
}

/// Of a dict.
std::vector<PyObject*> BoundState::Table::values() const {
    std::vector<PyObject*> all;
    PyObject* value = nullptr;
    for (Py_ssize_t at = 0; before && PyDict_Next(before.ptr(), &at, nullptr, &value) != 0;) {
        all.push_back(value);
    }
    return all;
}
}  // namespace pipescope::python
