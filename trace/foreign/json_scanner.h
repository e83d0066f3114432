#pragma once

#include "trace/foreign/hex_digit.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace pipescope {
/// Reads JSON that JsonMending has mended, several times as fast as nlohmann::json::sax_parse(), and calls the same
/// events: texts are borrowed, and a number comes with its text. Accepts the same files, except that a token that the
/// end of the input cuts is a fault even after a complete document. The caller gets the message for a fault from
/// nlohmann's parser.
///
/// The speed is that of the loops over plain characters: a token is read where it lies in the buffer, and copied only
/// if it has an escape.
class JsonScanner {
public:
    enum class Outcome {
        done,
        stopped,  ///< an event returned false
        fault,    ///< not JSON; at_end() tells whether the text is only incomplete
    };

    /// `source` must outlive the scanner.
    explicit JsonScanner(std::streambuf& source) : source_(source) {}

    /// Sax has null(), boolean(bool), number_unsigned(std::uint64_t), number_integer(std::int64_t), number_float(text),
    /// text(text), key(text), start_object(), end_object(), start_array(), end_array(). Each returns true to go on.
    template <class Sax>
    Outcome scan(Sax& sax);
    /// True if a fault was found only because the input ended.
    bool at_end() const { return ended_; }

private:
    /// Makes the rest of the buffer begin at the current token, and adds the next piece. False at the end of the input.
    bool refill() {
        buffer_.erase(0, token_);
        at_ -= token_;
        token_ = 0;
        if (source_.sgetc() == std::char_traits<char>::eof()) {
            ended_ = true;
            return false;
        }
        const auto got = static_cast<std::size_t>(std::max<std::streamsize>(1, source_.in_avail()));
        const std::size_t kept = buffer_.size();
        buffer_.resize(kept + got);
        source_.sgetn(buffer_.data() + kept, static_cast<std::streamsize>(got));
        return true;
    }
    /// True if there is a character at at_.
    bool has_next() { return at_ < buffer_.size() || refill(); }
    bool skip_space() {
        for (;;) {
            while (at_ < buffer_.size() && is_space(buffer_[at_])) {
                ++at_;
            }
            token_ = at_;
            if (at_ < buffer_.size()) {
                return true;
            }
            if (!refill()) {
                return false;
            }
        }
    }
    static bool is_space(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
    static bool is_digit(char c) { return c >= '0' && c <= '9'; }
    std::string_view token() const { return std::string_view(buffer_).substr(token_, at_ - token_); }

    bool skip_word(std::string_view word) {
        for (const char c : word) {
            if (!has_next() || buffer_[at_] != c) {
                return false;
            }
            ++at_;
        }
        return true;
    }
    /// Skips at least one digit.
    bool skip_digits() {
        if (!has_next() || !is_digit(buffer_[at_])) {
            return false;
        }
        while (has_next() && is_digit(buffer_[at_])) {
            ++at_;
        }
        ended_ = false;  // a number may end the input
        return true;
    }
    bool skip_if(char c) {
        const bool found = has_next() && buffer_[at_] == c;
        at_ += found ? 1 : 0;
        return found;
    }

    /// Reads the text whose first quote is at at_. Its value is in text_.
    bool read_text();
    bool read_escape();
    bool read_unit(std::uint32_t& unit);
    void add_utf8(std::uint32_t code);

    /// Reads the number at at_; false: no number.
    template <class Sax>
    bool read_number(Sax& sax, bool& goes_on);
    template <class Sax>
    bool read_key(Sax& sax, bool& goes_on) {
        if (!skip_space() || buffer_[at_] != '"' || !read_text()) {
            return false;
        }
        goes_on = sax.key(text_);
        if (!skip_space() || buffer_[at_] != ':') {
            return false;
        }
        ++at_;
        return true;
    }

    std::streambuf& source_;
    std::string buffer_;
    std::size_t at_ = 0;
    std::size_t token_ = 0;  // its start: refill() keeps the buffer from there on
    std::string_view text_;
    std::string decoded_;  // text_, if it has escapes
    std::vector<char> open_;
    bool ended_ = false;
};

inline bool JsonScanner::read_unit(std::uint32_t& unit) {
    unit = 0;
    for (int k = 0; k < 4; ++k) {
        if (!has_next()) {
            return false;
        }
        const std::optional<unsigned> digit = hex_digit(buffer_[at_++]);
        if (!digit) {
            return false;
        }
        unit = unit * 16 + *digit;
    }
    return true;
}

inline void JsonScanner::add_utf8(std::uint32_t code) {
    const auto add = [&](std::uint32_t byte) { decoded_ += static_cast<char>(byte); };
    if (code < 0x80) {
        add(code);
    } else if (code < 0x800) {
        add(0xc0 | code >> 6U);
        add(0x80 | (code & 0x3fU));
    } else if (code < 0x10000) {
        add(0xe0 | code >> 12U);
        add(0x80 | (code >> 6U & 0x3fU));
        add(0x80 | (code & 0x3fU));
    } else {
        add(0xf0 | code >> 18U);
        add(0x80 | (code >> 12U & 0x3fU));
        add(0x80 | (code >> 6U & 0x3fU));
        add(0x80 | (code & 0x3fU));
    }
}

inline bool JsonScanner::read_escape() {
    if (!has_next()) {
        return false;
    }
    switch (buffer_[at_++]) {
        case '"': decoded_ += '"'; return true;
        case '\\': decoded_ += '\\'; return true;
        case '/': decoded_ += '/'; return true;
        case 'b': decoded_ += '\b'; return true;
        case 'f': decoded_ += '\f'; return true;
        case 'n': decoded_ += '\n'; return true;
        case 'r': decoded_ += '\r'; return true;
        case 't': decoded_ += '\t'; return true;
        case 'u': break;
        default: return false;
    }
    std::uint32_t code = 0;
    if (!read_unit(code) || (code >= 0xdc00 && code < 0xe000)) {
        return false;
    }
    if (code >= 0xd800 && code < 0xdc00) {
        std::uint32_t low = 0;
        if (!skip_if('\\') || !skip_if('u') || !read_unit(low) || low < 0xdc00 || low > 0xdfff) {
            return false;
        }
        code = 0x10000 + ((code - 0xd800) << 10U) + (low - 0xdc00);
    }
    add_utf8(code);
    return true;
}

inline bool JsonScanner::read_text() {
    token_ = at_++;
    std::size_t plain = 1;  // start of the plain characters that are not in decoded_, from token_
    bool has_escape = false;
    for (;;) {
        const char* const begin = buffer_.data();
        const char* const end = begin + buffer_.size();
        const char* next = begin + at_;
        while (next != end && *next != '"' && *next != '\\' && static_cast<unsigned char>(*next) >= 0x20) {
            ++next;
        }
        at_ = static_cast<std::size_t>(next - begin);
        if (next == end) {
            if (!refill()) {
                return false;
            }
            continue;
        }
        if (*next != '"' && *next != '\\') {
            return false;
        }
        const std::string_view piece = token().substr(plain);
        if (*next == '"') {
            ++at_;
            text_ = piece;
            if (has_escape) {
                decoded_ += piece;
                text_ = decoded_;
            }
            return true;
        }
        if (!has_escape) {
            decoded_.clear();
            has_escape = true;
        }
        decoded_ += piece;
        ++at_;
        if (!read_escape()) {
            return false;
        }
        plain = at_ - token_;
    }
}

template <class Sax>
bool JsonScanner::read_number(Sax& sax, bool& goes_on) {
    token_ = at_;
    const bool negative = skip_if('-');
    bool is_whole = true;
    if (skip_if('0')) {
        // no digit may follow
    } else if (!skip_digits()) {
        return false;
    }
    if (skip_if('.')) {
        is_whole = false;
        if (!skip_digits()) {
            return false;
        }
    }
    if (skip_if('e') || skip_if('E')) {
        is_whole = false;
        if (!skip_if('+')) {
            skip_if('-');
        }
        if (!skip_digits()) {
            return false;
        }
    }
    ended_ = false;
    const std::string_view text = token();
    const char* const first = text.data();
    const char* const last = first + text.size();
    if (is_whole && !negative) {
        std::uint64_t value = 0;
        if (std::from_chars(first, last, value).ec == std::errc()) {
            goes_on = sax.number_unsigned(value);
            return true;
        }
    } else if (is_whole) {
        std::int64_t value = 0;
        if (std::from_chars(first, last, value).ec == std::errc()) {
            goes_on = sax.number_integer(value);
            return true;
        }
    }
    goes_on = sax.number_float(text);
    return true;
}

template <class Sax>
JsonScanner::Outcome JsonScanner::scan(Sax& sax) {
    if (has_next() && buffer_[0] == '\xef' && !skip_word("\xef\xbb\xbf")) {  // a byte order mark
        return Outcome::fault;
    }
    bool goes_on = true;
    for (;;) {
        if (!skip_space()) {
            return Outcome::fault;
        }
        bool opens = false;
        switch (buffer_[at_]) {
            case '{':
            case '[': {
                const char bracket = buffer_[at_++];
                goes_on = bracket == '{' ? sax.start_object() : sax.start_array();
                if (!goes_on) {
                    return Outcome::stopped;
                }
                if (!skip_space()) {
                    return Outcome::fault;
                }
                open_.push_back(bracket);
                opens = buffer_[at_] != (bracket == '{' ? '}' : ']');
                if (opens && bracket == '{' && !read_key(sax, goes_on)) {
                    return Outcome::fault;
                }
                break;
            }
            case '"':
                if (!read_text()) {
                    return Outcome::fault;
                }
                goes_on = sax.text(text_);
                break;
            case 't':
            case 'f': {
                const bool value = buffer_[at_] == 't';
                if (!skip_word(value ? "true" : "false")) {
                    return Outcome::fault;
                }
                goes_on = sax.boolean(value);
                break;
            }
            case 'n':
                if (!skip_word("null")) {
                    return Outcome::fault;
                }
                goes_on = sax.null();
                break;
            default:
                if ((buffer_[at_] != '-' && !is_digit(buffer_[at_])) || !read_number(sax, goes_on)) {
                    return Outcome::fault;
                }
        }
        if (!goes_on) {
            return Outcome::stopped;
        }
        while (!opens) {
            if (open_.empty()) {
                const bool has_more = skip_space();
                ended_ = false;
                return has_more ? Outcome::fault : Outcome::done;
            }
            if (!skip_space()) {
                return Outcome::fault;
            }
            const bool in_object = open_.back() == '{';
            const char next = buffer_[at_];
            if (next == ',') {
                ++at_;
                if (in_object && !read_key(sax, goes_on)) {
                    return Outcome::fault;
                }
                opens = true;
            } else if (next == (in_object ? '}' : ']')) {
                ++at_;
                open_.pop_back();
                goes_on = in_object ? sax.end_object() : sax.end_array();
            } else {
                return Outcome::fault;
            }
            if (!goes_on) {
                return Outcome::stopped;
            }
        }
    }
}
}  // namespace pipescope
