#include "python/src/engine/python_layer.h"

#include "engine/current_task.h"
#include "engine/engine_error.h"

#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace pipescope::python {
namespace {
thread_local SkipContext* skips_of_this_thread = nullptr;
thread_local const ModelState* model_of_this_thread = nullptr;

/// The buffers of a module and its children, as they are now. Use and destroy it with the GIL.
class BoundBuffers {
public:
    explicit BoundBuffers(PyObject* module) {
        std::unordered_set<PyObject*> seen;
        add(module, seen);
        PyErr_Clear();
    }
    bool are_current() const {
        return std::all_of(kept_.begin(), kept_.end(),
                           [](const auto& pair) { return is_same(pair.first, pair.second); });
    }
    void put_back() const {
        for (const auto& [buffers, before] : kept_) {
            if (!is_same(buffers, before)) {
                PyDict_Clear(buffers.ptr());
                PyDict_Update(buffers.ptr(), before.ptr());
            }
        }
    }

private:
    /// A module may hold its own parent.
    void add(PyObject* module, std::unordered_set<PyObject*>& seen) {
        if (!seen.insert(module).second) {
            return;
        }
        static PyObject* const buffers = PyUnicode_InternFromString("_buffers");
        static PyObject* const children = PyUnicode_InternFromString("_modules");
        const auto own = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, buffers));
        if (own && PyDict_Check(own.ptr())) {
            kept_.emplace_back(own, py::reinterpret_steal<py::dict>(PyDict_Copy(own.ptr())));
        }
        const auto modules = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, children));
        PyObject *name = nullptr, *child = nullptr;
        for (Py_ssize_t at = 0; modules && PyDict_Next(modules.ptr(), &at, &name, &child) != 0;) {
            if (child != Py_None) {
                add(child, seen);
            }
        }
    }
    static bool is_same(const py::dict& a, const py::dict& b) {
        if (PyDict_GET_SIZE(a.ptr()) != PyDict_GET_SIZE(b.ptr())) {
            return false;
        }
        PyObject *name = nullptr, *value = nullptr;
        for (Py_ssize_t at = 0; PyDict_Next(a.ptr(), &at, &name, &value) != 0;) {
            if (PyDict_GetItem(b.ptr(), name) != value) {
                return false;
            }
        }
        return true;
    }

    std::vector<std::pair<py::dict, py::dict>> kept_;
};

/// For another thread, which may not have the GIL.
ReplacedBuffers shared(BoundBuffers buffers) {
    return {new BoundBuffers(std::move(buffers)), [](const BoundBuffers* of) {
                if (Py_IsInitialized() != 0) {
                    const WithGil gil;
                    delete of;
                }
            }};
}
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
    std::optional<BoundBuffers> before;
    if (is_checkpointing() || is_recomputing()) {
        before.emplace(parts_.module.get());
    }
    replaced_ = nullptr;
    if (const ReplacedBuffers former = std::exchange(recompute_with_, nullptr); former && is_recomputing()) {
        static_cast<const BoundBuffers*>(former.get())->put_back();
    }
    const auto output = py::reinterpret_steal<py::object>(PyObject_CallOneArg(parts_.module.get(), input.ptr()));
    if (is_recomputing()) {
        const py::error_scope keeps_the_exception;
        before->put_back();
    }
    if (!output) {
        throw_python_exception();
    }
    if (is_checkpointing() && !before->are_current()) {
        replaced_ = shared(std::move(*before));
    }
    Taken taken = take_tensors(output.ptr(), parts_.title + " returned");
    check_structure(taken);
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

/// A recompute returns what its forward did.
void PythonLayer::check_structure(const Taken& taken) const {
    const Structure before = parts_.after->structure();
    if (!is_recomputing() || before == Structure::unknown || before == taken.structure) {
        return;
    }
    const auto name_of = [](Structure structure) {
        return structure == Structure::tensor ? "a tensor" : structure == Structure::tuple ? "a tuple" : "a list";
    };
    const std::optional<CurrentTask> task = current_task();
    throw EngineError(
        parts_.title + " returned " + name_of(before) + " for micro-batch " +
        std::to_string(task ? task->key.micro_batch : 0) + " on partition " +
        std::to_string(task ? task->key.partition : 0) + " in forward, and " + name_of(taken.structure) +
        " when that was recomputed for the backward; a recompute returns what its forward did; remove what "
        "the layer chooses by its own count or state, or use checkpoint never");
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
