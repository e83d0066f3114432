#include "schedule/thread_start.h"

#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <system_error>
#include <thread>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ThreadStart, ReturnsTheThread) {
    bool has_run = false;
    start_thread("a test", [&] { return std::thread([&] { has_run = true; }); }).join();
    EXPECT_TRUE(has_run);
}

TEST(ThreadStart, SaysWhatToDoIfThereIsNoRoomForAThread) {
    const auto start = []() -> std::thread {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    };
    EXPECT_THAT(thrown<Error>([&] { start_thread("the plan", start); }),
                AllOf(HasSubstr("a thread for the plan cannot be started (Resource temporarily unavailable)"),
                      HasSubstr("ulimit -v")));
}
}  // namespace
}  // namespace pipescope
