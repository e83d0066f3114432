#include "cli/child_process.h"

#include "base/error.h"
#include "cli/command_definition.h"
#include "cli/stop_signals.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace pipescope {
namespace {
using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(ChildProcess, GivesOutputAndExitCode) {
    const ChildResult result =
        run_child("/bin/sh", {"-c", "echo \"$PIPESCOPE_WORD there\"; exit 3"}, {"PIPESCOPE_WORD=hello"});
    EXPECT_EQ(result.output, "hello there\n");
    EXPECT_EQ(result.exit_code, 3);
}

TEST(ChildProcess, GivesErrorsIfTheyAreTaken) {
    EXPECT_EQ(run_child("/bin/sh", {"-c", "echo lost >&2"}, {}, ChildErrors::hide).output, "");
    EXPECT_EQ(run_child("/bin/sh", {"-c", "echo kept >&2"}, {}, ChildErrors::take).output, "kept\n");
}

TEST(ChildProcess, ASignalIsNoSuccess) {
    EXPECT_EQ(run_child("/bin/sh", {"-c", "kill -9 $$"}).exit_code, 128 + 9);
}

TEST(ViewerProgram, IsRefusedWithTheLibraryThatItLacks) {
    const TemporaryFolder folder;
    std::filesystem::copy_file(program_beside("pipescope").value(), folder.path() / "pipescope");
    const std::filesystem::path viewer = folder.path() / "pipescope-gui";
    std::ofstream(viewer)
        << "#!/bin/sh\necho 'while loading shared libraries: libEGL.so.1: no such file' >&2\nexit 127\n";
    std::filesystem::permissions(viewer, std::filesystem::perms::owner_all);
    const ChildResult said =
        run_child(folder.path() / "pipescope",
                  {"view", viewer.string(), "--render", (folder.path() / "t.png").string()}, {}, ChildErrors::take);
    EXPECT_EQ(said.exit_code, 1);
    EXPECT_THAT(said.output, AllOf(HasSubstr("libEGL.so.1"), HasSubstr("PySide6-Essentials"), HasSubstr("libegl1")));
}

// Each configuration runs in a child, which a signal to the command alone does not reach.
TEST(ChildProcess, GetsTheStopOfItsParent) {
    const TemporaryFolder folder;
    const std::string file = (folder / "begun").string();
    const pid_t parent = fork();
    if (parent == 0) {
        const StopSignals signals;
        const ChildResult result = run_child(
            "/bin/sh",
            {"-c", "trap 'echo stopped; exit 5' TERM; touch " + file + "; for k in $(seq 600); do sleep 0.05; done"},
            {}, ChildErrors::hide);
        _exit(result.output == "stopped\n" && result.exit_code == 5 ? 0 : 1);
    }
    for (int k = 0; k < 1000 && !std::filesystem::exists(file); ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    kill(parent, SIGTERM);
    int status = 0;
    waitpid(parent, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(TorchCommands, AreRefusedIfTheProgramDoesNotPrintThem) {
    const TemporaryFolder folder;
    const auto program = [&](const std::string& script) {
        std::filesystem::path path = folder / "pipescope-torch";
        std::ofstream(path) << "#!/bin/sh\n" << script << "\n";
        std::filesystem::permissions(path, std::filesystem::perms::owner_all);
        return path;
    };
    for (const auto& [script, code] :
         {std::pair{"exit 3", 3}, {"echo '[]'; exit 4", 4}, {"echo soon", 0}, {"echo '[1]'", 0}}) {
        EXPECT_THAT(thrown<Error>([&] { definitions_of(program(script)); }),
                    AllOf(HasSubstr("does not print its commands (exit code " + std::to_string(code)),
                          HasSubstr("install programs of one version")))
            << script;
    }
    EXPECT_TRUE(definitions_of(program("echo '[]'")).empty());
}

TEST(ChildProcess, EndsWithItsParent) {
    const TemporaryFolder folder;
    const std::string file = (folder / "child").string();
    const pid_t parent = fork();
    if (parent == 0) {
        run_child("/bin/sh", {"-c", "echo $$ > " + file + ".new; mv " + file + ".new " + file + "; exec sleep 60"});
        _exit(0);
    }
    const auto waits_for = [](const auto& condition) {
        for (int k = 0; k < 1000 && !condition(); ++k) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
        return condition();
    };
    ASSERT_TRUE(waits_for([&] { return std::filesystem::exists(file); }));
    pid_t child = 0;
    std::ifstream(file) >> child;
    ASSERT_GT(child, 0);
    kill(parent, SIGKILL);
    waitpid(parent, nullptr, 0);
    EXPECT_TRUE(waits_for([&] {  // it is gone, or waits for init
        std::ifstream status("/proc/" + std::to_string(child) + "/stat");
        std::string text;
        std::getline(status, text);
        return text.empty() || text.find(") Z ") != std::string::npos;
    }));
}

TEST(ChildProcess, RefusesAProgramThatIsNotThere) {
    EXPECT_THROW(run_child("/no/such/program", {}), Error);
    EXPECT_FALSE(program_beside("no-such-program").has_value());
    EXPECT_TRUE(program_beside("cli_test").has_value());
}
}  // namespace
}  // namespace pipescope
