#pragma once

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A double holds every whole number up to this one.
inline constexpr std::int64_t kMostExactInteger = std::int64_t{1} << 53;

/// Id of a process or thread: Chrome traces use numbers and names.
struct ChromeId {
    std::int64_t number = 0;
    std::string text;  ///< empty: the number is the id; also holds a number that is not whole, or beyond 63 bits

    friend auto operator<=>(const ChromeId&, const ChromeId&) = default;
};

/// An argument of an event. Omits nested lists and objects, except dimensions, and all arguments of an event after the
/// first thousands.
struct ChromeArgument {
    enum class Type { null, integer, real, text };

    std::string key;
    Type type = Type::null;
    std::int64_t integer = 0;  ///< 1 for true; a real number rounded towards 0
    double real = 0;           ///< also set for an integer
    std::string text;
};

class ChromeArguments {
public:
    const ChromeArgument* find(std::string_view key) const;
    std::int64_t integer_or(std::string_view key, std::int64_t otherwise) const;
    std::string_view text_or_empty(std::string_view key) const;

    const ChromeArgument* begin() const { return all_.data(); }
    const ChromeArgument* end() const { return all_.data() + used_; }
    bool empty() const { return used_ == 0; }
    std::size_t size() const { return used_; }

    ChromeArgument& add();
    void clear() { used_ = 0; }

private:
    std::vector<ChromeArgument> all_;  // kept with their strings between events, to save allocations
    std::size_t used_ = 0;
};

/// An element of "traceEvents". Times are in ns; Chrome's us have decimals, which are read exactly. A quoted number
/// counts as a number.
struct ChromeEvent {
    std::size_t index = 0;  ///< position in the list, for messages
    char phase = 0;
    std::string name;
    std::string category;
    ChromeId process;
    ChromeId thread;
    std::string id;
    bool binds_enclosing = false;  ///< "bp" is "e": an arrow ends at the range around it, not at the next range
    std::string bind_id;           ///< id of arrows that end at this range (flow_in), or begin there (flow_out)
    bool flow_in = false;
    bool flow_out = false;
    std::optional<std::int64_t> start;
    std::optional<std::int64_t> duration;
    bool has_bad_duration = false;  ///< "dur" is not a number, or too large
    bool has_bad_id = false;        ///< "pid" or "tid" is a list or an object
    ChromeArguments arguments;
    ChromeArguments sample;                ///< the values of PipeScope's sample that a memory counter omits
    std::vector<std::int64_t> dimensions;  ///< first tensor in the argument "Input Dims"
    std::string element_type;              ///< first type in "Input type"
    std::array<std::int64_t, 3> grid{};    ///< argument "grid" of a kernel
    std::array<std::int64_t, 3> block{};   ///< argument "block"
    std::string group_ranks;               ///< argument "Process Group Ranks", "[0, 1]", if it is a list
};

/// Fields beside the events.
struct ChromeHeader {
    nlohmann::json other;                   ///< "otherData"
    nlohmann::json distributed;             ///< "distributedInfo" of PyTorch's profiler
    nlohmann::json devices;                 ///< "deviceProperties" of PyTorch's profiler, a list
    std::string format;                     ///< "format", as in a profile
    bool has_events = false;                ///< the list exists
    bool is_list = false;                   ///< the file is the list, so there are no other fields
    bool cut_off = false;                   ///< the file ends within or after the events, as after a kill
    std::size_t mended = 0;                 ///< JsonMending::mended()
    bool is_kineto = false;                 ///< written by PyTorch's profiler
    std::optional<std::int64_t> base_time;  ///< "baseTimeNanoseconds": wall clock at ts 0
};

/// Receives events as they are read.
class ChromeListener {
public:
    virtual ~ChromeListener() = default;
    /// `header` holds the fields that precede the event.
    virtual void event(const ChromeEvent& event, const ChromeHeader& header) = 0;
};

/// Reads a Chrome trace as a stream, in either form: a list of events, or an object with "traceEvents". Stops early at
/// a profile, which the result's `format` reports. Memory: one event at a time; kMostJsonText limits its texts.
///
/// The file may end after an event: a killed program does not write the end, and the format makes the "]" of a list
/// optional. Skips an incomplete last event. Mends faults as JsonMending does.
///
/// Errors: throws UnreadableJson, and nlohmann::json::exception with line and column for other invalid JSON.
ChromeHeader read_chrome_json(std::istream& in, ChromeListener& listener);
/// Stops at the events. Returns the fields before them.
ChromeHeader read_chrome_header(std::istream& in);
/// The whole event at this position of the list, with nested arguments. Reads no further. Null if there is no such
/// event, or if the file ends within it. Throws as read_chrome_json().
nlohmann::json read_chrome_event(std::istream& in, std::size_t index);
}  // namespace pipescope
