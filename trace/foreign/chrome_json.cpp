#include "trace/foreign/chrome_json.h"

#include "base/number_text.h"
#include "base/stop_check.h"
#include "trace/foreign/json_mending.h"
#include "trace/foreign/json_scanner.h"
#include "trace/foreign/work_arguments.h"
#include "trace/store/json_nesting.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace pipescope {
namespace {
using nlohmann::json;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// Converts "1234.567" or "1.234567e3" us to ns, rounded to the nearest. Works on the digits, since a double loses ns
/// above 2^53. Empty for other texts and for times of over 146 years.
std::optional<std::int64_t> nanoseconds(std::string_view text) {
    constexpr std::uint64_t kMost = INT64_MAX / 2;  // small enough that no difference overflows
    constexpr std::uint64_t kMostBeforeDigit = (UINT64_MAX - 9) / 10;
    constexpr int kMostExponent = 10'000;
    const bool negative = text.starts_with('-');
    std::size_t at = negative ? 1 : 0;
    std::uint64_t value = 0;
    int shift = 3;  // the number is value * 10^shift ns
    bool has_digit = false;
    bool has_point = false;
    for (; at < text.size() && (is_digit(text[at]) || (text[at] == '.' && !has_point)); ++at) {
        if (text[at] == '.') {
            has_point = true;
            continue;
        }
        has_digit = true;
        const bool fits = value <= kMostBeforeDigit;  // further digits only scale
        value = fits ? value * 10 + static_cast<std::uint64_t>(text[at] - '0') : value;
        shift += static_cast<int>(!fits) - static_cast<int>(has_point);
    }
    if (at < text.size() && has_digit && (text[at] == 'e' || text[at] == 'E')) {
        text.remove_prefix(at + 1);
        text.remove_prefix(text.starts_with('+') ? 1 : 0);
        int exponent = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
        if (error != std::errc() || exponent < -kMostExponent || exponent > kMostExponent) {
            return std::nullopt;
        }
        shift += exponent;
        at = static_cast<std::size_t>(end - text.data());
    }
    if (!has_digit || at != text.size()) {
        return std::nullopt;
    }
    for (; shift < -1 && value > 0; ++shift) {
        value /= 10;
    }
    if (shift < 0) {
        value = (value + 5) / 10;
        shift = 0;
    }
    for (; shift > 0 && value > 0; --shift) {
        if (value > kMost) {
            return std::nullopt;
        }
        value *= 10;
    }
    if (value > kMost) {
        return std::nullopt;
    }
    return negative ? -static_cast<std::int64_t>(value) : static_cast<std::int64_t>(value);
}

/// Throws the fault that a parser reports, as its own type: the base class has no public copy constructor.
void rethrow(const nlohmann::detail::exception& error) {
    if (const auto* fault = dynamic_cast<const json::parse_error*>(&error)) {
        throw *fault;
    }
    if (const auto* fault = dynamic_cast<const json::out_of_range*>(&error)) {
        throw *fault;
    }
}

/// Builds the small objects beside the events, or one event. Leaves out whatever nests deeper than kMostJsonNesting.
class DomBuilder {
public:
    explicit DomBuilder(json& root) : root_(root) {}

    void key(std::string& key) { key_ = std::move(key); }
    void value(json value) {
        if (left_out_ == 0) {
            place(std::move(value));
        }
    }
    void open(json container) {
        if (left_out_ > 0 || open_.size() == kMostJsonNesting) {
            ++left_out_;
        } else {
            open_.push_back(place(std::move(container)));
        }
    }
    void close() {
        if (left_out_ > 0) {
            --left_out_;
        } else {
            open_.pop_back();
        }
    }
    bool done() const { return open_.empty(); }

private:
    json* place(json value) {
        if (open_.empty()) {
            root_ = std::move(value);
            return &root_;
        }
        json& parent = *open_.back();
        if (parent.is_array()) {
            parent.push_back(std::move(value));
            return &parent.back();
        }
        return &(parent[key_] = std::move(value));
    }

    json& root_;
    std::vector<json*> open_;
    std::size_t left_out_ = 0;  // open containers that are left out
    std::string key_;
};

/// The arguments and fields of events that are read, by their keys.
enum class Field {
    other,
    phase,
    name,
    category,
    process,
    thread,
    id,
    binds,
    bind_id,
    flow_in,
    flow_out,
    time,
    duration,
    arguments,
    sample
};

Field field_of(std::string_view key) {
    switch (key.size()) {
        case 2:
            return key == "ph"   ? Field::phase
                   : key == "ts" ? Field::time
                   : key == "id" ? Field::id
                   : key == "bp" ? Field::binds
                                 : Field::other;
        case 3:
            return key == "pid"   ? Field::process
                   : key == "tid" ? Field::thread
                   : key == "cat" ? Field::category
                   : key == "dur" ? Field::duration
                                  : Field::other;
        case 4: return key == "name" ? Field::name : key == "args" ? Field::arguments : Field::other;
        case 6: return key == "sample" ? Field::sample : Field::other;
        case 7: return key == "bind_id" ? Field::bind_id : key == "flow_in" ? Field::flow_in : Field::other;
        case 8: return key == "flow_out" ? Field::flow_out : Field::other;
        default: return Field::other;
    }
}

/// A value of JSON without members.
struct Scalar {
    ChromeArgument::Type type = ChromeArgument::Type::null;
    std::int64_t integer = 0;
    std::string_view text = {};  ///< a string's contents, or a number as written if it is real or beyond `integer`

    /// A real number's value, rounded towards 0 for `integer`.
    double real() const {
        const bool is_written =
            type == ChromeArgument::Type::real || (type == ChromeArgument::Type::integer && !text.empty());
        // JsonMending has left out numbers beyond a double, so only one next to zero does not fit.
        return is_written ? number_in<double>(text).value_or(0) : static_cast<double>(integer);
    }
};

/// Gathers the events of a JsonScanner.
class ChromeSax {
public:
    /// Without a listener, stops at the list of events.
    explicit ChromeSax(ChromeListener* listener) : listener_(listener) {}

    bool null() { return scalar({}); }
    bool boolean(bool value) {
        if (place() == Place::event) {
            if (field_ == Field::flow_in || field_ == Field::flow_out) {
                (field_ == Field::flow_in ? event_.flow_in : event_.flow_out) = value;
                return true;
            }
            return null();  // no other field of an event is a truth value
        }
        return scalar({ChromeArgument::Type::integer, value ? 1 : 0});
    }
    bool number_integer(std::int64_t value) { return scalar({ChromeArgument::Type::integer, value}); }
    bool number_unsigned(std::uint64_t value) {
        if (value <= INT64_MAX) {
            return scalar({ChromeArgument::Type::integer, static_cast<std::int64_t>(value)});
        }
        // Ids may use all 64 bits. A time is read from the text.
        const std::string text = std::to_string(value);
        return scalar({ChromeArgument::Type::integer, static_cast<std::int64_t>(value), text});
    }
    bool number_float(std::string_view text) { return scalar({ChromeArgument::Type::real, 0, text}); }
    bool text(std::string_view value) { return scalar({ChromeArgument::Type::text, 0, value}); }

    bool start_object() {
        switch (place()) {
            case Place::nowhere: return enter(Place::root);
            case Place::events: begin_event(); return enter(Place::event);
            case Place::event:
                note_bad_field();
                return enter(field_ == Field::arguments ? Place::arguments
                             : field_ == Field::sample  ? Place::sample
                                                        : Place::skipped);
            case Place::root:
                note_kineto();
                if (key_ != "otherData" && key_ != "distributedInfo") {
                    return enter(Place::skipped);
                }
                dom_.emplace(key_ == "otherData" ? header_.other : header_.distributed);
                dom_->open(json::object());
                return enter(Place::dom);
            case Place::dom: return enter_dom(json::object());
            default: return enter(Place::skipped);
        }
    }
    bool key(std::string_view key) {
        if (place() == Place::event) {
            field_ = field_of(key);
        } else if (place() == Place::dom) {
            std::string copy(key);
            dom_->key(copy);
        } else {
            key_ = key;
        }
        return true;
    }
    bool end_object() {
        const Place left = leave();
        if (left == Place::event) {
            check_stop();
            has_event_ = true;
            listener_->event(event_, header_);
        }
        return true;
    }
    bool start_array() {
        if (place() == Place::dom) {
            return enter_dom(json::array());
        }
        if (place() == Place::event) {
            note_bad_field();
        }
        if (place() == Place::root) {
            note_kineto();
        }
        if (place() == Place::root && key_ == "deviceProperties") {
            dom_.emplace(header_.devices);
            dom_->open(json::array());
            return enter(Place::dom);
        }
        if (place() == Place::nowhere || (place() == Place::root && key_ == "traceEvents")) {
            header_.has_events = true;
            header_.is_list = place() == Place::nowhere;
            return enter(Place::events) && listener_ != nullptr;
        }
        const bool is_shape = place() == Place::arguments && (key_ == "Input Dims" || key_ == "Input type");
        const bool is_inner_shape = place() == Place::shape && places_.size() < kMostJsonNesting;
        if (is_shape || is_inner_shape) {
            return enter(Place::shape);
        }
        if (place() == Place::arguments && is_list_of_work()) {
            list_size_ = 0;
            return enter(Place::list);
        }
        return enter(Place::skipped);
    }
    bool end_array() {
        if (place() == Place::list && !event_.group_ranks.empty() && event_.group_ranks.back() != ']') {
            event_.group_ranks += ']';
        }
        shape_ends_ = shape_ends_ || (place() == Place::shape && !event_.dimensions.empty());
        leave();
        return true;
    }
    /// The input ended too early. True if the events before may be used.
    bool cut_off() {
        const bool is_list = !places_.empty() && places_.front() == Place::events;
        header_.cut_off = is_list || has_event_;
        return header_.cut_off;
    }

    ChromeHeader take_header() { return std::move(header_); }

private:
    enum class Place { nowhere, root, events, event, arguments, sample, shape, list, dom, skipped };

    Place place() const { return places_.empty() ? Place::nowhere : places_.back(); }
    bool enter(Place place) {
        if (place == Place::skipped && this->place() == Place::skipped) {
            ++skipped_levels_;  // a hostile file may nest as deep as it is long
        } else {
            places_.push_back(place);
        }
        return true;
    }
    bool enter_dom(json container) {
        if (places_.size() >= kMostJsonNesting) {
            return enter(Place::skipped);
        }
        dom_->open(std::move(container));
        return enter(Place::dom);
    }
    /// A list or an object where a number belongs.
    void note_bad_field() {
        event_.has_bad_duration = event_.has_bad_duration || field_ == Field::duration;
        event_.has_bad_id = event_.has_bad_id || field_ == Field::process || field_ == Field::thread;
    }
    Place leave() {
        if (skipped_levels_ > 0) {
            --skipped_levels_;
            return Place::skipped;
        }
        const Place left = places_.back();
        places_.pop_back();
        if (left == Place::dom) {
            dom_->close();
        }
        return left;
    }

    void note_kineto() {
        header_.is_kineto = header_.is_kineto || key_ == "deviceProperties" || key_ == "distributedInfo";
    }

    void begin_event() {
        event_.index = next_index_++;
        event_.phase = 0;
        event_.name.clear();
        event_.category.clear();
        event_.process = {};
        event_.thread = {};
        event_.id.clear();
        event_.binds_enclosing = false;
        event_.bind_id.clear();
        event_.flow_in = event_.flow_out = false;
        event_.start.reset();
        event_.duration.reset();
        event_.has_bad_duration = false;
        event_.has_bad_id = false;
        event_.arguments.clear();
        event_.sample.clear();
        event_.dimensions.clear();
        event_.element_type.clear();
        event_.grid = event_.block = {};
        event_.group_ranks.clear();
        shape_ends_ = false;
    }

    bool scalar(const Scalar& value) {
        switch (place()) {
            case Place::event: set_field(value); return true;
            case Place::arguments: add_argument(event_.arguments, value); return true;
            case Place::sample: add_argument(event_.sample, value); return true;
            case Place::shape: add_shape(value); return true;
            case Place::list: add_to_list(value); return true;
            case Place::dom: set_dom(value); return true;
            case Place::root: return set_header(value);
            default: return true;
        }
    }

    /// "Input Dims" is a list of tensors, or of lists of tensors. "Input type" is a list of their types.
    void add_shape(const Scalar& value) {
        constexpr std::size_t kMostDimensions = 64;  // as many as a tensor may have
        if (value.type == ChromeArgument::Type::integer && !shape_ends_ && event_.dimensions.size() < kMostDimensions) {
            event_.dimensions.push_back(value.integer);
        } else if (value.type == ChromeArgument::Type::text && event_.element_type.empty()) {
            event_.element_type = value.text;
        }
    }

    bool is_list_of_work() const {
        return key_ == work_arguments::kGrid || key_ == work_arguments::kBlock || key_ == work_arguments::kGroupRanks;
    }
    /// Grids and blocks have three numbers, and ranks of a group any, with a text for those that are left out.
    void add_to_list(const Scalar& value) {
        constexpr std::size_t kMostText = 4096;
        if (key_ == work_arguments::kGroupRanks) {
            if (event_.group_ranks.size() < kMostText) {
                event_.group_ranks += event_.group_ranks.empty() ? "[" : ", ";
                event_.group_ranks += value.text.empty() ? std::to_string(value.integer) : std::string(value.text);
            }
            return;
        }
        auto& sizes = key_ == work_arguments::kGrid ? event_.grid : event_.block;
        if (value.type == ChromeArgument::Type::integer && list_size_ < sizes.size()) {
            sizes[list_size_++] = value.integer;
        }
    }

    void add_argument(ChromeArguments& arguments, const Scalar& value) {
        constexpr std::size_t kMostArguments = 4096;
        if (arguments.size() == kMostArguments) {
            return;
        }
        ChromeArgument& argument = arguments.add();
        argument.key = key_;
        argument.type = value.type;
        argument.real = value.real();
        argument.integer = value.type == ChromeArgument::Type::real ? whole(argument.real) : value.integer;
        argument.text = value.text;
    }

    /// A real number rounded towards 0.
    static std::int64_t whole(double real) {
        return std::isfinite(real) ? static_cast<std::int64_t>(std::clamp(std::trunc(real), -9e18, 9e18)) : 0;
    }

    void set_dom(const Scalar& value) {
        switch (value.type) {
            case ChromeArgument::Type::null: dom_->value(nullptr); break;
            case ChromeArgument::Type::integer: dom_->value(value.integer); break;
            case ChromeArgument::Type::real: dom_->value(value.real()); break;
            case ChromeArgument::Type::text: dom_->value(std::string(value.text)); break;
        }
    }

    /// Returns false to stop reading.
    bool set_header(const Scalar& value) {
        if (key_ == "schemaVersion") {
            header_.is_kineto = true;
        } else if (key_ == "baseTimeNanoseconds" && value.type == ChromeArgument::Type::integer) {
            header_.base_time = value.integer;
        } else if (key_ == "format" && value.type == ChromeArgument::Type::text) {
            header_.format = value.text;
            return value.text != "pipescope.profile";
        }
        return true;
    }

    void set_field(const Scalar& value) {
        const std::string_view text = value.text;
        const bool is_text = value.type == ChromeArgument::Type::text;
        const auto text_or_number = [&] { return is_text ? std::string(text) : std::to_string(integer_of(value)); };
        switch (field_) {
            case Field::phase: event_.phase = is_text && text.size() == 1 ? text[0] : '\0'; break;
            case Field::name:
                if (is_text) {
                    event_.name = text;
                } else {
                    event_.name = text_or_number();
                }
                break;
            case Field::category: event_.category = text; break;
            case Field::process: set_id(event_.process, value); break;
            case Field::thread: set_id(event_.thread, value); break;
            case Field::id: event_.id = text_or_number(); break;
            case Field::binds: event_.binds_enclosing = text == "e"; break;
            case Field::bind_id: event_.bind_id = text_or_number(); break;
            case Field::flow_in: event_.flow_in = integer_of(value) != 0 || text == "true"; break;
            case Field::flow_out: event_.flow_out = integer_of(value) != 0 || text == "true"; break;
            case Field::time: event_.start = time(value); break;
            case Field::duration:
                event_.duration = time(value);
                event_.has_bad_duration = !event_.duration;
                break;
            case Field::other:
            case Field::arguments:
            case Field::sample: break;
        }
    }

    static std::int64_t integer_of(const Scalar& value) {
        return value.type == ChromeArgument::Type::real ? whole(value.real()) : value.integer;
    }

    /// A real number that is whole is a number; other real numbers, and those beyond 63 bits, are texts.
    static void set_id(ChromeId& id, const Scalar& value) {
        constexpr auto kMostExact = static_cast<double>(kMostExactInteger);
        id.text.clear();
        id.number = value.integer;
        if (value.text.empty()) {
            return;
        }
        const double real = value.type == ChromeArgument::Type::real ? value.real() : kMostExact;
        if (std::trunc(real) == real && std::abs(real) < kMostExact) {
            id.number = whole(real);
        } else {
            id = {0, std::string(value.text)};
        }
    }

    static std::optional<std::int64_t> time(const Scalar& value) {
        if (value.type == ChromeArgument::Type::null) {
            return std::nullopt;
        }
        if (value.type != ChromeArgument::Type::integer || !value.text.empty()) {
            return nanoseconds(value.text);  // some writers quote their numbers
        }
        constexpr std::int64_t kMost = INT64_MAX / 2 / 1000;
        return value.integer > kMost || value.integer < -kMost ? std::nullopt : std::optional(value.integer * 1000);
    }

    ChromeListener* listener_;
    ChromeHeader header_;
    std::optional<DomBuilder> dom_;  // for the field that is being read
    ChromeEvent event_;
    std::size_t next_index_ = 0;
    bool has_event_ = false;  // the event was read to its end
    std::vector<Place> places_;
    std::size_t skipped_levels_ = 0;  // below places_, which then ends with Place::skipped
    Field field_ = Field::other;      // of an event
    std::string key_;                 // of an argument or the file
    std::size_t list_size_ = 0;       // numbers read of "grid" or "block"
    bool shape_ends_ = false;         // the first tensor's dimensions are complete
};

/// Keeps one event and skips the others.
class EventSax : public nlohmann::json_sax<json> {
public:
    EventSax(const std::istream& in, std::size_t index) : in_(in), left_(index) {}

    bool null() override { return scalar(nullptr); }
    bool boolean(bool value) override { return scalar(value); }
    bool number_integer(number_integer_t value) override { return scalar(value); }
    bool number_unsigned(number_unsigned_t value) override { return scalar(value); }
    bool number_float(number_float_t value, const string_t&) override { return scalar(value); }
    bool string(string_t& value) override { return scalar(std::move(value)); }
    bool binary(binary_t&) override { return true; }
    bool start_object(std::size_t) override { return open(json::object()); }
    bool start_array(std::size_t) override { return open(json::array()); }
    bool end_object() override { return close(); }
    bool end_array() override { return close(); }
    bool key(string_t& key) override {
        if (dom_) {
            dom_->key(key);
        } else if (depth_ == 1) {
            key_ = key;
        }
        return true;
    }
    bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
        if (!in_.eof() || !list_depth_) {
            rethrow(error);
        }
        return false;  // the file was cut off
    }

    json take() { return dom_ && dom_->done() ? std::move(event_) : json(); }

private:
    bool scalar(json value) {
        if (dom_) {
            dom_->value(std::move(value));
        }
        return true;
    }
    bool open(json container) {
        check_stop();
        ++depth_;
        if (dom_) {
            dom_->open(std::move(container));
        } else if (!list_depth_ && container.is_array() && (depth_ == 1 || (depth_ == 2 && key_ == "traceEvents"))) {
            list_depth_ = depth_;
        } else if (list_depth_ && depth_ == *list_depth_ + 1 && container.is_object() && left_-- == 0) {
            dom_.emplace(event_);
            dom_->open(std::move(container));
        }
        return true;
    }
    bool close() {
        --depth_;
        if (list_depth_ && depth_ < *list_depth_) {
            list_depth_.reset();
        }
        if (dom_) {
            dom_->close();
        }
        return !dom_ || !dom_->done();  // false stops the reading
    }

    const std::istream& in_;
    std::size_t left_;
    std::size_t depth_ = 0;
    std::optional<std::size_t> list_depth_;  // depth of the list of events; empty outside it
    std::string key_;
    json event_;
    std::optional<DomBuilder> dom_;
};
}  // namespace

const ChromeArgument* ChromeArguments::find(std::string_view key) const {
    const auto* found = std::find_if(begin(), end(), [&](const ChromeArgument& each) { return each.key == key; });
    return found == end() ? nullptr : found;
}

std::int64_t ChromeArguments::integer_or(std::string_view key, std::int64_t otherwise) const {
    const ChromeArgument* found = find(key);
    return found != nullptr && found->type == ChromeArgument::Type::integer ? found->integer : otherwise;
}

std::string_view ChromeArguments::text_or_empty(std::string_view key) const {
    const ChromeArgument* found = find(key);
    return found != nullptr && found->type == ChromeArgument::Type::text ? found->text : std::string_view{};
}

ChromeArgument& ChromeArguments::add() {
    if (used_ == all_.size()) {
        all_.emplace_back();
    }
    return all_[used_++];
}

namespace {
/// Throws what nlohmann's parser says about text that is not JSON, with line and column.
[[noreturn]] void refuse_json(std::istream& in) {
    in.clear();
    if (in.rdbuf()->pubseekpos(0) == std::streampos(0)) {
        JsonMending mending(in);
        std::istream mended(&mending);
        const json none = json::parse(mended, [](int, json::parse_event_t, json&) {
            check_stop();
            return false;  // keeps nothing
        });
    }
    throw UnreadableJson("it is not JSON; export it again");
}

ChromeHeader scan_chrome(std::istream& in, ChromeListener* listener) {
    JsonMending mending(in);
    JsonScanner scanner(mending);
    ChromeSax sax(listener);
    const JsonScanner::Outcome outcome = scanner.scan(sax);
    if (outcome == JsonScanner::Outcome::fault && !(scanner.at_end() && sax.cut_off())) {
        refuse_json(in);
    }
    ChromeHeader header = sax.take_header();
    header.mended = mending.mended();
    return header;
}
}  // namespace

ChromeHeader read_chrome_json(std::istream& in, ChromeListener& listener) {
    return scan_chrome(in, &listener);
}

json read_chrome_event(std::istream& in, std::size_t index) {
    JsonMending mending(in);
    std::istream mended(&mending);
    EventSax sax(mended, index);
    json::sax_parse(mended, &sax);
    return sax.take();
}

ChromeHeader read_chrome_header(std::istream& in) {
    return scan_chrome(in, nullptr);
}
}  // namespace pipescope
