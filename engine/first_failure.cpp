#include "engine/first_failure.h"

#include <utility>

namespace pipescope {
bool is_standard(const std::exception_ptr& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception&) {
        return true;
    } catch (...) {
        return false;
    }
}

void FirstFailure::add(TaskIndex task, std::exception_ptr exception, Failure failure) {
    const std::lock_guard lock(mutex_);
    if (!exception_ || task < task_) {
        task_ = task;
        exception_ = std::move(exception);
        failure_ = std::move(failure);
    }
}

std::optional<Failure> FirstFailure::take(std::exception_ptr& exception) {
    const std::lock_guard lock(mutex_);
    exception = std::exchange(exception_, nullptr);
    return exception ? std::optional(std::move(failure_)) : std::nullopt;
}
}  // namespace pipescope
