#include "hardware/device_catalogue.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/layers/meta_profiler.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/profile/profile_file.h"
#include "python/src/engine/python_model.h"

#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
namespace {
/// Functions that Python gives: copy_layer(k) returns a module to run, make_batch(samples) an input and a target, and
/// loss(output, target) a tensor.
struct ModelFunctions {
    Object copy_layer;
    Object make_batch;
    Object loss;
};

Tensors tensors_of(py::handle value, Boundary& boundary, const char* what) {
    Taken taken = take_tensors(value.ptr(), what);
    boundary.note_all(taken.structure);
    return std::move(taken.tensors);
}

ModelSpec spec_of(const std::string& name, const std::vector<LayerArgument>& layers, const ModelFunctions& functions) {
    const PythonLayers shared = make_python_layers(layers, 1);
    const auto target_boundary = std::make_shared<Boundary>(1);
    ModelSpec spec{name, {}, {}, {}};
    for (std::size_t k = 0; k < layers.size(); ++k) {
        const PythonLayerParts parts{
            nullptr,     k, title_of(layers, k), layers[k].skips, shared.boundaries[k], shared.boundaries[k + 1],
            shared.state};
        spec.layers.push_back({layers[k].name, [parts, k, functions]() -> std::unique_ptr<Layer> {
                                   const WithGil gil;
                                   PythonLayerParts own = parts;
                                   own.module = share(py::handle(functions.copy_layer.get())(k).ptr());
                                   return std::make_unique<PythonLayer>(std::move(own));
                               }});
    }
    spec.make_batch = [functions, first = shared.boundaries.front(), target_boundary](std::int64_t samples,
                                                                                      std::uint64_t /*seed*/) {
        const WithGil gil;
        const auto pair = py::reinterpret_borrow<py::tuple>(py::handle(functions.make_batch.get())(samples));
        return Batch{tensors_of(py::object(pair[0]), *first, "the sample is"),
                     tensors_of(py::object(pair[1]), *target_boundary, "the target is")};
    };
    spec.loss = [functions, last = shared.boundaries.back(), target_boundary](const Tensors& output,
                                                                              const Tensors& target) -> at::Tensor {
        const WithGil gil;
        const auto output_object = py::reinterpret_steal<py::object>(give_tensors(output, last->structure()));
        const auto target_object =
            py::reinterpret_steal<py::object>(give_tensors(target, target_boundary->structure()));
        return tensor_of_loss(py::handle(functions.loss.get())(output_object, target_object));
    };
    return spec;
}

std::string profile(const std::string& name, const py::list& layers, const py::function& copy_layer,
                    const py::function& make_batch, const py::function& loss, const py::dict& given) {
    const ModelFunctions functions{share(copy_layer.ptr()), share(make_batch.ptr()), share(loss.ptr())};
    const ModelSpec spec = spec_of(name, layers_from(layers), functions);
    const auto samples = given["samples"].cast<std::vector<std::int64_t>>();
    const auto progress = [](double /*done*/) { run_signal_handlers(); };
    const auto device = given["device"].cast<std::string>();
    const py::object estimate_for = given["estimate_for"];
    std::string text;
    if (!estimate_for.is_none()) {
        const auto device_type = estimate_for.cast<std::string>();
        const WithoutGil gil;
        tracking_allocator::install();
        return to_json(profile_on_meta(
            spec, {.samples = samples, .progress = progress, .makes_meta_batches = true},
            [&](const std::string& /*dtype*/) { return find_device(device_catalogue(), device_type); }));
    }
    ProfileOptions options;
    options.samples = samples;
    options.device = device;
    options.batches = given["batches"].cast<std::vector<std::int64_t>>();
    options.output_dimensions = given["output_dimensions"].cast<std::vector<std::int64_t>>();
    options.co_running_lanes = given["co_running_lanes"].cast<int>();
    options.time_limit_s = given["time_limit_s"].cast<double>();
    options.target_cv = given["target_cv"].cast<double>();
    options.one_layer_at_a_time = given["one_layer_at_a_time"].cast<bool>();
    options.tapes = given["tapes"].cast<bool>();
    options.progress = progress;
    const WithoutGil gil;
    tracking_allocator::install();
    return to_json(profile_model(spec, options));
}
}  // namespace

void bind_profile(py::module_& module) {
    module.def("profile", &profile);
}
}  // namespace pipescope::python
