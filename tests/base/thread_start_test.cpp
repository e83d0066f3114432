#include "base/thread_start.h"

#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <exception>
#include <new>
#include <system_error>
#include <thread>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ThreadStart, ReturnsTheThread) {
    bool has_run = false;
    start_thread(
        "a test", [&] { has_run = true; }, [] {})
        .join();
    EXPECT_TRUE(has_run);
    EXPECT_EQ(start_work("a test", [] { return 7; }).get(), 7);
}

TEST(ThreadStart, GivesTheOwnerWhatAThreadThrows) {
    std::exception_ptr thrown;
    start_thread(
        "a test", [] { throw std::bad_alloc(); }, [&] { thrown = std::current_exception(); })
        .join();
    EXPECT_THROW(std::rethrow_exception(thrown), std::bad_alloc);
    EXPECT_THROW(start_work("a test", [] { throw std::bad_alloc(); }).get(), std::bad_alloc);
}

TEST(ThreadStart, SaysWhatToDoIfThereIsNoRoomForAThread) {
    const auto start = []() -> std::thread {
        throw std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again));
    };
    EXPECT_THAT(thrown<Error>([&] { try_to_start("the plan", start); }),
                AllOf(HasSubstr("the plan"), HasSubstr("ulimit -v")));
    const auto without_memory = []() -> std::thread { throw std::bad_alloc(); };
    EXPECT_THAT(thrown<Error>([&] { try_to_start("the plan", without_memory); }), HasSubstr("no memory"));
}
}  // namespace
}  // namespace pipescope
