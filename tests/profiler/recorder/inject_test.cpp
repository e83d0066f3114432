#include "tests/temporary_folder.h"
#include "trace/store/trace_reader.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace pipescope {
namespace {
/// Runs the plain program in `folder`, with PIPESCOPE_TRACE unless `trace` is empty. Returns its exit code and process
/// id.
std::pair<int, pid_t> run_program(const TemporaryFolder& folder, const std::string& trace, const char* what = nullptr) {
    const pid_t child = fork();
    if (child == 0) {
        setenv("NVTX_INJECTION64_PATH", PIPESCOPE_INJECT_LIBRARY, 1);
        if (trace.empty()) {
            unsetenv("PIPESCOPE_TRACE");
        } else {
            setenv("PIPESCOPE_TRACE", trace.c_str(), 1);
        }
        if (chdir(folder.path().c_str()) == 0) {
            execl(PLAIN_NVTX_PROGRAM, PLAIN_NVTX_PROGRAM, what, nullptr);
        }
        _exit(127);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, child};
}

constexpr int kProgramsOwnCode = 7;

TEST(Inject, RecordsAProgramAndItsSharedLibraries) {
    const TemporaryFolder folder;
    EXPECT_EQ(run_program(folder, "out.sqlite").first, kProgramsOwnCode);
    SQLite::Database db(folder / "out.sqlite");
    EXPECT_EQ(db.execAndGet("SELECT group_concat(text, '; ') FROM (SELECT text FROM NVTX_EVENTS WHERE eventType = 59 "
                            "ORDER BY start)")
                  .getString(),
              "main; worker; from a library; left open");
    EXPECT_EQ(db.execAndGet("SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND end IS NULL").getInt(), 1);
    const TraceReader reader(folder / "out.sqlite");
    EXPECT_EQ(reader.run().at("closed"), "true");
    EXPECT_THAT(reader.diagnostics(),
                testing::Each(testing::Field(&DiagnosticRecord::source,
                                             "cupti")));  // in particular no word of a foreign tool: it is ours
    EXPECT_EQ(reader.drops().size(), 2u);                 // two threads
}

std::int64_t ranges_called(const TemporaryFolder& folder, const std::string& text) {
    SQLite::Database db(folder / "out.sqlite");
    SQLite::Statement query(db, "SELECT count(*) FROM NVTX_EVENTS WHERE eventType = 59 AND text = ?");
    query.bind(1, text);
    query.executeStep();
    return query.getColumn(0).getInt64();
}

// The recorder takes some ms to start, at the first range of any thread. The other threads' ranges wait for it.
TEST(Inject, LosesNoRangeOfThreadsThatBeginTogether) {
    const TemporaryFolder folder;
    EXPECT_EQ(run_program(folder, "out.sqlite", "together").first, 0);
    EXPECT_EQ(ranges_called(folder, "together"), 16);
}

TEST(Inject, RecordsWhatExitHandlersEmit) {
    const TemporaryFolder folder;
    EXPECT_EQ(run_program(folder, "out.sqlite", "at-exit").first, kProgramsOwnCode);
    EXPECT_EQ(ranges_called(folder, "at exit"), 1);
}

TEST(Inject, NamesTheTraceAfterTheProcessWhereAsked) {
    const TemporaryFolder folder;
    const auto [code, pid] = run_program(folder, "");
    EXPECT_EQ(code, kProgramsOwnCode);
    EXPECT_NO_THROW(TraceReader(folder / ("pipescope-" + std::to_string(pid) + ".sqlite")));
    const auto [code_again, pid_again] = run_program(folder, "rank-%p.sqlite");
    EXPECT_EQ(code_again, kProgramsOwnCode);
    EXPECT_NO_THROW(TraceReader(folder / ("rank-" + std::to_string(pid_again) + ".sqlite")));
}

TEST(Inject, LeavesTheProgramAloneWhereItCannotRecord) {
    const TemporaryFolder folder;
    std::ofstream(folder / "out.sqlite") << "precious";
    EXPECT_EQ(run_program(folder, "out.sqlite").first, kProgramsOwnCode);
    std::string contents;
    std::ifstream(folder / "out.sqlite") >> contents;
    EXPECT_EQ(contents, "precious");
}
}  // namespace
}  // namespace pipescope
