#pragma once

#include "engine/engine_options.h"
#include "engine/layer.h"
#include "profiler/profile/shared_parameter.h"
#include "python/src/engine/gil.h"

#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <string>
#include <vector>

namespace pipescope::python {
/// Functions that Python gives: layer(k) returns the module to run as layer k, make_batch(samples, seed) an input and a
/// target, and loss(output, target) a tensor.
struct ModelFunctions {
    Object layer;
    Object make_batch;
    Object loss;
};

/// A model of Python modules with its data and loss, for a profile or a command. `layers`: as described_layers() makes
/// them. `micro_batches`: the most that a run has. Threading: any thread; what it calls takes the GIL.
ModelSpec spec_of(const std::string& name, const py::list& layers, const ModelFunctions& functions,
                  std::size_t micro_batches);

/// Of what ModelLayers.shared_parameters() returns.
std::vector<SharedParameter> shared_from(const py::handle& list);

/// Of a _mini_batch.Split.
MiniBatchSplit split_from(const py::tuple& given);

/// For GPipeOptions::on_exception.
void keep_python_error();
}  // namespace pipescope::python
