// `pipescope schedule` with valid and invalid command lines.

#include "schedule/schedules.h"
#include "tests/cli/user.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace pipescope {
namespace {
class ScheduleCommand : public testing::Test {
protected:
    User user;
};

TEST_F(ScheduleCommand, WritesWhatItChecks) {
    EXPECT_EQ(user.succeeds("schedule 1f1b -n 2 -m 3").out,
              "0F0,0F1,,0B0,0F2,0B1,,0B2\r\n,1F0,1B0,1F1,1B1,1F2,1B2,\r\n");
    for (const Schedule& schedule : all_schedules()) {
        const std::string name = to_string(schedule);
        user.succeeds("schedule " + name + " -n 4 -m 8 -o s.csv --force");
        user.succeeds("schedule s.csv --check");
        const auto written = user.succeeds("schedule " + name + " -n 4 -m 8 --json").json();
        EXPECT_EQ(user.succeeds("schedule s.csv --json").json(), written) << name;
        EXPECT_EQ(written.at("partitions"), usual_partitions(schedule, 4)) << name;
        EXPECT_EQ(written.at("splits_backward"), splits_backward(schedule)) << name;
    }
}

TEST_F(ScheduleCommand, FindsAnOrderForMorePartitionsThanLanes) {
    EXPECT_EQ(user.succeeds("schedule auto -n 2 --partitions 6 -m 4 --json").json().at("partitions"), 6);
}

// With equal tasks, (n - 1) / (m + n - 1) of the slots are idle in 1F1B and GPipe; model parallelism leaves all lanes
// but one idle.
TEST_F(ScheduleCommand, CountsIdleSlots) {
    const auto idle = [&](const std::string& schedule) {
        return user.succeeds("schedule " + schedule + " -n 4 -m 8 --json").json().at("idle_fraction").get<double>();
    };
    EXPECT_NEAR(idle("1f1b"), 3. / 11, 1e-12);
    EXPECT_NEAR(idle("gpipe"), 3. / 11, 1e-12);
    EXPECT_NEAR(idle("model-parallel"), 3. / 4, 1e-12);
}

/// Eight layers of 1000 ns forward and 2000 ns backward.
std::string eight_layers() {
    std::string layers;
    for (int layer = 0; layer < 8; ++layer) {
        layers += std::string(layer == 0 ? "" : ",") + R"({"name": "l)" + std::to_string(layer) +
                  R"(", "forward_ns": [1000], "backward_ns": [2000], "output_bytes": [10]})";
    }
    return R"({"format": "pipescope.profile", "version": 1, "model": "m", "samples": [1], "layers": [)" + layers + "]}";
}

TEST_F(ScheduleCommand, WritesFilesThatOtherCommandsTake) {
    user.writes("p.json", eight_layers());
    user.succeeds("schedule zero-bubble-v -n 4 -m 8 -o mine.csv");
    const std::string pipeline = " --balance 1,1,1,1,1,1,1,1 --batch 8 --checkpoint never --json";
    const auto named = user.succeeds("simulate p.json -m 8 --schedule zero-bubble-v" + pipeline).json();
    auto from_file = user.succeeds("simulate p.json --schedule mine.csv" + pipeline).json();
    EXPECT_EQ(from_file.at("schedule"), "mine.csv");
    EXPECT_EQ(from_file.at("micro_batches"), 8);
    from_file["schedule"] = "zero-bubble-v";
    EXPECT_EQ(from_file, named) << "same lanes, same figures";

    const auto balanced = user.succeeds("balance p.json --schedule mine.csv --batch 8 --json").json();
    EXPECT_EQ(balanced.at("balance").size(), 8U);
    EXPECT_EQ(balanced.at("peak_bytes").size(), 4U);
    const auto plan = user.succeeds("plan p.json --schedule mine.csv,1f1b --batch 8 --json").json();
    std::size_t of_file = 0;
    for (const auto& each : plan.at("candidates")) {
        EXPECT_EQ(each.at("lanes").size(), 4U);
        EXPECT_EQ(each.at("micro_batches"), 8);
        of_file += each.at("schedule") == "mine.csv" ? 1 : 0;
    }
    EXPECT_GT(of_file, 0U);
    const auto advice =
        user.succeeds("advise p.json --schedule mine.csv --batch 8 --balance 1,1,1,1,1,1,1,1 --json").json();
    for (const auto& move : advice.at("moves")) {
        const std::string line = move.at("command").get<std::string>();
        EXPECT_EQ(user.succeeds(line.substr(line.find(' ') + 1) + " --json").json().at("step_ns"),
                  move.at("simulation").at("step_ns"))
            << line;
    }
    EXPECT_FALSE(advice.at("moves").empty());

    user.succeeds("simulate p.json --schedule mine.csv --balance 1,1,1,1,1,1,1,1 --batch 8 --trace out.sqlite");
    EXPECT_EQ(user.types_to_shell("rm mine.csv").code, 0);
    EXPECT_EQ(user.types("export out.sqlite --format csv -o tasks.csv").code, 0) << "needs no file";
}

TEST_F(ScheduleCommand, WritesFilesBack) {
    const std::string torchs = "0F0,0F1,,0B0,0B1,0REDUCE_GRAD\r\n,1F0,(1F1;1B0)OVERLAP_F_B,1B1,\r\n";
    user.writes("a.csv", torchs);
    for (const std::string options : {" -o b.csv", " --check -o b.csv --force"}) {
        user.succeeds("schedule a.csv" + options);
        EXPECT_EQ(user.reads("b.csv"), torchs);
    }
    EXPECT_EQ(user.succeeds("schedule a.csv -o -").out, torchs);
    const std::string ours = "# placement 0,0\n0F0,1F0,1L0,0R0,1R0,1I0,0I0,1W0,0W0,0O\n";
    user.writes("OURS.CSV", ours);
    EXPECT_EQ(user.succeeds("schedule OURS.CSV -o -").out, ours);
    user.writes("p.json", eight_layers());
    const std::string simulate = "simulate p.json --schedule OURS.CSV --balance 4,4 --batch 1 --json";
    EXPECT_EQ(user.succeeds(simulate).json().at("lanes").size(), 1U);
    user.succeeds(simulate + " --update staggered");
}

// With one micro-batch, gpipe's loss of the mini-batch is that of the micro-batch.
TEST_F(ScheduleCommand, WritesTheOrderOfOneMicroBatch) {
    user.writes("p.json", eight_layers());
    const std::string pipeline = "simulate p.json --balance 4,4 --batch 1 --checkpoint never --json";
    const auto found = user.succeeds(pipeline + " -m 1 --schedule auto --schedule-output s.csv").json();
    EXPECT_EQ(user.succeeds(pipeline + " --schedule s.csv").json().at("step_ns"), found.at("step_ns"));
    const std::string looped =
        "simulate p.json --balance 1,2,1,2,1,1 --placement 0,1,2,0,1,2 --batch 1 --checkpoint never --json";
    const auto order = user.succeeds(looped + " -m 1 --schedule auto --schedule-output l.csv").json();
    EXPECT_EQ(user.succeeds(looped + " --schedule l.csv").json().at("step_ns"), order.at("step_ns"));
}

TEST_F(ScheduleCommand, PlansFilesWithRecomputes) {
    user.writes("p.json", eight_layers());
    user.writes("r.csv", "0F0,0F1,,,0R0,0B0,0R1,0B1\n,1F0,1R0,1B0,1F1,1R1,1B1\n");
    const auto plan = user.succeeds("plan p.json --schedule r.csv,1f1b --batch 4 -n 2 --json").json();
    std::set<std::string> of_file;
    std::set<std::string> of_name;
    for (const auto& each : plan.at("candidates")) {
        (each.at("schedule") == "r.csv" ? of_file : of_name).insert(each.at("checkpoint").get<std::string>());
    }
    EXPECT_EQ(of_file, std::set<std::string>{"always"});
    EXPECT_GT(of_name.size(), 1U);
}

}  // namespace
}  // namespace pipescope
