#pragma once

#include "engine/layer.h"
#include "python/src/engine/bound_state.h"
#include "python/src/engine/gil.h"
#include "python/src/engine/structure.h"

#include <c10/core/SafePyObject.h>
#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
/// State that the layers of one model share.
struct ModelState {
    /// contextvars of the call that runs; null before the first. Read and set with the GIL.
    PyObject* context = nullptr;
    /// By layer, whether the next one is in another process, which only sees tensors. Set before the first call; may be
    /// empty.
    std::vector<bool> is_sent;
    /// True once a call had a _mini_batch.Call. Read and set with the GIL.
    bool has_calls = false;

    ModelState() = default;
    ~ModelState();
    ModelState(const ModelState&) = delete;
    ModelState& operator=(const ModelState&) = delete;
};

/// The parts of a PythonLayer.
struct PythonLayerParts {
    Object module;  ///< a torch.nn.Module
    std::size_t number = 0;
    std::string title;  ///< "layer 3 (Conv2d)"
    SkipNames skips;
    std::shared_ptr<Boundary> before;
    std::shared_ptr<Boundary> after;
    std::shared_ptr<ModelState> model;
};

/// Runs a torch.nn.Module as a layer of the engine.
///
/// The lane takes the GIL for the call of the module and releases it afterwards; torch's operators release it while
/// they compute. The module sees the contextvars that the caller of forward() or step() had. Errors: the module's
/// exception as py::error_already_set; TypeError for a result that take_tensors() refuses; EngineError if a recompute
/// returns another structure than its forward, or cannot have the parameters of its forward.
class PythonLayer final : public Layer {
public:
    explicit PythonLayer(PythonLayerParts parts) : parts_(std::move(parts)) {}

    Tensors forward(const Tensors& inputs) override;
    SkipNames skips() const override { return parts_.skips; }
    Tensors forward_with_skips(const Tensors& inputs, SkipContext& skips) override;
    NamedTensors parameters() const override;
    NamedTensors buffers() const override;
    HeldBuffers hold_buffers() override;
    void recompute_with(HeldBuffers buffers) override {
        recompute_with_ = std::static_pointer_cast<const BoundState>(std::move(buffers));
    }
    at::Tensor keeper_of(const at::Tensor& output) const override;
    void train(bool /*on*/) override {}            // torch.nn.Module.train() does
    void to(at::ScalarType /*dtype*/) override {}  // torch.nn.Module.to() does

private:
    Tensors call(const Tensors& inputs);
    const std::shared_ptr<const BoundState>& bound();
    std::shared_ptr<const BoundState> begin_recompute();
    void find_keepers(const Tensors& outputs);
    NamedTensors named(const char* method) const;
    void check_structure(const Structure& now) const;
    void check_sent(const Taken& taken) const;

    PythonLayerParts parts_;
    std::shared_ptr<const BoundState> held_;
    std::shared_ptr<const BoundState> recompute_with_;
    Tensors keepers_;  // buffers and parameters with the memory of an output of the last forward
};

/// While it lives, runs of the model that begin in this thread have that _mini_batch.Call; None: they have none. Their
/// lanes find it by call_of(), and so does a backward later. Use it with the GIL.
class WithCall {
public:
    WithCall(ModelState& model, const py::object& call);
    ~WithCall();
    WithCall(const WithCall&) = delete;
    WithCall& operator=(const WithCall&) = delete;

private:
    const ModelState& model_;
    std::shared_ptr<c10::SafePyObject> before_;
};
/// Null if the run has none. Borrowed. Call it with the GIL.
PyObject* call_of(const ModelState& model);

/// The skips of the layer that this thread runs; null outside one.
SkipContext* current_skips();

/// Throws the Python exception that is set.
[[noreturn]] void throw_python_exception();

/// True if this thread runs a layer, or the loss, of that model.
bool is_in_model(const ModelState& model);

/// While it lives, the thread runs Python for the model, with a copy of its contextvars. Call it with the GIL.
class InContext {
public:
    explicit InContext(const ModelState& model);
    ~InContext();
    InContext(const InContext&) = delete;
    InContext& operator=(const InContext&) = delete;

private:
    const ModelState* const outer_;
    PyObject* context_ = nullptr;
};
}  // namespace pipescope::python
