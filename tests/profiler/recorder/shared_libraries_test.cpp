#include "tests/temporary_folder.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A program with a recorder and shared libraries in a separate process, because NVTX looks for a tool once per
/// process.
class SharedLibraries : public testing::Test {
protected:
    /// Runs the program in the folder, with output in "out". Returns its exit code.
    int run(const char* program, const char* tool = nullptr, std::vector<std::string> further = {}) {
        std::vector<std::string> words{program, trace(), LOADED_RANGE_EMITTER};
        words.insert(words.end(), further.begin(), further.end());
        std::vector<char*> arguments;
        for (std::string& word : words) {
            arguments.push_back(word.data());
        }
        arguments.push_back(nullptr);
        const pid_t child = fork();
        if (child == 0) {
            unsetenv("NVTX_INJECTION64_PATH");
            if (tool != nullptr) {
                setenv("NVTX_INJECTION64_PATH", tool, 1);
            }
            if (chdir(folder_.path().c_str()) == 0 && std::freopen("out", "w", stdout) != nullptr) {
                execv(program, arguments.data());
            }
            _exit(127);
        }
        int status = 0;
        waitpid(child, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    std::string trace() const { return folder_ / "t.sqlite"; }
    std::vector<std::string> ranges() const {
        SQLite::Database db(trace());
        SQLite::Statement query(db, "SELECT text FROM NVTX_EVENTS WHERE eventType IN (59, 60) ORDER BY start");
        std::vector<std::string> texts;
        while (query.executeStep()) {
            texts.push_back(query.getColumn(0).getString());
        }
        return texts;
    }
    std::string one(const std::string& sql) const {
        SQLite::Database db(trace());
        return db.execAndGet(sql).getString();
    }
    std::string output() const {
        std::ifstream file(folder_ / "out");
        return {std::istreambuf_iterator<char>(file), {}};
    }

    const TemporaryFolder folder_;
};

const std::vector<std::string> kAll = {"of the program", "from a library", "all-reduce", "across threads"};

TEST_F(SharedLibraries, AreHeardByTheProgramsOwnRecorder) {
    ASSERT_EQ(run(LIBRARY_PROGRAM), 0);
    EXPECT_EQ(ranges(), kAll);
    EXPECT_EQ(
        one("SELECT d.text || '/' || c.text FROM NVTX_EVENTS r JOIN NVTX_EVENTS d ON d.eventType = 75 AND d.domainId = "
            "r.domainId JOIN NVTX_EVENTS c ON c.eventType = 33 AND c.domainId = r.domainId AND c.category = r.category "
            "WHERE r.text = 'all-reduce'"),
        "loaded library/collective");
    EXPECT_EQ(one("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'transfer'"), "1") << "by NVTX's extension";
    EXPECT_THAT(TraceReader(trace()).diagnostics(), IsEmpty());
}

TEST_F(SharedLibraries, ThatEmittedBeforeThereWasARecorderAreHeardWhereTheProgramAskedForIt) {
    ASSERT_EQ(run(LIBRARY_PROGRAM, nullptr, {"early"}), 0);
    EXPECT_EQ(ranges(), kAll);
}

TEST_F(SharedLibraries, StayWithAnotherToolThatIsThereAlready) {
    ASSERT_EQ(run(LIBRARY_PROGRAM, OTHER_NVTX_TOOL), 0);
    EXPECT_THAT(ranges(), IsEmpty());
    EXPECT_THAT(output(), HasSubstr("other tool: 2 pushes")) << "it has the program's and the linked library's";
    const auto diagnostics = TraceReader(trace()).diagnostics();
    ASSERT_EQ(diagnostics.size(), 1U);
    EXPECT_EQ(diagnostics[0].severity, "warning");
    EXPECT_THAT(diagnostics[0].text, HasSubstr(std::string("another NVTX tool is active (") + OTHER_NVTX_TOOL));
}

TEST_F(SharedLibraries, OfAnotherProgramThatOursStartsAreLeftAlone) {
    const std::string command = "'" PLAIN_NVTX_PROGRAM "'; test $? = 7";  // the code it always ends with
    ASSERT_EQ(run(LIBRARY_PROGRAM, nullptr, {"late", command}), 0);
    EXPECT_EQ(ranges(), kAll);
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
        EXPECT_THAT(entry.path().filename().string(), testing::AnyOf("t.sqlite", "out")) << "a second trace";
    }
}

TEST_F(SharedLibraries, OfAProgramWithARecorderThatOursStartsAreRecordedThere) {
    const std::string command = "'" LIBRARY_PROGRAM "' other.sqlite '" LOADED_RANGE_EMITTER "'";
    ASSERT_EQ(run(LIBRARY_PROGRAM, nullptr, {"late", command}), 0);
    EXPECT_EQ(ranges(), kAll);
    SQLite::Database other(folder_ / "other.sqlite");
    EXPECT_EQ(other.execAndGet("SELECT count(*) FROM NVTX_EVENTS WHERE eventType IN (59, 60)").getInt(), 4);
}

TEST_F(SharedLibraries, AreMissingWithAWordWhereTheProgramHidesTheHandler) {
    ASSERT_EQ(run(SECRETIVE_LIBRARY_PROGRAM), 0);
    EXPECT_THAT(ranges(), ElementsAre("of the program"));
    const auto diagnostics = TraceReader(trace()).diagnostics();
    ASSERT_EQ(diagnostics.size(), 1U);
    EXPECT_EQ(diagnostics[0].severity, "info");
    EXPECT_THAT(diagnostics[0].text, HasSubstr("'pipescope record'"));
}
}  // namespace
}  // namespace pipescope
