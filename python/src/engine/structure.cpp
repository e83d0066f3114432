#include "python/src/engine/structure.h"

#include "engine/current_task.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

namespace pipescope::python {
namespace {
[[noreturn]] void refuse(PyObject* value, const std::string& what, const std::string& where = "") {
    throw py::type_error(
        what + " " + Py_TYPE(value)->tp_name + where +
        "; between layers of a pipeline go a tensor, or a tuple or list of tensors; convert it, or merge "
        "the layers that pass it on");
}

const at::Tensor& tensor_in(PyObject* value, const std::string& what, const std::string& where) {
    if (!THPVariable_Check(value)) {
        refuse(value, what, where);
    }
    return THPVariable_Unpack(value);
}
}  // namespace

std::size_t Boundary::place() const {
    const std::optional<MicroBatchId> micro_batch = current_micro_batch();
    return micro_batch ? std::min(micro_batch->index(), structures_.size() - 1) : 0;
}

void Boundary::note(Structure structure) {
    structures_[place()].store(structure);
}

Structure Boundary::structure() const {
    return structures_[place()].load();
}

void Boundary::note_all(Structure structure) {
    for (auto& each : structures_) {
        each.store(structure);
    }
}

Taken take_tensors(PyObject* value, const std::string& what) {
    if (THPVariable_Check(value)) {
        return {{THPVariable_Unpack(value)}, Structure::tensor};
    }
    const bool is_tuple = PyTuple_CheckExact(value);
    if (!is_tuple && !PyList_CheckExact(value)) {
        refuse(value, what);
    }
    Taken taken{{}, is_tuple ? Structure::tuple : Structure::list};
    const Py_ssize_t size = PySequence_Fast_GET_SIZE(value);
    for (Py_ssize_t k = 0; k < size; ++k) {
        taken.tensors.push_back(
            tensor_in(PySequence_Fast_GET_ITEM(value, k), what, std::string(is_tuple ? " in a tuple" : " in a list")));
    }
    if (taken.tensors.empty()) {
        throw py::type_error(what + " an empty " + (is_tuple ? "tuple" : "list") +
                             "; a pipeline passes on at least one tensor; return what the next layer needs");
    }
    return taken;
}

PyObject* give_tensors(const Tensors& tensors, Structure structure) {
    if (structure == Structure::tensor || (structure == Structure::unknown && tensors.size() == 1)) {
        return THPVariable_Wrap(tensors.at(0));
    }
    const auto size = static_cast<Py_ssize_t>(tensors.size());
    PyObject* const all = structure == Structure::list ? PyList_New(size) : PyTuple_New(size);
    for (Py_ssize_t k = 0; k < size; ++k) {
        PyObject* const each = THPVariable_Wrap(tensors[static_cast<std::size_t>(k)]);
        if (structure == Structure::list) {
            PyList_SET_ITEM(all, k, each);
        } else {
            PyTuple_SET_ITEM(all, k, each);
        }
    }
    return all;
}
}  // namespace pipescope::python
