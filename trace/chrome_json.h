#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// A name or number of a process or thread: Chrome traces have both.
struct ChromeId {
    std::int64_t number = 0;
    std::string text;  ///< empty: the number counts

    friend auto operator<=>(const ChromeId&, const ChromeId&) = default;
};

/// One of an event's arguments; lists and objects among them are left out.
struct ChromeArgument {
    enum class Type { null, integer, real, text };

    std::string key;
    Type type = Type::null;
    std::int64_t integer = 0;  ///< true is 1; of a real number: rounded towards 0
    double real = 0;           ///< of an integer too
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

    ChromeArgument& add();
    void clear() { used_ = 0; }

private:
    std::vector<ChromeArgument> all_;  // kept, with their strings, from event to event
    std::size_t used_ = 0;
};

/// One element of "traceEvents". Times are ns: Chrome's us have decimals, which are read exactly.
struct ChromeEvent {
    std::size_t index = 0;  ///< its place in the list, for messages
    char phase = 0;
    std::string name;
    std::string category;
    ChromeId process;
    ChromeId thread;
    std::string id;
    std::optional<std::int64_t> start;
    std::optional<std::int64_t> duration;
    ChromeArguments arguments;
    ChromeArguments sample;  ///< PipeScope's own: what a memory counter leaves out
};

/// What stands beside the events.
struct ChromeHeader {
    nlohmann::json other;                   ///< "otherData"
    std::string format;                     ///< "format", which a profile has
    bool has_events = false;                ///< the list was there
    bool is_kineto = false;                 ///< PyTorch's profiler says so
    std::optional<std::int64_t> base_time;  ///< "baseTimeNanoseconds": wall clock at ts 0
};

/// Is told of events as they come.
class ChromeListener {
public:
    virtual ~ChromeListener() = default;
    /// `header` holds what stood before the event.
    virtual void event(const ChromeEvent& event, const ChromeHeader& header) = 0;
};

/// Reads a Chrome trace as a stream, either form: a list of events, or an object with "traceEvents". Stops early at a
/// profile, which `format` of the result tells. Memory: one event at a time. Throws nlohmann::json::exception, with
/// line and column, where the text is no JSON.
ChromeHeader read_chrome_json(std::istream& in, ChromeListener& listener);
}  // namespace pipescope
