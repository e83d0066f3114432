#pragma once

// The one strict reader of JSON. A text has each key of an object once, and nests no deeper than its kind needs. Values
// are read with their expected type and range. A message has the path of the fault, the value, the rule and the remedy.

#include "base/known_keys.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace pipescope {
using Json = nlohmann::ordered_json;

/// A kind of JSON text, as a constant: what messages say about it, and the error that they are.
struct JsonKind {
    std::string_view what;                 ///< "a profile"
    std::string_view remedy;               ///< "correct it, or profile again"
    std::string_view missing;              ///< rule and remedy of a missing key: "every profile has it; add it"
    void (*fail)(const std::string& why);  ///< throws
    std::size_t deepest = 64;              ///< levels of lists and objects
};
/// JsonKind::fail of that error.
template <class Error>
[[noreturn]] void throw_error(const std::string& why) {
    throw Error(why);
}

/// "layers[3].forward_ns": a key behind the path of its object.
std::string path_of_key(const std::string& path, std::string_view key);
/// A value in a message: cut if long, invalid UTF-8 replaced.
template <class AnyJson>
std::string shown_json(const AnyJson& json);
/// As in a file. Invalid UTF-8 is replaced.
std::string dumped(const Json& json);
/// "is not valid JSON in line 2, column 9, at 'NaN]'". `byte` is the position behind the fault, from 1.
std::string syntax_fault(std::string_view text, std::size_t byte);
/// The number that the library could not represent: it quotes it in its message.
std::string unrepresentable_number(std::string_view what);
std::string shortened_json(const std::string& text);

template <class AnyJson>
class JsonObject;

/// A value of a JSON text that is being read, and its path. Borrows the document.
template <class AnyJson>
class JsonValue {
public:
    JsonValue(const AnyJson& json, std::string path, const JsonKind& kind)
        : json_(&json), path_(std::move(path)), kind_(&kind) {}

    const AnyJson& json() const { return *json_; }
    const std::string& path() const { return path_; }
    const JsonKind& kind() const { return *kind_; }

    /// Throws the path and `what`, which has the remedy.
    [[noreturn]] void fail(const std::string& what) const {
        kind_->fail((path_.empty() ? "$" : path_) + what);
        std::abort();  // fail() throws
    }
    /// Throws the path, the value, what it must be, and what to do.
    [[noreturn]] void refuse(std::string_view wanted) const {
        fail(" is " + shown_json(*json_) + "; it must be " + std::string(wanted) + "; " + std::string(kind_->remedy));
    }

    double number(std::string_view wanted = "a number") const {
        if (!json_->is_number()) {
            refuse(wanted);
        }
        return json_->template get<double>() + 0.0;  // -0 is 0
    }
    /// A finite number from 0.
    double amount(std::string_view wanted = "a finite number, not negative") const {
        const double value = number(wanted);
        if (!(value >= 0) || !std::isfinite(value)) {
            refuse(wanted);
        }
        return value;
    }
    /// An integer of the JSON text. By default any that fits.
    std::int64_t integer(std::int64_t least = std::numeric_limits<std::int64_t>::min(),
                         std::int64_t most = std::numeric_limits<std::int64_t>::max(),
                         std::string_view wanted = "a whole number") const {
        constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
        const bool fits = json_->is_number_integer() &&
                          (!json_->is_number_unsigned() || json_->template get<std::uint64_t>() <= kMost);
        const std::int64_t value = fits ? json_->template get<std::int64_t>() : 0;
        if (!fits || value < least || value > most) {
            refuse(wanted);
        }
        return value;
    }
    std::uint64_t natural(std::string_view wanted = "a whole number from 0") const {
        if (!json_->is_number_unsigned()) {
            refuse(wanted);
        }
        return json_->template get<std::uint64_t>();
    }
    bool truth() const {
        if (!json_->is_boolean()) {
            refuse("true or false");
        }
        return json_->template get<bool>();
    }
    const std::string& text(std::string_view wanted = "a string") const {
        if (!json_->is_string()) {
            refuse(wanted);
        }
        return json_->template get_ref<const std::string&>();
    }
    const std::string& filled_text(std::string_view wanted = "a text that is not empty") const {
        if (text(wanted).empty()) {
            refuse(wanted);
        }
        return text(wanted);
    }

    /// Reads each element of a list by read(element).
    template <class Read>
    auto list(std::string_view wanted, Read read) const {
        if (!json_->is_array()) {
            refuse(wanted);
        }
        std::vector<std::decay_t<decltype(read(*this))>> values;
        values.reserve(json_->size());
        for (std::size_t k = 0; k < json_->size(); ++k) {
            values.push_back(read(element(k)));
        }
        return values;
    }
    /// Precondition: it is a list of more than k elements.
    JsonValue element(std::size_t k) const { return {(*json_)[k], path_ + "[" + std::to_string(k) + "]", *kind_}; }
    JsonObject<AnyJson> object(std::string_view wanted = "an object") const { return {*this, wanted}; }

private:
    const AnyJson* json_;
    std::string path_;
    const JsonKind* kind_;
};

/// An object that is being read, field by field.
template <class AnyJson>
class JsonObject {
public:
    JsonObject(const JsonValue<AnyJson>& value, std::string_view wanted) : value_(value) {
        if (!value.json().is_object()) {
            value.refuse(wanted);
        }
    }

    const AnyJson& json() const { return value_.json(); }
    const std::string& path() const { return value_.path(); }
    std::string path_of(std::string_view key) const { return path_of_key(value_.path(), key); }
    bool contains(const std::string& key) const { return json().contains(key); }

    /// Throws for a key that is none of `known`. `file` names what to correct.
    void allow(const std::vector<std::string>& known, const std::string& file) const {
        if (const std::optional<UnknownKey> unknown = unknown_key_of(json(), known)) {
            value_.kind().fail(path_of(unknown->key) + " is unknown; " + unknown->instead + "; correct the " + file);
        }
    }

    std::optional<JsonValue<AnyJson>> find(const std::string& key) {
        asked_.insert(key);
        const auto found = json().find(key);
        return found == json().end() ? std::nullopt : std::optional(value_at(*found, key));
    }
    /// Throws if the key is missing, with that rule and remedy or those of the kind.
    JsonValue<AnyJson> at(const std::string& key, std::string_view missing = {}) {
        if (const std::optional<JsonValue<AnyJson>> found = find(key)) {
            return *found;
        }
        value_.kind().fail(path_of(key) + " is missing; " +
                           std::string(missing.empty() ? value_.kind().missing : missing));
        std::abort();  // fail() throws
    }
    /// A finite number from 0, or `otherwise` if the key is missing.
    double amount(const std::string& key, double otherwise) {
        const std::optional<JsonValue<AnyJson>> found = find(key);
        return found ? found->amount() : otherwise;
    }
    /// Calls each(key, value) for every key, in the order of the document.
    template <class Each>
    void for_each(Each each) const {
        for (const auto& [key, json] : json().items()) {
            each(key, value_at(json, key));
        }
    }
    /// The fields that nobody asked for, as a JSON object; an empty text if there are none.
    std::string others() const {
        AnyJson rest = AnyJson::object();
        for (const auto& [key, json] : json().items()) {
            if (!asked_.contains(key)) {
                rest[key] = json;
            }
        }
        return rest.empty() ? std::string() : rest.dump();
    }

private:
    JsonValue<AnyJson> value_at(const AnyJson& json, std::string_view key) const {
        return {json, path_of(key), value_.kind()};
    }

    JsonValue<AnyJson> value_;
    std::set<std::string> asked_;
};

/// Follows a parser through a document, so that syntax errors have a path too. Refuses what the parsed value would
/// hide: keys that appear twice, and nesting so deep that writing it back would exhaust the stack.
class JsonPath {
public:
    explicit JsonPath(const JsonKind& kind) : kind_(kind) {}

    void open(bool is_array);
    void key(const std::string& name);
    void close();
    void close_value();
    /// Path of the value being read, such as layers[3].forward_ns[1]; "$" at the top.
    std::string path() const;

private:
    struct Frame {
        bool is_array = false;
        std::size_t index = 0;
        std::string key = {};
        std::set<std::string> seen = {};
    };
    const JsonKind& kind_;
    std::vector<Frame> frames_;
};

/// Parses a JSON text. Throws the kind's error for a text that is none.
template <class AnyJson = Json>
AnyJson parse_json(std::string_view text, const JsonKind& kind) {
    JsonPath path(kind);
    const auto fail = [&](const std::string& what) {
        kind.fail(path.path() + " " + what + "; " + std::string(kind.remedy));
    };
    const auto not_valid = [&](std::size_t byte) {
        fail(syntax_fault(text, byte) + "; " + std::string(kind.what) + " is one JSON object");
    };
    if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {  // the parser would end there
        not_valid(zero + 1);
    }
    try {
        return AnyJson::parse(text, [&path](int, typename AnyJson::parse_event_t event, const AnyJson& parsed) {
            switch (event) {
                case AnyJson::parse_event_t::object_start: path.open(false); break;
                case AnyJson::parse_event_t::array_start: path.open(true); break;
                case AnyJson::parse_event_t::key: path.key(parsed.template get<std::string>()); break;
                case AnyJson::parse_event_t::value: path.close_value(); break;
                case AnyJson::parse_event_t::object_end:
                case AnyJson::parse_event_t::array_end: path.close(); break;
            }
            return true;
        });
    } catch (const typename AnyJson::out_of_range& fault) {
        fail("is " + unrepresentable_number(fault.what()) + ", which is too large; a number is below 1.8e308");
    } catch (const typename AnyJson::parse_error& fault) {
        not_valid(fault.byte);
    }
    std::abort();  // fail() throws
}

template <class AnyJson>
std::string shown_json(const AnyJson& json) {
    return shortened_json(json.dump(-1, ' ', false, AnyJson::error_handler_t::replace));
}
}  // namespace pipescope
