#pragma once

#include "engine/layer.h"
#include "python/src/engine/gil.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace pipescope::python {
/// The structure of a value that Python passes from layer to layer. The engine knows lists of tensors only.
enum class Structure : char { unknown, tensor, tuple, list };

/// The structures that cross one boundary between two layers, by micro-batch. The layer in front of it notes, the one
/// behind it reads. Threading: any thread.
class Boundary {
public:
    explicit Boundary(std::size_t micro_batches) : structures_(micro_batches) {}

    /// For the current task's micro-batch.
    void note(Structure structure);
    /// Structure for the current task's micro-batch; unknown if it was not noted in this process.
    Structure structure() const;
    /// Structure for micro-batch 0.
    Structure first() const { return structures_[0].load(); }
    /// For all micro-batches.
    void note_all(Structure structure);

private:
    std::size_t place() const;

    std::vector<std::atomic<Structure>> structures_;
};

/// Takes the tensors out of a tensor, a tuple of tensors or a list of tensors. `what` begins the message of the
/// TypeError for anything else: "layer 3 (Conv2d) returned". `none_is_empty`: None is an undefined tensor. Call it with
/// the GIL.
struct Taken {
    Tensors tensors;
    Structure structure;
};
Taken take_tensors(PyObject* value, const std::string& what);

/// The reverse; a new reference. One tensor of unknown structure is a tensor, more are a tuple. Call it with the GIL.
PyObject* give_tensors(const Tensors& tensors, Structure structure);
}  // namespace pipescope::python
