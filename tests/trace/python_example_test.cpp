#include "one_step_trace.h"
#include "tests/temporary_folder.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Output of the shell command, including stderr.
std::string output_of(const std::string& command) {
    FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    std::string output;
    std::array<char, 4096> bytes{};
    while (pipe != nullptr && fgets(bytes.data(), bytes.size(), pipe) != nullptr) {
        output += bytes.data();
    }
    if (pipe != nullptr) {
        pclose(pipe);
    }
    return output;
}

std::string read_by_python(const std::filesystem::path& path) {
    return output_of("python3 " PIPESCOPE_DOCS "/examples/read_trace.py '" + path.string() + "'");
}

std::string pandas_block() {
    std::ifstream file(PIPESCOPE_DOCS "/python.md");
    std::stringstream page;
    page << file.rdbuf();
    const std::string text = page.str();
    const std::string start = "```python\n";
    const std::size_t begin = text.find(start, text.find("### SQL with pandas"));
    return begin == std::string::npos
               ? std::string()
               : text.substr(begin + start.size(), text.find("```", begin + 3) - begin - start.size());
}

void write_example(const TemporaryFolder& folder) {
    TraceWriter writer(folder / "out.sqlite", IfExists::refuse);
    TraceWriter simulated(folder / "sim.sqlite", IfExists::refuse);
    simulated.add_timeline(sample_timeline(Source::simulated));
    simulated.close();
    writer.add_timeline(sample_timeline(Source::measured));
    writer.add_memory({LaneId{0}, Nanoseconds{1}, 2, 3, 4, -1});
    writer.close();
    std::ofstream(folder / "profile.json") << R"({"layers": [{"name": "linear", "forward_ns": [2000000]}]})";
}

TEST(PythonExample, RunsWithPandasAsThePageSays) {
    const std::string python = "'" PIPESCOPE_PYTHON "'";
    if (std::system((python + " -c 'import sqlite3, pandas' >/dev/null 2>&1").c_str()) != 0) {
        GTEST_SKIP() << "there is no pandas; scripts/setup installs it";
    }
    const TemporaryFolder folder;
    write_example(folder);
    std::ofstream(folder / "page.py") << pandas_block();
    const std::string output = output_of("cd '" + (folder / "").string() + "' && " + python + " page.py");
    EXPECT_THAT(output, AllOf(HasSubstr("measured"), HasSubstr("linear"), Not(HasSubstr("Traceback"))));
}

// Also runs without pandas.
TEST(PythonExample, AsksWithPandasWhatTheTraceAnswers) {
    const TemporaryFolder folder;
    write_example(folder);
    const SQLite::Database db(folder / "out.sqlite");
    const std::string block = pandas_block();
    const std::string call = "pd.read_sql(";
    int asked = 0;
    for (std::size_t at = block.find(call); at != std::string::npos; at = block.find(call, at + 1)) {
        const std::size_t begin = at + call.size();
        const std::string sql = block.substr(begin + 1, block.find(block[begin], begin + 1) - begin - 1);
        SQLite::Statement query(db, sql);
        EXPECT_TRUE(query.executeStep()) << sql;
        ++asked;
    }
    EXPECT_EQ(asked, 2);
}

TEST(PythonExample, ReadsATraceAndItsProfileWithoutOtherPackages) {
    if (std::system("python3 -c 'import sqlite3, json' >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "there is no python3 with sqlite3";
    }
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.set_run("model", "\"mlp\"");
        writer.set_profile(R"({"format": "pipescope.profile", "layers": [
            {"name": "linear", "forward_ns": [2000000], "backward_ns": [3500000]}]})");
        // Two lanes that alternate: each waits half of the time.
        Timeline timeline{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
        for (int j = 0; j < 2; ++j) {
            timeline.slices.push_back(
                {{0, TaskKind::forward, j, 0, -1}, LaneId{j}, Nanoseconds{j * 100}, Nanoseconds{j * 100 + 100}, 0});
        }
        writer.add_timeline(timeline);
        writer.close();
    }
    EXPECT_THAT(read_by_python(folder / "t.sqlite"),
                AllOf(HasSubstr("model mlp, 2 lanes"), HasSubstr("measured: 1 step, bubble fraction 50.0%"),
                      HasSubstr("linear: forward 2.000 ms, backward 3.500 ms"), Not(HasSubstr("Traceback"))));
}

TEST(PythonExample, LeavesOutTheStepsThatAKillCutShort) {
    if (std::system("python3 -c 'import sqlite3, json' >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "there is no python3 with sqlite3";
    }
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        for (const int step : {0, 1, 2}) {
            for (const int lane : {0, 1}) {
                const Nanoseconds start{step * 1000 + lane * 100};
                writer.add_task(
                    {{step, TaskKind::forward, lane, 0, -1}, LaneId{lane}, start, start + Nanoseconds{100}, 0},
                    Source::measured);
            }
        }
        writer.add_step({});
        writer.close();
    }
    EXPECT_THAT(read_by_python(folder / "t.sqlite"), HasSubstr("measured: 3 steps"));
    SQLite::Database db(folder / "t.sqlite", SQLite::OPEN_READWRITE);
    db.exec("DELETE FROM PIPESCOPE_RUN WHERE key = 'closed'");
    EXPECT_THAT(read_by_python(folder / "t.sqlite"),
                AllOf(HasSubstr("steps left out: 1, 2"), HasSubstr("measured: 1 step")));
    db.exec("DELETE FROM PIPESCOPE_STEP");
    EXPECT_THAT(read_by_python(folder / "t.sqlite"),
                AllOf(HasSubstr("steps left out: 2"), HasSubstr("measured: 2 steps")));
}

TEST(PythonExample, ShowsNoBubbleFractionOfALossyTrace) {
    if (std::system("python3 -c 'import sqlite3, json' >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "there is no python3 with sqlite3";
    }
    const TemporaryFolder folder;
    {
        TraceWriter writer(folder / "t.sqlite", IfExists::refuse);
        writer.add_timeline(sample_timeline(Source::measured));
        writer.add_timeline(sample_timeline(Source::simulated));
        writer.add_drop({"nvtx", 1, 5, 2, 0, 0});
        writer.close();
    }
    EXPECT_THAT(read_by_python(folder / "t.sqlite"),
                AllOf(HasSubstr("lost 2 ranges"), HasSubstr("simulated: 1 step"), Not(HasSubstr("measured: 1 step"))));
}
}  // namespace
}  // namespace pipescope
