#include "sample_trace.h"
#include "temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstdlib>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// What docs/examples/read_trace.py prints, stderr included.
std::string read_by_python(const std::filesystem::path& path) {
    const std::string command = "python3 " PIPESCOPE_DOCS "/examples/read_trace.py '" + path.string() + "' 2>&1";
    FILE* pipe = popen(command.c_str(), "r");
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
        // Two lanes that work one after the other: each waits half of the time.
        Timeline timeline{Source::measured, {{"lane 0", "cpu"}, {"lane 1", "cpu"}}, {}};
        for (int j = 0; j < 2; ++j) {
            timeline.slices.push_back(
                {{0, TaskKind::forward, j, 0, -1}, LaneId{j}, Nanoseconds{j * 100}, Nanoseconds{j * 100 + 100}, 0});
        }
        writer.add_timeline(timeline);
        writer.close();
    }
    EXPECT_THAT(read_by_python(folder / "t.sqlite"),
                AllOf(HasSubstr("model mlp, 2 lanes"), HasSubstr("measured: 1 steps, bubble fraction 50.0%"),
                      HasSubstr("linear: forward 2.000 ms, backward 3.500 ms"), Not(HasSubstr("Traceback"))));
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
    EXPECT_THAT(read_by_python(folder / "t.sqlite"), AllOf(HasSubstr("lost 2 ranges"), HasSubstr("simulated: 1 steps"),
                                                           Not(HasSubstr("measured: 1 steps"))));
}
}  // namespace
}  // namespace pipescope
