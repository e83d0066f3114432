#include "trace/foreign/json_scanner.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <random>
#include <streambuf>
#include <string>

namespace pipescope {
namespace {
using nlohmann::json;

/// Serves a text in pieces of a few bytes.
class Pieces : public std::streambuf {
public:
    Pieces(const std::string& text, std::size_t size) : text_(text), size_(size) {}

protected:
    int_type underflow() override {
        if (at_ == text_.size()) {
            return traits_type::eof();
        }
        const std::size_t length = std::min(size_, text_.size() - at_);
        piece_ = text_.substr(at_, length);
        at_ += length;
        setg(piece_.data(), piece_.data(), piece_.data() + length);
        return traits_type::to_int_type(piece_.front());
    }

private:
    const std::string& text_;
    std::size_t size_;
    std::size_t at_ = 0;
    std::string piece_;
};

/// Writes down what a parser reports: "{ k:a u1 }".
struct Notes {
    std::string all;
    bool add(const std::string& what) {
        all += what + ' ';
        return true;
    }
};

struct ScannerSax : Notes {
    bool null() { return add("null"); }
    bool boolean(bool value) { return add(value ? "true" : "false"); }
    bool number_unsigned(std::uint64_t value) { return add("u" + std::to_string(value)); }
    bool number_integer(std::int64_t value) { return add("i" + std::to_string(value)); }
    bool number_float(std::string_view value) { return add("f" + std::string(value)); }
    bool text(std::string_view value) { return add("t:" + std::string(value)); }
    bool key(std::string_view value) { return add("k:" + std::string(value)); }
    bool start_object() { return add("{"); }
    bool end_object() { return add("}"); }
    bool start_array() { return add("["); }
    bool end_array() { return add("]"); }
};

struct ParserSax : nlohmann::json_sax<json>, Notes {
    bool null() override { return add("null"); }
    bool boolean(bool value) override { return add(value ? "true" : "false"); }
    bool number_unsigned(std::uint64_t value) override { return add("u" + std::to_string(value)); }
    bool number_integer(std::int64_t value) override { return add("i" + std::to_string(value)); }
    bool number_float(double, const std::string& value) override { return add("f" + value); }
    bool string(std::string& value) override { return add("t:" + value); }
    bool binary(json::binary_t&) override { return true; }
    bool key(std::string& value) override { return add("k:" + value); }
    bool start_object(std::size_t) override { return add("{"); }
    bool end_object() override { return add("}"); }
    bool start_array(std::size_t) override { return add("["); }
    bool end_array() override { return add("]"); }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
};

/// Expects what nlohmann's parser reports, whatever the pieces are.
void expect_same(const std::string& text) {
    ParserSax parser;
    const bool is_json = json::sax_parse(text, &parser);
    for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, text.size() + 1}) {
        Pieces pieces(text, size);
        JsonScanner scanner(pieces);
        ScannerSax sax;
        const JsonScanner::Outcome outcome = scanner.scan(sax);
        ASSERT_EQ(outcome == JsonScanner::Outcome::done, is_json) << text << " in pieces of " << size;
        if (is_json) {
            ASSERT_EQ(sax.all, parser.all) << text << " in pieces of " << size;
        }
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
