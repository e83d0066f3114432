#include "python/src/engine/structure.h"

#include "engine/current_task.h"
#include "engine/engine_error.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

namespace pipescope::python {
namespace {
/// Functions of pipescope._structure. Never destroyed, since threads may end after the statics.
struct PythonHalf {
    py::object flattened;
    py::object unflattened;
    py::object structure_name;
};
PythonHalf* python_half = nullptr;

/// The tensors of a tuple or list that holds nothing else; none for any other.
Tensors only_tensors(PyObject* sequence) {
    Tensors tensors;
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(sequence);
    for (Py_ssize_t k = 0; k < size; ++k) {
        PyObject* const each = PySequence_Fast_GET_ITEM(sequence, k);
        if (!THPVariable_Check(each)) {
            return {};
        }
        tensors.push_back(THPVariable_Unpack(each));
    }
    return tensors;
}

Taken take_tree(PyObject* value, const std::string& what) {
    const py::tuple flat = python_half->flattened(py::handle(value));
    if (const auto wrong = flat[2].cast<std::string>(); !wrong.empty()) {
        throw py::type_error(what + " " + wrong +
                             "; between layers of a pipeline go tensors and None, alone or in tuples, lists and dicts; "
                             "convert it, or merge the layers that pass it on");
    }
    Taken taken{{}, {Structure::Kind::tree, share(py::object(flat[1]).ptr())}};
    for (const py::handle each : py::list(flat[0])) {
        taken.tensors.push_back(THPVariable_Unpack(each.ptr()));
    }
    if (taken.tensors.empty()) {
        throw py::type_error(what +
                             (value == Py_None ? std::string(" None")
                                               : std::string(" a ") + Py_TYPE(value)->tp_name + " without a tensor") +
                             "; a pipeline passes on at least one tensor; return what the next layer needs");
    }
    return taken;
}
}  // namespace

std::string Structure::name() const {
    switch (kind) {
        case Kind::unknown: return "unknown";
        case Kind::tensor: return "tensor";
        case Kind::tuple: return "tuple";
        case Kind::list: return "list";
        case Kind::tree: return python_half->structure_name(py::handle(tree.get())).cast<std::string>();
    }
    return "unknown";
}

bool operator==(const Structure& a, const Structure& b) {
    if (a.kind != b.kind || a.kind != Structure::Kind::tree || a.tree == b.tree) {
        return a.kind == b.kind;
    }
    const int equal = PyObject_RichCompareBool(a.tree.get(), b.tree.get(), Py_EQ);
    if (equal < 0) {
        throw py::error_already_set();
    }
    return equal == 1;
}

std::size_t Boundary::place() const {
    const std::optional<MicroBatchId> micro_batch = current_micro_batch();
    return micro_batch ? std::min(micro_batch->index(), structures_.size() - 1) : 0;
}

Structure Boundary::common(const std::string& what) const {
    std::vector<Structure> all = structures_;  // Python may let another thread note while it compares
    std::erase_if(all, [](const Structure& each) { return !each.is_known(); });
    for (const Structure& each : all) {
        if (!(each == all.front())) {
            throw EngineError(what + " a " + all.front().name() + " for one micro-batch, and " +
                              (each.kind == all.front().kind ? "one with other contents" : "a " + each.name()) +
                              " for another; the outputs of all are joined; return the same structure each time");
        }
    }
    return all.empty() ? Structure{} : all.front();
}

void prepare_structures() {
    const auto module = py::module_::import("pipescope._structure");
    python_half = new PythonHalf{module.attr("flattened"), module.attr("unflattened"), module.attr("structure_name")};
}

Taken take_tensors(PyObject* value, const std::string& what) {
    if (THPVariable_Check(value)) {
        return {{THPVariable_Unpack(value)}, {Structure::Kind::tensor}};
    }
    const bool is_tuple = PyTuple_CheckExact(value);
    if (is_tuple || PyList_CheckExact(value)) {
        if (Tensors tensors = only_tensors(value); !tensors.empty()) {
            return {std::move(tensors), {is_tuple ? Structure::Kind::tuple : Structure::Kind::list}};
        }
    }
    return take_tree(value, what);
}

PyObject* give_tensors(const Tensors& tensors, const Structure& structure) {
    using Kind = Structure::Kind;
    if (structure.kind == Kind::tensor || (structure.kind == Kind::unknown && tensors.size() == 1)) {
        return THPVariable_Wrap(tensors.at(0));
    }
    const bool is_list = structure.kind == Kind::list || structure.kind == Kind::tree;
    const auto size = static_cast<Py_ssize_t>(tensors.size());
    PyObject* const all = is_list ? PyList_New(size) : PyTuple_New(size);
    for (Py_ssize_t k = 0; k < size; ++k) {
        PyObject* const each = THPVariable_Wrap(tensors[static_cast<std::size_t>(k)]);
        if (is_list) {
            PyList_SET_ITEM(all, k, each);
        } else {
            PyTuple_SET_ITEM(all, k, each);
        }
    }
    if (structure.kind != Kind::tree) {
        return all;
    }
    const auto flat = py::reinterpret_steal<py::object>(all);
    return python_half->unflattened(flat, py::handle(structure.tree.get())).release().ptr();
}
}  // namespace pipescope::python
