#pragma once

#include <stdexcept>
#include <string>

namespace pipescope {
/// Base class of all errors that PipeScope throws. A message names the value, the rule and the remedy, in lower case
/// and without a full stop. Exceptions of user layers are never wrapped.
class Error : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// A wrong flag, option or argument: the request can never work.
class UsageError : public Error {
public:
    using Error::Error;
};

/// A wrong value of one option. The message starts with the option's name, without dashes: a command's message adds
/// them.
class OptionError : public UsageError {
public:
    using UsageError::UsageError;
};

class BalanceError : public UsageError {
public:
    using UsageError::UsageError;
};
}  // namespace pipescope
