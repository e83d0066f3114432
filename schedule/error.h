#pragma once

#include <stdexcept>
#include <string>

namespace pipescope {
/// Root of every error PipeScope itself throws. A message names the value, the rule and the way out, in lower case
/// and without a full stop. A user layer's own exception is never wrapped in one.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A request that can never work as asked: a flag, an option or an argument is wrong.
class UsageError : public Error {
public:
    using Error::Error;
};

class BalanceError : public UsageError {
public:
    using UsageError::UsageError;
};
}  // namespace pipescope
