#include "python/src/engine/python_layer.h"

#include "base/quantities.h"
#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/gradients/leaf_gradients.h"
#include "engine/tensor_state.h"

#include <ATen/ThreadLocalPythonObjects.h>
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

namespace pipescope::python {
namespace {
thread_local SkipContext* skips_of_this_thread = nullptr;
thread_local const ModelState* model_of_this_thread = nullptr;

/// Throws the Python exception that is set. A note says which layer raised it, and what the layer got.
[[noreturn]] void throw_with_note(const std::string& title, PyObject* input) {
    py::error_already_set error;
    const py::object value = error.value();
    if (PyObject_HasAttrString(value.ptr(), "add_note") != 0) {  // since Python 3.11
        const std::string note = "raised in " + title + ", which was given a " + Py_TYPE(input)->tp_name;
        const auto added =
            py::reinterpret_steal<py::object>(PyObject_CallMethod(value.ptr(), "add_note", "s", note.c_str()));
        PyErr_Clear();
    }
    throw error;  // NOLINT(misc-throw-by-value-catch-by-reference): a copy of it is thrown
}
}  // namespace

ModelState::~ModelState() {
    if (context != nullptr && Py_IsInitialized() != 0) {
        const WithGil gil;
        Py_DECREF(context);
    }
}

namespace {
/// Torch carries such objects from the caller's thread to a run's lanes, by at::ThreadLocalState.
std::string key_of_call(const ModelState& model) {
    return "pipescope.call." + std::to_string(reinterpret_cast<std::uintptr_t>(&model));
}
}  // namespace

WithCall::WithCall(ModelState& model, const py::object& call) : model_(model) {
    if (call.is_none() && !model.has_calls) {
        return;
    }
    model.has_calls = true;
    const std::string key = key_of_call(model);
    if (at::impl::ThreadLocalPythonObjects::contains(key)) {
        before_ = at::impl::ThreadLocalPythonObjects::get(key);
    }
    at::impl::ThreadLocalPythonObjects::set(
        key, call.is_none()
                 ? nullptr
                 : std::make_shared<c10::SafePyObject>(py::object(call).release().ptr(), getPyInterpreter()));
}

WithCall::~WithCall() {
    if (model_.has_calls) {
        at::impl::ThreadLocalPythonObjects::set(key_of_call(model_), before_);
    }
}

PyObject* call_of(const ModelState& model) {
    if (!model.has_calls) {
        return nullptr;
    }
    const std::string key = key_of_call(model);
    if (!at::impl::ThreadLocalPythonObjects::contains(key)) {
        return nullptr;
    }
    const std::shared_ptr<c10::SafePyObject>& call = at::impl::ThreadLocalPythonObjects::get(key);
    return call == nullptr ? nullptr : call->ptr(getPyInterpreter());
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
    PyObject* const call = parts_.number == 0 ? call_of(*parts_.model) : nullptr;
    const auto input = py::reinterpret_steal<py::object>(
        give_tensors(inputs, call != nullptr ? Structure{Structure::Kind::tuple} : parts_.before->structure()));
    const std::shared_ptr<const BoundState> after = is_recomputing() ? begin_recompute() : nullptr;
    recompute_with_ = nullptr;
    static PyObject* const run_first_layer = PyUnicode_InternFromString("run_first_layer");
    auto output = py::reinterpret_steal<py::object>(
        call == nullptr ? PyObject_CallOneArg(parts_.module.get(), input.ptr())
                        : PyObject_CallMethodObjArgs(call, run_first_layer, parts_.module.get(), input.ptr(), nullptr));
    if (after) {
        const py::error_scope keeps_the_exception;
        after->put_back();
    }
    if (!output) {
        throw_with_note(parts_.title, input.ptr());
    }
    Taken taken = take_tensors(output.ptr(), parts_.title + " returned");
    check_structure(taken.structure);
    check_sent(taken);
    parts_.after->note(std::move(taken.structure));
    output = py::object();  // it refers to the tensors
    if (!is_recomputing()) {
        find_keepers(taken.tensors);
    }
    return std::move(taken.tensors);
}

const std::shared_ptr<const BoundState>& PythonLayer::bound() {
    if (held_ == nullptr || !held_->is_current()) {
        held_ = BoundState::shared(BoundState(parts_.module.get()));
    }
    return held_;
}

HeldBuffers PythonLayer::hold_buffers() {
    const WithGil gil;
    return bound();
}

/// Gives the module what it had bound before its forward. Returns what to put back afterwards.
std::shared_ptr<const BoundState> PythonLayer::begin_recompute() {
    const std::shared_ptr<const BoundState>& now = bound();
    if (recompute_with_ == nullptr || recompute_with_ == now) {
        return now;
    }
    if (recompute_with_->trained() != now->trained()) {
        throw EngineError(
            parts_.title +
            " has bound other parameters that train since a forward that is to be computed again, such as "
            "a new layer made in forward(); the recompute would give its gradients to others; make such "
            "parameters before the call, or use checkpoint never");
    }
    BoundState all(parts_.module.get());
    all.add_modules_of(*recompute_with_);
    recompute_with_->put_back();
    return BoundState::shared(std::move(all));
}

/// Walks the module only if something else refers to an output, as its graph may, too.
void PythonLayer::find_keepers(const Tensors& outputs) {
    keepers_.clear();
    if (std::ranges::none_of(outputs, is_held_elsewhere)) {
        return;
    }
    for (const at::Tensor& each : bound()->tensors()) {
        if (std::ranges::any_of(outputs, [&](const at::Tensor& output) { return share_storage(output, each); })) {
            keepers_.push_back(each);
        }
    }
}

at::Tensor PythonLayer::keeper_of(const at::Tensor& output) const {
    const auto found =
        std::ranges::find_if(keepers_, [&](const at::Tensor& each) { return share_storage(output, each); });
    return found == keepers_.end() ? at::Tensor() : *found;
}

/// A recompute returns what its forward did.
void PythonLayer::check_structure(const Structure& now) const {
    const Structure before = is_recomputing() ? parts_.after->structure() : Structure{};
    if (!before.is_known() || before == now) {
        return;
    }
    const std::optional<CurrentTask> task = current_task();
    throw EngineError(
        parts_.title + " returned a " + before.name() + " for micro-batch " +
        std::to_string(task ? task->key.micro_batch : 0) + " on partition " +
        std::to_string(task ? task->key.partition : 0) + " in forward, and " +
        (before.kind == now.kind ? "one with other contents" : "a " + now.name()) +
        " when that was recomputed for the backward; a recompute returns what its forward did; remove what "
        "the layer chooses by its own count or state, or use checkpoint never");
}

/// Another process takes one tensor for a tensor, and several for a tuple.
void PythonLayer::check_sent(const Taken& taken) const {
    const std::vector<bool>& is_sent = parts_.model->is_sent;
    using Kind = Structure::Kind;
    if (parts_.number >= is_sent.size() || !is_sent[parts_.number] ||
        taken.structure.kind == (taken.tensors.size() == 1 ? Kind::tensor : Kind::tuple)) {
        return;
    }
    throw py::type_error(parts_.title + " returned a " + taken.structure.name() + " with " +
                         counted(taken.tensors.size(), "tensor", "tensors") +
                         " to a layer of another process, which takes one tensor for a tensor and several for a tuple; "
                         "return that instead");
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
