// A model's library that fails in the way selected by its options.

#include "models/user_model.h"

#include <torch/version.h>

#include <stdexcept>
#include <string>

namespace {
pipescope::ModelSpec make(const std::string& options) {
    if (options == "exception") {
        throw std::runtime_error("the weights are gone");
    }
    if (options == "usage") {
        throw pipescope::UsageError("depth is 0; it must be 1 or more; use depth=1");
    }
    if (options == "number") {
        throw 42;
    }
    pipescope::ModelSpec model;
    if (options != "no_layers") {
        model.layers.resize(2);
        model.layers[1].name = "second";
    }
    return model;
}
}  // namespace

PIPESCOPE_USER_MODEL(make)
