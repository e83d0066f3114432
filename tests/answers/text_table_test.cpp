#include "answers/text_table.h"

#include "base/error.h"

#include <gmock/gmock.h>

namespace pipescope {
namespace {
TEST(TextTable, AlignsColumnsToTheirWidestCell) {
    TextTable table({{"lane"}, {"device", Align::left}, {"busy"}});
    table.add_row({"0", "cpu", "12.34 ms"});
    table.add_row({"10", "cuda:0", "1 ms"});
    EXPECT_EQ(table.str(),
              "lane  device      busy\n"
              "   0  cpu     12.34 ms\n"
              "  10  cuda:0      1 ms\n");
}

TEST(TextTable, LeavesNoBlanksAtTheEndOfALine) {
    TextTable table({{"name", Align::left}, {"note", Align::left}});
    table.add_row({"a", ""});
    EXPECT_EQ(table.str(), "name  note\na\n");
}

TEST(TextTable, WritesMarkdown) {
    TextTable table({{"name", Align::left}, {"step"}});
    table.add_row({"real", "1 ms"});
    EXPECT_EQ(table.markdown(), "| name | step |\n| --- | ---: |\n| real | 1 ms |\n");
}

TEST(TextTable, RefusesARowThatDoesNotFit) {
    TextTable table({{"one"}});
    EXPECT_THROW(table.add_row({"1", "2"}), Error);
}

TEST(TextTable, EscapesControlCharactersAndCountsLetters) {
    TextTable table({{"layer", Align::left}, {"time"}});
    table.add_row({"a\x1b[31m\nb\x7f\xc2\x9b\xc3\xa9", "1"});
    table.add_row({"c", "2"});
    EXPECT_EQ(table.str(),
              "layer                    time\n"
              "a\\x1b[31m\\x0a"
              "b\\x7f\\x9b\xc3\xa9     1\n"
              "c                           2\n");
}
}  // namespace
}  // namespace pipescope
