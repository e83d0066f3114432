#include "base/error.h"

#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
TEST(Error, NamesOptionsAsTheSurfaceDoes) {
    const UsageError error(option_name("link-bandwidth") + " is '5' with " + option_name("force=") + "; such as " +
                           option_name("m,chunks=8"));
    EXPECT_STREQ(error.what(), "link-bandwidth is '5' with force; such as chunks 8");
    EXPECT_EQ(error.message(OptionNames::command_line), "--link-bandwidth is '5' with --force; such as -m 8");
    EXPECT_EQ(error.message(OptionNames::python), "link_bandwidth is '5' with force=True; such as chunks=8");
}

TEST(Error, KeepsATextWithoutNames) {
    const Error error("'--x' is a value, as \x0f and \x0e are");
    EXPECT_STREQ(error.what(), "'--x' is a value, as \x0f and \x0e are");
    EXPECT_EQ(error.message(OptionNames::python), error.what());
}

TEST(Error, WritesTheShortNameOnlyOnACommandLine) {
    const std::string message = option_name("n,lanes") + " LANES";
    EXPECT_EQ(with_option_names(message, OptionNames::command_line), "-n LANES");
    EXPECT_EQ(with_option_names(message, OptionNames::python), "lanes LANES");
}
}  // namespace
}  // namespace pipescope
