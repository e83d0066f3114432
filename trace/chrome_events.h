#pragma once

#include "schedule/timeline.h"

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace pipescope {
/// Time in us, Chrome's unit, with three decimals. Keeps every ns, which a double would not above 2^53 ns.
std::string chrome_microseconds(Nanoseconds time);
/// The text as a quoted JSON string. Invalid UTF-8 is replaced.
std::string json_string(std::string_view text);

/// Writes list events one by one, so that a million slices are never in memory as JSON.
class ChromeEventList {
public:
    explicit ChromeEventList(std::ostream& out) : out_(out) {}

    void add(std::string_view event);
    /// Writes a "process_name" or "thread_name". `more` is further arguments, such as `,"kind":"stream"`.
    void name(std::string_view what, int process, int thread, std::string_view name, std::string_view more = {});
    void sort_index(int process, int thread, int index);
    /// Writes an arrow's start ("s"), step ("t") or end ("f"), bound to the slice that starts then.
    void flow(std::string_view phase, std::string_view category, std::int64_t id, int process, int thread,
              Nanoseconds start);
    std::int64_t next_flow() { return ++last_flow_; }

private:
    std::ostream& out_;
    bool first_ = true;
    std::int64_t last_flow_ = 0;
};

/// Distributes slices over threads so that those of one thread nest, as a Chrome trace requires. Pass slices by start,
/// longer ones first.
class NestingThreads {
public:
    explicit NestingThreads(std::size_t most) : most_(most) {}

    /// Index of the first thread in which the slice nests, or of the last thread if there is none.
    std::size_t take(Nanoseconds start, Nanoseconds end);
    std::size_t used() const { return ends_.size(); }

private:
    std::size_t most_;
    std::vector<std::vector<Nanoseconds>> ends_;  // per thread, of the open slices
};
}  // namespace pipescope
