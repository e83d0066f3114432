#include "cluster/training_program.h"
#include "hardware/device_catalogue.h"
#include "profiler/layers/layer_profiler.h"
#include "profiler/layers/meta_profiler.h"
#include "profiler/memory/tracking_allocator.h"
#include "profiler/profile/profile_file.h"
#include "python/src/engine/python_model.h"
#include "python/src/engine/python_spec.h"

#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
namespace {
std::string profile(const std::string& name, const py::list& layers, const py::function& copy_layer,
                    const py::function& make_batch, const py::function& loss, const py::dict& given) {
    const ModelFunctions functions{share(copy_layer.ptr()), share(make_batch.ptr()), share(loss.ptr())};
    const ModelSpec spec = spec_of(name, layers, functions, 1);
    const auto samples = given["samples"].cast<std::vector<std::int64_t>>();
    const auto progress = [](double /*done*/) { run_signal_handlers(); };
    const auto device = given["device"].cast<std::string>();
    const py::object estimate_for = given["estimate_for"];
    const std::vector<SharedParameter> shared = shared_from(given["shared"]);
    if (!estimate_for.is_none()) {
        const auto device_type = estimate_for.cast<std::string>();
        MetaProfileOptions options{.samples = samples, .progress = progress, .makes_meta_batches = true};
        if (const py::object program = given["program"]; !program.is_none()) {
            options.program = *load_program(program.cast<std::string>());
        }
        const WithoutGil gil;
        tracking_allocator::install();
        Profile estimated = profile_on_meta(
            spec, options, [&](const std::string& /*dtype*/) { return find_device(device_catalogue(), device_type); });
        count_once(estimated, shared);
        return to_json(estimated);
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
    Profile measured = profile_model(spec, options);
    count_once(measured, shared);
    return to_json(measured);
}
}  // namespace

void bind_profile(py::module_& module) {
    module.def("profile", &profile);
}
}  // namespace pipescope::python
