#pragma once

#include "schedule/timeline.h"

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Chrome counts in us; three decimals keep every ns, which a double above 2^53 ns would not.
std::string chrome_microseconds(Nanoseconds time);
/// The text as a JSON string, quotes included; what is no UTF-8 is replaced.
std::string json_string(std::string_view text);

/// Writes the events of the list one by one, so that a million slices never stand in memory as JSON.
class ChromeEventList {
public:
    explicit ChromeEventList(std::ostream& out) : out_(out) {}

    void add(std::string_view event);
    /// A "process_name" or "thread_name"; `more` is further arguments, such as `,"kind":"stream"`.
    void name(std::string_view what, int process, int thread, std::string_view name, std::string_view more = {});
    void sort_index(int process, int thread, int index);
    /// An arrow's begin ("s"), way point ("t") or end ("f"), bound to the slice that starts then.
    void flow(std::string_view phase, std::string_view category, std::int64_t id, int process, int thread,
              Nanoseconds start);
    std::int64_t next_flow() { return ++last_flow_; }

private:
    std::ostream& out_;
    bool first_ = true;
    std::int64_t last_flow_ = 0;
};

/// Slices of one thread of a Chrome trace must nest. Tells which of several threads takes a slice that may overlap
/// others; give slices by their start, the longer first.
class NestingThreads {
public:
    explicit NestingThreads(std::size_t most) : most_(most) {}

    /// Index of the first thread where the slice nests; the last one where it does nowhere.
    std::size_t take(Nanoseconds start, Nanoseconds end);
    std::size_t used() const { return ends_.size(); }

private:
    std::size_t most_;
    std::vector<std::vector<Nanoseconds>> ends_;  // per thread, of the slices that are open
};
}  // namespace pipescope
