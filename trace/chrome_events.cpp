#include "trace/chrome_events.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pipescope {
std::string chrome_microseconds(Nanoseconds time) {
    const std::int64_t ns = time.count();
    const std::uint64_t magnitude = ns < 0 ? 0 - static_cast<std::uint64_t>(ns) : static_cast<std::uint64_t>(ns);
    return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", magnitude / 1000, magnitude % 1000);
}

std::string json_string(std::string_view text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void ChromeEventList::add(std::string_view event) {
    out_ << (first_ ? "\n" : ",\n") << event;
    first_ = false;
}

void ChromeEventList::name(std::string_view what, int process, int thread, std::string_view name,
                           std::string_view more) {
    add(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}{}}}}})", what, process, thread,
                    json_string(name), more));
}

void ChromeEventList::sort_index(int process, int thread, int index) {
    add(fmt::format(R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})", process,
                    thread, index));
}

void ChromeEventList::flow(std::string_view phase, std::string_view category, std::int64_t id, int process, int thread,
                           Nanoseconds start) {
    add(fmt::format(R"({{"ph":"{}","cat":"{}","name":"{}","id":{},"bp":"e","pid":{},"tid":{},"ts":{}}})", phase,
                    category, category, id, process, thread, chrome_microseconds(start)));
}

std::size_t NestingThreads::take(Nanoseconds start, Nanoseconds end) {
    for (std::size_t thread = 0;; ++thread) {
        if (thread == ends_.size()) {
            ends_.emplace_back();
        }
        std::vector<Nanoseconds>& open = ends_[thread];
        while (!open.empty() && open.back() <= start) {
            open.pop_back();
        }
        if (open.empty() || open.back() >= end || thread + 1 == most_) {
            open.push_back(end);
            return thread;
        }
    }
}
}  // namespace pipescope
