#pragma once

#include "engine/gpipe.h"
#include "engine/processes/processes.h"
#include "python/src/engine/python_layer.h"
#include "python/src/engine/structure.h"

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace pipescope::python {
/// A layer as Python names it.
struct LayerArgument {
    Object module;
    std::string name;
    SkipNames skips;
};
std::vector<LayerArgument> layers_from(const py::list& layers);
/// "layer 3 (Conv2d)", for messages.
std::string title_of(const std::vector<LayerArgument>& layers, std::size_t layer);

/// The specs of Python modules, and what they share. `micro_batches`: the most that a run has. The second layer of two
/// gets the structure that the first one returned.
struct PythonLayers {
    std::vector<LayerSpec> specs;
    std::vector<std::shared_ptr<Boundary>> boundaries;  ///< before each layer, and behind the last
    std::shared_ptr<ModelState> state;
};
/// `is_sent[k]`: layer k + 1 is in another process than layer k; may be empty.
PythonLayers make_python_layers(const std::vector<LayerArgument>& layers, std::size_t micro_batches,
                                const std::vector<bool>& is_sent = {});

/// A GPipe over Python modules. Threading: any thread with the GIL; calls of one model take turns.
/// Errors: a module's exception unchanged; those of GPipe.
class PythonModel {
public:
    PythonModel(const py::list& layers, const py::dict& options);
    ~PythonModel();
    PythonModel(const PythonModel&) = delete;
    PythonModel& operator=(const PythonModel&) = delete;

    py::object forward(const py::object& input);
    at::Tensor step(const py::object& input, const py::object& target, const py::function& loss);

    void train(bool on) { model_->train(on); }
    /// Takes the layers' tensors again if a module has others than at the last call.
    void refresh();
    GPipe& model() { return *model_; }

private:
    class Turn;
    Tensors inputs_from(const py::object& input, Boundary& boundary, const char* what) const;

    std::vector<LayerArgument> arguments_;
    PythonLayers layers_;
    std::timed_mutex turn_;
    std::vector<PyObject*> tensors_;  // of all modules, borrowed: the engine keeps them alive
    std::unique_ptr<GPipe> model_;
};

/// Lets Python's signal handlers run, such as that of Ctrl-C. Throws what they raise. Takes the GIL.
void run_signal_handlers();

/// Adds PythonModel to the module.
void bind_model(py::module_& module);
/// Adds profile().
void bind_profile(py::module_& module);
/// Adds Processes and join_processes().
void bind_processes(py::module_& module);
}  // namespace pipescope::python
