#include "balance/profile.h"
#include "balance/profile_file.h"
#include "python/src/core/core_module.h"
#include "python/src/core/long_call.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>

namespace pipescope {
namespace py = pybind11;

void bind_profiles(py::module_& module) {
    const auto without_gil = py::call_guard<LongCall>();
    py::class_<Profile>(module, "Profile")
        .def_static(
            "parse", [](const std::string& json) { return parse_profile(json); }, py::arg("json"), without_gil)
        .def_static(
            "load", [](const std::string& path) { return load_profile(path); }, py::arg("path"), without_gil)
        .def(
            "to_json", [](const Profile& self) { return to_json(self); }, without_gil)
        .def(
            "__eq__", [](const Profile& self, const Profile& other) { return self == other; }, without_gil);
}
}  // namespace pipescope
