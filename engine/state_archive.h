#pragma once

#include "engine/layer.h"

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace pipescope {
// The file format of torch::save for a module: nested archives, one for each dot in a tensor's name.

/// Writes the tensors under their dotted names.
void write_tensors(torch::serialize::OutputArchive& archive, const NamedTensors& parameters,
                   const NamedTensors& buffers);
/// Reads the tensors with the dotted names of `like`. Throws EngineError that names the first one missing.
NamedTensors read_tensors(torch::serialize::InputArchive& archive, const NamedTensors& like);
/// Copies `values` into the tensors of the same names, all or none. Throws EngineError if names or shapes differ.
void copy_into(const NamedTensors& tensors, const NamedTensors& values);
}  // namespace pipescope
