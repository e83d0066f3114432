#include "answers/option_table.h"

#include "base/error.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>

#include <optional>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

struct Question {
    std::optional<int> lanes;
    std::int64_t batch = 0;
    std::string file;
    std::vector<std::string> devices;
    bool quickly = false;
};

OptionTable table_of(Question& question) {
    OptionTable table;
    table.add_number("-n,--lanes", question.lanes, "Lanes", "N", "Pipeline").use = OptionUse::lanes;
    table.add_number("--batch", question.batch, "Samples", "N", "Pipeline");
    table.add_text("--file-name,--name", question.file, "File", "FILE");
    table.add_list("--devices", question.devices, "Devices", "LIST");
    table.add_flag("--quickly", question.quickly, "Quickly").use = OptionUse::cluster;
    table.require({"batch"});
    return table;
}

TEST(OptionTable, SetsTheFieldsOfAQuestion) {
    Question question;
    OptionTable table = table_of(question);
    table.take({{"devices", "a,b"}, {"quickly", true}, {"batch", "8"}, {"file-name", "x.json"}});
    EXPECT_EQ(question.batch, 8);
    EXPECT_EQ(question.file, "x.json");
    EXPECT_EQ(question.lanes, std::nullopt);
    EXPECT_TRUE(question.quickly);
    EXPECT_THAT(question.devices, ElementsAre("a", "b"));
    EXPECT_TRUE(table.is_given("batch"));
    EXPECT_FALSE(table.is_given("lanes"));
    EXPECT_EQ(table.row("lanes").short_name, "n");
    EXPECT_EQ(table.row("file-name").alias, "name");
}

TEST(OptionTable, TakesTheItemsOfAListAsTheyAre) {
    Question question;
    OptionTable table = table_of(question);
    table.take({{"batch", "8"}, {"devices", std::vector<std::string>{"a,b", "c"}}, {"quickly", false}});
    EXPECT_THAT(question.devices, ElementsAre("a,b", "c"));
    EXPECT_FALSE(table.is_given("quickly"));
}

TEST(OptionTable, NamesTheOptionOfAWrongValue) {
    const auto refuses = [](const std::vector<OptionValue>& values, const std::string& why) {
        Question question;
        EXPECT_THAT(thrown<UsageError>([&] { table_of(question).take(values); }), HasSubstr(why));
    };
    refuses({}, "--batch is required");
    refuses({{"batch", "x"}}, "--batch is 'x'");
    refuses({{"batch", "1.5"}}, "--batch is '1.5'");
    refuses({{"batch", "010"}}, "--batch");
    refuses({{"batch", "99999999999999999999"}}, "too large");
    refuses({{"lanes", "3000000000"}}, "--lanes is 3000000000");
    refuses({{"batch", true}}, "--batch is True");
    refuses({{"quickly", "1"}}, "--quickly is 1");
    refuses({{"file-name", ""}}, "--file-name");
    refuses({{"devices", std::vector<std::string>{}}}, "--devices");
    refuses({{"devices", "a,,b"}}, "--devices is 'a,,b'");
}

TEST(OptionTable, RefusesOptionsOfTheOtherFormOfTheQuestion) {
    Question question;
    OptionTable table = table_of(question);
    table.take({{"batch", "8"}, {"lanes", "2"}});
    table.check_use(false);
    EXPECT_THAT(thrown<UsageError>([&] { table.check_use(true); }), HasSubstr("--lanes"));
    OptionTable other = table_of(question);
    other.take({{"batch", "8"}, {"quickly", true}});
    other.check_use(true);
    EXPECT_THAT(thrown<UsageError>([&] { other.check_use(false); }), HasSubstr("--quickly"));
}
}  // namespace
}  // namespace pipescope
