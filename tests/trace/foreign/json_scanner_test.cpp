#include "trace/foreign/json_scanner.h"
#include "tests/trace/foreign/parsed_json.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <string>

namespace pipescope {
namespace {
/// Expects what nlohmann's parser reports, whatever the pieces are.
void expect_same(const std::string& text) {
    const std::optional<std::string> expected = parsed_json(text);
    for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, text.size() + 1}) {
        ASSERT_EQ(scanned_json(text, size), expected) << text << " in pieces of " << size;
    }
}

TEST(JsonScanner, ReadsWhatAParserReads) {
    for (const char* text : {"[]",
                             "{}",
                             " [ ] ",
                             "7",
                             "-0",
                             "-12",
                             "1.5",
                             "-1e-7",
                             "0.25E+3",
                             "18446744073709551615",
                             "18446744073709551616",
                             "-9223372036854775808",
                             "-9223372036854775809",
                             "\"a\"",
                             "\"\"",
                             R"("\"\\\/\b\f\n\r\t\u00e9\u20ac\ud83d\ude00")",
                             R"({"a": [1, {"b": null}, true, false], "c": {}})",
                             "\xef\xbb\xbf[1]",
                             "[[[[]]],[]]",
                             R"(["ü€😀"])"}) {
        expect_same(text);
    }
}

TEST(JsonScanner, RefusesWhatAParserRefuses) {
    for (const char* text :
         {"",      " ",   "[",       "]",         "{",           "}",           "[1",          "[1,",        "[,1]",
          "[1 2]", "[1}", "{1:2}",   R"({"a")",   R"({"a":)",    R"({"a" 1})",  R"({"a":1,})", "[1,]",       "01",
          "-",     "1.",  "1e",      ".5",        "+1",          "tru",         "nul",         "truex",      "[1]]",
          "[] 1",  "\"a", R"("\x")", R"("\u12")", R"("\ud800")", R"("\ude00")", "\xef\xbb[1]", "[\"a\nb\"]", "NaN"}) {
        expect_same(text);
    }
}

TEST(JsonScanner, AgreesWithAParserOnDamagedText) {
    const std::string sound =
        R"({"traceEvents": [{"ph": "X", "ts": 12.5, "dur": -3e2, "args": {"a": [1, 2], "b": "x\ny"}}, {}], "n": null})";
    std::mt19937 random(7);
    for (int k = 0; k < 3000; ++k) {
        std::string text = sound;
        for (int changes = 0; changes < 1 + k % 3; ++changes) {
            const std::size_t at = random() % text.size();
            constexpr std::string_view kBytes = R"({}[],:"\0159-+.eEtfnul )";
            switch (random() % 3) {
                case 0: text[at] = kBytes[random() % kBytes.size()]; break;
                case 1: text.erase(at, 1 + random() % 3); break;
                default: text.insert(at, 1, kBytes[random() % kBytes.size()]);
            }
        }
        expect_same(text);
    }
}

TEST(JsonScanner, TellsTextThatEndsTooEarlyFromOtherFaults) {
    const auto ends_early = [](const std::string& text) {
        Pieces pieces(text, 3);
        JsonScanner scanner(pieces);
        ScannerSax sax;
        EXPECT_EQ(scanner.scan(sax), JsonScanner::Outcome::fault) << text;
        return scanner.at_end();
    };
    for (const char* text : {"[", "[1", "[1,", "[1.", "[\"a", "[\"\\u00", "[tr", "{\"a\":", "{\"a\":[{}"}) {
        EXPECT_TRUE(ends_early(text)) << text;
    }
    for (const char* text : {"[1 2]", "[1}", "[x", "{1", "[1]]", "[trx"}) {
        EXPECT_FALSE(ends_early(text)) << text;
    }
}
}  // namespace
}  // namespace pipescope
