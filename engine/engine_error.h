#pragma once

#include "base/error.h"

namespace pipescope {
/// A pipeline is set up or used wrongly: a device that does not exist, a batch that cannot be cut, a layer that returns
/// no tensors. A layer's own exception is never converted into this one.
class EngineError : public Error {
public:
    using Error::Error;
};

/// A layer breaks the rules of Layer: it returns something other than tensors, or changes its input in place.
class LayerError : public EngineError {
public:
    using EngineError::EngineError;
};

/// The processes could not form a group, or the group has failed. Every process gets the same first cause.
class ProcessError : public EngineError {
public:
    using EngineError::EngineError;
};
}  // namespace pipescope
