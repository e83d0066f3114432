#pragma once

#include "schedule/error.h"

namespace pipescope {
/// Something about the pipeline itself is wrong: a device that does not exist, a batch that cannot be cut, a layer that
/// returns no tensors. A layer's own exception is never turned into one.
class EngineError : public Error {
public:
    using Error::Error;
};

/// A layer breaks the rules of Layer: it returns something else than tensors, or changes its input in place.
class LayerError : public EngineError {
public:
    using EngineError::EngineError;
};
}  // namespace pipescope
