#include "recorded_trace.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nvtx3/nvToolsExt.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <thread>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

void emit(int ranges) {
    for (int k = 0; k < ranges; ++k) {
        nvtxRangePushA("r");
        nvtxRangePop();
    }
}

/// Runs `body` in a child process and returns its wait status.
int in_child(const std::function<void()>& body) {
    const pid_t child = fork();
    if (child == 0) {
        body();
        _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

TEST(RecorderFailure, KeepsAnExistingFile) {
    const TemporaryFolder folder;
    std::ofstream(folder / "t.sqlite") << "precious";
    RecorderOptions options;
    options.path = folder / "t.sqlite";
    EXPECT_THAT(thrown<TraceError>([&] { Recorder{options}; }), HasSubstr("--force"));
    std::string contents;
    std::ifstream(folder / "t.sqlite") >> contents;
    EXPECT_EQ(contents, "precious");
    options.if_exists = IfExists::replace;
    Recorder(options).stop();  // the refused one left nothing behind
    EXPECT_NO_THROW(TraceReader{options.path});
}

TEST(RecorderFailure, RefusesASecondRecorderBeforeItTouchesAFile) {
    const TemporaryFolder folder;
    RecorderOptions options;
    options.path = folder / "first.sqlite";
    Recorder first(options);
    options.path = folder / "second.sqlite";
    EXPECT_THAT(thrown<TraceError>([&] { Recorder{options}; }),
                AllOf(HasSubstr("one may record at a time"), HasSubstr("stop")));
    EXPECT_FALSE(std::filesystem::exists(folder / "second.sqlite"));
}

TEST(RecorderFailure, LetsTrainingGoOnWhenTheDiskIsFullAndTellsAtTheEnd) {
    const TemporaryFolder folder;
    const int status = in_child([&] {
        signal(SIGXFSZ, SIG_IGN);
        RecorderOptions options;
        options.path = folder / "t.sqlite";
        Recorder recorder(options);
        const rlimit limit{600'000, 600'000};  // no file may grow beyond: what a full disk looks like to SQLite
        setrlimit(RLIMIT_FSIZE, &limit);
        for (int k = 0; k < 20; ++k) {
            emit(5000);
            recorder.flush();  // returns, although nothing more can be written
        }
        try {
            recorder.stop();
            _exit(1);
        } catch (const TraceError& error) {
            _exit(std::string_view(error.what()).find("t.sqlite") == std::string_view::npos ? 2 : 0);
        }
    });
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(RecorderFailure, LosesAtMostTheLastDrainPeriodsWhenTheProcessIsKilled) {
    const TemporaryFolder folder;
    const int status = in_child([&] {
        RecorderOptions options;
        options.path = folder / "t.sqlite";
        Recorder recorder(options);
        emit(1000);
        recorder.flush();
        kill(getpid(), SIGKILL);
    });
    EXPECT_TRUE(WIFSIGNALED(status));
    const Recovery recovery = recover_trace(folder / "t.sqlite");
    EXPECT_TRUE(recovery.was_open);
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59").getInt(), 1000);
}

TEST(RecorderFailure, LeavesTheTraceToTheParentOfAForkedChild) {
    int status = -1;
    const RecordedTrace trace([&](Recorder&) {
        emit(1);
        status = in_child([] { emit(100'000); });
        emit(1);
    });
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(trace.number("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59"), 2);
}

TEST(RecorderFailure, DoesNotHangAForkedChildThatUsesTheRecorder) {
    const TemporaryFolder folder;
    RecorderOptions options;
    options.path = folder / "t.sqlite";
    auto recorder = std::make_unique<Recorder>(options);
    emit(3);
    const int status = in_child([&] {
        alarm(20);
        recorder->flush();
        recorder->stop();
        recorder.reset();
    });
    EXPECT_TRUE(WIFEXITED(status));
    recorder->stop();
    SQLite::Database db(folder / "t.sqlite");
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59").getInt(), 3);
}

// A thread that was naming something during the fork does not exist in the child, where its lock would stay locked.
TEST(RecorderFailure, DoesNotHangAForkedChildThatGivesNames) {
    constexpr std::uint32_t kNoTid = 6'000'000;  // beyond what any system numbers its threads to
    const nvtxDomainHandle_t domain = nvtxDomainCreateA("forked");
    const auto give_names = [&] {  // the same ones, so that the process's other recordings need not write millions
        nvtxDomainRegisterStringA(domain, "a text");
        nvtxNameOsThreadA(kNoTid, "a thread");
        nvtxRangeEnd(nvtxRangeStartA("r"));
    };
    int hung = 0;
    const RecordedTrace trace([&](Recorder&) {
        std::atomic<bool> done{false};
        std::thread busy([&] {
            while (!done.load()) {
                give_names();
            }
        });
        for (int round = 0; round < 20 && hung == 0; ++round) {
            const int status = in_child([&] {
                alarm(30);
                give_names();
            });
            hung += WIFEXITED(status) ? 0 : 1;
        }
        done = true;
        busy.join();
    });
    EXPECT_EQ(hung, 0);
}

TEST(RecorderFailure, WarnsWhereAnotherToolHoldsNvtx) {
    // NVTX looks for its tool once per process, so this needs a process that has not yet used NVTX.
    const TemporaryFolder folder;
    const std::string path = folder / "t.sqlite";
    const int status = in_child([&] {
        setenv("NVTX_INJECTION64_PATH", "/opt/other/tool.so", 1);
        execl(RECORDING_PROGRAM, RECORDING_PROGRAM, path.c_str(), nullptr);
        _exit(127);
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    const auto diagnostics = TraceReader(path).diagnostics();
    ASSERT_EQ(diagnostics.size(), 1u);
    EXPECT_EQ(diagnostics[0].severity, "warning");
    EXPECT_EQ(diagnostics[0].source, "nvtx");
    EXPECT_THAT(diagnostics[0].text, HasSubstr("/opt/other/tool.so"));
}
}  // namespace
}  // namespace pipescope
