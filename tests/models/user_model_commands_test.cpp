// User models in commands: profile, balance and run accept a library or a TorchScript file like a zoo model.
// model of the zoo.

#include "tests/cli/user.h"
#include "tests/models/script_file.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <string>

namespace pipescope {
namespace {
/// Profiles the model, balances it for two lanes and trains it.
void expect_whole_way(const std::string& model, std::size_t num_layers) {
    const User user;
    user.succeeds("profile '" + model + "' -o p.json --micro-batch-sizes 2,4 --time-limit 2s");
    ASSERT_TRUE(user.has("p.json"));
    EXPECT_EQ(nlohmann::json::parse(user.reads("p.json")).at("layers").size(), num_layers);
    const auto balanced = user.succeeds("balance p.json -n 2 -m 2 --batch 8 --json").json();
    const auto cut = balanced.at("balance").get<std::vector<int>>();
    ASSERT_EQ(cut.size(), 2U);
    EXPECT_EQ(cut[0] + cut[1], static_cast<int>(num_layers));
    const auto ran = user.succeeds("run '" + model + "' --balance " + std::to_string(cut[0]) + "," +
                                   std::to_string(cut[1]) + " -m 2 --batch 8 --steps 3 --json")
                         .json();
    EXPECT_EQ(ran.at("steps").size(), 3U);
    EXPECT_EQ(ran.at("lanes").size(), 2U);
}

TEST(UserModelCommands, TakeATorchScriptFile) {
    ScriptFile file("commands");
    file.linear(6, 16);
    file.child("torch.relu(x)");
    file.linear(16, 16);
    file.child("torch.tanh(x)");
    file.linear(16, 3);
    expect_whole_way(file.write() + ":input=6,loss=cross_entropy", 5);
}

TEST(UserModelCommands, TakeALibrary) {
    expect_whole_way(PIPESCOPE_EXAMPLE_LIBRARY ":width=16,blocks=3", 5);
}
// Two layers, two micro-batches, three steps; all but the last micro-batch are recomputed. Ranges from the profiling
// before the recording are not included.
TEST(UserModelCommands, RecordTheRangesOfALibrary) {
    const User user;
    user.succeeds("run '" PIPESCOPE_RANGING_LIBRARY
                  "' --balance 1,1 -m 2 --batch 4 --steps 3 --checkpoint except_last --trace t.sqlite");
    SQLite::Database trace(user.folder() / "t.sqlite");
    EXPECT_EQ(trace.execAndGet("SELECT count(*) FROM NVTX_EVENTS WHERE text = 'of the model''s library'").getInt(),
              3 * 2 * (2 + 1));
    EXPECT_EQ(trace
                  .execAndGet("SELECT count(*) FROM NVTX_EVENTS AS r WHERE r.text = 'of the model''s library' AND NOT "
                              "EXISTS (SELECT 1 FROM NVTX_EVENTS AS t JOIN PIPESCOPE_TASK ON nvtxId = t.rowid WHERE "
                              "t.globalTid = r.globalTid AND t.start <= r.start AND r.end <= t.end)")
                  .getInt(),
              0)
        << "each lies within its task's";
}
}  // namespace
}  // namespace pipescope
