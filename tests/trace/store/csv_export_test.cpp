#include "trace/store/csv_export.h"

#include "tests/temporary_folder.h"
#include "tests/trace/one_step_trace.h"
#include "trace/foreign/chrome_export.h"
#include "trace/open_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace pipescope {
namespace {
using testing::HasSubstr;
using testing::StartsWith;

std::string csv_of(const OpenedTrace& trace, CsvTable table) {
    std::ostringstream out;
    export_csv(trace, table, out);
    return out.str();
}

TEST(CsvExport, HasALineForEveryRowOfEachTable) {
    const TemporaryFolder folder;
    write_sample_trace(folder / "t.sqlite");
    const OpenedTrace trace = open_trace(folder / "t.sqlite");
    const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
    const std::string tasks = csv_of(trace, CsvTable::tasks);
    EXPECT_EQ(static_cast<std::size_t>(lines(tasks)), 1 + trace.measured.slices.size() + trace.simulated.slices.size());
    EXPECT_THAT(tasks, StartsWith("source,step,kind,partition,micro_batch,skip,lane,start_ns,end_ns,bytes,half\n"
                                  "measured,0,forward,0,0,-1,0,"));
    EXPECT_THAT(
        csv_of(trace, CsvTable::steps),
        HasSubstr("\n0,10,90,5,120,,1,,,,,\n1,210,290,205,320,0.1,0,16,,,,\n"));  // no loss where it was no number
    EXPECT_THAT(csv_of(trace, CsvTable::memory), HasSubstr("\n0,40,10,20,0,,,,,,,,,,\n1,50,1000,2000,4096,"));
    EXPECT_THAT(csv_of(trace, CsvTable::ranges),
                HasSubstr("\nprocess 7 (trainer),thread 9 (main),thread,inner,user,2,110,150,\n"));
}

TEST(CsvExport, TellsTheHalvesOfSplitBackwards) {
    OpenedTrace trace;
    for (const auto& [kind, micro_batch] :
         {std::pair(TaskKind::backward, 0), {TaskKind::backward, 1}, {TaskKind::backward_weight, 1}}) {
        trace.simulated.slices.push_back({{0, kind, 2, micro_batch, -1}, LaneId{0}, Nanoseconds{3}, Nanoseconds{4}, 0});
    }
    trace.simulated.source = Source::simulated;
    trace.simulated.lanes = {{"lane 0", "cpu"}};
    EXPECT_THAT(csv_of(trace, CsvTable::tasks),
                testing::EndsWith("\nsimulated,0,backward,2,0,-1,0,3,4,0,\nsimulated,0,backward,2,1,-1,0,3,4,0,I\n"
                                  "simulated,0,backward_weight,2,1,-1,0,3,4,0,W\n"));
    std::ostringstream chrome;
    export_chrome(trace, chrome);
    EXPECT_THAT(chrome.str(),
                HasSubstr(R"("kind":"backward","partition":2,"micro_batch":1,"skip":-1,"lane":0,"half":"I")"));
}

TEST(CsvExport, QuotesTextsThatNeedIt) {
    OpenedTrace trace;
    trace.names = {"", "a \"b\", c"};
    trace.tracks.emplace_back();
    trace.tracks[0].group = "g";
    trace.tracks[0].name = "t";
    trace.tracks[0].ranges.emplace_back();
    trace.tracks[0].ranges[0].name = 1;
    EXPECT_THAT(csv_of(trace, CsvTable::ranges), HasSubstr("\ng,t,thread,\"a \"\"b\"\", c\",,0,0,0,\n"));
}
}  // namespace
}  // namespace pipescope
