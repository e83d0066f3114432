#pragma once

#include "base/error.h"

#include <array>
#include <cstddef>
#include <istream>
#include <streambuf>
#include <string>

namespace pipescope {
/// A JSON file has a text longer than kMostJsonText, a number of over 64 KiB, or a byte 0 outside texts.
class UnreadableJson : public Error {
public:
    using Error::Error;
};
/// A parser holds a text as a whole, and a compressed file can contain a huge text at no cost to its author.
inline constexpr std::size_t kMostJsonText = std::size_t{16} << 20U;

/// Reads JSON and mends faults for which a parser would refuse the whole file, as viewers of Chrome traces do:
///
///     bytes of a string that are not UTF-8       -> U+FFFD each
///     \ud83d without its other half              -> U+FFFD
///     control characters in a string             -> a space each
///     \q, or \u without four hexadecimal digits  -> the backslash itself
///     NaN, Infinity, nan, inf, with or without - -> null
///     a number beyond a double's, such as 1e309  -> null
///     a comma before ] or }                      -> nothing; up to 64 KiB of white space may be between them
///
/// Everything else passes unchanged. Cost: O(bytes), about 1 ns a byte; memory: a few pieces of 64 KiB. Throws
/// UnreadableJson; exceptions from `in` pass.
class JsonMending : public std::streambuf {
public:
    /// Keeps a reference to `in`.
    explicit JsonMending(std::istream& in);

    /// Places mended so far.
    std::size_t mended() const { return mended_; }

protected:
    int_type underflow() override;

private:
    /// Mends the escape or character at in_[at], inside a string. Returns its end, or `at` if more bytes are needed.
    std::size_t mend_in_string(std::size_t at, bool at_end);
    std::size_t mend_escape(std::size_t at, bool at_end);
    std::size_t mend_bytes(std::size_t at, bool at_end);
    /// True if a value or a key follows the comma, so that it stays.
    bool is_before_value(std::size_t comma) const;
    /// The same outside strings, for a comma that is not before a value, as far as is known.
    std::size_t mend_comma(std::size_t at, bool at_end);
    std::size_t mend_word(std::size_t at, bool at_end);
    std::size_t mend_number(std::size_t at, bool at_end);
    /// Finds a number that ends within the plain bytes from `at` to `end`, or right after them, and may be too large
    /// for a double. Returns its start, or `end` if there is none.
    std::size_t large_number(std::size_t at, std::size_t end) const;
    void mend();
    std::size_t replace(const char* with, std::size_t end) {
        out_ += with;
        ++mended_;
        return end;
    }

    std::istream& in_stream_;
    std::string in_;   // not yet passed on
    std::string out_;  // what the reader reads
    std::array<bool, 256> plain_in_string_{};
    std::array<bool, 256> plain_outside_{};
    bool in_string_ = false;
    std::size_t text_ = 0;  // bytes of the open string so far
    std::size_t mended_ = 0;
};
}  // namespace pipescope
