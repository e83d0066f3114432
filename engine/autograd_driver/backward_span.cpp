#include "engine/autograd_driver/backward_span.h"

#include "engine/lanes/task_span.h"

#include <torch/csrc/autograd/engine.h>

#include <optional>

namespace pipescope {
namespace {
std::optional<TaskSpan>& open_span() {
    thread_local std::optional<TaskSpan> span;
    return span;
}
}  // namespace

void open_backward_span(const TaskKey& key, LaneId lane, TaskObserver* observer) {
    close_backward_span();
    open_span().emplace(key, lane, false, observer);
    torch::autograd::Engine::get_default_engine().queue_callback(close_backward_span);
}

void close_backward_span() {
    open_span().reset();
}
}  // namespace pipescope
