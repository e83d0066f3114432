#pragma once

#include "schedule/task_graph.h"
#include "simulator/clock/message_turns.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace pipescope {
/// Runs a task graph on the virtual clock: a task starts when its dependencies have ended and its lane or link is free.
///
/// Idea: lanes and links run in a fixed order, so "is free" is one more dependency. tasks() is a topological order, so
/// one pass of max and plus over flat arrays is enough, without an event queue. Cost: O(tasks + dependencies) per run,
/// no allocation.
/// Threading: immutable; several threads may run it at once on their own arrays.
class TaskClock {
public:
    explicit TaskClock(const TaskGraph& graph, const MessageTurns& turns = {});

    std::size_t num_tasks() const noexcept { return first_.size() - 1; }
    /// Fills in each task's end, in ns from 0; it started `durations` earlier. Both spans are num_tasks() long.
    void run(std::span<const std::int64_t> durations, std::span<std::int64_t> ends) const;
    /// Like the above, but in double, for durations with noise.
    /// No task starts before its entry of `released`, unless that is empty.
    void run(std::span<const double> durations, std::span<double> ends, std::span<const double> released = {}) const;
    /// The tasks that a task waits for, including its predecessor on its lane or link, and messages whose turn comes
    /// first. Without turns, each precedes the task in tasks().
    std::span<const std::uint32_t> needed(std::size_t task) const {
        return std::span(needed_).subspan(first_[task], first_[task + 1] - first_[task]);
    }
    /// Given all ends, when a task could have started: the latest end it waits for, or `begin`.
    template <class Number>
    Number ready(std::size_t task, std::span<const Number> ends, Number begin) const {
        for (const std::uint32_t before : needed(task)) {
            begin = std::max(begin, ends[before]);
        }
        return begin;
    }
    /// Likewise of every task.
    void ready(std::span<const std::int64_t> ends, std::int64_t begin, std::span<std::int64_t> ready) const;

private:
    template <class Number>
    void run_any(std::span<const Number> durations, std::span<const Number> released, std::span<Number> ends) const;

    std::vector<std::uint32_t> first_;   // of each task's predecessors; one more entry at the end
    std::vector<std::uint32_t> needed_;  // predecessors of all tasks, one after the other
    std::vector<std::uint32_t> order_;   // in which tasks run; empty: that of tasks()
};
}  // namespace pipescope
