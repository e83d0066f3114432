// `pipescope schedule` with valid and invalid command lines.

#include "schedule/schedules.h"
#include "tests/cli/user.h"

#include <gmock/gmock.h>

#include <set>
#include <string>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ScheduleCommand : public testing::Test {
protected:
    std::string refused(const std::string& line, int code = 2) const {
        const CommandResult result = user.types(line);
        EXPECT_EQ(result.code, code) << line << "\n" << result.out;
        EXPECT_EQ(result.out, "") << line;
        return result.err;
    }

    User user;
};

TEST_F(ScheduleCommand, WritesWhatItChecks) {
    EXPECT_EQ(user.succeeds("schedule 1f1b -n 2 -m 3").out,
              "0F0,0F1,,0B0,0F2,0B1,,0B2\r\n,1F0,1B0,1F1,1B1,1F2,1B2,\r\n");
    for (const Schedule& schedule : all_schedules()) {
        const std::string name = to_string(schedule);
        EXPECT_THAT(user.succeeds("schedule " + name + " -n 4 -m 8 -o s.csv --force").out, HasSubstr("wrote s.csv"));
        EXPECT_THAT(user.succeeds("schedule s.csv --check").out,
                    AllOf(HasSubstr("4 lanes"), HasSubstr("8 micro-batches"), HasSubstr("no deadlock")))
            << name;
        const auto written = user.succeeds("schedule " + name + " -n 4 -m 8 --json").json();
        EXPECT_EQ(user.succeeds("schedule s.csv --json").json(), written) << name;
        EXPECT_EQ(written.at("partitions"), usual_partitions(schedule, 4)) << name;
        EXPECT_EQ(written.at("splits_backward"), splits_backward(schedule)) << name;
    }
}

// The last lane starts three slots late, and then works for three slots per micro-batch.
TEST_F(ScheduleCommand, FindsTheBestOrderOfEqualTasks) {
    EXPECT_THAT(user.succeeds("schedule auto -n 4 -m 8 -o best.csv").out, HasSubstr("27 slots"));
    EXPECT_THAT(user.succeeds("schedule best.csv --check").out, HasSubstr("27 slots"));
    EXPECT_THAT(user.succeeds("schedule auto -n 2 --partitions 6 -m 4 --json").out, HasSubstr("\"partitions\": 6"));
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
    EXPECT_THAT(user.succeeds("balance p.json --schedule mine.csv --batch 8").out,
                HasSubstr("no lower bound is known"));
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
        EXPECT_THAT(user.succeeds("schedule a.csv" + options).out, HasSubstr("wrote b.csv: 2 lanes"));
        EXPECT_EQ(user.reads("b.csv"), torchs);
    }
    EXPECT_EQ(user.succeeds("schedule a.csv -o -").out, torchs);
    EXPECT_THAT(user.succeeds("schedule a.csv").out, Not(HasSubstr("0F0")));
    const std::string ours = "# placement 0,0\n0F0,1F0,1L0,0R0,1R0,1I0,0I0,1W0,0W0,0O\n";
    user.writes("OURS.CSV", ours);
    EXPECT_EQ(user.succeeds("schedule OURS.CSV -o -").out, ours);
    user.writes("p.json", eight_layers());
    const std::string simulate = "simulate p.json --schedule OURS.CSV --balance 4,4 --batch 1 --json";
    EXPECT_EQ(user.succeeds(simulate).json().at("lanes").size(), 1U);
    user.succeeds(simulate + " --update staggered");
}

TEST_F(ScheduleCommand, RefusesWithARemedyThatHelps) {
    EXPECT_THAT(refused("schedule 1f1b -n 4 -m 8 --partitions 8"), HasSubstr("use 4 partitions, or another schedule"));
    EXPECT_THAT(refused("schedule zero-bubble-v -n 4 -m 8 --partitions 12"), HasSubstr("use 8 partitions, or 6 lanes"));
    EXPECT_THAT(refused("schedule interleaved -n 4 -m 9"), HasSubstr("9 do not divide into 2 groups; use 8 or 10"));
    EXPECT_THAT(refused("schedule gpipe -n 1000 -m 60000"), HasSubstr("has 60000000 forwards"));
    EXPECT_THAT(refused("schedule none.csv -n 2", 1), HasSubstr("none.csv: cannot be opened"));
    EXPECT_THAT(refused("schedule s.txt -n 2 -m 2"), HasSubstr("the name of a file ends in .csv"));
    EXPECT_THAT(refused("schedule 1f1b -n 2 -m 2 -o s.txt"), HasSubstr("s.txt is no name for a schedule"));
    EXPECT_THAT(refused("schedule 1f1b -n 2 -m 2 -o - --json"), HasSubstr("both print to stdout"));
    user.writes("p.json", eight_layers());
    const std::string automatic = "simulate p.json --schedule auto --balance 4,4 -m 4 --batch 8 --schedule-output ";
    EXPECT_THAT(refused(automatic + "-"), HasSubstr("- is no name for a schedule"));
    EXPECT_THAT(refused(automatic + "s.txt"), HasSubstr("try s.csv"));
    user.succeeds("schedule 1f1b -n 2 -m 4 -o s.csv");
    EXPECT_THAT(refused("simulate p.json --schedule s.csv --balance 4,4 --batch 6 --replicas 2"),
                AllOf(HasSubstr("each of 2 replicas has 3 micro-batches"), HasSubstr("to at least 8 samples")));
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
    EXPECT_THAT(refused("plan p.json --schedule r.csv --batch 4 --checkpoint never"), HasSubstr("checkpoint is never"));
}

TEST_F(ScheduleCommand, ContradictionsOfAFileAreRefused) {
    user.writes("p.json", eight_layers());
    user.succeeds("schedule 1f1b -n 2 -m 4 -o mine.csv");
    const std::string simulate = "simulate p.json --schedule mine.csv --batch 8 --balance ";
    EXPECT_THAT(refused(simulate + "4,4 -m 8"),
                HasSubstr("chunks is 8; the schedule mine.csv has 4 micro-batches; leave"));
    EXPECT_THAT(refused(simulate + "4,2,2"), HasSubstr("3 partitions; the schedule mine.csv is for 2 partitions"));
    EXPECT_THAT(refused(simulate + "4,4 --placement 1,0"), HasSubstr("placement is 1,0; the schedule mine.csv has"));
    EXPECT_THAT(refused(simulate + "4,4 --backward last-first"), HasSubstr("--backward is last-first"));
    EXPECT_THAT(
        refused("simulate p.json --schedule mine.csv --batch 3 --balance 4,4"),
        HasSubstr("3 micro-batches; the schedule mine.csv is for 4 micro-batches; change the batch to at least 4 "
                  "samples"));
    EXPECT_THAT(refused("simulate p.json --schedule 1f1b --batch 8 --balance 4,4"), HasSubstr("--chunks is required"));
    EXPECT_THAT(refused("balance p.json --schedule mine.csv --batch 8 -n 3"),
                HasSubstr("--partitions is 3; the schedule mine.csv has 2 partitions"));
    EXPECT_THAT(refused("balance p.json --schedule 1f1b --batch 8 -m 4"), HasSubstr("--partitions is required"));
    EXPECT_THAT(refused("plan p.json --schedule mine.csv --batch 8 -n 3"),
                HasSubstr("schedule mine.csv needs 2 lanes, 2 layers or more, and 4 micro-batches"));
    user.writes("dead.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
    EXPECT_THAT(refused("simulate p.json --schedule dead.csv --batch 8 --balance 4,4", 1),
                HasSubstr("dead.csv: the schedule can never finish: backward (0, 0) on lane 0 waits for"));
    user.writes("short.csv", "0F0\n");
    EXPECT_THAT(refused("simulate p.json --schedule short.csv --batch 8 --balance 8", 1),
                HasSubstr("short.csv: row 1 lacks 0B0"));
    EXPECT_THAT(refused("plan p.json --schedule none.csv --batch 8", 1), HasSubstr("none.csv: cannot be opened; "));
}

TEST_F(ScheduleCommand, ExplainsWhatIsWrong) {
    user.writes("dead.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
    EXPECT_THAT(refused("schedule dead.csv --check", 1),
                AllOf(HasSubstr("dead.csv: the schedule can never finish"), HasSubstr("which lane 1 runs after")));
    user.writes("short.csv", "0F0\n");
    EXPECT_THAT(refused("schedule short.csv --check", 1), HasSubstr("short.csv: row 1 lacks 0B0"));
    EXPECT_THAT(refused("schedule none.csv", 1), HasSubstr("none.csv: cannot be opened; "));
    user.writes("empty.csv", "");
    EXPECT_THAT(refused("schedule empty.csv", 1), HasSubstr("empty.csv: is empty; a schedule's CSV file is not; "));
    EXPECT_EQ(user.types_to_shell("mkdir folder.csv").code, 0);
    EXPECT_THAT(refused("schedule folder.csv", 1), HasSubstr("folder.csv: is a directory; "));
    user.writes("binary.csv", std::string("\x1b[2J\x01", 5) + std::string(100, 'x'));
    EXPECT_THAT(refused("schedule binary.csv", 1),
                HasSubstr("row 1, column 1 is '\\x1b[2J\\x01" + std::string(35, 'x') + "..'; a cell"));
    EXPECT_THAT(refused("schedule 2f2b -n 2 -m 2"), HasSubstr("schedule '2f2b' is not known"));
    EXPECT_THAT(refused("schedule 1f1b -n 2"), HasSubstr("needs -n LANES and -m MICRO-BATCHES"));
    EXPECT_THAT(refused("schedule 1f1b -n 0 -m 2"), HasSubstr("-n is 0; it must be from 1 to 1023"));
    EXPECT_THAT(refused("schedule interleaved -n 2000000000 -m 2"), HasSubstr("-n is 2000000000; it must be from 1"));
    EXPECT_THAT(
        user.succeeds("schedule gpipe -n 1 -m 1 --check").out,
        HasSubstr("1 lane, 1 partition, 1 micro-batch; every task once, and no deadlock\n2 slots, 0.00 % idle"));
    EXPECT_THAT(refused("schedule 1f1b -n 4 -m 2 --partitions 3"), HasSubstr("--partitions is 3"));
    EXPECT_THAT(refused("schedule 1f1b -n 2 -m 0"), HasSubstr("the number of micro-batches is 0"));
    EXPECT_THAT(refused("schedule interleaved -n 2 -m 5"), HasSubstr("5 do not divide into 2 groups"));
    user.writes("own.csv", "0F0,0B0\n");
    EXPECT_THAT(refused("schedule own.csv -n 2"), HasSubstr("-n is 2; own.csv says that itself"));
    user.writes("there.csv", "mine");
    EXPECT_THAT(refused("schedule 1f1b -n 2 -m 2 -o there.csv", 1), HasSubstr("--force"));
    EXPECT_EQ(user.reads("there.csv"), "mine");
}
}  // namespace
}  // namespace pipescope
