#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "engine/gradients/graph_walk.h"
#include "engine/lanes/process_end.h"
#include "engine/lanes/worker.h"
#include "engine/processes/processes.h"
#include "engine/random.h"
#include "python/src/engine/python_model.h"
#include "python/src/python_errors.h"
#include "schedule/task_key.h"
#include "trace/store/trace_records.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/Generator.h>

#include <string>

namespace pipescope::python {
namespace {
/// torch.default_generator refers to the generator that torch had before ours. A layer that saves and restores its
/// state, as torch.utils.checkpoint does, must see the lane's numbers.
void replace_default_generator() {
    prepare_random();
    const py::object generator = py::module_::import("torch").attr("default_generator");
    reinterpret_cast<THPGenerator*>(generator.ptr())->cdata = at::detail::getDefaultCPUGenerator();
}

void stash(const std::string& name, const std::optional<at::Tensor>& tensor) {
    if (current_skips() == nullptr) {
        throw EngineError("stash('" + name + "') is called outside of a layer that a pipeline runs");
    }
    current_skips()->stash(name, tensor.value_or(at::Tensor()));
}

std::optional<at::Tensor> pop(const std::string& name) {
    if (current_skips() == nullptr) {
        throw EngineError("pop('" + name + "') is called outside of a layer that a pipeline runs");
    }
    at::Tensor tensor = current_skips()->pop(name);
    return tensor.defined() ? std::optional(std::move(tensor)) : std::nullopt;
}

std::optional<std::int64_t> micro_batch_here() {
    const std::optional<MicroBatchId> micro_batch = current_micro_batch();
    return micro_batch ? std::optional<std::int64_t>(micro_batch->value()) : std::nullopt;
}

/// Sets the Python error of exceptions that have one of their own.
void set_error(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (python_error& error) {
        error.restore();
    } catch (const c10::Error&) {
        torch::translate_exception_to_python(thrown);
    } catch (const ProcessError& error) {
        set_python_error("ProcessError", error);
    } catch (const LayerError& error) {
        set_python_error("LayerError", error);
    } catch (const EngineError& error) {
        set_python_error("EngineError", error);
    } catch (const TraceError& error) {
        set_python_error("TraceError", error);
    }
}
}  // namespace
}  // namespace pipescope::python

PYBIND11_MODULE(_engine, module) {
    using namespace pipescope::python;
    namespace py = pybind11;
    py::register_local_exception_translator([](std::exception_ptr thrown) {
        if (thrown) {
            pipescope::set_error_of(thrown, set_error);
        }
    });
    replace_default_generator();
    prepare_structures();
    pipescope::Worker::keep_threads();
    bind_processes(module);
    bind_model(module);
    bind_profile(module);
    bind_commands(module);
    bind_recording(module);
    module.attr("most_micro_batches") = pipescope::kMostMicroBatches;
    module.def("is_checkpointing", &pipescope::is_checkpointing);
    module.def("is_recomputing", &pipescope::is_recomputing);
    module.def("current_micro_batch", &micro_batch_here);
    module.def("note_saved_tensor_hooks", &pipescope::note_saved_tensor_hooks);
    module.def("has_skips", [] { return current_skips() != nullptr; });
    module.def("stash", &stash);
    module.def("pop", &pop);
    module.def("prepare_process_end", &pipescope::prepare_process_end);
    module.def("end_other_threads", &pipescope::end_other_threads, py::call_guard<WithoutGil>());
}
