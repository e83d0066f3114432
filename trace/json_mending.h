#pragma once

#include <array>
#include <cstddef>
#include <istream>
#include <streambuf>
#include <string>

namespace pipescope {
/// Reads JSON and mends what would make a parser refuse the whole file, as viewers of Chrome traces do:
///
///     bytes of a string that are no UTF-8        -> U+FFFD each
///     \ud83d without its other half              -> U+FFFD
///     control characters in a string             -> a space each
///     \q, or \u without four hexadecimal digits  -> the backslash itself
///     NaN, Infinity, nan, inf, with or without - -> null
///     a comma before ] or }                      -> nothing
///
/// Everything else passes unchanged. Cost: about 1 ns a byte. Errors of `in` pass too.
class JsonMending : public std::streambuf {
public:
    /// Keeps a reference to `in`.
    explicit JsonMending(std::istream& in);

    /// Places mended so far.
    std::size_t mended() const { return mended_; }

protected:
    int_type underflow() override;

private:
    /// Mends the piece of a string at in_[at], which is not plain. Returns its end, or `at` if more bytes are needed.
    std::size_t mend_in_string(std::size_t at, bool at_end);
    std::size_t mend_escape(std::size_t at, bool at_end);
    std::size_t mend_bytes(std::size_t at, bool at_end);
    /// Likewise outside strings.
    std::size_t mend_comma(std::size_t at, bool at_end);
    std::size_t mend_word(std::size_t at, bool at_end);
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
    std::size_t mended_ = 0;
};
}  // namespace pipescope
