#include "python/src/engine/python_model.h"

#include "engine/current_task.h"
#include "engine/engine_error.h"
#include "profiler/recorder/recording_clock.h"
#include "python/src/engine/python_spec.h"
#include "schedule/balance.h"
#include "schedule/schedule_table.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <unordered_set>
#include <utility>

namespace pipescope::python {
namespace {
constexpr std::chrono::milliseconds kPatience{20};

SkipName skip_name_from(py::handle name) {
    const auto pair = py::reinterpret_borrow<py::tuple>(name);
    return {pair[0].cast<std::string>(), pair[1].cast<std::string>()};
}

Driver driver_from(const std::string& name) {
    if (name != "scheduled" && name != "autograd") {
        throw UsageError("driver is '" + name + "'; it orders the backwards; use scheduled or autograd");
    }
    return name == "scheduled" ? Driver::scheduled : Driver::autograd;
}

Reduction reduction_from(const std::string& name) {
    if (name != "mean" && name != "sum") {
        throw UsageError("reduction is '" + name + "'; it says how the loss combines its samples; use mean or sum");
    }
    return name == "mean" ? Reduction::mean : Reduction::sum;
}

/// By name; or from a CSV, as (name, text).
Schedule schedule_from(const py::object& schedule) {
    if (py::isinstance<py::tuple>(schedule)) {
        const auto pair = py::reinterpret_borrow<py::tuple>(schedule);
        return Schedule::from_csv(pair[0].cast<std::string>(), pair[1].cast<std::string>());
    }
    return parse_schedule(schedule.cast<std::string>());
}

GPipeOptions options_from(const py::dict& given) {
    GPipeOptions options;
    options.balance = given["balance"].cast<std::vector<std::int64_t>>();
    options.devices = given["devices"].cast<std::vector<std::string>>();
    options.chunks = given["chunks"].cast<std::int64_t>();
    options.checkpoint = parse_checkpoint(given["checkpoint"].cast<std::string>());
    options.schedule = schedule_from(given["schedule"]);
    options.driver = driver_from(given["driver"].cast<std::string>());
    options.reduction = reduction_from(given["reduction"].cast<std::string>());
    options.placement = given["placement"].cast<std::vector<std::int64_t>>();
    options.deferred_batch_norm = given["deferred_batch_norm"].cast<bool>();
    options.seed = given["seed"].cast<std::uint64_t>();
    options.host_cores = given["host_cores"].cast<int>();
    options.shared = given["shared"].cast<std::vector<std::vector<std::string>>>();
    options.replicas = given["replicas"].cast<int>();
    options.device_messages = given["device_messages"].cast<std::string>();
    if (!given["processes"].is_none()) {
        options.processes = given["processes"].cast<std::shared_ptr<Processes>>();
    }
    options.while_waiting = run_signal_handlers;
    options.on_exception = keep_python_error;
    return options;
}

/// A dimension, None or a function.
TensorSplit tensor_split_from(py::handle rule) {
    if (rule.is_none()) {
        return {.dimension = std::nullopt};
    }
    if (py::isinstance<py::int_>(rule)) {
        return {.dimension = rule.cast<std::int64_t>()};
    }
    return {.make = [make = share(rule.ptr())](const at::Tensor& whole, std::int64_t first, std::int64_t end) {
        const WithGil gil;
        const py::object part = py::handle(make.get())(whole, first, end);
        if (!THPVariable_Check(part.ptr())) {
            throw py::type_error(std::string("a function of split returned ") + Py_TYPE(part.ptr())->tp_name +
                                 "; it makes a micro-batch's part of a tensor; return a tensor");
        }
        return THPVariable_Unpack(part.ptr());
    }};
}

/// Every module's parameters and buffers, by address, without a call of Python. A module may hold its own parent.
void add_tensors(PyObject* module, std::vector<PyObject*>& found, std::unordered_set<PyObject*>& seen) {
    if (!seen.insert(module).second) {
        return;
    }
    static PyObject* const names[] = {PyUnicode_InternFromString("_parameters"),
                                      PyUnicode_InternFromString("_buffers")};
    static PyObject* const children = PyUnicode_InternFromString("_modules");
    PyObject *key = nullptr, *value = nullptr;
    for (PyObject* const name : names) {
        const auto tensors = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, name));
        for (Py_ssize_t at = 0; tensors && PyDict_Next(tensors.ptr(), &at, &key, &value) != 0;) {
            found.push_back(value);
        }
    }
    const auto modules = py::reinterpret_steal<py::object>(PyObject_GetAttr(module, children));
    for (Py_ssize_t at = 0; modules && PyDict_Next(modules.ptr(), &at, &key, &value) != 0;) {
        found.push_back(value);
        if (value != Py_None) {
            add_tensors(value, found, seen);
        }
    }
    PyErr_Clear();
}
}  // namespace

// An exception of Python that torch's C++ throws lies in the thread's state, where no other thread finds it.
void keep_python_error() {
    try {
        throw;
    } catch (python_error& error) {
        const WithGil gil;
        error.persist();
    } catch (...) {
        // all others hold what they say
    }
}

MiniBatchSplit split_from(const py::tuple& given) {
    MiniBatchSplit split;
    for (py::handle rule : py::object(given[0])) {
        split.input.push_back(tensor_split_from(rule));
    }
    for (py::handle rule : py::object(given[1])) {
        split.target.push_back(tensor_split_from(rule));
    }
    split.output = given[2].cast<std::vector<std::int64_t>>();
    return split;
}

void run_signal_handlers() {
    const WithGil gil;
    if (PyErr_CheckSignals() != 0) {
        throw_python_exception();
    }
}

at::Tensor tensor_of_loss(const py::object& value) {
    if (!THPVariable_Check(value.ptr())) {
        throw py::type_error(std::string("the loss function returned ") + Py_TYPE(value.ptr())->tp_name +
                             "; a backward begins at its result; return a tensor with one value");
    }
    return THPVariable_Unpack(value.ptr());
}

std::vector<LayerArgument> layers_from(const py::list& layers) {
    std::vector<LayerArgument> all;
    for (py::handle each : layers) {
        const auto layer = py::reinterpret_borrow<py::tuple>(each);  // (module, name, stashed names, popped names)
        LayerArgument argument{share(py::object(layer[0]).ptr()), layer[1].cast<std::string>(), {}};
        for (py::handle name : py::object(layer[2])) {
            argument.skips.stash.push_back(skip_name_from(name));
        }
        for (py::handle name : py::object(layer[3])) {
            argument.skips.pop.push_back(skip_name_from(name));
        }
        all.push_back(std::move(argument));
    }
    return all;
}

std::string title_of(const std::vector<LayerArgument>& layers, std::size_t layer) {
    return "layer " + std::to_string(layer) + " (" + layers[layer].name + ")";
}

PythonLayers make_python_layers(const std::vector<LayerArgument>& layers, std::size_t micro_batches) {
    PythonLayers made;
    made.state = std::make_shared<ModelState>();
    for (std::size_t k = 0; k <= layers.size(); ++k) {
        made.boundaries.push_back(std::make_shared<Boundary>(std::max<std::size_t>(micro_batches, 1)));
    }
    for (std::size_t k = 0; k < layers.size(); ++k) {
        const PythonLayerParts parts{
            layers[k].module,       k,         title_of(layers, k), layers[k].skips, made.boundaries[k],
            made.boundaries[k + 1], made.state};
        made.specs.push_back({layers[k].name, [parts] { return std::make_unique<PythonLayer>(parts); }});
    }
    return made;
}

PythonModel::Timer::Timer()
    : StepTimer(nullptr, Update::synchronous, [] { return Nanoseconds{recording_clock_ns()}; }) {}

void PythonModel::Timer::task_started(const TaskKey& key, LaneId lane) {
    if (is_on) {
        StepTimer::task_started(key, lane);
    }
}

void PythonModel::Timer::task_ended(const TaskKey& key, LaneId lane) {
    if (is_on) {
        StepTimer::task_ended(key, lane);
    }
}

/// A call's turn to use the model. A layer of the model that calls it does not wait: the engine refuses it.
class PythonModel::Turn {
public:
    explicit Turn(PythonModel& model) {
        if (is_in_model(*model.layers_.state)) {
            return;
        }
        if (PyErr_CheckSignals() != 0) {
            throw_python_exception();
        }
        lock_ = std::unique_lock(model.turn_, std::try_to_lock);
        while (!lock_) {
            {
                const WithoutGil gil;
                static_cast<void>(lock_.try_lock_for(kPatience));
            }
            if (!lock_ && PyErr_CheckSignals() != 0) {
                throw_python_exception();
            }
        }
        Py_XSETREF(model.layers_.state->context, PyContext_CopyCurrent());
    }

private:
    std::unique_lock<std::timed_mutex> lock_;
};

namespace {
/// By layer, whether the next one is in another process.
std::vector<bool> sent_layers(const std::vector<PartitionInfo>& partitions, std::size_t num_layers) {
    std::vector<bool> is_sent(num_layers, false);
    for (std::size_t j = 0; j + 1 < partitions.size(); ++j) {
        is_sent[partitions[j].layers.end.index() - 1] = partitions[j].is_here && !partitions[j + 1].is_here;
    }
    return is_sent;
}
}  // namespace

PythonModel::PythonModel(const py::list& layers, const py::dict& options) : arguments_(layers_from(layers)) {
    GPipeOptions parsed = options_from(options);
    layers_ = make_python_layers(arguments_, static_cast<std::size_t>(std::max<std::int64_t>(parsed.chunks, 1)));
    for (const LayerArgument& each : arguments_) {
        std::unordered_set<PyObject*> seen;
        add_tensors(each.module.get(), tensors_, seen);
    }
    if (const py::object weight = options["weight"]; !weight.is_none()) {
        parsed.weight = [this, weight = share(weight.ptr())](const Tensors& target) {
            const WithGil gil;
            const py::object value = py::handle(weight.get())(target_of(target, nullptr));
            const double number = PyFloat_AsDouble(value.ptr());
            if (PyErr_Occurred() != nullptr) {
                throw_python_exception();
            }
            return number;
        };
    }
    schedule_ = parsed.schedule;
    parsed.observer = &timer_;
    const WithoutGil gil;
    model_ = std::make_unique<GPipe>(layers_.specs, std::move(parsed));
    layers_.state->is_sent = sent_layers(model_->partitions(), arguments_.size());
}

PythonModel::~PythonModel() {
    const WithoutGil gil;
    model_.reset();
    layers_ = {};
    arguments_.clear();
}

void PythonModel::refresh() {
    std::vector<PyObject*> now;
    now.reserve(tensors_.size());
    for (const LayerArgument& each : arguments_) {
        std::unordered_set<PyObject*> seen;
        add_tensors(each.module.get(), now, seen);
    }
    if (now != tensors_) {
        {
            const WithoutGil gil;
            model_->list_tensors();
        }
        tensors_ = std::move(now);
    }
}

Tensors PythonModel::inputs_from(const py::object& input, Boundary& boundary, const char* what) const {
    if (input.is_none() || (PyList_CheckExact(input.ptr()) && PyList_GET_SIZE(input.ptr()) == 0)) {
        return {};
    }
    Taken taken = take_tensors(input.ptr(), what);
    boundary.note_all(taken.structure);
    return std::move(taken.tensors);
}

void PythonModel::use_split(const py::tuple& split) {
    if (split_ == nullptr ? py::len(split[0]) + py::len(split[1]) + py::len(split[2]) == 0
                          : split.equal(py::handle(split_.get()))) {
        return;
    }
    model_->set_split(split_from(split));
    split_ = share(split.ptr());
}

py::object PythonModel::forward(const py::object& input, const py::object& call, const py::tuple& split) {
    Tensors outputs;
    {
        const Turn turn(*this);
        refresh();
        use_split(split);
        layers_.boundaries.back()->forget();
        const WithCall with_call(*layers_.state, call);
        const Tensors inputs = inputs_from(input, *layers_.boundaries.front(), "the model is given");
        const WithoutGil gil;
        outputs = model_->forward(inputs);
    }
    if (outputs.empty()) {
        return py::none();
    }
    return py::reinterpret_steal<py::object>(give_tensors(outputs, output_structure()));
}

/// That of the current micro-batch, or of all of them.
Structure PythonModel::output_structure() const {
    const Boundary& last = *layers_.boundaries.back();
    return current_micro_batch() || arguments_.empty()
               ? last.structure()
               : last.common(title_of(arguments_, arguments_.size() - 1) + " returned");
}

/// The loss's part of the target. `structure`: of the one that the engine was given as it is; null: as for a tuple.
py::object PythonModel::target_of(const Tensors& part, const Boundary* structure) const {
    if (PyObject* const call = call_of(*layers_.state)) {
        const auto tensors = py::reinterpret_steal<py::object>(give_tensors(part, {Structure::Kind::tuple}));
        return py::handle(call).attr("target")(tensors);
    }
    return part.empty() ? py::object(py::none())
                        : py::reinterpret_steal<py::object>(
                              give_tensors(part, structure != nullptr ? structure->structure() : Structure{}));
}

GPipe::LossFunction PythonModel::function_of(const py::function& loss, const std::shared_ptr<Boundary>& target) {
    return [this, loss = share(loss.ptr()), target](const Tensors& output, const Tensors& part) -> at::Tensor {
        const WithGil with_gil;
        PyErr_Clear();
        const InContext context(*layers_.state);
        const auto output_object = py::reinterpret_steal<py::object>(give_tensors(output, output_structure()));
        return tensor_of_loss(py::handle(loss.get())(output_object, target_of(part, target.get())));
    };
}

at::Tensor PythonModel::step(const py::object& input, const py::object& target, const py::function& loss,
                             const py::object& call, const py::tuple& split) {
    const Turn turn(*this);
    refresh();
    use_split(split);
    layers_.boundaries.back()->forget();
    const WithCall with_call(*layers_.state, call);
    const Tensors inputs = inputs_from(input, *layers_.boundaries.front(), "the model is given");
    const auto of_target = std::make_shared<Boundary>(1);
    const Tensors targets = inputs_from(target, *of_target, "the target is");
    const GPipe::LossFunction call_loss = function_of(loss, of_target);
    const WithoutGil gil;
    return model_->step(inputs, targets, call_loss);
}

at::Tensor PythonModel::clip_grad_norm(double max_norm, double norm_type, bool error_if_nonfinite) {
    const Turn turn(*this);
    refresh();
    const WithoutGil gil;
    return model_->clip_grad_norm_(max_norm, norm_type, error_if_nonfinite);
}

bool PythonModel::any_process(bool here) {
    const Turn turn(*this);
    const WithoutGil gil;
    return model_->any_process(here);
}

void PythonModel::train_staggered(const py::iterator& batches, const py::function& loss, const py::function& update,
                                  const py::function& done) {
    const Turn turn(*this);
    refresh();
    const auto of_target = std::make_shared<Boundary>(1);
    std::optional<WithCall> with_call;  // of the step that begins
    const StaggeredTraining training{
        .next = [&]() -> std::optional<MiniBatch> {
            const WithGil gil;
            const auto batch = py::reinterpret_steal<py::object>(PyIter_Next(batches.ptr()));
            if (!batch) {
                if (PyErr_Occurred() != nullptr) {
                    throw_python_exception();
                }
                return std::nullopt;
            }
            with_call.reset();
            with_call.emplace(*layers_.state, batch[py::int_(2)]);
            use_split(batch[py::int_(3)]);
            return MiniBatch{inputs_from(batch[py::int_(0)], *layers_.boundaries.front(), "the model is given"),
                             inputs_from(batch[py::int_(1)], *of_target, "the target is")};
        },
        .loss = function_of(loss, of_target),
        .update =
            [&](LaneId lane) {
                const WithGil gil;
                PyErr_Clear();
                const InContext context(*layers_.state);
                update(lane.value());
            },
        .done =
            [&](const at::Tensor& value) {
                const WithGil gil;
                done(value);
            },
    };
    const WithoutGil gil;
    model_->train_staggered(training);
}

void bind_model(py::module_& module) {
    py::class_<PythonModel>(module, "Model")
        .def(py::init<const py::list&, const py::dict&>())
        .def("forward", &PythonModel::forward)
        .def("step", &PythonModel::step)
        .def("train_staggered", &PythonModel::train_staggered)
        .def("clip_grad_norm_", &PythonModel::clip_grad_norm)
        .def("any_process", &PythonModel::any_process)
        .def("train", &PythonModel::train)
        .def("time_steps", &PythonModel::time_steps)
        .def_property_readonly("cuts_target", [](PythonModel& self) { return needs_loss_inside(self.schedule()); })
        .def_property(
            "next_step", [](PythonModel& self) { return self.model().next_step(); },
            [](PythonModel& self, std::int32_t step) { self.model().set_next_step(step); })
        .def_property_readonly("balance",
                               [](PythonModel& self) {
                                   std::vector<std::int64_t> sizes;
                                   for (const PartitionInfo& each : self.model().partitions()) {
                                       sizes.push_back(static_cast<std::int64_t>(each.layers.size()));
                                   }
                                   return sizes;
                               })
        .def_property_readonly("devices", [](PythonModel& self) { return self.model().devices(); })
        .def_property_readonly("partitions",
                               [](PythonModel& self) {
                                   py::list all;
                                   for (const PartitionInfo& each : self.model().partitions()) {
                                       all.append(py::make_tuple(each.layers.first.value(), each.layers.end.value(),
                                                                 each.lane.value(), each.device, each.is_here));
                                   }
                                   return all;
                               })
        .def_property_readonly("last_failure",
                               [](PythonModel& self) -> py::object {
                                   const std::optional<Failure> failure = self.model().last_failure();
                                   if (!failure) {
                                       return py::none();
                                   }
                                   return py::make_tuple(to_string(failure->task), failure->lane.value(),
                                                         failure->layer.value(), failure->layer_name);
                               })
        .def_property_readonly("unsplit_layers", [](PythonModel& self) {
            py::list all;
            for (const UnsplitLayer& each : self.model().unsplit_layers()) {
                all.append(py::make_tuple(each.id.value(), each.name, each.in_part, each.nodes));
            }
            return all;
        });
}
}  // namespace pipescope::python
