#pragma once

#include "engine/layer.h"
#include "python/src/engine/gil.h"

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pipescope::python {
/// How the tensors lie in a value that Python passes from layer to layer. The engine knows lists of tensors only.
struct Structure {
    enum class Kind : char { unknown, tensor, tuple, list, tree };

    Kind kind = Kind::unknown;
    Object tree = nullptr;  ///< of a kind tree, which may nest tuples, lists and dicts, and hold None: Python's own

    bool is_known() const { return kind != Kind::unknown; }
    /// "tuple". Call it with the GIL.
    std::string name() const;
    /// Call it with the GIL.
    friend bool operator==(const Structure& a, const Structure& b);
};

/// The structures that cross one boundary between two layers, by micro-batch. The layer in front of it notes, the one
/// behind it reads. Call it with the GIL.
class Boundary {
public:
    explicit Boundary(std::size_t micro_batches) : structures_(micro_batches) {}

    /// For the current task's micro-batch.
    void note(Structure structure) { std::swap(structures_[place()], structure); }
    /// Structure for the current task's micro-batch; unknown if it was not noted in this process.
    Structure structure() const { return structures_[place()]; }
    /// For all micro-batches.
    void note_all(const Structure& structure) { structures_.assign(structures_.size(), structure); }
    /// Notes no structure for any micro-batch.
    void forget() { note_all({}); }
    /// The structure of all micro-batches together. Throws EngineError, which `what` begins, if they differ.
    Structure common(const std::string& what) const;

private:
    std::size_t place() const;

    std::vector<Structure> structures_;
};

/// Has Python's half ready. Call it once, with the GIL, before the others.
void prepare_structures();

struct Taken {
    Tensors tensors;
    Structure structure;
};
/// Takes the tensors out of a tensor, or of tuples, lists and dicts of tensors and None. `what` begins the message of
/// the TypeError for anything else: "layer 3 (Conv2d) returned". Call it with the GIL.
Taken take_tensors(PyObject* value, const std::string& what);

/// The reverse; a new reference. One tensor of unknown structure is a tensor, more are a tuple. Call it with the GIL.
PyObject* give_tensors(const Tensors& tensors, const Structure& structure);
}  // namespace pipescope::python
