#include "python/src/engine/python_spec.h"

#include "engine/current_task.h"
#include "python/src/engine/python_model.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
namespace {
Tensors tensors_of(py::handle value, Boundary& boundary, const char* what) {
    Taken taken = take_tensors(value.ptr(), what);
    boundary.note_all(taken.structure);
    return std::move(taken.tensors);
}
}  // namespace

std::vector<SharedParameter> shared_from(const py::handle& list) {
    std::vector<SharedParameter> shared;
    for (const py::handle each : list) {
        const auto group = py::reinterpret_borrow<py::tuple>(each);
        shared.push_back({group[0].cast<std::vector<std::string>>(), group[1].cast<std::int64_t>(),
                          group[2].cast<Bytes>(), group[3].cast<bool>()});
    }
    return shared;
}

ModelSpec spec_of(const std::string& name, const py::list& layers, const ModelFunctions& functions,
                  std::size_t micro_batches) {
    const std::vector<LayerArgument> arguments = layers_from(layers);
    const PythonLayers shared = make_python_layers(arguments, micro_batches);
    const auto target_boundary = std::make_shared<Boundary>(1);
    ModelSpec spec{name, {}, {}, {}};
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        const PythonLayerParts parts{
            nullptr,     k, title_of(arguments, k), arguments[k].skips, shared.boundaries[k], shared.boundaries[k + 1],
            shared.state};
        spec.layers.push_back({arguments[k].name, [parts, k, functions]() -> std::unique_ptr<Layer> {
                                   const WithGil gil;
                                   PythonLayerParts own = parts;
                                   own.module = share(py::object(py::handle(functions.layer.get())(k)).ptr());
                                   return std::make_unique<PythonLayer>(std::move(own));
                               }});
    }
    spec.make_batch = [functions, first = shared.boundaries.front(), target_boundary](std::int64_t samples,
                                                                                      std::uint64_t seed) {
        const WithGil gil;
        const auto pair = py::reinterpret_borrow<py::tuple>(py::handle(functions.make_batch.get())(samples, seed));
        return Batch{tensors_of(py::object(pair[0]), *first, "the sample is"),
                     tensors_of(py::object(pair[1]), *target_boundary, "the target is")};
    };
    spec.loss = [functions, last = shared.boundaries.back(), target_boundary,
                 title = arguments.empty() ? std::string() : title_of(arguments, arguments.size() - 1)](
                    const Tensors& output, const Tensors& target) -> at::Tensor {
        const WithGil gil;
        PyErr_Clear();  // torch leaves a failed backward's exception in the thread
        const Structure structure = current_micro_batch() ? last->structure() : last->common(title + " returned");
        const auto output_object = py::reinterpret_steal<py::object>(give_tensors(output, structure));
        const auto target_object =
            py::reinterpret_steal<py::object>(give_tensors(target, target_boundary->structure()));
        return tensor_of_loss(py::handle(functions.loss.get())(output_object, target_object));
    };
    return spec;
}
}  // namespace pipescope::python
