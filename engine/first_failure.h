#pragma once

#include "engine/engine_options.h"
#include "schedule/task_graph.h"

#include <exception>
#include <mutex>
#include <optional>

namespace pipescope {
/// True if it holds a std::exception. Torch's engine cannot pass on anything else: it takes a stand-in, or else loses
/// count of its thread's nested backwards and ends the process at about the sixtieth.
bool is_standard(const std::exception_ptr& exception);

/// Selects the exception that a run's caller gets. It is the first in schedule order of all that lanes throw before
/// they stop, so the choice does not depend on timing.
class FirstFailure {
public:
    /// `task`: index of the failing task, which is its place in the schedule. Any thread.
    void add(TaskIndex task, std::exception_ptr exception, Failure failure);
    /// Takes the failure out after the lanes are done; empty if none failed.
    std::optional<Failure> take(std::exception_ptr& exception);

private:
    std::mutex mutex_;
    TaskIndex task_ = 0;
    std::exception_ptr exception_;  // null until a task fails
    Failure failure_;
};
}  // namespace pipescope
