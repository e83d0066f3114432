#include "analysis/run_list.h"

#include "base/stop_check.h"
#include "tests/analysis/sample_run.h"
#include "tests/temporary_folder.h"
#include "tests/thrown.h"
#include "trace/store/trace_records.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> names_of(const RunList& list) {
    std::vector<std::string> names;
    for (const ListedRun& run : list.runs) {
        names.push_back(run.run.name);
    }
    return names;
}

TEST(RunList, ListsRunsOfAFolderAndItsSubfoldersWithTheirChanges) {
    const TemporaryFolder folder;
    std::filesystem::create_directories(folder / "later" / "deeper");
    writeSampleTrace(folder / "a.sqlite", {.steps = 6});
    writeSampleTrace(folder / "later" / "b.sqlite", {.steps = 6, .forward_ns = 5'000'000});
    writeSampleTrace(folder / "later" / "deeper" / "c.sqlite");
    writeSampleTrace(folder / "z.sqlite", {.chunks = 8});  // the batch has as many samples
    const RunList list = list_runs(folder.path());
    ASSERT_THAT(names_of(list), ElementsAre("a.sqlite", "later/b.sqlite", "z.sqlite")) << "not of deeper folders";
    EXPECT_FALSE(list.runs[0].step_change);
    EXPECT_EQ(list.runs[0].why_no_change, "");
    ASSERT_TRUE(list.runs[1].step_change);
    EXPECT_LT(list.runs[1].step_change->after, 0.7 * list.runs[1].step_change->before);
    EXPECT_FALSE(list.runs[2].step_change);
    EXPECT_THAT(list.runs[2].why_no_change, HasSubstr("the batch was"));
    EXPECT_TRUE(list.left_out.empty());
}

TEST(RunList, NamesAndLeavesOutWhatIsNoRun) {
    const TemporaryFolder folder;
    writeSampleTrace(folder / "run.sqlite");
    write_text(folder / "broken.sqlite", "no SQLite file");
    write_text(folder / "half.json", "[{\"name\": ");
    write_text(folder / "readme.txt", "text");
    write_text(folder / "run.sqlite.notes.json", "{}");
    write_text(folder / ".hidden", "");
    const RunList list = list_runs(folder.path());
    EXPECT_THAT(names_of(list), ElementsAre("run.sqlite"));
    std::vector<std::string> left_out;
    for (const LeftOutFile& file : list.left_out) {
        left_out.push_back(file.name);
        EXPECT_NE(file.why, "") << file.name;
    }
    EXPECT_THAT(left_out, ElementsAre("broken.sqlite", "half.json", "readme.txt")) << "without notes and hidden files";
}

TEST(RunList, RefusesAFolderWithoutFiles) {
    const TemporaryFolder folder;
    EXPECT_THAT(thrown<TraceError>([&] { list_runs(folder.path()); }), HasSubstr("holds no run"));
    EXPECT_THAT(thrown<TraceError>([&] { list_runs(folder / "missing"); }), HasSubstr("cannot list"));
}

TEST(RunList, EndsWhenItsCallerStopsIt) {
    const TemporaryFolder folder;
    writeSampleTrace(folder / "a.sqlite");
    writeSampleTrace(folder / "b.sqlite");
    const StopCheck stop([] { return false; });
    EXPECT_THROW(list_runs(folder.path(), [](double) { std::this_thread::sleep_for(std::chrono::milliseconds(50)); }),
                 ComputationStopped);
}

TEST(RunList, SaysWhyAFolderCannotBeRead) {
    if (geteuid() == 0) {
        GTEST_SKIP() << "root may read all folders";
    }
    const TemporaryFolder folder;
    writeSampleTrace(folder / "a.sqlite");
    std::filesystem::create_directory(folder / "locked");
    std::filesystem::permissions(folder / "locked", std::filesystem::perms::none);
    const RunList list = list_runs(folder.path());
    std::filesystem::permissions(folder / "locked", std::filesystem::perms::owner_all);
    ASSERT_EQ(list.left_out.size(), 1U);
    EXPECT_EQ(list.left_out.front().name, "locked");
    EXPECT_THAT(list.left_out.front().why, HasSubstr("check its permissions"));
}

TEST(RunList, TellsWhatIsDone) {
    const TemporaryFolder folder;
    writeSampleTrace(folder / "a.sqlite");
    writeSampleTrace(folder / "b.sqlite");
    std::vector<double> done;
    list_runs(folder.path(), [&done](double share) { done.push_back(share); });
    EXPECT_THAT(done, ElementsAre(0.5, 1.0));
}
}  // namespace
}  // namespace pipescope
