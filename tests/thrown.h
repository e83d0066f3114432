#pragma once

#include "base/error.h"

#include <gtest/gtest.h>

#include <exception>
#include <string>

namespace pipescope {
namespace testing_support {
/// Fails the test, and says what was thrown instead. Null: nothing.
inline std::string thrown_instead(const std::exception_ptr& other) {
    std::string text = "nothing";
    try {
        if (other) {
            text = "no std::exception";
            std::rethrow_exception(other);
        }
    } catch (const std::exception& error) {
        text = std::string("an exception of another type: ") + error.what();
    } catch (...) {
    }
    ADD_FAILURE() << "threw " << text;
    return "(" + text + ")";
}
}  // namespace testing_support

/// The message of the Error that the call throws, with names of options as a command line has them; the test fails if
/// there is none. For EXPECT_THAT with a matcher of
/// strings: testing::ThrowsMessage has the compiler make a hundred functions for each lambda.
template <class Error, class Call>
std::string thrown(Call&& call) {
    try {
        call();
    } catch (const Error& error) {
        if constexpr (requires { error.message(OptionNames::command_line); }) {
            return error.message(OptionNames::command_line);
        } else {
            return error.what();
        }
    } catch (...) {
        return testing_support::thrown_instead(std::current_exception());
    }
    return testing_support::thrown_instead(nullptr);
}
}  // namespace pipescope
