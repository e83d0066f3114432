#pragma once

#include "trace/foreign/json_scanner.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <streambuf>
#include <string>
#include <string_view>
#include <utility>

namespace pipescope {
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

struct ParserSax : nlohmann::json_sax<nlohmann::json>, Notes {
    bool null() override { return add("null"); }
    bool boolean(bool value) override { return add(value ? "true" : "false"); }
    bool number_unsigned(std::uint64_t value) override { return add("u" + std::to_string(value)); }
    bool number_integer(std::int64_t value) override { return add("i" + std::to_string(value)); }
    bool number_float(double, const std::string& value) override { return add("f" + value); }
    bool string(std::string& value) override { return add("t:" + value); }
    bool binary(nlohmann::json::binary_t&) override { return true; }
    bool key(std::string& value) override { return add("k:" + value); }
    bool start_object(std::size_t) override { return add("{"); }
    bool end_object() override { return add("}"); }
    bool start_array(std::size_t) override { return add("["); }
    bool end_array() override { return add("]"); }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
};

/// The events that nlohmann's parser reports for the text; empty if the text is not JSON.
inline std::optional<std::string> parsed_json(const std::string& text) {
    ParserSax sax;
    return nlohmann::json::sax_parse(text, &sax) ? std::optional(std::move(sax.all)) : std::nullopt;
}
/// What JsonScanner reports of the text in pieces of that many bytes; empty if it is not JSON.
inline std::optional<std::string> scanned_json(const std::string& text, std::size_t piece) {
    Pieces pieces(text, piece);
    JsonScanner scanner(pieces);
    ScannerSax sax;
    return scanner.scan(sax) == JsonScanner::Outcome::done ? std::optional(std::move(sax.all)) : std::nullopt;
}
}  // namespace pipescope
