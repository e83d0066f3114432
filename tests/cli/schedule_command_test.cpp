// `pipescope schedule` with valid and invalid command lines.

#include "tests/cli/user.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
using testing::AllOf;
using testing::HasSubstr;

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
    for (const std::string name : {"gpipe", "1f1b", "interleaved", "zero-bubble-h1", "model-parallel"}) {
        EXPECT_THAT(user.succeeds("schedule " + name + " -n 4 -m 8 -o s.csv --force").out, HasSubstr("wrote s.csv"));
        EXPECT_THAT(user.succeeds("schedule s.csv --check").out,
                    AllOf(HasSubstr("4 lanes"), HasSubstr("8 micro-batches"), HasSubstr("no deadlock")))
            << name;
        const auto written = user.succeeds("schedule " + name + " -n 4 -m 8 --json").json();
        EXPECT_EQ(user.succeeds("schedule s.csv --json").json(), written) << name;
        EXPECT_EQ(written.at("partitions"), name == "interleaved" ? 8 : 4);
        EXPECT_EQ(written.at("splits_backward"), name == "zero-bubble-h1");
    }
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

TEST_F(ScheduleCommand, ExplainsWhatIsWrong) {
    user.writes("dead.csv", "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n");
    EXPECT_THAT(refused("schedule dead.csv --check", 1),
                AllOf(HasSubstr("dead.csv: the schedule can never finish"), HasSubstr("which lane 1 runs behind")));
    user.writes("short.csv", "0F0\n");
    EXPECT_THAT(refused("schedule short.csv --check", 1), HasSubstr("short.csv: row 1 lacks 0B0"));
    EXPECT_THAT(refused("schedule none.csv", 1), HasSubstr("none.csv: cannot be opened; "));
    user.writes("empty.csv", "");
    EXPECT_THAT(refused("schedule empty.csv", 1), HasSubstr("empty.csv: is empty; a schedule's CSV file is not; "));
    EXPECT_EQ(user.types_to_shell("mkdir folder.csv").code, 0);
    EXPECT_THAT(refused("schedule folder.csv", 1), HasSubstr("folder.csv: is a directory; "));
    user.writes("binary.csv", std::string("\x1b[2J\0", 5) + std::string(100, 'x'));
    EXPECT_THAT(refused("schedule binary.csv", 1),
                HasSubstr("row 1, column 1 is '\\x1b[2J\\x00" + std::string(35, 'x') + "..'; a cell"));
    EXPECT_THAT(refused("schedule gpipe -n 2 -m 2 --check -o x.csv"), HasSubstr("--check, which writes nothing"));
    EXPECT_THAT(refused("schedule 2f2b -n 2 -m 2"), HasSubstr("schedule '2f2b' is not known"));
    EXPECT_THAT(refused("schedule 1f1b -n 2"), HasSubstr("needs -n LANES and -m MICRO-BATCHES"));
    EXPECT_THAT(refused("schedule 1f1b -n 0 -m 2"), HasSubstr("-n is 0; it must be from 1 to 1023"));
    EXPECT_THAT(refused("schedule interleaved -n 2000000000 -m 2"), HasSubstr("-n is 2000000000; it must be from 1"));
    EXPECT_THAT(
        user.succeeds("schedule gpipe -n 1 -m 1 --check").out,
        HasSubstr("1 lane, 1 partition, 1 micro-batch; every task once, and no deadlock\n2 slots, 0.00 % idle"));
    EXPECT_THAT(refused("schedule 1f1b -n 4 -m 2 --partitions 3"), HasSubstr("--partitions is 3"));
    EXPECT_THAT(refused("schedule 1f1b -n 2 -m 0"), HasSubstr("the number of micro-batches is 0"));
    EXPECT_THAT(refused("schedule interleaved -n 2 -m 3"), HasSubstr("multiple of 2"));
    EXPECT_THAT(refused("schedule short.csv -n 2"), HasSubstr("-n is 2; short.csv says that itself"));
    user.writes("there.csv", "mine");
    EXPECT_THAT(refused("schedule 1f1b -n 2 -m 2 -o there.csv", 1), HasSubstr("--force"));
    EXPECT_EQ(user.reads("there.csv"), "mine");
}
}  // namespace
}  // namespace pipescope
