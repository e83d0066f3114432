#include "cli/child_process.h"

#include "schedule/error.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
TEST(ChildProcess, GivesOutputAndExitCode) {
    const ChildResult result =
        run_child("/bin/sh", {"-c", "echo \"$PIPESCOPE_WORD there\"; exit 3"}, {"PIPESCOPE_WORD=hello"});
    EXPECT_EQ(result.output, "hello there\n");
    EXPECT_EQ(result.exit_code, 3);
}

TEST(ChildProcess, ASignalIsNoSuccess) {
    EXPECT_EQ(run_child("/bin/sh", {"-c", "kill -9 $$"}).exit_code, 128 + 9);
}

TEST(ChildProcess, RefusesAProgramThatIsNotThere) {
    EXPECT_THROW(run_child("/no/such/program", {}), Error);
    EXPECT_FALSE(program_beside("no-such-program").has_value());
    EXPECT_TRUE(program_beside("cli_test").has_value());
}
}  // namespace
}  // namespace pipescope
