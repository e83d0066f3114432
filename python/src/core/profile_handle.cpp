#include "profiler/profile/profile.h"
#include "profiler/profile/profile_file.h"
#include "python/src/core/core_module.h"
#include "python/src/core/python_function.h"

#include <Python.h>

#include <array>
#include <memory>
#include <span>
#include <string>
#include <utility>

namespace pipescope {
namespace {
/// A profile as an object of Python.
struct ProfileObject {
    PyObject_HEAD const CheckedProfile* profile;
};

const CheckedProfile& held(PyObject* object) {
    return *reinterpret_cast<ProfileObject*>(object)->profile;
}

/// The class, once the module has it.
PyTypeObject* profile_class = nullptr;

void end_profile(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete reinterpret_cast<ProfileObject*>(self)->profile;
    reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

PyObject* equal_profiles(PyObject* self, PyObject* other, int operation) {
    if (Py_TYPE(other) != profile_class || (operation != Py_EQ && operation != Py_NE)) {
        Py_INCREF(Py_NotImplemented);
        return Py_NotImplemented;
    }
    const bool equal = held(self) == held(other);
    return PyBool_FromLong(equal == (operation == Py_EQ) ? 1 : 0);
}

CheckedProfile parse(const std::string& json) {
    return parse_profile(json);
}
CheckedProfile load(const std::string& path) {
    return load_profile(path);
}
std::string profile_json(ProfileArgument profile) {
    return to_json(*profile.profile);
}

std::array slots{PyType_Slot{Py_tp_dealloc, reinterpret_cast<void*>(&end_profile)},
                 PyType_Slot{Py_tp_richcompare, reinterpret_cast<void*>(&equal_profiles)},
                 PyType_Slot{Py_tp_hash, reinterpret_cast<void*>(&PyObject_HashNotImplemented)},
                 PyType_Slot{0, nullptr}};
PyType_Spec specification{"pipescope._core.Profile", sizeof(ProfileObject), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots.data()};
}  // namespace

void add_profiles(PyObject* module) {
    PythonObject type(PyType_FromSpec(&specification));
    profile_class = reinterpret_cast<PyTypeObject*>(type.get());
    if (PyModule_AddObject(module, "Profile", type.get()) != 0) {
        throw PythonError();
    }
    type.release();  // the module has it
}

std::span<PyMethodDef> profile_functions() {
    static std::array functions{
        python_function<&parse>("parse_profile"),
        python_function<&load>("load_profile"),
        python_function<&profile_json>("profile_json"),
        PyMethodDef{},
    };
    return functions;
}

PythonObject to_python(const CheckedProfile& profile) {
    auto owned = std::make_unique<const CheckedProfile>(profile);
    PythonObject object(PyType_GenericAlloc(profile_class, 0));
    reinterpret_cast<ProfileObject*>(object.get())->profile = owned.release();
    return object;
}

void read_python(PyObject* object, ProfileArgument& profile) {
    if (Py_TYPE(object) != profile_class) {
        PyErr_Format(PyExc_TypeError, "%R is no Profile", object);
        throw PythonError();
    }
    profile.profile = &held(object);
}
}  // namespace pipescope
