#include "simulator/clock/task_clock.h"

#include <algorithm>

namespace pipescope {
TaskClock::TaskClock(const TaskGraph& graph, const MessageTurns& turns) : order_(turns.order) {
    const std::size_t count = graph.tasks().size();
    constexpr std::uint32_t kNone = ~std::uint32_t{0};
    std::vector<std::uint32_t> before(count, kNone);  // the previous task on the same lane or link
    const auto chain = [&](std::span<const TaskIndex> order) {
        for (std::size_t k = 1; k < order.size(); ++k) {
            before[order[k]] = static_cast<std::uint32_t>(order[k - 1]);
        }
    };
    for (int lane = 0; lane < graph.num_lanes(); ++lane) {
        chain(graph.lane_order(LaneId{lane}));
    }
    const auto takes_turns = [&](TaskIndex task) { return !turns.after.empty() && !turns.after[task].empty(); };
    for (const Channel& channel : graph.channels()) {
        if (std::ranges::none_of(channel.order, takes_turns)) {
            chain(channel.order);
        }
    }
    first_.reserve(count + 1);
    for (TaskIndex task = 0; task < count; ++task) {
        first_.push_back(static_cast<std::uint32_t>(needed_.size()));
        if (before[task] != kNone) {
            needed_.push_back(before[task]);
        }
        for (const TaskIndex needed : graph.dependencies(task)) {
            if (needed != before[task]) {
                needed_.push_back(static_cast<std::uint32_t>(needed));
            }
        }
        if (takes_turns(task)) {
            needed_.insert(needed_.end(), turns.after[task].begin(), turns.after[task].end());
        }
    }
    first_.push_back(static_cast<std::uint32_t>(needed_.size()));
}

template <class Number>
void TaskClock::run_any(std::span<const Number> durations, std::span<const Number> released,
                        std::span<Number> ends) const {
    const std::size_t count = num_tasks();
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t task = order_.empty() ? k : order_[k];
        const Number begin = released.empty() ? 0 : released[task];
        ends[task] = ready(task, std::span<const Number>(ends), begin) + durations[task];
    }
}

void TaskClock::run(std::span<const std::int64_t> durations, std::span<std::int64_t> ends) const {
    run_any(durations, {}, ends);
}
void TaskClock::run(std::span<const double> durations, std::span<double> ends, std::span<const double> released) const {
    run_any(durations, released, ends);
}

void TaskClock::ready(std::span<const std::int64_t> ends, std::int64_t begin, std::span<std::int64_t> ready) const {
    for (std::size_t task = 0; task < num_tasks(); ++task) {
        ready[task] = this->ready(task, ends, begin);
    }
}
}  // namespace pipescope
