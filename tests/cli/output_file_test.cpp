#include "cli/output_file.h"

#include "base/error.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_parts.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ostream>
#include <stdexcept>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

TEST(OutputFile, KeepsAnExistingFileUnlessForced) {
    const TemporaryFolder folder;
    write_text(folder / "a.json", "precious");
    EXPECT_THAT(thrown<Error>([&] { write_output(folder / "a.json", false, "new"); }),
                AllOf(HasSubstr("a.json exists already"), HasSubstr("--force")));
    EXPECT_EQ(read_text(folder / "a.json"), "precious");
    write_output(folder / "a.json", true, "new");
    EXPECT_EQ(read_text(folder / "a.json"), "new");
}

TEST(OutputFile, KeepsADanglingLinkUnlessForced) {
    const TemporaryFolder folder;
    std::filesystem::create_symlink("/nonexistent/x", folder / "a.json");
    EXPECT_THAT(thrown<Error>([&] { write_output(folder / "a.json", false, "new"); }),
                HasSubstr("a.json exists already"));
    EXPECT_EQ(std::filesystem::read_symlink(folder / "a.json"), "/nonexistent/x");
    write_output(folder / "a.json", true, "new");
    EXPECT_EQ(read_text(folder / "a.json"), "new");
}

TEST(OutputFile, KeepsAFileThatAppearsWhileTheOutputIsMade) {
    const TemporaryFolder folder;
    const auto write = [&](bool force) {
        write_output(folder / "a.json", force, [&](std::ostream& out) {
            write_text(folder / "a.json", "precious");
            out << "new";
        });
    };
    EXPECT_THAT(thrown<Error>([&] { write(false); }), AllOf(HasSubstr("a.json exists already"), HasSubstr("--force")));
    EXPECT_EQ(read_text(folder / "a.json"), "precious");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
    write(true);
    EXPECT_EQ(read_text(folder / "a.json"), "new");
}

TEST(OutputFile, IsNotWrittenThroughALinkThatAwaitsIt) {
    const TemporaryFolder folder;
    write_text(folder / "precious", "precious");
    const std::string partial = "a.json." + std::to_string(getpid()) + ".partial";
    std::filesystem::create_symlink(folder / "precious", folder / partial);
    write_output(folder / "a.json", false, "new");
    EXPECT_EQ(read_text(folder / "a.json"), "new");
    EXPECT_FALSE(std::filesystem::is_symlink(folder / "a.json"));
    EXPECT_EQ(read_text(folder / "precious"), "precious");
}

TEST(OutputFile, AFailedWriteLeavesWhatWasThereAndNothingElse) {
    const TemporaryFolder folder;
    write_text(folder / "a.json", "precious");
    EXPECT_THROW(write_output(folder / "a.json", true,
                              [](std::ostream& out) {
                                  out << "half";
                                  throw std::runtime_error("no more");
                              }),
                 std::runtime_error);
    EXPECT_EQ(read_text(folder / "a.json"), "precious");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(OutputFile, AKilledWriteLeavesWhatWasThereAndNothingElse) {
    const TemporaryFolder folder;
    write_text(folder / "a.json", "precious");
    for (const int signal_number : {SIGTERM, SIGINT, SIGHUP}) {
        const pid_t writer = fork();
        if (writer == 0) {
            replace_output(folder / "a.json", true, [&](const std::filesystem::path& beside) {
                write_text(beside, "half");
                write_text(beside.string() + "-wal", "half");
                raise(signal_number);
            });
            _exit(0);
        }
        int status = 0;
        ASSERT_EQ(waitpid(writer, &status, 0), writer);
        EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal_number) << status;
        EXPECT_EQ(read_text(folder / "a.json"), "precious");
        EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1) << signal_number;
    }
}

TEST(OutputFile, NeverReplacesADevice) {
    for (const bool force : {false, true}) {
        EXPECT_THAT(thrown<Error>([&] { check_output_name("/dev/null", force); }), HasSubstr("/dev/null"));
    }
}

TEST(OutputFile, RefusesTwoOutputsOfOneName) {
    EXPECT_THAT(thrown<UsageError>([] { check_apart("--render", "a.pdf", "--report", "./a.pdf"); }),
                HasSubstr("./a.pdf"));
    EXPECT_THAT(thrown<UsageError>([] { check_apart("--trace", "a", "--save", "./a/"); }), HasSubstr("./a/"));
    EXPECT_THAT(thrown<UsageError>([] { check_apart("--trace", "a", "--report", "./a-wal"); }), HasSubstr("./a-wal"));
    check_apart("--render", "a.pdf", "--report", "b.pdf");
    check_apart("--render", "a.pdf", "--report", "");
    check_apart("--render", "", "--report", "");
}

TEST(OutputFile, RefusesTheNamesOfPartsOfATraceAndOfASave) {
    const TemporaryFolder folder;
    write_text(folder / "t.sqlite", std::string(kSqliteHead) + "...");
    std::filesystem::create_directory(folder / "step-000002");
    for (const char* name : {"t.sqlite-wal", "t.sqlite-shm", "t.sqlite-journal", "t.sqlite.notes.json",
                             "step-000002/training.json", "step-000002/model-00003-of-00004.safetensors"}) {
        for (const bool force : {false, true}) {
            EXPECT_THAT(thrown<Error>([&] { write_output(folder / name, force, "text"); }),
                        HasSubstr(std::string(name) + " is by its name a part of "));
        }
        EXPECT_FALSE(std::filesystem::exists(folder / name));
    }
    write_output(folder / "none.sqlite-wal", false, "text");
    write_output(folder / "training.json", false, "text");
}

TEST(OutputFile, ATraceReplacesPartsOfAFormerOneOnlyIfForced) {
    const TemporaryFolder folder;
    for (const char* ending : {"-wal", "-shm", "-journal"}) {
        const std::filesystem::path part = folder / (std::string("t.sqlite") + ending);
        write_text(part, "last steps");
        const auto write = [&](bool force) {
            replace_trace(folder / "t.sqlite", force,
                          [](const std::filesystem::path& beside) { write_text(beside, "trace"); });
        };
        EXPECT_THAT(thrown<Error>([&] { write(false); }),
                    AllOf(HasSubstr(part.string() + " exists without the trace "), HasSubstr("--force")));
        EXPECT_EQ(read_text(part), "last steps");
        EXPECT_FALSE(std::filesystem::exists(folder / "t.sqlite"));
        write(true);
        EXPECT_FALSE(std::filesystem::exists(part));
        EXPECT_EQ(read_text(folder / "t.sqlite"), "trace");
        std::filesystem::remove(folder / "t.sqlite");
    }
}

TEST(OutputFile, RefusesAFolderAndAMissingFolder) {
    const TemporaryFolder folder;
    EXPECT_THAT(thrown<Error>([&] { check_output(folder.path(), true); }), HasSubstr("is a folder"));
    EXPECT_THAT(thrown<Error>([&] { check_output(folder / "none/a.json", false); }), HasSubstr("does not exist"));
}
}  // namespace
}  // namespace pipescope
