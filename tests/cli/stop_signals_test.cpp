#include "cli/stop_signals.h"

#include "tests/temporary_folder.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <utility>
#include <vector>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing::internal::CaptureStderr;
using testing::internal::GetCapturedStderr;

TEST(StopSignals, TheFirstIsNotedAndAnnounced) {
    for (const auto& [signal_number, code] :
         {std::pair{SIGINT, ExitCode::interrupted}, {SIGTERM, ExitCode::terminated}}) {
        const StopSignals signals;
        EXPECT_EQ(stop_signal(), 0);
        EXPECT_EQ(stop_exit_code(), ExitCode::success);
        EXPECT_NO_THROW(throw_if_stopped());
        CaptureStderr();
        raise(signal_number);
        EXPECT_THAT(GetCapturedStderr(), HasSubstr("stopping; a training stops after the current step"));
        EXPECT_EQ(stop_signal(), signal_number);
        EXPECT_EQ(stop_exit_code(), code);
        EXPECT_THROW(throw_if_stopped(), Interrupted);
    }
}

TEST(StopSignals, SayWhatAStopEnds) {
    const StopSignals signals("the search ends");
    CaptureStderr();
    raise(SIGTERM);
    EXPECT_EQ(GetCapturedStderr(), "pipescope: stopping; the search ends; a second Ctrl-C ends it at once\n");
}

TEST(StopSignals, TheSecondEndsTheProcessWhicheverItIs) {
    const auto both = [](int first, int second) {
        const StopSignals signals;
        raise(first);
        raise(second);
    };
    EXPECT_EXIT(both(SIGINT, SIGINT), testing::KilledBySignal(SIGINT), "");
    EXPECT_EXIT(both(SIGINT, SIGTERM), testing::KilledBySignal(SIGTERM), "");
    EXPECT_EXIT(both(SIGTERM, SIGINT), testing::KilledBySignal(SIGINT), "");
}

TEST(StopSignals, TheSecondRemovesTheFileThatIsBeingWritten) {
    const TemporaryFolder folder;
    const std::vector<std::filesystem::path> files{folder / "t.csv.1.partial"};
    const auto make = [&] { std::ofstream(files[0]) << "half"; };
    const auto kill_while_writing = [&] {
        const StopSignals signals;
        const RemovedWhenKilled removed(files);
        raise(SIGINT);
        raise(SIGTERM);
    };
    make();
    EXPECT_EXIT(kill_while_writing(), testing::KilledBySignal(SIGTERM), "");
    EXPECT_FALSE(std::filesystem::exists(files[0]));
    const auto kill_after_a_first_signal = [&] {
        const StopSignals signals;
        raise(SIGINT);
        const RemovedWhenKilled removed(files);
        raise(SIGINT);
    };
    make();
    EXPECT_EXIT(kill_after_a_first_signal(), testing::KilledBySignal(SIGINT), "");
    EXPECT_FALSE(std::filesystem::exists(files[0]));
    const auto kill_after_writing = [&] {
        const StopSignals signals;
        { const RemovedWhenKilled removed(files); }
        raise(SIGINT);
        raise(SIGINT);
    };
    make();
    EXPECT_EXIT(kill_after_writing(), testing::KilledBySignal(SIGINT), "");
    EXPECT_TRUE(std::filesystem::exists(files[0])) << "it was renamed to what was asked for";
}

TEST(StopSignals, TheFilesOfSeveralAreRemoved) {
    const TemporaryFolder folder;
    const std::vector<std::filesystem::path> files{folder / "a", folder / "b", folder / "c"};
    const auto only = [&](std::size_t k) { return std::vector{files[k]}; };
    const auto kill_with_two_left = [&] {
        const RemovedWhenKilled first(only(0));
        std::optional<RemovedWhenKilled> second(std::in_place, only(1));
        const RemovedWhenKilled third(only(2));
        second.reset();
        raise(SIGTERM);
    };
    for (const auto& file : files) {
        std::ofstream(file) << "half";
    }
    EXPECT_EXIT(kill_with_two_left(), testing::KilledBySignal(SIGTERM), "");
    EXPECT_FALSE(std::filesystem::exists(files[0]));
    EXPECT_TRUE(std::filesystem::exists(files[1]));
    EXPECT_FALSE(std::filesystem::exists(files[2]));
}

TEST(StopSignals, WhatWasIgnoredStaysIgnored) {
    const auto handler = [](int signal_number) {
        struct sigaction action {};
        sigaction(signal_number, nullptr, &action);
        return action.sa_handler;
    };
    ASSERT_EQ(handler(SIGTERM), SIG_DFL);
    signal(SIGINT, SIG_IGN);
    {
        const StopSignals signals;
        raise(SIGINT);
        EXPECT_EQ(stop_signal(), 0);
        EXPECT_NE(handler(SIGTERM), SIG_DFL);
    }
    EXPECT_EQ(handler(SIGINT), SIG_IGN);
    EXPECT_EQ(handler(SIGTERM), SIG_DFL);
    signal(SIGINT, SIG_DFL);
}
}  // namespace
}  // namespace pipescope
