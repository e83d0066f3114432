#include "python/src/engine/python_layer.h"

#include "engine/current_task.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace pipescope::python {
namespace {
thread_local SkipContext* skips_of_this_thread = nullptr;
thread_local const ModelState* model_of_this_thread = nullptr;

/// Notes the buffers of a module and its children; puts those back that were replaced.
class KeepBuffers {
public:
    explicit KeepBuffers(PyObject* module) {
        static PyObject* const buffers = PyUnicode_InternFromString("_buffers");
        static PyObject* const children = PyUnicode_InternFromString("_modules");
        const auto own = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, buffers));
        if (own && PyDict_Check(own.ptr()) && PyDict_GET_SIZE(own.ptr()) > 0) {
            kept_.emplace_back(own, py::reinterpret_steal<py::dict>(PyDict_Copy(own.ptr())));
        }
        const auto modules = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, children));
        PyObject *name = nullptr, *child = nullptr;
        for (Py_ssize_t at = 0; modules && PyDict_Next(modules.ptr(), &at, &name, &child) != 0;) {
            if (child != Py_None) {
                KeepBuffers of_child(child);
                std::move(of_child.kept_.begin(), of_child.kept_.end(), std::back_inserter(kept_));
            }
        }
        PyErr_Clear();
    }
    void put_back() {
        for (auto& [buffers, before] : kept_) {
            for (auto [name, buffer] : before) {
                if (!buffers.contains(name) || !py::object(buffers[name]).is(buffer)) {
                    buffers[name] = buffer;
                }
            }
        }
    }

private:
    std::vector<std::pair<py::dict, py::dict>> kept_;
};
}  // namespace

ModelState::~ModelState() {
    if (context != nullptr && Py_IsInitialized() != 0) {
        const WithGil gil;
        Py_DECREF(context);
    }
}

SkipContext* current_skips() {
    return skips_of_this_thread;
}

void throw_python_exception() {
    throw py::error_already_set();
}

bool is_in_model(const ModelState& model) {
    return model_of_this_thread == &model;
}

InContext::InContext(const ModelState& model) : outer_(model_of_this_thread) {
    model_of_this_thread = &model;
    if (model.context == nullptr) {
        return;
    }
    context_ = PyContext_Copy(model.context);  // a context can be entered by one thread only
    if (context_ == nullptr || PyContext_Enter(context_) != 0) {
        model_of_this_thread = outer_;
        throw_python_exception();
    }
}

InContext::~InContext() {
    model_of_this_thread = outer_;
    if (context_ != nullptr) {
        const py::error_scope keeps_the_exception;
        PyContext_Exit(context_);
        Py_DECREF(context_);
    }
}

Tensors PythonLayer::call(const Tensors& inputs) {
    const WithGil gil;
    PyErr_Clear();  // torch leaves a failed backward's exception in the thread
    const InContext context(*parts_.model);
    const auto input = py::reinterpret_steal<py::object>(give_tensors(inputs, parts_.before->structure()));
    const bool is_second = is_recomputing();
    std::optional<KeepBuffers> buffers;
    if (is_second) {
        buffers.emplace(parts_.module.get());
    }
    const auto output = py::reinterpret_steal<py::object>(PyObject_CallOneArg(parts_.module.get(), input.ptr()));
    if (buffers) {
        const py::error_scope keeps_the_exception;
        buffers->put_back();
    }
    if (!output) {
        throw_python_exception();
    }
    Taken taken = take_tensors(output.ptr(), parts_.title + " returned");
    if (!parts_.sends_structure &&
        taken.structure != (taken.tensors.size() == 1 ? Structure::tensor : Structure::tuple)) {
        throw py::type_error(parts_.title + " returned a " + (taken.structure == Structure::list ? "list" : "tuple") +
                             " of " + std::to_string(taken.tensors.size()) +
                             " to a layer of another process, which cannot tell it from a " +
                             (taken.structure == Structure::list ? "tuple" : "tensor") + "; return that instead");
    }
    parts_.after->note(taken.structure);
    return std::move(taken.tensors);
}

Tensors PythonLayer::forward(const Tensors& inputs) {
    return call(inputs);
}

Tensors PythonLayer::forward_with_skips(const Tensors& inputs, SkipContext& skips) {
    struct Current {
        explicit Current(SkipContext* of) : outer(std::exchange(skips_of_this_thread, of)) {}
        ~Current() { skips_of_this_thread = outer; }
        Current(const Current&) = delete;
        Current& operator=(const Current&) = delete;
        SkipContext* outer;
    };
    const Current current(&skips);
    return call(inputs);
}

NamedTensors PythonLayer::named(const char* method) const {
    const WithGil gil;
    NamedTensors all;
    for (py::handle item : py::handle(parts_.module.get()).attr(method)()) {
        const auto pair = py::reinterpret_borrow<py::tuple>(item);
        all.emplace_back(pair[0].cast<std::string>(), THPVariable_Unpack(py::object(pair[1]).ptr()));
    }
    return all;
}

NamedTensors PythonLayer::parameters() const {
    return named("named_parameters");
}

NamedTensors PythonLayer::buffers() const {
    return named("named_buffers");
}
}  // namespace pipescope::python
