#include "engine/processes/processes.h"
#include "python/src/engine/python_model.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

namespace pipescope::python {
namespace {
/// Leaves the group without the GIL, since it waits for the other processes.
void leave(std::shared_ptr<Processes>& processes) {
    const WithoutGil gil;
    processes.reset();
}
}  // namespace

void bind_processes(py::module_& module) {
    py::class_<Processes, std::shared_ptr<Processes>>(module, "Processes")
        .def_property_readonly("rank", &Processes::rank)
        .def_property_readonly("size", &Processes::size)
        .def_property_readonly("failure", &Processes::failure)
        .def("barrier", &Processes::barrier, py::call_guard<WithoutGil>())
        .def("gather", &Processes::gather, py::call_guard<WithoutGil>());
    module.def(
        "join_processes",
        [](int rank, int size, const std::string& rendezvous, bool store_is_hosted, const std::string& run, int attempt,
           double patience_s) {
            ProcessOptions options;
            options.rank = rank;
            options.size = size;
            options.rendezvous = rendezvous;
            options.store_is_hosted = store_is_hosted;
            options.run = run;
            options.attempt = attempt;
            options.patience = std::chrono::milliseconds(static_cast<std::int64_t>(patience_s * 1000));
            options.while_waiting = run_signal_handlers;
            const WithoutGil gil;
            std::shared_ptr<Processes> joined = Processes::join(options);
            Processes* const processes = joined.get();
            // Python's last reference is dropped with the GIL, a model's without.
            return std::shared_ptr<Processes>(processes, [joined = std::move(joined)](Processes*) mutable {
                if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
                    leave(joined);
                } else {
                    joined.reset();
                }
            });
        },
        py::arg("rank"), py::arg("size"), py::arg("rendezvous"), py::arg("store_is_hosted"), py::arg("run"),
        py::arg("attempt"), py::arg("patience_s"));
}
}  // namespace pipescope::python
