#pragma once

#include "engine/layer.h"

#include <torch/csrc/utils/pybind.h>

#include <memory>
#include <unordered_set>
#include <vector>

namespace pipescope::python {
/// What a module and its children have bound: buffers, parameters and submodules, all of which a forward may bind anew.
/// Use and destroy it with the GIL.
class BoundState {
public:
    explicit BoundState(PyObject* module);
    /// For another thread, which may not have the GIL when it drops it.
    static std::shared_ptr<const BoundState> shared(BoundState state);

    /// False if something was bound anew since.
    bool is_current() const;
    void put_back() const;
    /// Adds what the modules of `other` have bound now, if they are none of these: a module may leave and come back.
    void add_modules_of(const BoundState& other);
    /// Buffers and parameters.
    Tensors tensors() const;
    /// Parameters that train.
    std::unordered_set<PyObject*> trained() const;

private:
    /// A dict or a set of a module, and a copy of it. Most are empty.
    struct Table {
        py::object module;
        PyObject* name;
        py::object now;
        py::object before;  // null: empty

        bool is_same() const;
        std::vector<PyObject*> values() const;
    };
    void add(PyObject* module);

    std::vector<Table> tables_;
    std::unordered_set<PyObject*> modules_;
};
}  // namespace pipescope::python
