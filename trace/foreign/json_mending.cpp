#include "trace/foreign/json_mending.h"

#include "base/printable.h"
#include "base/quantities.h"
#include "trace/foreign/hex_digit.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace pipescope {
namespace {
constexpr std::size_t kPiece = 1 << 16;
constexpr const char* kReplacement = "\xef\xbf\xbd";  // U+FFFD

constexpr std::size_t kDigitsOfDouble = 309;  // a whole number with fewer digits fits a double

bool is_of_number(char c) {
    return (c >= '0' && c <= '9') || c == '.';
}

bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

bool is_exponent(char c) {
    return c == 'e' || c == 'E';
}

[[noreturn]] void refuse_token(const char* what, std::size_t most) {
    throw UnreadableJson(
        fmt::format("it has a {} of over {}; names and arguments of events are shorter; leave the event out", what,
                    format_bytes(static_cast<Bytes>(most))));
}

unsigned char byte_of(char c) {
    return static_cast<unsigned char>(c);
}

/// The value of the four hexadecimal digits in "\u12ab". Empty if they are not hexadecimal.
std::optional<unsigned> code_unit(std::string_view escape) {
    unsigned value = 0;
    for (const char c : escape.substr(2, 4)) {
        const std::optional<unsigned> digit = hex_digit(c);
        if (!digit) {
            return std::nullopt;
        }
        value = value * 16 + *digit;
    }
    return value;
}
}  // namespace

JsonMending::JsonMending(std::istream& in) : in_stream_(in) {
    for (std::size_t byte = 0; byte < plain_in_string_.size(); ++byte) {
        plain_in_string_[byte] = byte >= 0x20 && byte < 0x80 && byte != '"' && byte != '\\';
        plain_outside_[byte] =
            byte != 0 && std::string_view("\",-NIniEe").find(static_cast<char>(byte)) == std::string_view::npos;
    }
}

std::size_t JsonMending::mend_escape(std::size_t at, bool at_end) {
    constexpr std::size_t kUnit = 6;  // length of "\u12ab"
    const std::string_view rest = std::string_view(in_).substr(at);
    const auto passed = [&](std::size_t length) {
        out_ += rest.substr(0, length);
        return at + length;
    };
    if (rest.size() < 2) {
        return at_end ? passed(1) : at;
    }
    if (std::string_view("\"\\/bfnrt").find(rest[1]) != std::string_view::npos) {
        return passed(2);
    }
    if (rest[1] != 'u') {
        return replace("\\\\", at + 1);
    }
    if (rest.size() < 2 * kUnit && !at_end) {
        return at;
    }
    const std::optional<unsigned> unit = rest.size() >= kUnit ? code_unit(rest) : std::nullopt;
    if (!unit) {
        return replace("\\\\", at + 1);
    }
    if (*unit < 0xd800 || *unit > 0xdfff) {
        return passed(kUnit);
    }
    const bool has_next = *unit < 0xdc00 && rest.size() >= 2 * kUnit && rest.substr(kUnit, 2) == "\\u";
    const std::optional<unsigned> next = has_next ? code_unit(rest.substr(kUnit)) : std::nullopt;
    return next && *next >= 0xdc00 && *next <= 0xdfff ? passed(2 * kUnit) : replace(kReplacement, at + kUnit);
}

std::size_t JsonMending::mend_bytes(std::size_t at, bool at_end) {
    constexpr std::size_t kLongest = 4;
    const std::string_view rest = std::string_view(in_).substr(at, kLongest);
    const std::size_t length = utf8_length(rest);
    if (length == 0) {
        return rest.size() < kLongest && !at_end ? at : replace(kReplacement, at + 1);
    }
    out_ += rest.substr(0, length);
    return at + length;
}

std::size_t JsonMending::mend_in_string(std::size_t at, bool at_end) {
    const unsigned char byte = byte_of(in_[at]);
    if (byte == '\\') {
        return mend_escape(at, at_end);
    }
    return byte < 0x20 ? replace(" ", at + 1) : mend_bytes(at, at_end);
}

std::size_t JsonMending::mend_comma(std::size_t at, bool at_end) {
    const std::size_t next = in_.find_first_not_of(" \t\r\n", at + 1);
    if (next != std::string::npos) {
        return replace("", at + 1);
    }
    if (!at_end && in_.size() - at < kPiece) {
        return at;
    }
    out_ += ',';
    return at + 1;
}

std::size_t JsonMending::mend_word(std::size_t at, bool at_end) {
    constexpr std::size_t kLongest = 9;  // length of "-Infinity"
    const std::string_view rest = std::string_view(in_).substr(at, kLongest);
    if (rest[0] == '\0') {
        throw UnreadableJson("it has a byte 0 outside of texts, where parsers end; export it again");
    }
    if (rest.size() < kLongest && !at_end) {
        return at;
    }
    const std::size_t sign = rest[0] == '-' ? 1 : 0;
    if (sign == 1 && rest.size() > 1 && is_of_number(rest[1])) {
        return mend_number(at, at_end);
    }
    for (const std::string_view word : {"NaN", "nan", "Infinity", "inf"}) {
        if (rest.substr(sign).starts_with(word)) {
            return replace("null", at + sign + word.size());
        }
    }
    out_ += rest[0];
    return at + 1;
}

std::size_t JsonMending::large_number(std::size_t at, std::size_t end) const {
    std::size_t digits = 0;
    for (std::size_t k = at; end - at >= kDigitsOfDouble && k < end; ++k) {
        digits = is_of_number(in_[k]) ? digits + 1 : 0;
        if (digits == kDigitsOfDouble) {
            return k + 1 - digits;
        }
    }
    std::size_t begin = end;
    if (end == in_.size() || is_exponent(in_[end])) {
        while (begin > at && is_of_number(in_[begin - 1])) {
            --begin;
        }
    }
    return begin;
}

std::size_t JsonMending::mend_number(std::size_t at, bool at_end) {
    const auto behind = [&](std::size_t from) {
        const auto end = std::find_if_not(in_.begin() + static_cast<std::ptrdiff_t>(from), in_.end(), is_of_number);
        return static_cast<std::size_t>(end - in_.begin());
    };
    const bool negative = in_[at] == '-';
    std::size_t end = behind(at + (negative ? 1 : 0));
    bool grows = false;
    if (end < in_.size() && is_exponent(in_[end])) {
        const std::size_t sign = end + 1;
        grows = sign < in_.size() && in_[sign] != '-';
        end = behind(sign + (sign < in_.size() && (in_[sign] == '-' || in_[sign] == '+') ? 1 : 0));
    }
    if (end - at > kPiece) {
        refuse_token("number", kPiece);
    }
    if (end >= in_.size() && !at_end) {
        return at;
    }
    end = std::min(end, in_.size());
    double value = 0;
    const char* const first = in_.data() + at;
    const auto [rest, error] = std::from_chars(first, in_.data() + end, value);
    // from_chars() also calls numbers next to zero out of range; a parser takes those for zero.
    const bool too_large =
        error == std::errc::result_out_of_range && rest == in_.data() + end && (grows || end - at >= kDigitsOfDouble);
    if (too_large) {
        return replace("null", end);
    }
    out_.append(in_, at, end - at);
    return end;
}

bool JsonMending::is_before_value(std::size_t comma) const {
    std::size_t next = comma + 1;
    while (next < in_.size() && is_space(in_[next])) {
        ++next;
    }
    return next < in_.size() && in_[next] != ']' && in_[next] != '}';
}

void JsonMending::mend() {
    const bool at_end = in_stream_.eof();
    std::size_t at = 0;
    std::size_t passed = 0;  // the bytes from here to `at` pass unchanged, all at once
    const auto pass = [&] { out_.append(in_, passed, at - passed); };
    while (at < in_.size()) {
        const auto& plain = in_string_ ? plain_in_string_ : plain_outside_;
        std::size_t end = at;
        while (end < in_.size() && plain[byte_of(in_[end])]) {
            ++end;
        }
        end = in_string_ ? end : large_number(at, end);
        text_ = in_string_ ? text_ + end - at : 0;
        if (text_ > kMostJsonText) {
            refuse_token("text", kMostJsonText);
        }
        at = end;
        if (at == in_.size()) {
            break;
        }
        if (in_[at] == '"') {
            in_string_ = !in_string_;
            ++at;
            continue;
        }
        if (!in_string_ && in_[at] == ',' && is_before_value(at)) {
            ++at;
            continue;
        }
        pass();
        const bool is_number = !in_string_ && (is_of_number(in_[at]) || is_exponent(in_[at]));
        const std::size_t next = in_string_       ? mend_in_string(at, at_end)
                                 : in_[at] == ',' ? mend_comma(at, at_end)
                                 : is_number      ? mend_number(at, at_end)
                                                  : mend_word(at, at_end);
        passed = next;
        if (next == at) {
            break;  // the rest comes with the next piece
        }
        text_ += next - at;
        at = next;
    }
    pass();
    in_.erase(0, at);
}

JsonMending::int_type JsonMending::underflow() {
    out_.clear();
    while (out_.empty()) {
        if (in_stream_.eof() && in_.empty()) {
            return traits_type::eof();
        }
        if (!in_stream_.eof()) {
            const std::size_t kept = in_.size();
            in_.resize(kept + kPiece);
            const std::streamsize got =
                in_stream_.rdbuf()->sgetn(in_.data() + kept, static_cast<std::streamsize>(kPiece));
            in_.resize(kept + static_cast<std::size_t>(std::max<std::streamsize>(0, got)));
            if (got < static_cast<std::streamsize>(kPiece)) {
                in_stream_.setstate(std::ios::eofbit);
            }
        }
        mend();
    }
    setg(out_.data(), out_.data(), out_.data() + out_.size());
    return traits_type::to_int_type(*gptr());
}
}  // namespace pipescope
