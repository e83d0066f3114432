#pragma once

#include "engine/gpipe.h"
#include "schedule/task_graph.h"

#include <exception>
#include <mutex>
#include <optional>

namespace pipescope {
/// Whether it holds a std::exception. Torch's engine cannot pass on anything else: it takes a stand-in, or loses count
/// of the backwards that its thread is in, and ends the process at about the sixtieth.
bool is_standard(const std::exception_ptr& exception);

/// The exception of a run that its caller gets: of all that lanes throw before they stop, the first in schedule order,
/// so that it does not depend on timing which of two failing lanes is heard.
class FirstFailure {
public:
    /// `task` is the failing task's index, which is its place in the schedule. Any thread.
    void add(TaskIndex task, std::exception_ptr exception, Failure failure);
    /// Takes the failure out, once the lanes are done; nothing where none failed.
    std::optional<Failure> take(std::exception_ptr& exception);

private:
    std::mutex mutex_;
    TaskIndex task_ = 0;
    std::exception_ptr exception_;  // null until a task fails
    Failure failure_;
};
}  // namespace pipescope
