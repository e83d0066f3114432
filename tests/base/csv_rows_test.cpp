#include "base/csv_rows.h"
#include "base/error.h"
#include "base/scratch_folder.h"
#include "tests/thrown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace pipescope {
namespace {
using ::testing::HasSubstr;

class CsvRows : public testing::Test {
protected:
    std::vector<CsvRow> rows_of(const std::string& text) const {
        const std::filesystem::path file = folder_.path() / "rows.csv";
        std::ofstream(file) << text;
        return read_csv_rows(file, "a CSV of figures", 3);
    }
    ScratchFolder folder_;
};

TEST_F(CsvRows, AreReadByTheNamesOfTheHeader) {
    const std::vector<CsvRow> rows = rows_of("# ours\na, b,c\n\n1,2.5, x y \r\n\"7,8\",,\"say \"\"it\"\"\"\n");
    ASSERT_EQ(rows.size(), 2U);
    EXPECT_EQ(rows[0].count("a"), 1);
    EXPECT_EQ(rows[0].number("b"), 2.5);
    EXPECT_EQ(rows[0].text("c"), "x y");
    EXPECT_EQ(rows[1].text("a"), "7,8");
    EXPECT_EQ(rows[1].text("b"), "");
    EXPECT_EQ(rows[1].text("c"), "say \"it\"");
    EXPECT_TRUE(rows[1].has("b"));
    EXPECT_FALSE(rows[1].has("d"));
    EXPECT_THAT(rows[1].place(), HasSubstr("rows.csv, line 5"));
}

TEST_F(CsvRows, MayBeginWithAByteOrderMark) {
    EXPECT_EQ(rows_of("\xef\xbb\xbf"
                      "a,b\n1,2\n")
                  .front()
                  .count("a"),
              1);
}

TEST_F(CsvRows, NameTheLineOfAFault) {
    const auto refuses = [&](const std::string& text, const std::string& part) {
        EXPECT_THAT(thrown<UsageError>([&] { rows_of(text); }), HasSubstr(part)) << text;
    };
    refuses("a,b\n1\n", "line 2: it has 1 cells; the header has 2");
    refuses("a,a\n1,2\n", "line 1: column a appears twice");
    refuses("a,b\n\"1,2\n", "line 2: a cell has a quote that does not end");
    refuses("a,b\n\"1\"x,2\n", "line 2: a cell goes on after its quotes");
    refuses("a\n", "it has no row below its header");
    refuses("a\n1\n2\n3\n4\n", "line 5: more than 3 rows");
    EXPECT_THAT(thrown<UsageError>([&] { rows_of("a\nx\n").front().number("a"); }),
                HasSubstr("a is 'x'; it is a number"));
    EXPECT_THAT(thrown<UsageError>([&] { rows_of("a\n1.5\n").front().count("a"); }), HasSubstr("a whole number"));
    EXPECT_THAT(thrown<UsageError>([&] { rows_of("a\n1\n").front().text("b"); }), HasSubstr("no column b"));
}
}  // namespace
}  // namespace pipescope
