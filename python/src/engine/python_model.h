#pragma once

#include "engine/gpipe.h"
#include "engine/processes/processes.h"
#include "profiler/memory/step_timer.h"
#include "python/src/engine/python_layer.h"
#include "python/src/engine/structure.h"

#include <torch/csrc/utils/pybind.h>

#include <atomic>
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
PythonLayers make_python_layers(const std::vector<LayerArgument>& layers, std::size_t micro_batches);

/// A GPipe over Python modules. Threading: any thread with the GIL; calls of one model take turns.
/// Errors: a module's exception unchanged; those of GPipe.
class PythonModel {
public:
    PythonModel(const py::list& layers, const py::dict& options);
    ~PythonModel();
    PythonModel(const PythonModel&) = delete;
    PythonModel& operator=(const PythonModel&) = delete;

    /// `call`: a _mini_batch.Call or None; `split`: a _mini_batch.Split.
    py::object forward(const py::object& input, const py::object& call, const py::tuple& split);
    at::Tensor step(const py::object& input, const py::object& target, const py::function& loss, const py::object& call,
                    const py::tuple& split);
    /// GPipe::train_staggered(): `batches` iterates over (input, target, call, split), update(lane) updates the lane's
    /// parameters on its thread, done(loss) takes each step's loss.
    void train_staggered(const py::iterator& batches, const py::function& loss, const py::function& update,
                         const py::function& done);

    at::Tensor clip_grad_norm(double max_norm, double norm_type, bool error_if_nonfinite);
    bool any_process(bool here);

    void train(bool on) { model_->train(on); }
    /// Takes the layers' tensors again if a module has others than at the last call.
    void refresh();
    GPipe& model() { return *model_; }
    const Schedule& schedule() const noexcept { return schedule_; }

    /// Has the steps timed from now on, or not any more. They are not at first.
    void time_steps(bool on) { timer_.is_on = on; }
    /// The first start and the last end of a timed step's tasks, in ns of the recording's clock.
    StepTimer::Bounds take_step(std::int32_t step) { return timer_.take(step); }

private:
    class Turn;
    /// A step's times while somebody records; otherwise it costs one look at `is_on`.
    struct Timer : StepTimer {
        Timer();
        void task_started(const TaskKey& key, LaneId lane) override;
        void task_ended(const TaskKey& key, LaneId lane) override;
        std::atomic<bool> is_on = false;
    };
    void use_split(const py::tuple& split);
    py::object target_of(const Tensors& part, const Boundary* structure) const;
    Tensors inputs_from(const py::object& input, Boundary& boundary, const char* what) const;
    Structure output_structure() const;
    GPipe::LossFunction function_of(const py::function& loss, const std::shared_ptr<Boundary>& target);

    std::vector<LayerArgument> arguments_;
    PythonLayers layers_;
    Schedule schedule_;
    Object split_;  // that of the model; null: the engine's default
    std::timed_mutex turn_;
    std::vector<PyObject*> tensors_;  // of all modules, borrowed: the engine keeps them alive
    Timer timer_;                     // outlives the model, whose observer it is
    std::unique_ptr<GPipe> model_;
};

/// Lets Python's signal handlers run, such as that of Ctrl-C. Throws what they raise. Takes the GIL.
void run_signal_handlers();

/// The tensor that a loss function returned. Throws a TypeError for anything else. Call it with the GIL.
at::Tensor tensor_of_loss(const py::object& value);

/// Adds PythonModel to the module.
void bind_model(py::module_& module);
/// Adds Recording.
void bind_recording(py::module_& module);
/// Adds profile().
void bind_profile(py::module_& module);
/// Adds run_commands().
void bind_commands(py::module_& module);
/// Adds Processes and join_processes().
void bind_processes(py::module_& module);
}  // namespace pipescope::python
