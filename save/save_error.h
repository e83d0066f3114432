#pragma once

#include "base/error.h"

namespace pipescope {
/// A training's state cannot be saved, or a save is damaged or belongs to another training.
class SaveError : public Error {
public:
    using Error::Error;
};
}  // namespace pipescope
