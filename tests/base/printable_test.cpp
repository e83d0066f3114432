#include "base/printable.h"

#include <gtest/gtest.h>

namespace pipescope {
namespace {
TEST(Printable, KeepsTextInUtf8) {
    const std::string text = "a z\u00e4\u20ac\U0001f600\u00a0~";
    EXPECT_EQ(printable(text), text);
    EXPECT_EQ(printable("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"), "\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf");
}

TEST(Printable, EscapesControlCharacters) {
    EXPECT_EQ(printable("a\x1b[31m\n\x7f"), "a\\x1b[31m\\x0a\\x7f");
    EXPECT_EQ(printable("\xc2\x9b"), "\\x9b") << "C1 in UTF-8";
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
    EXPECT_EQ(printable("\x9b"
                        "31m"),
              "\\x9b"
              "31m")
        << "C1 as one byte";
    EXPECT_EQ(printable("\xc2"), "\\xc2") << "cut off";
    EXPECT_EQ(printable("\xe2\x82"
                        "x"),
              "\\xe2\\x82x")
        << "cut off in the middle";
    EXPECT_EQ(printable("\xc0\x9b \xe0\x82\x9b \xf0\x80\x82\x9b"), "\\xc0\\x9b \\xe0\\x82\\x9b \\xf0\\x80\\x82\\x9b")
        << "longer than needed";
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80") << "half a surrogate pair";
    EXPECT_EQ(printable("\xf4\x90\x80\x80 \xf5 \xff"), "\\xf4\\x90\\x80\\x80 \\xf5 \\xff") << "beyond U+10FFFF";
}
}  // namespace
}  // namespace pipescope
